"""Journals in RocksDB.

=============================  =============================  ====================================================
key                            value                          meaning
=============================  =============================  ====================================================
``J`` length (2) name number   time (8) length (2) id data    an entry
``F`` name                     number                         of the oldest entry, once older ones were dropped
=============================  =============================  ====================================================

Each length is that of the next field. Sequence numbers have 8 bytes; all integers are big-endian, so the entries of a
journal lie together and in order.
"""

import struct
from asyncio import Future
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from operator import itemgetter

from rocksdict import WriteBatch

from toolkit_gateway.stores import Entry, NewEntry, Subscriber
from toolkit_gateway.stores.embedded_commits import EmbeddedCommits
from toolkit_gateway.stores.embedded_database import Change, Database, damaged_row
from toolkit_gateway.stores.group_commit import done_future
from toolkit_gateway.stores.subscribers import Subscribers

_HEAD = struct.Struct(">qH")

# Makes an Entry from its fields, twice as fast as Entry(*fields).
_make_entry: Callable[[tuple[int, int, str, bytes]], Entry] = partial(tuple.__new__, Entry)

# Up to this many entries are read on the event loop, in about 50 microseconds.
_MAX_ENTRIES_ON_LOOP = 32
# The most journals whose ranges stay in memory, about 250 bytes for each.
MAX_RANGES = 100_000
# The most names that stay in memory, about 150 bytes for each; if there are more, listing them reads the database.
MAX_NAMES = 1_000_000


@dataclass(slots=True)
class _Range:
    """The first and the last sequence number of a journal, entries of the present batch included."""

    prefix: bytes  # of the keys of its entries
    first: int
    last: int


class EmbeddedJournals:
    """See `toolkit_gateway.stores.Journals`."""

    def __init__(self, database: Database, commits: EmbeddedCommits) -> None:
        self._database = database
        self._commits = commits
        self._subscribers: dict[str, Subscribers[[Sequence[Entry]]]] = {}
        self._ranges: dict[str, _Range] = {}
        # The entries of the batch that is being written, or whose write failed: until the database is reopened, nobody
        # knows whether they are there, and they are not read. The journal that was written to last is at the end.
        self._batch: dict[str, list[Entry]] = {}
        # Names of journals by their last write, the newest at the end.
        self._recent_names: dict[str, None] = {}
        self._has_all_names = False

    # -- writing ------------------------------------------------------------------------------------------

    def append(
        self, name: str, entries: Sequence[NewEntry], keep: int | None = None, floor: int | None = None
    ) -> Future[list[Entry]]:
        if not entries:
            return done_future([])
        change = Change(lambda batch: self.stage(name, entries, keep, floor)(batch))
        return self._commits.add_to_next_batch(change).future

    def begin_batch(self, batch: WriteBatch) -> None:
        """Begin a batch. All earlier entries are in the database, so what is cached of them may be dropped."""
        if len(self._ranges) > MAX_RANGES:
            self._ranges.clear()
        if len(self._recent_names) > MAX_NAMES:
            self._recent_names, self._has_all_names = {}, False

    def stage(
        self, name: str, new_entries: Sequence[NewEntry], keep: int | None = None, floor: int | None = None
    ) -> Callable[[WriteBatch], list[Entry]]:
        """Return a function that adds entries to the batch, and cannot fail: the batch has changes of others too."""
        bounds = self._ranges.get(name) or self._read_range(name)
        prefix, number = bounds.prefix, bounds.last
        rows, entries = [], []
        for at, id, data in new_entries:  # noqa: A001
            number += 1
            text = id.encode()
            rows.append((prefix + number.to_bytes(8, "big"), _HEAD.pack(at, len(text)) + text + data))
            entries.append(_make_entry((number, at, id, data)))

        def add(batch: WriteBatch) -> list[Entry]:
            for key, value in rows:
                batch.put(key, value)
            if keep is not None and number > keep:
                end = number - keep if floor is None else min(number - keep, floor)
                # Dropping is costly, so it is done only when the numbers pass a multiple of this interval.
                interval = max(keep // 4, 64)
                if end >= bounds.first and bounds.last // interval != number // interval:
                    self._drop(name, bounds, end, batch)
            bounds.last = number
            batch_entries = self._batch.pop(name, [])
            batch_entries += entries
            self._batch[name] = batch_entries
            return entries

        return add

    def _read_range(self, name: str) -> _Range:
        prefix, first = _prefix(name), self._first(name)
        newest = next(self._database.items(prefix, backwards=True), None)
        last = first - 1 if newest is None else _decoded(*newest).sequence
        self._ranges[name] = _Range(prefix, first, last)
        return self._ranges[name]

    def _drop(self, name: str, bounds: _Range, end: int, batch: WriteBatch) -> None:
        first = (end + 1).to_bytes(8, "big")
        batch.delete_range(bounds.prefix + bounds.first.to_bytes(8, "big"), bounds.prefix + first)
        batch.put(b"F" + name.encode(), first)
        bounds.first = end + 1

    # -- subscribing --------------------------------------------------------------------------------------

    def subscribe(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        if name not in self._subscribers:
            self._subscribers[name] = Subscribers(lambda: self._subscribers.pop(name))
        return self._subscribers[name].subscribe(subscriber)

    def is_live(self, name: str) -> bool:
        return True  # subscribers are in the process that commits

    def announce(self) -> None:
        """Pass the entries of the written batch to the subscribers of their journals."""
        written, self._batch = self._batch, {}
        for name, entries in written.items():
            self._announce(name, entries)

    def _announce(self, name: str, entries: list[Entry]) -> None:
        self._recent_names.pop(name, None)
        self._recent_names[name] = None
        if subscribers := self._subscribers.get(name):
            subscribers.notify(entries)

    def recover(self) -> None:
        """After a failed write, announce those entries of its batch that are in the database all the same."""
        self._ranges.clear()
        while self._batch:
            name, entries = next(iter(self._batch.items()))
            written = self._after(name, entries[0].sequence - 1, len(entries))
            del self._batch[name]
            if written:
                self._announce(name, written)

    # -- reading: more than a few entries in the reader thread ----------------------------------------------

    async def last(self, name: str, count: int, below: int | None = None) -> list[Entry]:
        if uncertain := self._batch.get(name):
            below = min(below or uncertain[0].sequence, uncertain[0].sequence)
        if not self._database.is_reopening:
            # Reading a few entries costs less than the way to the reader thread and back.
            entries = self._last(name, min(count, _MAX_ENTRIES_ON_LOOP), below)
            if count <= _MAX_ENTRIES_ON_LOOP or len(entries) < _MAX_ENTRIES_ON_LOOP:
                return entries
            older = lambda: self._last(name, count - len(entries), entries[0].sequence)  # noqa: E731
            return await self._database.run_in_reader(older) + entries
        return await self._database.run_in_reader(lambda: self._last(name, count, below))

    async def after(self, name: str, sequence: int, count: int | None = None) -> list[Entry]:
        entries = await self._database.run_in_reader(lambda: self._after(name, sequence, count))
        if uncertain := self._batch.get(name):
            return [entry for entry in entries if entry.sequence < uncertain[0].sequence]
        return entries

    async def names(self, prefix: str, count: int) -> list[str]:
        newest = _newest(self._recent_names, prefix, count)
        if len(newest) < count and not self._has_all_names:
            older = await self._database.run_in_reader(self._all_names)
            names = {name: None for name in older if name not in self._recent_names} | self._recent_names
            newest = _newest(names, prefix, count)
            self._has_all_names = len(names) <= MAX_NAMES
            if self._has_all_names:
                self._recent_names = names
        return newest

    def _last(self, name: str, count: int, below: int | None) -> list[Entry]:
        prefix = _prefix(name)
        oldest = prefix + self._first(name).to_bytes(8, "big")
        newest = b"" if below is None else prefix + (below - 1).to_bytes(8, "big")
        with closing(self._database.items(prefix, newest, backwards=True)) as items:
            above = takewhile(lambda item: item[0] >= oldest, items)
            return [_decoded(*item) for item in islice(above, max(count, 0))][::-1]

    def _after(self, name: str, sequence: int, count: int | None) -> list[Entry]:
        if sequence >= 1 << 63:
            return []
        # Start at the first entry: before it, RocksDB would step over all dropped ones that are not compacted yet.
        start, prefix = max(sequence + 1, self._first(name)), _prefix(name)
        with closing(self._database.items(prefix, prefix + start.to_bytes(8, "big"))) as items:
            return [_decoded(*item) for item in islice(items, count)]

    def _first(self, name: str) -> int:
        return int.from_bytes(self._database.get(b"F" + name.encode()) or b"\1", "big")

    def _all_names(self) -> list[str]:
        """Return the names by the time of their newest entry, the oldest first."""
        times: list[tuple[int, str]] = []
        end = b"K"  # after the keys of all entries
        while newest := next(self._database.items(b"J", end, backwards=True), None):
            end = newest[0][:-8]  # the key without its number: before all entries of this journal
            times.append((_decoded(*newest).at, end[3:].decode()))
        return [name for _, name in sorted(times, key=itemgetter(0))]


def _newest(names: dict[str, None], prefix: str, count: int) -> list[str]:
    return list(islice((name for name in reversed(names) if name.startswith(prefix)), max(count, 0)))


def _prefix(name: str) -> bytes:
    text = name.encode()
    return b"J" + len(text).to_bytes(2, "big") + text


def _decoded(key: bytes, value: bytes) -> Entry:
    try:
        at, length = _HEAD.unpack_from(value)
    except struct.error:
        raise damaged_row(key) from None
    if len(value) < 10 + length:
        raise damaged_row(key)
    return _make_entry((int.from_bytes(key[-8:], "big"), at, value[10 : 10 + length].decode(), value[10 + length :]))
