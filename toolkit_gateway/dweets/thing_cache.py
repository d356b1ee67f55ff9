"""Read the dweets of things: the last ones from a cache, or all of them in batches.

A thing is cached when its last dweets are read. It then subscribes to its journal, so it also gets the dweets that
other gateways on the store commit. If callers read only the latest dweet, only that is cached, so many things fit in.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import accumulate

from toolkit.dweets.wire import HISTORY_LENGTH
from toolkit_gateway.dweets import replies
from toolkit_gateway.stores import Entry, Journals

# How many bytes a thing, a dweet and a bytes object take in CPython besides their text; a test measures them.
_THING_OVERHEAD, _DWEET_OVERHEAD, _BYTES_OVERHEAD = 1_500, 50, 40
#: Above this size the cache drops the least recently used things.
CACHE_BYTES = 64 * 1024 * 1024
# The most reads of several dweets at the same time: each of them may hold some megabytes.
READS_AT_ONCE = 4
# The first batch of a read has at most 2 dweets, and each later one at most twice the one before, up to this number.
DWEETS_PER_BATCH = 256
#: A batch has at most this many bytes, unless its only dweet is larger.
BATCH_BYTES = 256 * 1024


def journal_of(thing: str) -> str:
    return f"dweets:{thing}"


def first_entries(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the first entries that fit into `BATCH_BYTES`, at least one."""
    ends = accumulate(len(entry.data) for entry in entries)
    return entries[: max(1, sum(end <= BATCH_BYTES for end in ends))]


def _do_nothing(*_: object) -> None: ...


@dataclass(slots=True, eq=False)
class CachedThing:
    """The last `length` dweets of one thing; `on_resize` is called with every change of `size`."""

    name: str
    length: int
    on_resize: Callable[[int], None]
    last_sequence: int = 0
    size: int = 0
    unsubscribe: Callable[[], None] = _do_nothing
    _dweets: list[bytes] = field(default_factory=list)  # a deque takes 600 bytes even for one dweet
    _history: bytes | None = None

    def __post_init__(self) -> None:
        self._add_bytes(_THING_OVERHEAD + 2 * len(self.name))

    def extend(self, entries: Sequence[Entry]) -> None:
        """Add committed entries, except those that were added before."""
        fresh = [entry.data for entry in entries if entry.sequence > self.last_sequence]
        if not fresh:
            return
        dweets = self._dweets
        dweets += fresh
        surplus = max(len(dweets) - self.length, 0)
        change = sum(map(len, fresh)) - sum(map(len, dweets[:surplus])) + (len(fresh) - surplus) * _DWEET_OVERHEAD
        del dweets[:surplus]
        if self._history is not None:
            change -= len(self._history) + _BYTES_OVERHEAD
            self._history = None
        self.last_sequence = entries[-1].sequence
        self._add_bytes(change)

    def latest(self) -> bytes | None:
        return self._dweets[-1] if self._dweets else None

    def history(self) -> bytes | None:
        """Return the response with all cached dweets, newest first. Readers share it: 64 copies could take 2 GB."""
        history = self._history
        if history is None and self._dweets:
            history = self._history = replies.succeeded("getting", "dweets", b"[%b]" % b",".join(self._dweets[::-1]))
            self._add_bytes(len(history) + _BYTES_OVERHEAD)  # the cache may drop this thing now
        return history

    def drop(self) -> None:
        """Unsubscribe, and delete references back to this object, so that its memory is freed at once."""
        self.unsubscribe()
        self.unsubscribe = self.on_resize = _do_nothing

    def _add_bytes(self, change: int) -> None:
        self.size += change
        self.on_resize(change)


class Things:
    """The cached things of a gateway, at most `cache_bytes` in all."""

    def __init__(self, journals: Journals, cache_bytes: int = CACHE_BYTES) -> None:
        self.journals = journals
        self._read_slots = asyncio.Semaphore(READS_AT_ONCE)  # held during each read of more than one dweet
        self._max_cache_bytes = cache_bytes
        self._cache: OrderedDict[str, CachedThing] = OrderedDict()  # the most recently used one at the end
        self._loads: dict[tuple[str, int], asyncio.Task[CachedThing]] = {}
        self._cached_bytes = 0

    def cached(self, name: str, length: int = HISTORY_LENGTH) -> CachedThing | None:
        """Return the thing if all of its last `length` dweets are cached and up to date."""
        thing = self._cache.get(name)
        if thing is None or thing.length < length or not self.journals.is_live(journal_of(name)):
            return None
        self._cache.move_to_end(name)
        return thing

    async def load(self, name: str, length: int = HISTORY_LENGTH) -> CachedThing:
        """Return the thing once its last `length` dweets are cached; concurrent callers share one read."""
        if (thing := self.cached(name, length)) is not None:
            return thing
        key = name, length
        if key not in self._loads:
            self._loads[key] = asyncio.ensure_future(self._read(name, length))
            self._loads[key].add_done_callback(lambda _: self._loads.pop(key))
        return await asyncio.shield(self._loads[key])  # a cancelled caller must not cancel the shared read

    async def batches(self, name: str, after: int = 0, *, newest_first: bool = False) -> AsyncIterator[Sequence[Entry]]:
        """Yield dweets in batches: those numbered above `after`, or with `newest_first` all, from the newest on."""
        journal, is_end = journal_of(name), False
        position, count = None if newest_first else after, 2
        while not is_end:
            async with self._read_slots:
                if newest_first:
                    entries: Sequence[Entry] = (await self.journals.last(journal, count, position))[::-1]
                else:
                    entries = await self.journals.after(journal, position or 0, count)
            batch = first_entries(entries)
            is_end = len(batch) == len(entries) < count
            if batch:
                position, count = batch[-1].sequence, min(2 * len(batch), DWEETS_PER_BATCH)
                del entries  # hold only one batch while the caller works
                yield batch

    async def _read(self, name: str, length: int) -> CachedThing:
        journal, cached = journal_of(name), self._cache.get(name)
        if cached is not None and cached.length >= length:  # maybe out of date: the store is or was unavailable
            missed = await self.journals.after(journal, cached.last_sequence)
            if self._cache.get(name) is cached:  # the size of a dropped thing no longer counts
                cached.extend(missed)
            return cached
        # Subscribe before reading, or a dweet that is committed between the two would be missed.
        early: list[Entry] = []
        unsubscribe = self.journals.subscribe(journal, early.extend)
        try:
            async with self._read_slots if length > 1 else nullcontext():
                entries = await self.journals.last(journal, length)
            cached = self._cache.get(name)
            if cached is not None and cached.length >= length:  # another call has read more dweets of the thing
                return cached
            thing = CachedThing(name, length, self._add_bytes)
            thing.unsubscribe = self.journals.subscribe(journal, thing.extend)
        finally:
            unsubscribe()
        thing.extend(entries)
        thing.extend(early)
        if (shorter := self._cache.get(name)) is not None:
            self._drop(shorter)
        self._cache[name] = thing
        return thing

    def _add_bytes(self, change: int) -> None:
        self._cached_bytes += change
        while self._cached_bytes > self._max_cache_bytes and self._cache:
            self._drop(next(iter(self._cache.values())))

    def _drop(self, thing: CachedThing) -> None:
        del self._cache[thing.name]
        self._cached_bytes -= thing.size
        thing.drop()
