"""What the time of a frame is: how times travel as a field of dweets, and how such a field is read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from toolkit.dweets.content_leaves import named_leaf_columns
from toolkit.dweets.field_names import CREATED, THING, column_of_field, field_of_column
from toolkit.dweets.time_values import missing_times, read_times
from toolkit.errors import InvalidArgument, counted, warn_caller
from toolkit.frames import check_columns_differ

_Record = TypeVar("_Record", bound=Mapping[str, Any])
#: The field in which an index without a name travels, or one that is called ``created``.
DEFAULT_FIELD = "time"


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
        known = ", ".join(map(str, columns)) or "none"
        raise InvalidArgument(f"the frame has no column {time!r} and no DatetimeIndex; its columns are {known}")
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
    told = [*rows.notes, *(["this frame is read again with differences: " + "; ".join(notes)] if notes else [])]
    if told:
        warn_caller("; ".join(told))


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
        """Return the selected records, with ``thing`` and ``content``, in order of time, and their times.

        Dweets of one time stay in their order. One warning says which are left out, and how many were not in order.
        """
        field, contents = field_of_column(self.time), [record["content"] for record in records]
        # An empty content is the value {} of ``content``.
        leaves = [None if value == {} else value for value in named_leaf_columns(contents, [field])[field]]
        values = pd.Series(leaves, dtype="object", name=self.time)
        times, notes = read_times(values)
        if missing := int(missing_times(times).sum()):
            notes.append(
                f"{missing:,} of {counted(len(times), 'dweet')} have no time in {self.time!r} and are left out"
            )
        utc = times.tz_localize("UTC") if times.tz is None else times
        kept = np.flatnonzero(np.asarray((utc >= self.since) & (utc < self.until)))
        moments = pd.Series(utc.asi8[kept])
        things = np.array([records[position]["thing"] for position in kept.tolist()], dtype="object")
        if late := int((moments < moments.groupby(things).cummax()).sum()):
            notes.append(f"{counted(late, 'dweet')} arrived after a later one: sorted by {self.time!r}")
            if times.tz is None:
                notes.append(
                    "for local times of clocks that were set back, read without time= and use "
                    f".on({self.time!r}, tz=...), which looks at the order of arrival"
                )
        order = np.argsort(moments.to_numpy(), kind="stable")
        if self.n is not None:
            sorted_things = pd.Series(things[order], dtype="object")
            order = order[sorted_things.groupby(sorted_things).cumcount(ascending=False).to_numpy() < self.n]
        order = kept[order]
        if notes:
            warn_caller("; ".join(notes))
        return [records[position] for position in order.tolist()], times[order].rename(column_of_field(field))
