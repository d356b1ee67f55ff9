"""Live streams: where they start, replay of missed dweets, and their end when the thing is locked."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import chain
from typing import Protocol

from toolkit.errors import NotFound
from toolkit_gateway.dweets import refusals
from toolkit_gateway.dweets.locks import Locks
from toolkit_gateway.dweets.replies import Encoder
from toolkit_gateway.dweets.thing_cache import Things, journal_of
from toolkit_gateway.stores import Entry

# Listeners get at most this many dweets in one write, so that a slow listener is noticed in time.
_DWEETS_PER_WRITE = 64
_TRANSACTION_PATTERN = re.compile(r"[0-9a-f-]{36}")


class Listener(Protocol):
    """The connection of a listener, such as `toolkit_gateway.http.stream.HttpStream`."""

    def write(self, *pieces: bytes) -> None: ...

    async def drain(self) -> None: ...

    def end(self) -> None: ...


class _Feed:
    """The listeners of one thing. Each new dweet is encoded once per encoding, for all of its listeners."""

    def __init__(self) -> None:
        self.last_sequence = 0
        self.unsubscribe: Callable[[], None] = lambda: None
        #: By encoding and listener: the number of the last dweet that it got; infinite while missed dweets are sent.
        self.listeners: defaultdict[Encoder, dict[Listener, float]] = defaultdict(dict)

    def publish(self, entries: Sequence[Entry]) -> None:
        fresh = [entry for entry in entries if entry.sequence > self.last_sequence]
        if fresh:
            self.last_sequence = fresh[-1].sequence
            for encode, listeners in self.listeners.items():
                _write(fresh, encode, list(listeners.items()))


class LiveStreams:
    def __init__(self, things: Things, locks: Locks) -> None:
        self._journals = things.journals
        self._things = things
        self._locks = locks
        self._feeds: dict[str, _Feed] = {}

    def end(self, thing: str) -> None:
        if thing in self._feeds:
            for listener in list(chain.from_iterable(self._feeds[thing].listeners.values())):
                listener.end()

    async def position(self, thing: str, key: str | None, since: str | None) -> int:
        """Return the sequence number after which a stream starts; NotFound for an unknown transaction.

        `since` is a sequence number, a ``created`` time or the transaction of a dweet; None for new dweets only.
        """
        self._locks.check_reader(thing, key)
        newest = await self._journals.last(journal_of(thing), 1)
        last = newest[-1].sequence if newest else 0
        # A number above the last one is from an earlier epoch: then the listener gets only new dweets.
        return last if since is None else min(last, await self._sequence_of(thing, since))

    async def listen(
        self, thing: str, key: str | None, number: int, encode: Encoder, listener: Listener
    ) -> Callable[[], None]:
        """Write the dweets above `number`, then every new one, in order and exactly once; return a function to stop.

        The stream also ends when the thing is locked; listeners that have a key can then reconnect.
        """
        self._locks.check_reader(thing, key)
        feed = self._feeds.get(thing)
        if feed is None:
            feed = self._feeds[thing] = _Feed()
            feed.unsubscribe = self._journals.subscribe(journal_of(thing), feed.publish)
        feed.listeners[encode][listener] = math.inf
        with ExitStack() as stopping:
            stopping.callback(self._leave, thing, encode, listener)
            # The store may still announce dweets that were replayed; `publish` sends only those above this number.
            feed.listeners[encode][listener] = await self._replay(thing, feed, number, encode, listener)
            return stopping.pop_all().close

    def _leave(self, thing: str, encode: Encoder, listener: Listener) -> None:
        listeners = self._feeds[thing].listeners
        del listeners[encode][listener]
        if not any(listeners.values()):
            self._feeds.pop(thing).unsubscribe()

    async def _replay(self, thing: str, feed: _Feed, number: int, encode: Encoder, listener: Listener) -> int:
        """Write missed dweets in batches until there are none; return the number of the last dweet."""
        while True:
            announced = feed.last_sequence
            # Wait until each batch is sent: one batch, encoded, is below the limit for the unread bytes of a listener.
            async for batch in self._things.batches(thing, number):
                _write(batch, encode, [(listener, number)])
                number = batch[-1].sequence
                await listener.drain()
            if feed.last_sequence <= max(announced, number):  # otherwise a dweet was committed after the last read
                return number

    async def _sequence_of(self, thing: str, since: str) -> int:
        if since.isascii() and since.isdigit() and len(since) < 19:  # 18 digits fit into the 8 bytes of a number
            return int(since)
        if (at := _milliseconds(since)) is not None:
            return await self._last_sequence_until(thing, at)
        if _TRANSACTION_PATTERN.fullmatch(since):
            # The newest first: a caller that resumes a stream asks for a recent one.
            async for batch in self._things.batches(thing, newest_first=True):
                for entry in batch:
                    if entry.id == since:
                        return entry.sequence
        raise NotFound(refusals.NOT_FOUND)

    async def _last_sequence_until(self, thing: str, at: int) -> int:
        """Return the number of the last dweet before the first one that is later than `at` (milliseconds)."""
        sequence = 0
        async for batch in self._things.batches(thing):
            for entry in batch:  # no binary search: the times are not sorted if a clock was set back
                if entry.at > at:
                    return sequence
                sequence = entry.sequence
        return sequence


def _write(entries: Sequence[Entry], encode: Encoder, listeners: Sequence[tuple[Listener, float]]) -> None:
    """Write to each listener the entries above the number that comes with it."""
    for start in range(0, len(entries), _DWEETS_PER_WRITE):
        chunk = entries[start : start + _DWEETS_PER_WRITE]
        pieces = [encode(entry.sequence, entry.data) for entry in chunk]
        for listener, number in listeners:
            if number < chunk[0].sequence:
                listener.write(*pieces)
            elif number < chunk[-1].sequence:
                listener.write(*pieces[sum(entry.sequence <= number for entry in chunk) :])


def _milliseconds(text: str) -> int | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
