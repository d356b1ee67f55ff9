"""Gaps in a series: intervals without rows or without values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.charts.columns import NUMBERS, drawable_columns
from toolkit.dweets.analysis.time_axis import warn_if_backfilled
from toolkit.dweets.frame_time import DEFAULT_FIELD
from toolkit.errors import InvalidArgument, counted, warn_caller
from toolkit.frames import TimeLike, check_columns_differ
from toolkit.system.nearest_name import missing_names

Duration = str | timedelta | pd.Timedelta


@checked_arguments
def gaps(
    frame: pd.DataFrame,
    *,
    field: str | None = None,
    longer_than: Duration | None = None,
    factor: float = 1.5,
    until: TimeLike | None = None,
) -> pd.DataFrame:
    """Find intervals without rows, longer than `longer_than` or `factor` times the usual (median) spacing.

    Parameters
    ----------
    field
        A column: only rows with a value in this column count, so missing values are gaps too, also at the start and at
        the end. None counts all rows.
    longer_than
        A length of time, such as ``"2h"``, instead of `factor`.
    factor
        A number above 1. With 1.5, one missing measurement of a regular series is a gap.
    until
        The end of the observation, such as ``pd.Timestamp.now("UTC")``: if the rows end before, that is a gap too.
        None: the last time of all things in the frame.

    Returns
    -------
    pandas.DataFrame
        One row per gap, ascending: ``start`` (the last time before the gap, or the first of all times), ``end`` (the
        first time after it, or the end of the observation), ``length`` (timedelta), ``missing`` (int64, how many
        measurements would have fit; 1 if the rows have only one time, whose spacing is unknown).

    Warns
    -----
    DataWarning
        Some rows have no time; numbers are missing and `field` is None, so they do not count as gaps; or the dweets
        arrived within a moment, and another column has times that span much longer.

    Examples
    --------
    >>> times = pd.to_datetime(["2026-01-01 00:00", "2026-01-01 01:00", "2026-01-01 02:00", "2026-01-01 06:00"])
    >>> pd.DataFrame({"celsius": 20.0}, index=times).dweets.gaps()["missing"].tolist()
    [3]
    >>> frame = pd.DataFrame({"celsius": [20.0, 20.5, None, None]}, index=times)
    >>> frame.dweets.gaps(field="celsius", longer_than="2h")
                    start                 end          length  missing
    0 2026-01-01 01:00:00 2026-01-01 06:00:00 0 days 05:00:00        5
    """
    found = find_gaps(frame, factor, field, longer_than, until)
    warn_if_backfilled(frame)
    if without := int(pd.isna(frame.index).sum()):
        warn_caller(f"{without:,} of {len(frame):,} rows have no time and are left out")
    values = frame[drawable_columns(frame, NUMBERS)].isna().sum()
    if field is None and (missing := int(values.sum())):
        first = str(values.idxmax())
        warn_caller(
            f"only the times of rows were looked at: {counted(missing, 'missing value')}, most of them in {first!r}, "
            f"made no gap; find those with gaps(field={first!r})"
        )
    return found


def find_gaps(
    frame: pd.DataFrame,
    factor: float,
    field: str | None = None,
    length: Duration | None = None,
    until: TimeLike | None = None,
) -> pd.DataFrame:
    """Do what `gaps` does, without its warnings."""
    if not factor > 1:
        raise InvalidArgument(f"factor must be above 1, not {factor}: with 1.5, one missing measurement is a gap")
    if field is not None and field not in list(frame.columns):
        known = list(map(str, frame.columns))
        raise InvalidArgument(missing_names("the frame does not have", "field", [field], 1, known))
    limit = None if length is None else _microseconds(length)

    def find(rows: pd.DataFrame) -> pd.DataFrame:
        end = frame.index.max() if until is None else _comparable_time(until, frame.index)
        return _gaps_of_one(rows, field, limit, factor, end)

    return analyse_each_thing(frame, find).reset_index(drop=True)


def _gaps_of_one(
    frame: pd.DataFrame, field: str | None, limit: float | None, factor: float, end: pd.Timestamp
) -> pd.DataFrame:
    row_times = _distinct_times(frame.index)
    times = row_times if field is None else _distinct_times(frame.index[frame[field].notna()])
    usual = float(np.median(np.diff(row_times.asi8))) if len(row_times) > 1 else 1.0
    before = row_times[:1] if len(times) == 0 or times[0] > row_times[0] else row_times[:0]
    ends_early = len(row_times) > 0 and not (len(times) and end <= times[-1])
    after = pd.DatetimeIndex([end] if ends_early else row_times[:0]).as_unit("us")
    points = pd.DatetimeIndex(before.append([times, after]))
    spacing = np.diff(points.asi8)
    missing, silence = np.rint(spacing / usual).astype("int64") - 1, spacing.astype("float64")
    missing[:1] += len(before)
    missing[-1:] += len(after)
    # At one of the two ends, a row without a value is itself a missing measurement.
    silence[:1] += usual * len(before)
    silence[-1:] += usual * row_times.isin(after).sum()
    positions = np.flatnonzero(silence > factor * usual if limit is None else spacing > limit)
    return pd.DataFrame(
        {
            "start": points[positions],
            "end": points[positions + 1],
            "length": pd.to_timedelta(spacing[positions], unit="us").as_unit("us"),
            "missing": np.maximum(missing[positions], 1) if len(row_times) > 1 else 1,
        }
    )


def _distinct_times(index: pd.Index[Any]) -> pd.DatetimeIndex:
    assert isinstance(index, pd.DatetimeIndex)
    return index[index.notna()].as_unit("us").unique().sort_values()


def _microseconds(length: Duration) -> float:
    with suppress(ValueError):
        microseconds = pd.Timedelta(length) / pd.Timedelta("1us")
        if microseconds > 0:
            return microseconds
    raise InvalidArgument(f"longer_than must be a length of time above 0, such as '2h', not {length!r}")


def _comparable_time(moment: TimeLike, index: pd.Index[Any]) -> pd.Timestamp:
    """Return a time that can be compared with the index; a time without a zone gets the zone of the index."""
    index_zone = index.tz if isinstance(index, pd.DatetimeIndex) else None
    try:
        read = pd.Timestamp(moment)
        if pd.isna(read) or (index_zone is None and read.tzinfo is not None):
            raise ValueError
        return read.tz_localize(index_zone) if read.tzinfo is None else read
    except (ValueError, TypeError):
        advice = "without a zone, as those of the frame" if index_zone is None else "such as 2026-01-31T12:00Z"
        raise InvalidArgument(f"until must be a time, {advice}") from None


def analyse_each_thing(frame: pd.DataFrame, analyse: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    """Analyse the rows of each thing separately; ``thing`` is the first column of the results, if `frame` has it."""
    if not isinstance(frame.index, pd.DatetimeIndex):
        raise InvalidArgument("this needs a DatetimeIndex: try frame.dweets.on(column) or pd.to_datetime(index)")
    check_columns_differ(frame)
    if "thing" not in frame.columns:
        return _with_other_index_name(analyse(frame))
    groups = list(frame.groupby("thing", sort=False, observed=True))
    parts = []
    for thing, rows in groups or [("", frame)]:
        part = analyse(rows)
        part.insert(0, "thing", pd.Series(thing, index=part.index, dtype="str"))
        parts.append(part)
    return _with_other_index_name(pd.concat(parts) if groups else parts[0].iloc[:0])


def _with_other_index_name(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename_axis(DEFAULT_FIELD) if frame.index.name in frame.columns else frame
