"""The times of a column, read from texts, datetimes or Unix times, and put into a time zone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, tzinfo
from typing import Any, Literal

import numpy as np
import pandas as pd

from toolkit.errors import InvalidArgument

TimeUnit = Literal["s", "ms", "us", "ns"]
_WITH_ZONE = re.compile(r"[T ]\d\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$")
_BELOW_MICROSECONDS = re.compile(r"(\.\d{6})\d+")
_EXAMPLE_CHARACTERS = 40


def read_times(
    column: pd.Series[Any], unit: TimeUnit | None = None, tz: str | tzinfo | None = None
) -> tuple[pd.DatetimeIndex, list[str]]:
    """Return the times of a column (NaT where there is none), and what a caller should be told about them.

    Texts with an offset become UTC; if others have none, these are in `tz`, or else in UTC. With `tz` all times are in
    that zone. A column without any time raises InvalidArgument.
    """
    notes: list[str] = []
    if unit is not None:
        times = _unix_times(column, unit)
    elif pd.api.types.is_datetime64_any_dtype(column.dtype):
        times = pd.DatetimeIndex(column)
    elif pd.api.types.is_numeric_dtype(column.dtype) or _all_numbers(column):
        raise InvalidArgument(
            f"{column.name!r} holds numbers: for Unix times say unit='s', as in frame.dweets.on({column.name!r}, "
            "unit='s'), with a frame that was read without time="
        )
    else:
        times, notes = _iso_times(column, tz)
    if tz is not None:
        times, more = in_zone(times, tz)
        notes += more
    return times.rename(column.name), notes


def _all_numbers(column: pd.Series[Any]) -> bool:
    present = column.dropna()
    return len(present) > 0 and all(isinstance(value, int | float) for value in present)


def _iso_times(column: pd.Series[Any], tz: str | tzinfo | None) -> tuple[pd.DatetimeIndex, list[str]]:
    values = column.astype("object").to_numpy()
    present = column.notna().to_numpy(dtype="bool")
    is_time = np.array([isinstance(value, str | date) for value in values], dtype="bool")
    readable = np.array(values, dtype="object", copy=True)
    readable[~(present & is_time)] = None
    utc = _parsed(readable)
    if (present & missing_times(utc)).any():  # perhaps texts beyond the times that have nanoseconds
        utc = _parsed([_BELOW_MICROSECONDS.sub(r"\1", text) if isinstance(text, str) else text for text in readable])
    found = ~missing_times(utc)
    if not found.any():
        if present.any():
            raise InvalidArgument(
                f"{column.name!r} is not a time axis: no value of it is an ISO 8601 time "
                f"({_example(values, present)}); pd.to_datetime(frame[{column.name!r}], dayfirst=True) may read them"
            )
        return utc, []
    notes = []
    if (lost := present & ~found).any():
        notes.append(
            f"{lost.sum():,} of {present.sum():,} values of {column.name!r} are no times ({_example(values, lost)})"
        )
    with_zone = found & np.array([value is not None and bool(_WITH_ZONE.search(str(value))) for value in readable])
    if not with_zone.any():
        return utc.tz_localize(None), notes
    without = found & ~with_zone
    if without.any():
        advice = f"in UTC (.on({column.name!r}, tz=...) names another zone)" if tz is None else f"in {tz}"
        notes.append(
            f"{without.sum():,} of {found.sum():,} times in {column.name!r} have no zone ({_example(values, without)}) "
            f"and are read as times {advice}"
        )
    if without.any() and tz is not None:
        local, more = in_zone(utc[without].tz_localize(None), tz)
        utc, notes = _replaced(utc, without, local), notes + more
    return utc, notes


def _parsed(values: Sequence[Any] | np.ndarray[Any, Any]) -> pd.DatetimeIndex:
    times = pd.DatetimeIndex(
        pd.to_datetime(pd.Series(values, dtype="object"), format="ISO8601", utc=True, errors="coerce")
    )
    return times.where((times.year >= 1) & (times.year <= 9999))  # type: ignore[return-value]


def missing_times(times: pd.DatetimeIndex) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(times.isna())


def _example(values: np.ndarray[Any, Any], chosen: np.ndarray[Any, Any]) -> str:
    return repr(str(values[chosen][0])[:_EXAMPLE_CHARACTERS])


def _replaced(times: pd.DatetimeIndex, chosen: np.ndarray[Any, Any], others: pd.DatetimeIndex) -> pd.DatetimeIndex:
    series = pd.Series(times)
    series[chosen] = others.tz_convert(times.tz)
    return pd.DatetimeIndex(series, name=times.name)


def _unix_times(column: pd.Series[Any], unit: TimeUnit) -> pd.DatetimeIndex:
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise InvalidArgument(f"{column.name!r} holds no numbers: leave out unit={unit!r}")
    try:
        return pd.DatetimeIndex(pd.to_datetime(column, unit=unit, utc=True))
    except (ValueError, TypeError, OverflowError):  # TypeError: truth values
        raise InvalidArgument(f"{column.name!r} holds no times: is unit={unit!r} right?") from None


def in_zone(times: pd.DatetimeIndex, tz: str | tzinfo) -> tuple[pd.DatetimeIndex, list[str]]:
    """Return the times in a zone: those with a zone converted, those without one as the local time of the zone.

    A local time that occurs twice, when clocks are set back, is the first one unless the order of the rows says which.
    One that does not exist, when clocks are set forward, is read with the offset before the change. Both are told.
    """
    try:
        if times.tz is not None:
            return times.tz_convert(tz), []
        local = times.tz_localize(tz, ambiguous="NaT", nonexistent="NaT")
    except (KeyError, ValueError, OSError, IndexError):  # no such zone, or no name of a file
        raise InvalidArgument(f"tz is the name of a time zone, such as 'Europe/Berlin', not {str(tz)!r}") from None
    if (missing_times(local) != missing_times(times)).any():
        with suppress(ValueError):  # the order does not say which of two times is meant
            local = times.tz_localize(tz, ambiguous="infer", nonexistent="NaT")
    odd = missing_times(local) & ~missing_times(times)
    if not odd.any():
        return local, []
    first = pd.DatetimeIndex([_first_instant(time, local.tz) for time in times[odd]])
    note = (
        f"{odd.sum():,} local times (such as {times[odd][0]}) occur twice or not at all in {tz}, because clocks are "
        "changed: read with the offset before the change"
    )
    return _replaced(local, odd, first), [note]


def _first_instant(time: pd.Timestamp, zone: tzinfo | None) -> pd.Timestamp:
    whole = time.floor("us")
    instant = whole.to_pydatetime().replace(tzinfo=zone, fold=0).astimezone(UTC)
    return pd.Timestamp(instant) + (time - whole)
