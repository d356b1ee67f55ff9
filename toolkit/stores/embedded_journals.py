"""Journals in RocksDB.

======================================  =============================  ==========================================
key                                     value                          meaning
======================================  =============================  ==========================================
``J`` journal (4) sequence number (8)   time (8), length (2), id, data an entry
``N`` name                              journal                        the number of a journal
``F`` journal                           sequence number                of its oldest entry, once it dropped some
``T`` period (8) journal                name                           the period in which it was last written
``M``                                   journal                        the number of the newest journal
======================================  =============================  ==========================================

Numbers are big-endian, so the entries of a journal lie together and in order.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice, takewhile
from struct import Struct
from typing import Any

from rocksdict import WriteBatch

from toolkit.stores import Draft, Entry, Follower
from toolkit.stores.embedded_database import Database
from toolkit.stores.embedded_records import run_now
from toolkit.stores.group_commit import GroupCommit, Request
from toolkit.stores.subscribers import Subscribers

_NEWEST = b"M"
_HEAD = Struct(">qH")
_Id = bytes

# Makes an Entry of its fields, twice as fast as Entry(*fields).
_entry: Callable[[tuple[int, int, str, bytes]], Entry] = partial(tuple.__new__, Entry)

# A journal moves in the index of times when it is written in another period (16 seconds) than the last time: so
# often that `names` has few to sort, so seldom that it costs appends nothing.
_PERIOD_BITS = 14
# What is known of so many journals stays in memory, about 300 bytes for each.
_MOST_PLACES = 100_000


class _Place:
    """Where a journal lies and how far it goes."""

    __slots__ = ("at", "first", "id", "last")

    def __init__(self, id: _Id, first: int, last: int, at: int | None) -> None:  # noqa: A002
        self.id = id
        self.first = first
        self.last = last
        self.at = at

    def key(self, sequence: int) -> bytes:
        return b"J" + self.id + sequence.to_bytes(8, "big")


class Append(Request[list[Entry]]):
    """One caller's drafts; its result are the entries."""

    __slots__ = ("_journals", "drafts", "floor", "keep", "name")

    def __init__(
        self, journals: EmbeddedJournals, name: str, drafts: Sequence[Draft], keep: int | None, floor: int | None
    ) -> None:
        self.future = journals.loop.create_future()
        self._journals = journals
        self.name = name
        self.drafts = drafts
        self.keep = keep
        self.floor = floor
        self.result = []

    def prepare(self) -> None:
        """Give numbers to the drafts and add them to the batch."""
        self.result = self._journals.write(self)

    def recover(self) -> None:
        """Tell the followers of entries whose write failed and that are there all the same."""
        self._journals.tell_again(self.name, self.result)


class EmbeddedJournals:
    """See `toolkit.stores.Journals`."""

    is_shared = False

    def __init__(self, database: Database, commits: GroupCommit[Any]) -> None:
        self.loop = asyncio.get_running_loop()
        self._database = database
        self._commits = commits
        self._writes = WriteBatch(raw_mode=True)
        self._followers: defaultdict[str, Subscribers[[Sequence[Entry]]]] = defaultdict(Subscribers)
        self._places: dict[str, _Place] = {}
        # When journals without a place were last written, for `names`: this process has not written them.
        self._unwritten: dict[_Id, int] = {}
        self._newest: int | None = None

    # -- writing ------------------------------------------------------------------------------------------

    def append(
        self, name: str, drafts: Sequence[Draft], keep: int | None = None, floor: int | None = None
    ) -> asyncio.Future[list[Entry]]:
        """Append all drafts in order, or none."""
        append = Append(self, name, drafts, keep, floor)
        if drafts:
            self._commits.submit(append)
        else:
            append.settle()
        return append.future

    def begin(self, writes: WriteBatch) -> None:
        """Begin a batch."""
        self._writes = writes

    def write(self, append: Append) -> list[Entry]:
        """Add the entries of an append to the batch and return them."""
        name, drafts, writes = append.name, append.drafts, self._writes
        place = self._places.get(name) or self._find(name)
        # Nothing may fail behind the first change of the batch: so encode first.
        values = []
        for at, id, data in drafts:  # noqa: A001
            text = id.encode()
            values.append(_HEAD.pack(at, len(text)) + text + data)
        number, at = 0 if place is None else place.last, drafts[-1].at
        if place is None:
            place = self._add(name)
        if place.at is None or place.at >> _PERIOD_BITS != at >> _PERIOD_BITS:
            if place.at is not None:
                writes.delete(_time_key(place.at, place.id))
            writes.put(_time_key(at, place.id), name.encode())
        prefix, entries = b"J" + place.id, []
        for value, (drafted, id, data) in zip(values, drafts, strict=True):  # noqa: A001
            number += 1
            writes.put(prefix + number.to_bytes(8, "big"), value)
            entries.append(_entry((number, drafted, id, data)))
        if append.keep is not None:
            self._drop(place, number, append.keep, append.floor)
        place.last, place.at = number, at
        return entries

    def settle(self, appends: Sequence[Append]) -> None:
        """Tell the followers: each hears of its journal once, before any caller is answered."""
        written: dict[str, list[Entry]] = {}
        for append in appends:
            if append.name in self._followers:
                written.setdefault(append.name, []).extend(append.result)
        for name, entries in written.items():
            self._followers[name].tell(entries)
        while len(self._places) > _MOST_PLACES:
            del self._places[next(iter(self._places))]
            self._unwritten.clear()

    def forget(self) -> None:
        """Read again how far the journals go: a write has failed."""
        self._places.clear()
        self._unwritten.clear()
        self._newest = None

    def tell_again(self, name: str, entries: Sequence[Entry]) -> None:
        """Tell the followers of these entries, if the batch that held them was written."""
        if entries and (found := self._after(name, entries[0].sequence - 1, len(entries))):
            self._followers[name].tell(found)

    def _add(self, name: str) -> _Place:
        if self._newest is None:
            self._newest = int.from_bytes(self._database.get(_NEWEST) or b"", "big")
        self._newest += 1
        place = self._places[name] = _Place(self._newest.to_bytes(4, "big"), 1, 0, None)
        self._writes.put(b"N" + name.encode(), place.id)
        self._writes.put(_NEWEST, place.id)
        return place

    def _find(self, name: str) -> _Place | None:
        id = self._database.get(b"N" + name.encode())  # noqa: A001
        if id is None:
            return None
        first = self._first(id)
        newest = self._database.newest(b"J" + id)
        last, at = (first - 1, None) if newest is None else (_sequence(newest[0]), _decoded(*newest).at)
        place = self._places[name] = _Place(id, first, last, at)
        return place

    def _drop(self, place: _Place, last: int, keep: int, floor: int | None) -> None:
        # Now and then: when the numbers pass a multiple of a quarter of what is kept.
        step = max(keep // 4, 64)
        if place.last // step == last // step or last <= keep:
            return
        end = last - keep if floor is None else min(last - keep, floor)
        if end >= place.first:
            self._writes.delete_range(place.key(place.first), place.key(end + 1))
            place.first = end + 1
            self._writes.put(b"F" + place.id, place.first.to_bytes(8, "big"))

    # -- reading: all but a single entry in the thread of the reads -----------------------------------------

    def last(self, name: str, count: int) -> asyncio.Future[list[Entry]]:
        """Return at most the last `count` entries, oldest first."""
        if count == 1:  # a seek costs less than the way to the thread and back
            return run_now(lambda: self._only_last(name))
        return self._database.read(lambda: self._last(name, count))

    def after(self, name: str, sequence: int, count: int | None = None) -> asyncio.Future[list[Entry]]:
        """Return the entries numbered above `sequence`, oldest first."""
        return self._database.read(lambda: self._after(name, sequence, count))

    def between(self, name: str, start: int, end: int) -> asyncio.Future[list[Entry]]:
        """Return the entries with ``start <= at < end``, oldest first."""

        # All are looked at: a clock may have been set back, so their times need not be in order.
        def read() -> list[Entry]:
            time = _HEAD.unpack_from
            return [_decoded(*item) for item in self._items(name, 0) if start <= time(item[1])[0] < end]

        return self._database.read(read)

    def find(self, name: str, id: str) -> asyncio.Future[Entry | None]:  # noqa: A002
        """Return the entry with this identifier."""
        text = id.encode()
        mark, start, end = len(text).to_bytes(2, "big") + text, 8, 10 + len(text)

        def read() -> Entry | None:
            # Newest first: a caller that resumes a stream asks for a recent entry.
            found = (item for item in self._items_backwards(name) if item[1][start:end] == mark)
            return next((_decoded(*item) for item in found), None)

        return self._database.read(read)

    def names(self, prefix: str, count: int) -> asyncio.Future[list[str]]:
        """Return the names with this prefix, the most recently written first."""
        return self._database.read(lambda: self._names(prefix, count))

    def _only_last(self, name: str) -> list[Entry]:
        place = self._places.get(name)
        id = self._database.get(b"N" + name.encode()) if place is None else place.id  # noqa: A001
        newest = None if id is None else self._database.newest(b"J" + id)
        return [] if newest is None else [_decoded(*newest)]

    def _last(self, name: str, count: int) -> list[Entry]:
        return [_decoded(*item) for item in islice(self._items_backwards(name), max(count, 0))][::-1]

    def _after(self, name: str, sequence: int, count: int | None) -> list[Entry]:
        return [_decoded(*item) for item in islice(self._items(name, sequence), count)]

    def _items(self, name: str, after: int) -> Iterator[tuple[bytes, bytes]]:
        id = self._database.get(b"N" + name.encode())  # noqa: A001
        if id is None or after >= 1 << 63:
            return iter(())
        # Without the number of the first one, RocksDB would look at all that were dropped and are not compacted yet.
        start = max(after + 1, self._first(id))
        return self._database.items(b"J" + id + start.to_bytes(8, "big"), b"J" + id)

    def _items_backwards(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        id = self._database.get(b"N" + name.encode())  # noqa: A001
        if id is None:
            return
        oldest = b"J" + id + self._first(id).to_bytes(8, "big")
        yield from takewhile(lambda item: item[0] >= oldest, self._database.items_backwards(b"J" + id))

    def _first(self, id: _Id) -> int:  # noqa: A002
        return int.from_bytes(self._database.get(b"F" + id) or b"\1", "big")

    def _names(self, prefix: str, count: int) -> list[str]:
        found: list[str] = []
        by_period = groupby(self._database.items_backwards(b"T"), key=lambda item: item[0][:9])
        for _, items in by_period:
            if len(found) >= count:
                break
            named = ((item[1].decode(), item[0][9:]) for item in items)
            wanted = [(-self._written_at(name, id), name) for name, id in named if name.startswith(prefix)]
            found += [name for _, name in heapq.nsmallest(count - len(found), wanted)]
        return found

    def _written_at(self, name: str, id: _Id) -> int:  # noqa: A002
        place = self._places.get(name)  # safe in this thread: one lookup
        if place is not None and place.at is not None:
            return place.at
        at = self._unwritten.get(id)
        if at is None:
            newest = self._database.newest(b"J" + id)
            at = 0 if newest is None else _decoded(*newest).at
            if len(self._unwritten) < _MOST_PLACES:
                self._unwritten[id] = at
        return at

    # -- following ----------------------------------------------------------------------------------------

    def follow(self, name: str, follower: Follower) -> Callable[[], None]:
        """Call `follower` with every entry committed from now on."""
        end = self._followers[name].add(follower)

        def stop() -> None:
            end()
            if not self._followers[name]:
                del self._followers[name]

        return stop

    def is_heard(self, name: str) -> bool:
        """Return True: who commits an entry tells the followers."""
        return True


def _time_key(at: int, id: _Id) -> bytes:  # noqa: A002
    return b"T" + max(at >> _PERIOD_BITS, 0).to_bytes(8, "big") + id


def _sequence(key: bytes) -> int:
    return int.from_bytes(key[5:], "big")


def _decoded(key: bytes, value: bytes) -> Entry:
    at, length = _HEAD.unpack_from(value)
    return _entry((int.from_bytes(key[5:], "big"), at, value[10 : 10 + length].decode(), value[10 + length :]))
