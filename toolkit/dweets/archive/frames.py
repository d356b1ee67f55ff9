"""What an archive gives back: times as they are asked for, and tables of Arrow as frames with honest dtypes."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pandas as pd
import pyarrow as pa

from toolkit.errors import InvalidArgument

Moment = str | date | datetime | pd.Timestamp | None

FIRST, LAST = -(2**63) + 1, 2**63 - 1


def microseconds(moment: Moment, *, name: str, otherwise: int) -> int:
    """Return a moment as microseconds since the epoch; one without a zone is UTC.

    Raises
    ------
    InvalidArgument
        It cannot be read.

    Examples
    --------
    >>> microseconds("2026-01-01", name="since", otherwise=FIRST)
    1767225600000000
    """
    if moment is None:
        return otherwise
    try:
        read = pd.Timestamp(moment)
        utc = read.tz_localize("UTC") if read.tzinfo is None else read.tz_convert("UTC")
        if pd.isna(utc):
            raise ValueError
    except (ValueError, TypeError, OverflowError):
        raise InvalidArgument(f"{name} must be a time, such as 2026-01-31 or 2026-01-31T12:00Z") from None
    return int(utc.as_unit("us").tz_localize(None).to_datetime64().astype("int64"))


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return a table of Arrow as a frame: times in UTC, whole numbers stay whole where some are missing."""
    columns = {name: _series(table.column(place)) for place, name in enumerate(_unlike(table.column_names))}
    return pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows), copy=False)


def _unlike(names: list[str]) -> list[str]:
    """Return names that are all different: a query may well give two columns the same one."""
    taken: dict[str, int] = {}
    unlike = []
    for name in names:
        taken[name] = taken.get(name, 0) + 1
        unlike.append(name if taken[name] == 1 else f"{name}_{taken[name]}")
    return unlike


def _series(column: pa.ChunkedArray) -> Any:  # noqa: ANN401 - a Series
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_decimal(kind):  # what DuckDB makes of a sum of whole numbers
        column, kind = column.cast(pa.float64()), pa.float64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pd.Series(column.to_pandas(), dtype="str")
    if pa.types.is_timestamp(kind):
        zone = "UTC" if kind.tz else None
        return column.cast(pa.timestamp("us", zone)).to_pandas()
    if pa.types.is_date(kind):
        return column.cast(pa.timestamp("s")).to_pandas()
    if pa.types.is_boolean(kind):
        return column.to_pandas(types_mapper={kind: pd.BooleanDtype()}.get)
    if pa.types.is_integer(kind) and column.null_count:
        return column.cast(pa.int64(), safe=False).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return column.to_pandas()
