"""Which columns are times, which are numbers, and how a frame gets on its time axis."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from toolkit.errors import InvalidArgument

_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}([T ]|$)")


def time_columns(frame: pd.DataFrame) -> list[str]:
    """Name what can be the time axis: the index if it is one, then datetime columns and columns of ISO 8601 text."""
    names = [str(name) for name, column in frame.items() if _may_be_time(column)]
    index = frame.index
    return [str(index.name or "index"), *names] if isinstance(index, pd.DatetimeIndex) else names


def on_time_axis(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the frame, ascending, with one of `time_columns` as its index; rows without a time are left out.

    Devices often carry their own time: ``on_time_axis(history, "measured")`` puts it on the axis. Times with an
    offset become UTC, times without one stay as they are.

    Raises
    ------
    InvalidArgument
        There is no such column, or it does not hold times.

    Examples
    --------
    >>> frame = pd.DataFrame({"date": ["2012-01-02", "2012-01-01"], "rain": [10.9, 0.0]})
    >>> on_time_axis(frame, "date")["rain"].tolist()
    [0.0, 10.9]
    """
    if isinstance(frame.index, pd.DatetimeIndex) and column == str(frame.index.name or "index"):
        return frame.loc[frame.index.notna()].sort_index(kind="stable")
    if column not in frame.columns:
        raise InvalidArgument(f"there is no column {column!r}: times are in {', '.join(time_columns(frame)) or 'none'}")
    times = pd.DatetimeIndex(_times(frame[column]), name=column)
    rest = frame.drop(columns=column)
    if frame.index.name and frame.index.name not in rest.columns:
        rest = rest.reset_index()
    return rest.set_axis(times).loc[times.notna()].sort_index(kind="stable")


def chosen_fields(frame: pd.DataFrame, fields: str | Sequence[str] | None) -> list[str]:
    """Return these numeric columns, or all; raise InvalidArgument where one is none."""
    numeric = number_columns(frame)
    if fields is None:
        return numeric
    chosen = [fields] if isinstance(fields, str) else list(fields)
    if wrong := [name for name in chosen if name not in numeric]:
        raise InvalidArgument(
            f"{', '.join(wrong)} holds no numbers; numbers are in {', '.join(numeric) or 'no column'}"
        )
    return chosen


def number_columns(frame: pd.DataFrame) -> list[str]:
    """Name the columns that hold numbers (not truth values)."""
    return [str(name) for name in frame.select_dtypes("number", exclude="timedelta").columns]


def _may_be_time(column: pd.Series[Any]) -> bool:
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return True
    if not (pd.api.types.is_string_dtype(column.dtype) or column.dtype == object):
        return False
    first = column.dropna().head(1).tolist()
    return bool(first) and isinstance(first[0], str) and _DATE.match(first[0]) is not None


def _times(column: pd.Series[Any]) -> pd.Series[Any]:
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column
    try:
        try:
            times = pd.to_datetime(column, format="ISO8601")
        except ValueError:  # offsets differ between rows, as over a summer
            times = pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError):
        raise InvalidArgument(f"{column.name!r} is not a time axis: not all of it is ISO 8601") from None
    return times if times.dt.tz is None else times.dt.tz_convert("UTC")
