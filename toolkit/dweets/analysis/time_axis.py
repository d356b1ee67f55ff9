"""The time axis of a frame: choose it, put it into a zone, and notice that it only has times of arrival."""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.dweets.content_leaves import CREATED
from toolkit.dweets.frame_time import DEFAULT_FIELD, TimeUnit, in_zone, read_times, unix_unit, with_index
from toolkit.errors import InvalidArgument, warn_caller
from toolkit.frames import check_columns_differ
from toolkit.system.nearest_name import missing_names

#: Names of columns of numbers that may be Unix times.
_TIME_NAME = re.compile(r"time|epoch|unix|date|zeit|(^|[^a-z])ts$", re.IGNORECASE)
_ISO_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}([T ]|$)")
#: A time field that spans this many times what the arrivals span shows that the rows were sent later.
_BACKFILLED = 10
_LEAST_SPAN = pd.Timedelta("1min")
#: So many rows are enough to see how much time a field spans.
_MOST_LOOKED_AT = 1_000


def time_columns(frame: pd.DataFrame) -> list[str]:
    """Return the names of possible time axes: a DatetimeIndex, then datetime columns and columns of ISO 8601 text."""
    names = [str(name) for name, column in frame.items() if _may_be_time(column)]
    index = frame.index
    return [str(index.name or "index"), *names] if isinstance(index, pd.DatetimeIndex) else names


def _may_be_time(column: pd.Series[Any]) -> bool:
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return True
    if not (pd.api.types.is_string_dtype(column.dtype) or column.dtype == object):
        return False
    first = column.dropna().head(1).tolist()
    return bool(first) and isinstance(first[0], str) and _ISO_DATE.match(first[0]) is not None


@checked_arguments
def on_time_axis(
    frame: pd.DataFrame, column: str, *, unit: TimeUnit | None = None, tz: str | tzinfo | None = None
) -> pd.DataFrame:
    """Return the frame, ascending, with one of `time_columns` as its index.

    Devices often carry their own time: ``history.dweets.on("measured")`` puts it on the axis. Times with an
    offset become UTC, times without one stay as they are; if there are both, the latter are in UTC. The index before
    becomes a column. A column without times raises InvalidArgument.

    Parameters
    ----------
    unit
        The unit of a column of numbers: seconds, milliseconds, microseconds or nanoseconds since 1970 (UTC).
    tz
        A time zone, such as ``"Europe/Berlin"``: times without an offset are local times there, all others are
        converted.

    Warns
    -----
    DataWarning
        Rows have no time, or a text that is none, and are left out; some times have a zone and some have none; or local
        times do not exist or occur twice, because clocks are changed.

    Examples
    --------
    >>> frame = pd.DataFrame({"date": ["2012-01-02", "2012-01-01"], "rain": [10.9, 0.0]})
    >>> frame.dweets.on("date")["rain"].tolist()
    [0.0, 10.9]
    >>> frame.dweets.on("date", tz="Europe/Berlin").index[0]
    Timestamp('2012-01-01 00:00:00+0100', tz='Europe/Berlin')
    """
    timed, notes = put_on_time_axis(frame, column, unit, tz)
    if left_out := len(frame) - len(timed):
        notes.append(f"{left_out:,} of {len(frame):,} rows have no time in {column!r} and are left out")
    warn_caller(*notes)
    return timed


def put_on_time_axis(
    frame: pd.DataFrame, column: str, unit: TimeUnit | None = None, tz: str | tzinfo | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Return what `on_time_axis` returns, and what a caller should be told about the times."""
    if isinstance(frame.index, pd.DatetimeIndex) and column == str(frame.index.name or "index"):
        times, notes = (frame.index, []) if tz is None else in_zone(frame.index, tz)
        rest = frame
    else:
        check_columns_differ(frame)
        if column not in list(frame.columns):
            raise InvalidArgument(missing_names("the frame does not have", "field", [column], 1, time_columns(frame)))
        times, notes = read_times(frame[column], unit, tz)
        rest = frame.drop(columns=column)
        name = DEFAULT_FIELD if frame.index.name is None else frame.index.name
        if name in rest.columns and not isinstance(frame.index, pd.MultiIndex):
            rest = rest.rename_axis("index")
        rest = with_index(rest)
    return rest.set_axis(times).loc[times.notna()].sort_index(kind="stable"), notes


def in_local_time(frame: pd.DataFrame, tz: str | tzinfo | None) -> pd.DataFrame:
    """Return the frame with its DatetimeIndex in a zone (None: as it is); warn of times that clocks skip or repeat."""
    if tz is None or not isinstance(frame.index, pd.DatetimeIndex):
        return frame
    times, notes = in_zone(frame.index, tz)
    warn_caller(*notes)
    return frame.set_axis(times)


def warn_if_backfilled(frame: pd.DataFrame) -> None:
    """Warn if the index only says when the rows arrived, and a column when they were measured."""
    if found := backfilled_text(frame):
        warn_caller(f"{found[0]}: use .on({found[1]})")


def backfilled_text(frame: pd.DataFrame) -> tuple[str, str] | None:
    """Say that rows arrived within a short time, of which a column has other times; with the arguments of `.on`."""
    index = frame.index
    if not isinstance(index, pd.DatetimeIndex) or index.name != CREATED or len(frame) < 2:
        return None
    arrivals = index.max() - index.min()
    looked_at = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, _MOST_LOOKED_AT).astype("int64"))]
    numbers = looked_at.select_dtypes("number")
    units = {str(name): unix_unit(column) for name, column in numbers.items() if _TIME_NAME.search(str(name))}
    for name in [*time_columns(frame)[1:], *units]:
        unit = units.get(name)
        try:
            times, _ = read_times(looked_at[name], unit)
        except InvalidArgument:  # not a time after all
            continue
        span = times.max() - times.min()
        if span >= _LEAST_SPAN and span > _BACKFILLED * arrivals:
            text = f"these {len(frame):,} dweets arrived within {_length(arrivals)}, but {name!r} spans {_length(span)}"
            return text, f"{name!r}{f', unit={unit!r}' if unit else ''}"
    return None


def _length(time: pd.Timedelta) -> str:
    seconds = time.total_seconds()
    for name, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{max(1, round(seconds)):,} s"
