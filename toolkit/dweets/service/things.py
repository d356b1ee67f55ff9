"""Hot things: the last dweets of a thing as ready-made bytes, and who listens to it.

A thing becomes hot when it is read. It then follows its journal, so it also holds what other gateways on the
same store write. A thing of which only the latest dweet is read holds only that: so a fleet fits into memory.
Cold things cost nothing; hot ones are let go when all together hold too much.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from toolkit.dweets.stream import Encode
from toolkit.dweets.wire import HISTORY_LENGTH
from toolkit.stores import Entry, Journals

#: Takes one piece of bytes for each dweet.
Write = Callable[..., None]
# Dweets that are told in one go: a batch is cut so that a reader who is too slow for it is noticed in time.
_DWEETS_A_TELLING = 64

# What a thing costs beside its dweets, roughly, and a dweet beside its bytes: without the first, reading names that
# nobody uses would cost nothing.
_THING_BYTES, _ENTRY_BYTES = 2_000, 250
# Bytes of dweets that hot things hold together before the ones not read for longest are let go.
HOT_BYTES = 128 * 1024 * 1024


def journal_of(thing: str) -> str:
    """Return the name of the journal that holds a thing's dweets."""
    return f"dweets:{thing}"


class HotThing:
    """The ring of the last `length` dweets of one thing, and its listeners by the form they read."""

    __slots__ = (
        "_account",
        "_entries",
        "_history",
        "_listeners",
        "journal",
        "last_sequence",
        "length",
        "name",
        "size",
        "unfollow",
    )

    def __init__(self, name: str, account: Callable[[int], None], length: int) -> None:
        self.name = name
        self.length = length
        self.journal = journal_of(name)
        self._account = account
        self._entries: deque[Entry] = deque(maxlen=length)
        self._history: bytes | None = None
        self._listeners: dict[Encode, dict[Write, None]] = {}
        self.last_sequence = 0
        self.size = _THING_BYTES
        self.unfollow: Callable[[], None] = lambda: None

    def extend(self, entries: Sequence[Entry]) -> None:
        """Take entries that were committed, skip those it has, and pass the new ones to the listeners."""
        before = self.size
        fresh = [entry for entry in entries if entry.sequence > self.last_sequence]
        for entry in fresh:
            if len(self._entries) == self.length:
                self.size -= len(self._entries[0].data) + _ENTRY_BYTES
            self._entries.append(entry)
            self.size += len(entry.data) + _ENTRY_BYTES
            self.last_sequence = entry.sequence
        self._history = None
        self._account(self.size - before)
        for encode, writes in list(self._listeners.items()):
            tell(fresh, encode, list(writes))

    def latest(self) -> bytes | None:
        """Return the record of the newest dweet, or None where there is none."""
        return self._entries[-1].data if self._entries else None

    def history(self) -> bytes | None:
        """Return the response with at most the last 500 records, newest first; None where there is none.

        Its readers share it: 64 of them would hold 2 GB of copies.
        """
        if self._history is None and self._entries:
            records = b",".join([entry.data for entry in reversed(self._entries)])
            self._history = b'{"this":"succeeded","by":"getting","the":"dweets","with":[%b]}' % records
        return self._history

    def entries_after(self, sequence: int) -> list[Entry] | None:
        """Return what came after `sequence`, or None where the ring does not reach back that far."""
        if self._entries and self._entries[0].sequence > sequence + 1:
            return None
        return [entry for entry in self._entries if entry.sequence > sequence]

    def listen(self, encode: Encode, write: Write) -> Callable[[], None]:
        """Write every new dweet, encoded once for all who read this form. Returns the call that ends it."""
        writes = self._listeners.setdefault(encode, {})
        writes[write] = None

        def stop() -> None:
            writes.pop(write, None)
            if not writes and self._listeners.get(encode) is writes:
                del self._listeners[encode]

        return stop

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)


def tell(entries: Sequence[Entry], encode: Encode, writes: Sequence[Write]) -> None:
    """Write the entries in order to all of `writes`, each encoded once."""
    for start in range(0, len(entries), _DWEETS_A_TELLING):
        pieces = [encode(entry.sequence, entry.data) for entry in entries[start : start + _DWEETS_A_TELLING]]
        for write in writes:
            write(*pieces)


class Things:
    """The hot things of one gateway.

    Parameters
    ----------
    journals
        Where all dweets are kept.
    hot_bytes
        How many bytes hot things may hold together.
    """

    def __init__(self, journals: Journals, hot_bytes: int = HOT_BYTES) -> None:
        self._journals = journals
        self._hot_bytes = hot_bytes
        self._hot: OrderedDict[str, HotThing] = OrderedDict()
        self._filling: dict[tuple[str, int], asyncio.Task[HotThing]] = {}
        self._held = 0

    def hot(self, name: str, length: int = HISTORY_LENGTH) -> HotThing | None:
        """Return the thing if its ring holds all of its last `length` dweets, without waiting."""
        thing = self._hot.get(name)
        if thing is None or thing.length < length or not self._journals.is_heard(thing.journal):
            return None
        self._hot.move_to_end(name)
        return thing

    def holds(self, thing: HotThing) -> bool:
        """Whether the thing still hears what comes: it was not let go."""
        return self._hot.get(thing.name) is thing

    def load(self, name: str, length: int = HISTORY_LENGTH) -> asyncio.Future[HotThing]:
        """Return the thing, its ring filled. Whoever waits for it may give up without harm to the others."""
        thing = self.hot(name, length)
        if thing is not None:
            filled: asyncio.Future[HotThing] = asyncio.get_running_loop().create_future()
            filled.set_result(thing)
            return filled
        task = self._filling.get((name, length))
        if task is None:
            task = self._filling[name, length] = asyncio.ensure_future(self._fill(name, length))
        return asyncio.shield(task)

    async def catch_up(self, thing: HotThing) -> None:
        """Let a thing hear now of what is committed and has not reached it yet."""
        missed = await self._journals.after(journal_of(thing.name), thing.last_sequence)
        if self._hot.get(thing.name) is thing:  # else it was let go meanwhile, and is not counted any more
            thing.extend(missed)

    async def _fill(self, name: str, length: int) -> HotThing:
        try:
            held = self._hot.get(name)
            if held is not None and held.length >= length:
                # The store is or was away, so the ring may be out of date: read the store.
                await self.catch_up(held)
                return held
            # Follow first and read then, or a dweet between the two would be missed; what comes twice is skipped.
            early: list[Entry] = []
            unfollow = self._journals.follow(journal_of(name), early.extend)
            try:
                kept = await self._journals.last(journal_of(name), length)
            finally:
                unfollow()
        finally:
            del self._filling[name, length]
        # No waiting from here on.
        held = self._hot.get(name)
        if held is not None:
            if held.length >= length:  # a longer ring was filled at the same time
                return held
            self._drop(held)
        # It is counted before it is among the hot ones, so it is not let go at once.
        thing = HotThing(name, self._account, length)
        self._account(thing.size)
        thing.extend(kept)
        thing.extend(early)
        thing.unfollow = self._journals.follow(thing.journal, thing.extend)
        self._hot[name] = thing
        return thing

    def _account(self, change: int) -> None:
        self._held += change
        if self._held > self._hot_bytes:
            self._let_go()

    def _let_go(self) -> None:
        while self._held > self._hot_bytes:
            oldest = next((thing for thing in self._hot.values() if not thing.is_heard), None)
            if oldest is None:
                return
            self._drop(oldest)

    def _drop(self, thing: HotThing) -> None:
        self._held -= thing.size
        thing.unfollow()
        del self._hot[thing.name]
