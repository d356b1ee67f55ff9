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
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice, takewhile
from typing import Any

from rocksdict import WriteBatch

from toolkit.errors import StoreUnavailable
from toolkit.stores import Draft, Entry, Follower
from toolkit.stores.embedded_database import Database
from toolkit.stores.group_commit import GroupCommit, Request, failed, run_now
from toolkit.stores.subscribers import Subscribers

_NEWEST = b"M"
_HEAD = struct.Struct(">qH")

# Makes an Entry of its fields, twice as fast as Entry(*fields).
_entry: Callable[[tuple[int, int, str, bytes]], Entry] = partial(tuple.__new__, Entry)

# A journal moves in the index of times when it is written in another period (16 seconds) than the last time: so
# often that `names` has few to sort, so seldom that it costs appends nothing.
_PERIOD_BITS = 14
# What is known of so many journals stays in memory, about 300 bytes for each.
_MOST_PLACES = 100_000


class _Place:
    """Where a journal lies and how far it goes, with what is on its way to the disk."""

    __slots__ = ("at", "first", "id", "last", "prefix")

    def __init__(self, id: bytes, first: int, last: int, at: int | None) -> None:  # noqa: A002
        self.id = id
        self.prefix = b"J" + id
        self.first = first
        self.last = last
        self.at = at


class Append(Request[list[Entry]]):
    """One caller's drafts; its result are the entries."""

    __slots__ = ("drafts", "floor", "keep", "name")

    def __init__(
        self,
        future: asyncio.Future[list[Entry]],
        name: str,
        drafts: Sequence[Draft],
        keep: int | None,
        floor: int | None,
    ) -> None:
        self.future = future
        self.name = name
        self.drafts = drafts
        self.keep = keep
        self.floor = floor
        self.result = []


class EmbeddedJournals:
    """See `toolkit.stores.Journals`.

    An append is numbered and encoded at once, while the batch before it is being written; where `encodes_early` is
    False, when its own batch begins.
    """

    is_shared = False

    def __init__(self, database: Database, commits: GroupCommit[Any]) -> None:
        self.encodes_early = True
        self.writes = WriteBatch(raw_mode=True)
        self._loop = asyncio.get_running_loop()
        self._database = database
        self._commits = commits
        self._followers: dict[str, Subscribers[[Sequence[Entry]]]] = {}
        self._places: dict[str, _Place] = {}
        # When journals without a place were last written, for `names`: this process has not written them.
        self._unwritten: dict[bytes, int] = {}
        self._newest: int | None = None

    # -- writing ------------------------------------------------------------------------------------------

    def append(
        self, name: str, drafts: Sequence[Draft], keep: int | None = None, floor: int | None = None
    ) -> asyncio.Future[list[Entry]]:
        append = Append(self._loop.create_future(), name, drafts, keep, floor)
        if not drafts:
            append.settle()
            return append.future
        if self.encodes_early and not self._commits.is_closed:
            try:
                self.prepare(append)
            except (ValueError, struct.error, StoreUnavailable) as error:
                return failed(error)
        self._commits.submit(append)
        return append.future

    def take_batch(self, appends: Sequence[Append]) -> WriteBatch:
        """Return what was put in the batch; `appends` are those that are in it."""
        if len(self._places) > _MOST_PLACES:
            on_their_way = {append.name for append in appends}  # what the database holds of these is out of date
            for name in [*islice(self._places, len(self._places) - _MOST_PLACES * 9 // 10)]:
                if name not in on_their_way:
                    del self._places[name]
            self._unwritten.clear()
        writes, self.writes = self.writes, WriteBatch(raw_mode=True)
        return writes

    def forget(self) -> None:
        """Read again how far the journals go: a write has failed."""
        self.encodes_early = False
        self.writes = WriteBatch(raw_mode=True)
        self._places.clear()
        self._unwritten.clear()
        self._newest = None

    def announce(self, appends: Sequence[Append]) -> None:
        """Tell the followers what was committed: each hears of its journal once."""
        followers, written = self._followers, dict[str, list[Entry]]()
        for append in appends if followers else ():
            if append.name in followers:
                written.setdefault(append.name, []).extend(append.result)
        for name, entries in written.items():
            self._tell(name, entries)

    def announce_what_is_there(self, append: Append) -> None:
        """Tell the followers of entries whose write failed, where they are there all the same."""
        if append.result and (found := self._after(append.name, append.result[0].sequence - 1, len(append.result))):
            self._tell(append.name, found)

    def _tell(self, name: str, entries: Sequence[Entry]) -> None:
        if followers := self._followers.get(name):
            followers.tell(entries)

    def prepare(self, append: Append) -> None:
        """Give numbers to the drafts and put the entries in the batch."""
        name, drafts, writes = append.name, append.drafts, self.writes
        place = self._places.get(name) or self._find(name) or self._add(name)
        prefix, number = place.prefix, place.last
        rows, entries = [], []
        for at, id, data in drafts:  # noqa: A001
            number += 1
            text = id.encode()
            rows.append((prefix + number.to_bytes(8, "big"), _HEAD.pack(at, len(text)) + text + data))
            entries.append(_entry((number, at, id, data)))
        # Nothing may fail from here on: the batch has entries of others too.
        at = drafts[-1].at
        if place.at is None or place.at >> _PERIOD_BITS != at >> _PERIOD_BITS:
            if place.at is not None:
                writes.delete(_time_key(place.at, place.id))
            writes.put(_time_key(at, place.id), name.encode())
        for key, value in rows:
            writes.put(key, value)
        if append.keep is not None and number > append.keep:
            self._drop(place, number, append.keep, append.floor)
        place.last, place.at = number, at
        append.result = entries

    def _add(self, name: str) -> _Place:
        key = b"N" + name.encode()
        if self._newest is None:
            self._newest = int.from_bytes(self._database.get(_NEWEST) or b"", "big")
        self._newest += 1
        place = self._places[name] = _Place(self._newest.to_bytes(4, "big"), 1, 0, None)
        self.writes.put(key, place.id)
        self.writes.put(_NEWEST, place.id)
        return place

    def _find(self, name: str) -> _Place | None:
        id = self._id(name)  # noqa: A001
        if id is None:
            return None
        first, newest = self._first(id), self._newest_of(id)
        last, at = (first - 1, None) if newest is None else newest[:2]
        place = self._places[name] = _Place(id, first, last, at)
        return place

    def _drop(self, place: _Place, last: int, keep: int, floor: int | None) -> None:
        # Now and then: when the numbers pass a multiple of a quarter of what is kept.
        step = max(keep // 4, 64)
        if place.last // step == last // step:
            return
        end = last - keep if floor is None else min(last - keep, floor)
        if end >= place.first:
            numbers = place.first.to_bytes(8, "big"), (end + 1).to_bytes(8, "big")
            self.writes.delete_range(place.prefix + numbers[0], place.prefix + numbers[1])
            place.first = end + 1
            self.writes.put(b"F" + place.id, numbers[1])

    # -- reading: all but a single entry in the thread of the reads -----------------------------------------

    def last(self, name: str, count: int) -> asyncio.Future[list[Entry]]:
        if count == 1:  # a seek costs less than the way to the thread and back
            return run_now(lambda: self._last(name, 1))
        return self._database.read(lambda: self._last(name, count))

    def after(self, name: str, sequence: int, count: int | None = None) -> asyncio.Future[list[Entry]]:
        return self._database.read(lambda: self._after(name, sequence, count))

    def between(self, name: str, start: int, end: int) -> asyncio.Future[list[Entry]]:
        # All are looked at: a clock may have been set back, so their times need not be in order.
        def read() -> list[Entry]:
            time = _HEAD.unpack_from
            return [_decoded(*item) for item in self._items(name, 0) if start <= time(item[1])[0] < end]

        return self._database.read(read)

    def find(self, name: str, id: str) -> asyncio.Future[Entry | None]:  # noqa: A002
        text = id.encode()
        mark, start, end = len(text).to_bytes(2, "big") + text, 8, 10 + len(text)

        def read() -> Entry | None:
            # Newest first: a caller that resumes a stream asks for a recent entry.
            found = (item for item in self._items_backwards(name) if item[1][start:end] == mark)
            return next((_decoded(*item) for item in found), None)

        return self._database.read(read)

    def names(self, prefix: str, count: int) -> asyncio.Future[list[str]]:
        return self._database.read(lambda: self._names(prefix, count))

    def _last(self, name: str, count: int) -> list[Entry]:
        return [_decoded(*item) for item in islice(self._items_backwards(name), max(count, 0))][::-1]

    def _after(self, name: str, sequence: int, count: int | None) -> list[Entry]:
        return [_decoded(*item) for item in islice(self._items(name, sequence), count)]

    def _items(self, name: str, after: int) -> Iterator[tuple[bytes, bytes]]:
        id = self._id(name)  # noqa: A001
        if id is None or after >= 1 << 63:
            return iter(())
        # Without the number of the first one, RocksDB would look at all that were dropped and are not compacted yet.
        start = max(after + 1, self._first(id))
        return self._database.items(b"J" + id + start.to_bytes(8, "big"), b"J" + id)

    def _items_backwards(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        id = self._id(name)  # noqa: A001
        if id is None:
            return iter(())
        oldest = b"J" + id + self._first(id).to_bytes(8, "big")
        return takewhile(lambda item: item[0] >= oldest, self._database.items_backwards(b"J" + id))

    def _id(self, name: str) -> bytes | None:
        return self._database.get(b"N" + name.encode())

    def _first(self, id: bytes) -> int:  # noqa: A002
        return int.from_bytes(self._database.get(b"F" + id) or b"\1", "big")

    def _newest_of(self, id: bytes) -> Entry | None:  # noqa: A002
        return next((_decoded(*item) for item in self._database.items_backwards(b"J" + id)), None)

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

    def _written_at(self, name: str, id: bytes) -> int:  # noqa: A002
        place = self._places.get(name)  # safe in this thread: one lookup
        if place is not None and place.at is not None:
            return place.at
        at = self._unwritten.get(id)
        if at is None:
            newest = self._newest_of(id)
            at = 0 if newest is None else newest.at
            if len(self._unwritten) < _MOST_PLACES:
                self._unwritten[id] = at
        return at

    # -- following ----------------------------------------------------------------------------------------

    def follow(self, name: str, follower: Follower) -> Callable[[], None]:
        end = self._followers.setdefault(name, Subscribers()).add(follower)

        def stop() -> None:
            end()
            if not self._followers.get(name, True):
                del self._followers[name]

        return stop

    def is_heard(self, name: str) -> bool:
        """Return True: followers are in the process that commits."""
        return True


def _time_key(at: int, id: bytes) -> bytes:  # noqa: A002
    return b"T" + max(at >> _PERIOD_BITS, 0).to_bytes(8, "big") + id


def _decoded(key: bytes, value: bytes) -> Entry:
    at, length = _HEAD.unpack_from(value)
    return _entry((int.from_bytes(key[5:], "big"), at, value[10 : 10 + length].decode(), value[10 + length :]))
