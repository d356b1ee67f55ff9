"""Hot things: the last dweets of a thing as ready-made bytes, and its listeners.

A thing becomes hot when it is read. It then follows its journal, so it also holds what other gateways on the
same store write. A thing of which only the latest dweet is read holds only that: so a fleet fits into memory.
When hot things hold too much together, those not read for longest are dropped.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from toolkit.dweets.stream import Encode
from toolkit.dweets.wire import HISTORY_LENGTH, succeeded
from toolkit.stores import Entry, Journals, StoreUnavailable

#: Takes one piece of bytes for each dweet.
Write = Callable[..., None]
#: The sequence number and the record of a dweet.
Numbered = tuple[int, bytes]
# Dweets are told in pieces of so many, so that a reader who is too slow is noticed in time.
_DWEETS_A_TELLING = 64

# What a thing costs beside its dweets, and a dweet beside its bytes, in CPython; a test measures it.
_THING_BYTES, _DWEET_BYTES, _BYTES_BYTES = 1_500, 90, 40
# What hot things hold together before some are dropped.
HOT_BYTES = 128 * 1024 * 1024


def journal_of(thing: str) -> str:
    """Return the name of the journal that holds a thing's dweets."""
    return f"dweets:{thing}"


def _nothing(*_: Any) -> None:  # noqa: ANN401
    pass


class HotThing:
    """The last `length` dweets of one thing, and its listeners by the form they read.

    `account` is called with every change of `size`. What is committed before `fill` is kept for it.
    """

    __slots__ = (
        "_account",
        "_early",
        "_history",
        "_listeners",
        "_numbers",
        "_records",
        "journal",
        "last_sequence",
        "length",
        "name",
        "size",
        "unfollow",
    )

    def __init__(self, name: str, account: Callable[[int], None], length: int) -> None:
        self.name = name
        self.journal = journal_of(name)
        self.length = length
        self.last_sequence = 0
        self.size = 0
        self.unfollow: Callable[[], None] = _nothing
        self._account = account
        # Lists, as a deque takes 600 bytes also for one dweet.
        self._numbers: list[int] = []
        self._records: list[bytes] = []
        self._early: list[Entry] | None = []
        self._history: bytes | None = None
        self._listeners: dict[Encode, dict[Write, None]] | None = None

    def fill(self, kept: Sequence[Entry]) -> None:
        """Take the entries that were read, then those that were committed at that time."""
        early, self._early = self._early or (), None
        self._resize(_THING_BYTES + 2 * len(self.name))
        self.extend(kept)
        self.extend(early)

    def extend(self, entries: Sequence[Entry]) -> None:
        """Take entries that were committed, skip those it has, and pass the new ones to the listeners."""
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
            change += len(record) + _DWEET_BYTES
        self.last_sequence = numbers[-1]
        if (surplus := len(records) - self.length) > 0:
            change -= sum(map(len, records[:surplus])) + surplus * _DWEET_BYTES
            del numbers[:surplus], records[:surplus]
        if self._history is not None:
            change -= len(self._history) + _BYTES_BYTES
            self._history = None
        self._resize(change)
        if self._listeners:
            for encode, writes in list(self._listeners.items()):
                tell(fresh, encode, list(writes))

    def latest(self) -> bytes | None:
        """Return the record of the newest dweet, or None where there is none."""
        return self._records[-1] if self._records else None

    def history(self) -> bytes | None:
        """Return the response with at most the last 500 records, newest first; None where there is none.

        Its readers share it: 64 of them would hold 2 GB of copies.
        """
        if self._history is None and self._records:
            self._history = succeeded("getting", "dweets", b"[%b]" % b",".join(self._records[::-1]))
            self._resize(len(self._history) + _BYTES_BYTES)
        return self._history

    def entries_after(self, sequence: int) -> list[Numbered] | None:
        """Return what came after `sequence`, or None where this does not reach back that far."""
        if self._numbers and self._numbers[0] > sequence + 1:
            return None
        pairs = zip(self._numbers, self._records, strict=True)
        return [pair for pair in pairs if pair[0] > sequence]

    def listen(self, encode: Encode, write: Write) -> Callable[[], None]:
        """Write every new dweet, encoded once for all who read this form. Returns the call that ends it."""
        if self._listeners is None:
            self._listeners = {}
        listeners = self._listeners
        writes = listeners.setdefault(encode, {})
        writes[write] = None

        def stop() -> None:
            writes.pop(write, None)
            if not writes and listeners.get(encode) is writes:
                del listeners[encode]

        return stop

    @property
    def is_filled(self) -> bool:
        return self._early is None

    @property
    def is_heard(self) -> bool:
        return bool(self._listeners)

    def drop(self) -> None:
        """Follow no more. Nothing may refer back to this object, or its memory is not freed at once."""
        self.unfollow()
        self.unfollow = self._account = _nothing

    def _resize(self, change: int) -> None:
        self.size += change
        self._account(change)


def tell(entries: Sequence[Numbered], encode: Encode, writes: Sequence[Write]) -> None:
    """Write the entries in order to all of `writes`, each encoded once."""
    for start in range(0, len(entries), _DWEETS_A_TELLING):
        pieces = [encode(*entry) for entry in entries[start : start + _DWEETS_A_TELLING]]
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
        # What is being read, and the futures of those who wait for it.
        self._loads: dict[tuple[str, int], list[asyncio.Future[HotThing]]] = {}
        self._reads: set[asyncio.Future[list[Entry]]] = set()
        self._held = 0

    def hot(self, name: str, length: int = HISTORY_LENGTH) -> HotThing | None:
        """Return the thing if it holds all of its last `length` dweets, without waiting."""
        thing = self._hot.get(name)
        if thing is None or thing.length < length or not self._journals.is_heard(thing.journal):
            return None
        self._hot.move_to_end(name)
        return thing

    def holds(self, thing: HotThing) -> bool:
        """Whether the thing still follows its journal: it was not dropped."""
        return self._hot.get(thing.name) is thing

    def load(self, name: str, length: int = HISTORY_LENGTH) -> asyncio.Future[HotThing]:
        """Return the thing once it holds its last `length` dweets. All who wait for it share one read."""
        future: asyncio.Future[HotThing] = asyncio.get_running_loop().create_future()
        thing = self.hot(name, length)
        if thing is not None:
            future.set_result(thing)
        elif (name, length) in self._loads:
            self._loads[name, length].append(future)
        else:
            self._loads[name, length] = [future]
            self._read(name, length)
        return future

    async def catch_up(self, thing: HotThing) -> None:
        """Give a thing what is committed and has not reached it yet."""
        missed = await self._journals.after(thing.journal, thing.last_sequence)
        if self.holds(thing):  # else it was dropped, and is not counted any more
            thing.extend(missed)

    def _read(self, name: str, length: int) -> None:
        thing = self._hot.get(name)
        if thing is not None and thing.length >= length:  # the store is or was away: it may be out of date
            read = self._journals.after(thing.journal, thing.last_sequence)
        else:
            thing = HotThing(name, self._account, length)
            # Follow first and read then, or a dweet between the two would be missed.
            thing.unfollow = self._journals.follow(thing.journal, thing.extend)
            read = self._journals.last(thing.journal, length)
        reading = asyncio.ensure_future(read)
        self._reads.add(reading)  # the loop does not hold it
        reading.add_done_callback(partial(self._end, thing, length))

    def _end(self, thing: HotThing, length: int, reading: asyncio.Future[list[Entry]]) -> None:
        self._reads.discard(reading)
        held = self._hot.get(thing.name)
        error = StoreUnavailable("the gateway is stopping") if reading.cancelled() else reading.exception()
        if error is not None:
            if thing is not held:
                thing.drop()
        elif thing.is_filled:
            thing.extend(reading.result())
        elif held is not None and held.length >= length:  # a longer one was read at the same time
            thing.drop()
            thing = held
        else:
            if held is not None:
                self._drop(held)
            thing.fill(reading.result())
            self._hot[thing.name] = thing
        for future in self._loads.pop((thing.name, length)):
            if future.done():
                continue  # the caller gave up
            if error is None:
                future.set_result(thing)
            else:
                future.set_exception(error)

    def _account(self, change: int) -> None:
        self._held += change
        while self._held > self._hot_bytes:
            oldest = next((thing for thing in self._hot.values() if not thing.is_heard), None)
            if oldest is None:
                return
            self._drop(oldest)

    def _drop(self, thing: HotThing) -> None:
        del self._hot[thing.name]
        self._held -= thing.size
        thing.drop()
