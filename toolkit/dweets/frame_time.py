"""The time of a frame: how times travel as a field of dweets, and how such a field is selected and read again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, tzinfo
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from toolkit.dweets.content_leaves import (
    CREATED,
    THING,
    column_of_field,
    field_of_column,
    missing_columns,
    named_leaf_columns,
)
from toolkit.errors import InvalidArgument, counted, warn_caller
from toolkit.frames import check_columns_differ
from toolkit.system.nearest_name import missing_names

_Record = TypeVar("_Record", bound=Mapping[str, Any])
#: The field in which an index without a name travels, or one that is called ``created``.
DEFAULT_FIELD = "time"
TimeUnit = Literal["s", "ms", "us", "ns"]
_WITH_ZONE = re.compile(r"[T ]\d\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$")
_BELOW_MICROSECONDS = re.compile(r"(\.\d{6})\d+")
_EXAMPLE_CHARACTERS = 40


# -- posting ----------------------------------------------------------------------------------------------


class TimedRows(NamedTuple):
    """The rows of a frame as they travel: a column for each field, their times, and the column with the times."""

    fields: pd.DataFrame
    #: The columns that became `fields`.
    columns: list[Any]
    times: pd.DatetimeIndex | None
    field: str | None
    #: What a caller should be told about the times.
    notes: list[str]


def timed_rows(frame: pd.DataFrame, time: str | None = None, *, keeps_created: bool = False) -> TimedRows:
    """Return the fields and the times of the rows of a frame, which `time` may name; InvalidArgument if it is wrong.

    The index travels if it holds times or has a name. With `keeps_created` (an archive, in which the times become
    ``created``) an index that is unnamed or called ``created`` does not travel as a field too.
    """
    check_columns_differ(frame)
    index, columns = frame.index, list(frame.columns)
    if isinstance(index, pd.PeriodIndex):
        raise InvalidArgument("a PeriodIndex has no times: use frame.to_timestamp()")
    has_times = _holds_times(index)
    is_column = time is not None and time in columns
    if time is not None and not (is_column or has_times):
        known = list(map(str, columns))
        raise InvalidArgument(missing_names("the frame has no DatetimeIndex and not", "column", [time], 1, known))
    times = index if isinstance(index, pd.DatetimeIndex) else None
    field: Any = time
    notes: list[str] = []
    if is_column:
        times, notes = read_times(frame[time])
    if has_times:
        is_nameless = index.name in (None, CREATED)
        own_name = DEFAULT_FIELD if is_nameless else index.name
        if is_column and is_nameless and own_name in columns:  # the times are elsewhere, so any name will do
            own_name = index.name or "index"
        field = own_name if time is None else time
        if not (keeps_created and time is None and is_nameless):
            frame = _with_times(frame, own_name if is_column else field)
    else:
        frame = with_index(frame)
    return TimedRows(as_fields(frame), list(frame.columns), times, field, notes)


def as_fields(frame: pd.DataFrame) -> pd.DataFrame:
    """Rename the columns of a frame to the fields of the content."""
    if not all(isinstance(name, str) for name in frame.columns):
        return frame  # refused where rows are written
    fields = [field_of_column(name) for name in frame.columns]
    for name in (CREATED, THING):
        if fields.count(name) > 1:  # beside ``content.created``, ``created`` is no field that was read
            free = name
            while free in fields:
                free = f"content.{free}"
            fields[list(frame.columns).index(name)] = free
    return frame if fields == list(frame.columns) else frame.set_axis(pd.Index(fields), axis="columns")


def warn_of_differences(rows: TimedRows) -> None:
    """Warn of columns that a reader of the dweets gets with other names or values, if there are any."""
    notes = []
    for name, field in zip(rows.columns, rows.fields.columns, strict=True):
        column = rows.fields[field]
        if len(column) and column.isna().all():
            notes.append(f"{name!r} has no value and is left out")
            continue
        if (read := column_of_field(field)) != name:
            notes.append(f"{name!r} is read as the column {read!r}")
        if name != rows.field and (kinds := _kinds_that_change(column)):
            notes.append(f"{name!r} holds {kinds}, which is read in another form")
    warn_caller(*rows.notes, "this frame is read again with differences: " + "; ".join(notes) if notes else "")


def _kinds_that_change(column: pd.Series[Any]) -> str:
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "times"
    if column.dtype.kind != "O" or isinstance(column.dtype, pd.StringDtype):
        return ""
    kinds = {type(value) for value in column[column.notna()]} - {str, int, float, bool, list}
    return " and ".join(sorted(kind.__name__ for kind in kinds))


def _holds_times(index: pd.Index[Any]) -> bool:
    """Whether an index holds times; those of several zones are objects."""
    return isinstance(index, pd.DatetimeIndex) or (
        index.dtype == object and index.inferred_type in ("datetime", "date")
    )


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its index as columns, if the index holds times or has a name."""
    index = frame.index
    if _holds_times(index):
        return _with_times(frame, DEFAULT_FIELD if index.name is None else index.name)
    names: list[Any] = list(index.names)
    if isinstance(index, pd.MultiIndex) and any(map(_holds_times, index.levels)):
        for number, (name, level) in enumerate(zip(index.names, index.levels, strict=True)):
            names[number] = name if name is not None else DEFAULT_FIELD if _holds_times(level) else f"level_{number}"
    if all(name is None for name in names):
        return frame
    try:
        return frame.rename_axis(index=names).reset_index()
    except ValueError:
        raise InvalidArgument("the index and a column have the same name: rename one of them") from None


def _with_times(frame: pd.DataFrame, name: Any) -> pd.DataFrame:  # noqa: ANN401
    if name in list(frame.columns):
        raise InvalidArgument(
            f"the index would travel as the field {name!r}, and a column has this name: give the index another one, "
            f"as time='measured', or drop or rename the column"
        )
    with_index = frame.copy(deep=False)
    with_index.insert(0, name, frame.index)
    return with_index


# -- reading ----------------------------------------------------------------------------------------------


class TimeSelection(NamedTuple):
    """Which dweets a caller asks for by the field `time`: the newest `n` of each thing, ``since <= time < until``."""

    time: str
    n: int | None
    since: Any
    until: Any

    def select(self, records: Sequence[_Record]) -> tuple[list[_Record], pd.DatetimeIndex]:
        """Return the selected records in order of time, and their times; see `positions`."""
        things, contents = ([record[name] for record in records] for name in (THING, "content"))
        positions, times = self.positions(things, contents)
        return [records[position] for position in positions], times

    def positions(self, things: Sequence[str], contents: Sequence[Any]) -> tuple[list[int], pd.DatetimeIndex]:
        """Return the positions of the selected dweets in order of time, and their times.

        Dweets of one time stay in their order. One warning says which are left out, and how many were not in order.
        """
        field = field_of_column(self.time)
        # An empty content is the value {} of ``content``.
        columns = named_leaf_columns(contents, [field])
        leaves = [None if value == {} else value for value in columns[field]]
        values = pd.Series(leaves, dtype="object", name=self.time)
        times, notes = read_times(values)
        if missing := int(pd.isna(times).sum()):
            notes.append(missing_columns(contents, columns))
            notes.append(
                f"{missing:,} of {counted(len(times), 'dweet')} have no time in {self.time!r} and are left out"
            )
        utc = times.tz_localize("UTC") if times.tz is None else times
        kept = np.flatnonzero(np.asarray((utc >= self.since) & (utc < self.until)))
        moments = pd.Series(utc.asi8[kept])
        kept_things = np.array(things, dtype="object")[kept]
        if late := int((moments < moments.groupby(kept_things).cummax()).sum()):
            notes.append(f"{counted(late, 'dweet')} arrived after a later one: sorted by {self.time!r}")
            if times.tz is None:
                notes.append(
                    "for local times of clocks that were set back, read without time= and use "
                    f".on({self.time!r}, tz=...), which looks at the order of arrival"
                )
        order = np.argsort(moments.to_numpy(), kind="stable")
        if self.n is not None:
            sorted_things = pd.Series(kept_things[order], dtype="object")
            order = order[sorted_things.groupby(sorted_things).cumcount(ascending=False).to_numpy() < self.n]
        order = kept[order]
        warn_caller(*notes)
        return order.tolist(), times[order].rename(column_of_field(field))


# -- times of a column ------------------------------------------------------------------------------------


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
        raise InvalidArgument(f"{column.name!r} holds numbers: {_advice_for_numbers(column)}")
    else:
        times, notes = _iso_times(column, tz)
    if tz is not None:
        times, more = in_zone(times, tz)
        notes += more
    return times.rename(column.name), notes


def unix_unit(column: pd.Series[Any]) -> TimeUnit | None:
    """Return the unit in which all numbers of a column are Unix times of the years 2001 to 2096, or None."""
    numbers = pd.to_numeric(column, errors="coerce")
    least, most = numbers.min(), numbers.max()
    powers: dict[TimeUnit, int] = {"s": 9, "ms": 12, "us": 15, "ns": 18}
    return next((unit for unit, power in powers.items() if 10**power <= least and most < 4 * 10**power), None)


def _advice_for_numbers(column: pd.Series[Any]) -> str:
    """Return how to read a column of numbers as times: of the calendar, as 2026032714, or since 1970."""
    example = str(column.dropna().iloc[0]) if column.notna().any() else ""
    for form in ("%Y%m%d", "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S"):
        with suppress(ValueError):
            time = datetime.strptime(example, form)
            if 1900 <= time.year < 2100 and f"{time:{form}}" == example:
                return f"pd.to_datetime(frame[{column.name!r}].astype('str'), format={form!r}) may read them"
    unit = unix_unit(column) or "s"
    return (
        f"for Unix times say unit={unit!r}, as in frame.dweets.on({column.name!r}, unit={unit!r}) with a history that "
        f"was read without time=, or post pd.to_datetime(frame[{column.name!r}], unit={unit!r})"
    )


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
    if (present & pd.isna(utc)).any():  # perhaps texts beyond the times that have nanoseconds
        utc = _parsed([_BELOW_MICROSECONDS.sub(r"\1", text) if isinstance(text, str) else text for text in readable])
    found = ~pd.isna(utc)
    if not found.any():
        if present.any():
            raise InvalidArgument(
                f"{column.name!r} is not a time axis: no value of it is an ISO 8601 time "
                f"({_example(values, present)}); pd.to_datetime(frame[{column.name!r}], dayfirst=True) may read them"
            )
        return utc.as_unit("us"), []
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
    if (pd.isna(local) != pd.isna(times)).any():
        with suppress(ValueError):  # the order does not say which of two times is meant
            local = times.tz_localize(tz, ambiguous="infer", nonexistent="NaT")
    odd = pd.isna(local) & ~pd.isna(times)
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
