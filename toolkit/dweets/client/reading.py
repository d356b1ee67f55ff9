"""Read the history of a thing: the last 500 dweets in one request, older ones day by day.

Without pandas, whose import takes longer than a command that prints a few dweets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from tqdm.auto import tqdm

from toolkit.dweets import wire
from toolkit.dweets.checked_values import ALL_TIME, Key, checked_count, checked_range
from toolkit.dweets.client.calls import DweetCalls
from toolkit.dweets.stream_format import EventReader
from toolkit.errors import UnexpectedReply, warn_caller

if TYPE_CHECKING:
    from toolkit.frames import TimeLike

DweetDict = dict[str, Any]


class Selection(NamedTuple):
    """The dweets that a caller asks for: the newest `n`, or all, with ``since <= created < until``."""

    n: int | None
    since: datetime
    until: datetime

    @classmethod
    def checked(cls, n: int | None, since: TimeLike | None, until: TimeLike | None) -> Selection:
        """Return the selection for the arguments of a call; InvalidArgument if one is wrong."""
        return cls(None if n is None else checked_count(n), *checked_range(since, until))

    def select(self, records: Sequence[DweetDict]) -> list[DweetDict]:
        """Return the records that belong to the selection; `records` are oldest first."""
        selected = list(records)
        if (self.since, self.until) != ALL_TIME:  # comparing 500 times takes a tenth of the time of a call
            selected = [record for record in records if self.since <= time_of(record) < self.until]
        return selected if self.n is None else selected[-self.n :]


def time_of(record: DweetDict) -> datetime:
    """Return when a dweet was created; UnexpectedReply if that is no time in UTC."""
    text: str = record["created"]
    try:
        if not text.endswith("Z"):
            raise ValueError
        return datetime.fromisoformat(text)
    except ValueError:
        raise UnexpectedReply("the response holds a time that is not ISO 8601 in UTC") from None


class History(NamedTuple):
    """The selected dweets, and the things that have no dweet at all."""

    records: list[DweetDict]
    without_dweet: list[str]


def read_history(calls: DweetCalls, things: Iterable[str], key: Key, selection: Selection, progress: bool) -> History:
    """Return the selected dweets that the gateway keeps, thing by thing, oldest first; warn of deleted ones."""
    history, all_deleted = History([], []), {}
    for thing in things:
        latest = calls.records_and_deleted(wire.GET_HISTORY, thing, key)[0]
        records, deleted = _selected_records(calls, thing, key, selection, latest, progress)
        history.records.extend(records)
        if not latest:
            history.without_dweet.append(thing)
        if deleted:
            all_deleted[thing] = deleted
    if all_deleted:
        calls.warn_of_deleted(all_deleted)
    return history


def _selected_records(
    calls: DweetCalls, thing: str, key: Key, selection: Selection, latest: list[DweetDict], progress: bool
) -> tuple[list[DweetDict], wire.DeletedDweets | None]:
    """Return the selected dweets of a thing, and the deleted dweets if some of them may belong to the selection."""
    selected = selection.select(latest)
    # Older dweets are read unless there are none, enough are selected already, or all of them are too old.
    if len(latest) < wire.HISTORY_LENGTH or len(selected) == selection.n or time_of(latest[0]) < selection.since:
        return selected, None
    last_day = _start_of_day(time_of(latest[0]))
    first_day = max(_first_day(calls, thing, key, last_day), _start_of_day(selection.since))
    days = [last_day - timedelta(days=back) for back in range((last_day - first_day).days + 1)]
    # Only the response for the first day says how many were deleted.
    days = [day for day in days if day < selection.until or day == first_day]
    records = [record for record in latest if time_of(record) >= last_day + timedelta(days=1)]
    deleted = None
    for day in tqdm(days, desc=thing, unit="day", disable=not progress or len(days) < 2):
        older, deleted = calls.records_and_deleted(wire.GET_STORED, thing, key, {"date": f"{day:%Y-%m-%d}"})
        records = older + records
        if selection.n is not None and len(selection.select(records)) >= selection.n:
            break
    selected = selection.select(records)
    if deleted and len(selected) != selection.n and selection.since < time_of({"created": deleted.before}):
        return selected, deleted
    return selected, None


def _first_day(calls: DweetCalls, thing: str, key: Key, fallback: datetime) -> datetime:
    """Return the day of the oldest dweet, the first in a stream since 0; `fallback` without such a stream."""
    stream, reader = calls.stream(thing, key, 0), EventReader()
    try:
        for piece in stream if "event-stream" in stream.content_type else ():
            for dweet in reader.feed(piece):
                return _start_of_day(time_of(orjson.loads(dweet.record)))
        warn_caller(f"the server does not send its oldest dweet of {thing}: none before {fallback:%Y-%m-%d} is read")
        return fallback
    finally:
        stream.stop()
        stream.close()


def _start_of_day(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)
