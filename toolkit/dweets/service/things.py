"""A cache with the last dweets and the listeners of each thing, and the list of the things that were active last.

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

import orjson

from toolkit.dweets.content import content_of
from toolkit.dweets.service.locks import Locks
from toolkit.dweets.stream import Encoder
from toolkit.dweets.wire import HISTORY_LENGTH, succeeded
from toolkit.stores import Entry, Journals

#: Writes to a listener; called with one bytes object per dweet.
Write = Callable[..., None]
#: The sequence number and the record of a dweet.
NumberedRecord = tuple[int, bytes]
# Listeners get at most this many dweets in one write, so that a slow listener is noticed in time.
_DWEETS_A_WRITE = 64

# Bytes of overhead of a thing, a dweet and a bytes object in CPython; a test measures them.
_THING_OVERHEAD, _DWEET_OVERHEAD, _BYTES_OVERHEAD = 1_500, 90, 40
# Above this size the cache drops the least recently used things; those with listeners keep their latest dweet.
CACHE_BYTES = 128 * 1024 * 1024
# Callers choose how much is read, and each read may hold some megabytes.
_READS_AT_ONCE = 4
#: At most this many public things are listed as active.
MAX_ACTIVE_THINGS = 100
_KEYWORDS_TTL_MILLISECONDS = 1_000


def journal_of(thing: str) -> str:
    return f"dweets:{thing}"


def _do_nothing(*_: Any) -> None:  # noqa: ANN401
    pass


@dataclass(slots=True, eq=False)
class CachedThing:
    """The last `length` dweets of one thing, and its listeners by encoding.

    `account` is called with every change of `size`. Entries that are committed before the call of `fill` are queued.
    """

    name: str
    account: Callable[[int], None]
    length: int
    journal: str = field(init=False)
    last_sequence: int = 0
    size: int = 0
    unsubscribe: Callable[[], None] = _do_nothing
    # Lists, because a deque takes 600 bytes even for one dweet.
    _numbers: list[int] = field(default_factory=list)
    _records: list[bytes] = field(default_factory=list)
    _early: list[Entry] | None = field(default_factory=list)
    _history: bytes | None = None
    _listeners: dict[Encoder, dict[Write, None]] | None = None

    def __post_init__(self) -> None:
        self.journal = journal_of(self.name)

    def fill(self, kept: Sequence[Entry]) -> None:
        """Add the entries that were read, then those that were committed while they were read."""
        early, self._early = self._early or (), None
        self._resize(_THING_OVERHEAD + 2 * len(self.name))
        self.extend(kept)
        self.extend(early)

    def extend(self, entries: Sequence[Entry]) -> None:
        """Add committed entries, skip known ones, and write the new ones to the listeners."""
        if self._early is not None:
            self._early += entries
            return
        fresh = [(entry.sequence, entry.data) for entry in entries if entry.sequence > self.last_sequence]
        if not fresh:
            return
        numbers, records, change = self._numbers, self._records, 0
        for number, record in fresh:
            numbers.append(number)
            records.append(record)
            change += len(record) + _DWEET_OVERHEAD
        self.last_sequence = numbers[-1]
        self._resize(change - self._trim())
        if self._listeners:
            for encode, writes in list(self._listeners.items()):
                notify(fresh, encode, list(writes))

    def _trim(self) -> int:
        """Drop the encoded history and the surplus records; return the number of freed bytes."""
        surplus = max(len(self._records) - self.length, 0)
        freed = sum(map(len, self._records[:surplus])) + surplus * _DWEET_OVERHEAD
        del self._numbers[:surplus], self._records[:surplus]
        if self._history is not None:
            freed += len(self._history) + _BYTES_OVERHEAD
            self._history = None
        return freed

    def shrink(self) -> int:
        """Keep only the latest dweet; return the number of freed bytes."""
        self.length = 1
        freed = self._trim()
        self.size -= freed
        return freed

    def latest(self) -> bytes | None:
        return self._records[-1] if self._records else None

    def history(self) -> bytes | None:
        """Return the response with the records, newest first. All readers share it, as 64 copies could take 2 GB."""
        history = self._history
        if history is None and self._records:
            history = self._history = succeeded("getting", "dweets", b"[%b]" % b",".join(self._records[::-1]))
            self._resize(len(history) + _BYTES_OVERHEAD)  # the cache may drop this thing at once
        return history

    def entries_after(self, sequence: int) -> list[NumberedRecord] | None:
        """Return the entries after `sequence`, or None if some of them are not cached."""
        if self._numbers and self._numbers[0] > sequence + 1:
            return None
        pairs = zip(self._numbers, self._records, strict=True)
        return [pair for pair in pairs if pair[0] > sequence]

    def listen(self, encode: Encoder, write: Write) -> Callable[[], None]:
        """Write every new dweet, encoded once for all listeners of this encoding; return a function to stop."""
        listeners = self._listeners = self._listeners or {}
        writes = listeners.setdefault(encode, {})
        writes[write] = None

        def stop() -> None:
            writes.pop(write, None)
            if not writes and listeners.get(encode) is writes:
                del listeners[encode]

        return stop

    def take_listeners(self, shorter: CachedThing) -> None:
        """Take over the listeners of `shorter`, which is the same thing with fewer cached dweets."""
        self._listeners = shorter._listeners
        missed = self.entries_after(shorter.last_sequence) or []
        for encode, writes in (self._listeners or {}).items():
            notify(missed, encode, list(writes))

    @property
    def has_listeners(self) -> bool:
        return bool(self._listeners)

    def drop(self) -> None:
        """Unsubscribe, and delete references back to this object, so that its memory is freed at once."""
        self.unsubscribe()
        self.unsubscribe = self.account = _do_nothing

    def _resize(self, change: int) -> None:
        self.size += change
        self.account(change)


def notify(entries: Sequence[NumberedRecord], encode: Encoder, writes: Sequence[Write]) -> None:
    for start in range(0, len(entries), _DWEETS_A_WRITE):
        pieces = [encode(*entry) for entry in entries[start : start + _DWEETS_A_WRITE]]
        for write in writes:
            write(*pieces)


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

    def holds(self, thing: CachedThing) -> bool:
        """Whether the thing is still cached and up to date."""
        return self._cache.get(thing.name) is thing

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

    async def catch_up(self, thing: CachedThing) -> None:
        """Read the entries that are committed but are not in the cached thing yet."""
        missed = await self._journals.after(thing.journal, thing.last_sequence)
        if self.holds(thing):  # the size of a dropped thing no longer counts
            thing.extend(missed)

    async def _read(self, name: str, length: int) -> CachedThing:
        cached = self._cache.get(name)
        if cached is not None and cached.length >= length:  # it may be out of date: the store is or was unavailable
            await self.catch_up(cached)
            return cached
        thing = CachedThing(name, self._account, length)
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
            thing.take_listeners(shorter)
            self._drop(shorter)
        self._cache[name] = thing
        return thing

    def _account(self, change: int) -> None:
        self._cached_bytes += change
        while self._cached_bytes > self._max_cache_bytes:
            things = self._cache.values()
            oldest = next((thing for thing in things if thing.length > 1 or not thing.has_listeners), None)
            if oldest is None:
                return
            if oldest.has_listeners:
                self._cached_bytes -= oldest.shrink()
            else:
                self._drop(oldest)

    def _drop(self, thing: CachedThing) -> None:
        del self._cache[thing.name]
        self._cached_bytes -= thing.size
        thing.drop()


class ActiveThings:
    def __init__(self, journals: Journals, locks: Locks, now: Callable[[], int]) -> None:
        self._journals = journals
        self._locks = locks
        self._now = now
        self._keywords: dict[str, list[str]] = {}
        self._read_at = 0
        self._reading = asyncio.Lock()

    async def find(self) -> list[dict[str, object]]:
        """Return the public things, the latest active one first, each with the keywords of its newest content.

        The keywords may be a second old; a new thing and a new lock are seen at once.
        """
        async with self._reading:
            if not 0 <= self._now() - self._read_at < _KEYWORDS_TTL_MILLISECONDS:
                self._keywords, self._read_at = {}, self._now()
            things = await self._public_names()
            await asyncio.gather(*(self._read_keywords(thing) for thing in things if thing not in self._keywords))
            # Leave out things that were locked in between, and those whose first dweet is being written.
            things = [thing for thing in things if thing in self._keywords and not self._locks.is_locked(thing)]
            self._keywords = {thing: self._keywords[thing] for thing in things}
            return [{"thing": thing, "keywords": self._keywords[thing]} for thing in things]

    async def _public_names(self) -> list[str]:
        prefix, count = journal_of(""), 2 * MAX_ACTIVE_THINGS
        while True:
            names = await self._journals.names(prefix, count)
            things = (name.removeprefix(prefix) for name in names)
            public = list(islice((thing for thing in things if not self._locks.is_locked(thing)), MAX_ACTIVE_THINGS))
            if len(names) < count or len(public) == MAX_ACTIVE_THINGS:
                return public
            count *= 4  # most of these things are locked

    async def _read_keywords(self, thing: str) -> None:
        for newest in await self._journals.last(journal_of(thing), 1):
            content = orjson.loads(content_of(newest.data))
            self._keywords[thing] = list(content) if isinstance(content, dict) else []
