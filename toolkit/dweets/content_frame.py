"""Dweets as DataFrames: nested content in typed columns.

``{"position": {"lat": 47.6}}`` becomes the column ``position.lat``. A column of values of one type is int64, float64
(also with integers up to 2**53), boolean or str; integers with missing values are Int64; other columns are object.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray

from toolkit.dweets.content_leaves import (
    CREATED,
    THING,
    column_of_field,
    column_type,
    content_columns,
    field_of_column,
    missing_columns,
    named_leaf_columns,
)
from toolkit.errors import UnexpectedReply, warn_caller
from toolkit.frames import declared_frame, utc_from_iso

#: Names of leaves; None selects the 200 most frequent.
Columns = str | Sequence[str] | None

# The default str of pandas 3, with NaN for missing values.
_TEXT_DTYPE = pd.StringDtype(na_value=np.nan)


def history_frame(
    records: Sequence[Mapping[str, Any]],
    columns: Columns = None,
    *,
    with_thing: bool = False,
    times: pd.DatetimeIndex | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Return a frame with index ``created`` and a column for each leaf; `with_thing` adds ``thing``, sorts by time.

    If `times` are given, the times of one of their fields in order, these are the index, and ``created`` is a column.
    A warning says which of the `columns` no content has, unless `quiet`.
    """
    things = None
    if with_thing:
        records = records if times is not None else sorted(records, key=itemgetter("created"))
        things = [record["thing"] for record in records]
    contents = [record["content"] for record in records]
    return content_frame(contents, times_of(records), things, columns, times, quiet=quiet)


def content_frame(
    contents: Sequence[Any],
    created: pd.DatetimeIndex,
    things: Sequence[str] | None,
    columns: Columns,
    times: pd.DatetimeIndex | None = None,
    *,
    quiet: bool = False,
) -> pd.DataFrame:
    """Return a frame with a column for each leaf, or for each of `columns`; see `history_frame`."""
    if columns is None:
        leaves = content_columns(contents)
    else:
        names = [columns] if isinstance(columns, str) else list(columns)
        given = {CREATED} if things is None else {CREATED, THING}
        leaves = named_leaf_columns(contents, [field_of_column(name) for name in names if name not in given])
        if not quiet:
            warn_caller(missing_columns(contents, leaves))
    typed: dict[str, Any] = {} if things is None else {THING: pd.array(things, dtype="str")}
    if times is not None:
        typed[CREATED] = created
    typed |= {column_of_field(field): _typed_column(values) for field, values in leaves.items()}
    if times is not None:
        typed.pop(str(times.name), None)
    return pd.DataFrame(typed, index=created if times is None else times, copy=False)


def receipt_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the receipts of posted dweets: index ``created``, columns ``thing`` and ``transaction``."""
    frame = declared_frame(records, {"thing": "str", "transaction": "str"})
    return frame.set_index(times_of(records))


def times_of(records: Sequence[Mapping[str, Any]]) -> pd.DatetimeIndex:
    try:
        return utc_from_iso([record["created"] for record in records]).rename("created")
    except ValueError:
        raise UnexpectedReply("the response holds a time that is not ISO 8601 in UTC") from None


def _typed_column(values: list[Any]) -> np.ndarray[Any, Any] | ExtensionArray:
    kind, has_missing = column_type(values)
    if kind is float:
        return np.array(values, dtype="float64")
    if kind is int:
        with suppress(OverflowError):  # integers of more than 64 bits become objects
            return pd.array(values, dtype="Int64") if has_missing else np.array(values, dtype="int64")
    if kind is bool and not has_missing:  # five times as fast as pd.array
        return pd.arrays.BooleanArray(np.array(values, dtype="bool"), np.zeros(len(values), dtype="bool"))
    if kind is bool:
        return pd.array(values, dtype="boolean")
    if kind is str:
        return pd.arrays.ArrowStringArray(pa.array(values, type=pa.large_string()), dtype=_TEXT_DTYPE)  # type: ignore[call-arg]
    array: np.ndarray[Any, Any] = np.empty(len(values), dtype="object")
    array[:] = values
    return array
