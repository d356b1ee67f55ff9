"""Records to DataFrames with declared columns and dtypes, also when there are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd


def declared_frame(
    records: Iterable[Mapping[str, Any]], columns: Mapping[str, str], index: str | None = None
) -> pd.DataFrame:
    """Return a frame with exactly these columns and dtypes.

    Parameters
    ----------
    records
        One mapping a row; a missing name is a missing value.
    columns
        Dtype by column name, in order.
    index
        The column that becomes the index.

    Returns
    -------
    pandas.DataFrame
        One row a record, in their order; the same columns and dtypes when there are none.

    Examples
    --------
    >>> frame = declared_frame([], {"thing": "str", "dweets": "int64"})
    >>> frame.dtypes.to_dict()
    {'thing': <StringDtype(na_value=nan)>, 'dweets': dtype('int64')}
    """
    rows: Sequence[Mapping[str, Any]] = list(records)
    series = {name: pd.Series([row.get(name) for row in rows], dtype=dtype) for name, dtype in columns.items()}
    frame = pd.DataFrame(series, columns=list(columns))
    return frame if index is None else frame.set_index(index)


def utc_from_iso(texts: Sequence[str]) -> pd.DatetimeIndex:
    """Return ISO 8601 texts ending in ``Z`` as UTC timestamps with microseconds.

    The texts may differ in their decimals. Much faster than a general parser, as the form is known.

    Raises
    ------
    ValueError
        A text is not in this form.
    """
    import numpy as np

    if not len(texts):
        return pd.DatetimeIndex([], dtype="datetime64[us, UTC]")
    if {text[-1:] for text in texts} != {"Z"}:
        raise ValueError("a time in UTC ends in Z")
    naive = np.array([text[:-1] for text in texts], dtype="datetime64[us]")
    return pd.DatetimeIndex(naive, tz="UTC")
