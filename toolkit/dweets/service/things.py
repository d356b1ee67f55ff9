"""A cache with the last dweets of each thing, and the list of the things that were active last.

A thing is cached when it is read. It then subscribes to its journal, so it also gets the dweets of other gateways on
the store. If only the latest dweet is read, only that is cached, so that a fleet of things fits into memory.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from toolkit.dweets.service.locks import Locks
from toolkit.dweets.wire import HISTORY_LENGTH, succeeded
from toolkit.stores import Entry, Journals

# Bytes of overhead of a thing, a dweet and a bytes object in CPython; a test measures them.
_THING_OVERHEAD, _DWEET_OVERHEAD, _BYTES_OVERHEAD = 1_500, 50, 40
#: Above this size the cache drops the least recently used things.
CACHE_BYTES = 128 * 1024 * 1024
# Callers choose how much is read, and each read may hold some megabytes.
_READS_AT_ONCE = 4
#: At most this many public things are listed as active.
MAX_ACTIVE_THINGS = 100


def journal_of(thing: str) -> str:
    return f"dweets:{thing}"


def _do_nothing(*_: Any) -> None:  # noqa: ANN401
    pass


@dataclass(slots=True, eq=False)
class CachedThing:
    """The last `length` dweets of one thing.

    `account` is called with every change of `size`. Entries that are committed before the call of `fill` are queued.
    """

    name: str
    length: int
    account: Callable[[int], None]
    journal: str = field(init=False)
    last_sequence: int = 0
    size: int = 0
    unsubscribe: Callable[[], None] = _do_nothing
    _records: list[bytes] = field(default_factory=list)  # a deque takes 600 bytes even for one dweet
    _early: list[Entry] | None = field(default_factory=list)
    _history: bytes | None = None

    def __post_init__(self) -> None:
        self.journal = journal_of(self.name)

    def fill(self, kept: Sequence[Entry]) -> None:
        """Add the entries that were read, then those that were committed while they were read."""
        early, self._early = self._early or (), None
        self._resize(_THING_OVERHEAD + 2 * len(self.name))
        self.extend(kept)
        self.extend(early)

    def extend(self, entries: Sequence[Entry]) -> None:
        """Add committed entries and skip known ones."""
        if self._early is not None:
            self._early += entries
            return
        fresh = [entry.data for entry in entries if entry.sequence > self.last_sequence]
        if not fresh:
            return
        records = self._records
        records += fresh
        surplus = max(len(records) - self.length, 0)
        change = sum(map(len, fresh)) - sum(map(len, records[:surplus])) + (len(fresh) - surplus) * _DWEET_OVERHEAD
        del records[:surplus]
        if self._history is not None:
            change -= len(self._history) + _BYTES_OVERHEAD
            self._history = None
        self.last_sequence = entries[-1].sequence
        self._resize(change)

    def latest(self) -> bytes | None:
        return self._records[-1] if self._records else None

    def history(self) -> bytes | None:
        """Return the response with the records, newest first. All readers share it, as 64 copies could take 2 GB."""
        history = self._history
        if history is None and self._records:
            history = self._history = succeeded("getting", "dweets", b"[%b]" % b",".join(self._records[::-1]))
            self._resize(len(history) + _BYTES_OVERHEAD)  # the cache may drop this thing at once
        return history

    def drop(self) -> None:
        """Unsubscribe, and delete references back to this object, so that its memory is freed at once."""
        self.unsubscribe()
        self.unsubscribe = self.account = _do_nothing

    def _resize(self, change: int) -> None:
        self.size += change
        self.account(change)


class Things:
    """The cached things of a gateway, at most `cache_bytes` in all."""

    def __init__(self, journals: Journals, cache_bytes: int = CACHE_BYTES) -> None:
        #: Held during each read of more than one dweet from the store.
        self.read_slots = asyncio.Semaphore(_READS_AT_ONCE)
        self._journals = journals
        self._max_cache_bytes = cache_bytes
        self._cache: OrderedDict[str, CachedThing] = OrderedDict()  # the most recently used one at the end
        self._loads: dict[tuple[str, int], asyncio.Task[CachedThing]] = {}
        self._cached_bytes = 0

    def cached(self, name: str, length: int = HISTORY_LENGTH) -> CachedThing | None:
        """Return the thing if all of its last `length` dweets are cached and up to date."""
        thing = self._cache.get(name)
        if thing is None or thing.length < length or not self._journals.is_live(thing.journal):
            return None
        self._cache.move_to_end(name)
        return thing

    def load(self, name: str, length: int = HISTORY_LENGTH) -> asyncio.Future[CachedThing]:
        """Return the thing once its last `length` dweets are cached; concurrent callers share one read."""
        if (thing := self.cached(name, length)) is not None:
            future: asyncio.Future[CachedThing] = asyncio.get_running_loop().create_future()
            future.set_result(thing)
            return future
        key = name, length
        if key not in self._loads:
            self._loads[key] = asyncio.ensure_future(self._read(name, length))
            self._loads[key].add_done_callback(lambda _: self._loads.pop(key))
        return asyncio.shield(self._loads[key])  # a cancelled caller must not cancel the shared read

    async def _read(self, name: str, length: int) -> CachedThing:
        cached = self._cache.get(name)
        if cached is not None and cached.length >= length:  # it may be out of date: the store is or was unavailable
            missed = await self._journals.after(cached.journal, cached.last_sequence)
            if self._cache.get(name) is cached:  # the size of a dropped thing no longer counts
                cached.extend(missed)
            return cached
        thing = CachedThing(name, length, self._account)
        # Subscribe before reading, or a dweet between the two would be missed.
        thing.unsubscribe = self._journals.subscribe(thing.journal, thing.extend)
        try:
            async with self.read_slots if length > 1 else nullcontext():
                entries = await self._journals.last(thing.journal, length)
        except BaseException:
            thing.drop()
            raise
        cached = self._cache.get(name)
        if cached is not None and cached.length >= length:  # another call has read more dweets of the thing
            thing.drop()
            return cached
        thing.fill(entries)
        if (shorter := self._cache.get(name)) is not None:
            self._drop(shorter)
        self._cache[name] = thing
        return thing

    def _account(self, change: int) -> None:
        self._cached_bytes += change
        while self._cached_bytes > self._max_cache_bytes and self._cache:
            self._drop(next(iter(self._cache.values())))

    def _drop(self, thing: CachedThing) -> None:
        del self._cache[thing.name]
        self._cached_bytes -= thing.size
        thing.drop()


class ActiveThings:
    def __init__(self, journals: Journals, things: Things, locks: Locks) -> None:
        self._journals = journals
        self._things = things
        self._locks = locks

    async def newest(self) -> list[tuple[str, bytes]]:
        """Return name and newest dweet of each public thing, the latest active one first."""
        things = await asyncio.gather(*(self._things.load(name, 1) for name in await self._public_names()))
        # Leave out things that were locked in between, and those whose first dweet is being written.
        public = (thing for thing in things if not self._locks.is_locked(thing.name))
        return [(thing.name, newest) for thing in public if (newest := thing.latest()) is not None]

    async def _public_names(self) -> list[str]:
        prefix, count = journal_of(""), 2 * MAX_ACTIVE_THINGS
        while True:
            names = await self._journals.names(prefix, count)
            things = (name.removeprefix(prefix) for name in names)
            public = list(islice((thing for thing in things if not self._locks.is_locked(thing)), MAX_ACTIVE_THINGS))
            if len(names) < count or len(public) == MAX_ACTIVE_THINGS:
                return public
            count *= 4  # most of these things are locked
