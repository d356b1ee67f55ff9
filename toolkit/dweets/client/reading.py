"""Read the history of a thing: the last 500 dweets in one request, older ones day by day."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import orjson
import pandas as pd
from tqdm.auto import tqdm

from toolkit.dweets import wire
from toolkit.dweets.checked_values import Key, checked_count
from toolkit.dweets.client.calls import DweetCalls
from toolkit.dweets.content_frame import times_of
from toolkit.dweets.stream_format import EventReader
from toolkit.errors import warn_caller
from toolkit.frames import TimeLike, utc_range

DweetDict = dict[str, Any]
_ALL_TIME = utc_range(None, None)


class Selection(NamedTuple):
    """The dweets that a caller asks for: the newest `n`, or all, with ``since <= created < until``."""

    n: int | None
    since: pd.Timestamp
    until: pd.Timestamp

    @classmethod
    def checked(cls, n: int | None, since: TimeLike | None, until: TimeLike | None) -> Selection:
        """Return the selection for the arguments of a call; InvalidArgument if one is wrong."""
        return cls(None if n is None else checked_count(n), *utc_range(since, until))

    def select(self, records: Sequence[DweetDict]) -> list[DweetDict]:
        """Return the records that belong to the selection; `records` are oldest first."""
        selected = list(records)
        if (self.since, self.until) != _ALL_TIME:  # comparing 500 times takes a tenth of the time of a call
            times = times_of(records)
            selected = list(compress(records, (times >= self.since) & (times < self.until)))
        return selected if self.n is None else selected[-self.n :]


def read_history(calls: DweetCalls, thing: str, key: Key, selection: Selection, progress: bool) -> list[DweetDict]:
    """Return the selected dweets that the gateway keeps, oldest first; warn if the gateway has deleted some of them."""
    latest = calls.records(wire.GET_HISTORY, thing, key)
    selected = selection.select(latest)
    # Older dweets are read unless there are none, enough are selected already, or all of them are too old.
    if len(latest) < wire.HISTORY_LENGTH or len(selected) == selection.n or times_of(latest[:1])[0] < selection.since:
        return selected
    last_day = times_of(latest[:1])[0].normalize()
    first_day = max(_first_day(calls, thing, key, last_day), selection.since.normalize())
    days = pd.date_range(first_day, last_day)[::-1]
    days = days[(days < selection.until) | (days == first_day)]  # only its response says how many were deleted
    records = list(compress(latest, times_of(latest) >= last_day + pd.Timedelta(days=1)))
    deleted = None
    for day in tqdm(days, desc=thing, unit="day", disable=not progress or len(days) < 2):
        older, deleted = calls.records_and_deleted(wire.GET_STORED, thing, key, {"date": f"{day:%Y-%m-%d}"})
        records = older + records
        if selection.n is not None and len(selection.select(records)) >= selection.n:
            break
    selected = selection.select(records)
    # Here, some of the deleted dweets may belong to the selection.
    if deleted and len(selected) != selection.n and selection.since < times_of([{"created": deleted.before}])[0]:
        calls.warn_of_deleted(deleted, thing)
    return selected


def _first_day(calls: DweetCalls, thing: str, key: Key, fallback: pd.Timestamp) -> pd.Timestamp:
    """Return the day of the oldest dweet, the first in a stream since 0; `fallback` without such a stream."""
    stream, reader = calls.stream(thing, key, 0), EventReader()
    try:
        for piece in stream if "event-stream" in stream.content_type else ():
            for dweet in reader.feed(piece):
                return times_of([orjson.loads(dweet.record)])[0].normalize()
        warn_caller(f"the server does not send its oldest dweet of {thing}: none before {fallback:%Y-%m-%d} is read")
        return fallback
    finally:
        stream.stop()
        stream.close()
