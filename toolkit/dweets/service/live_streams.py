"""Live streams: where they start, replay of missed dweets, and their end when the thing is locked."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Protocol

from toolkit.dweets import wire
from toolkit.dweets.service.locks import Locks
from toolkit.dweets.service.things import CachedThing, NumberedRecord, Things, notify
from toolkit.dweets.stream import Encoder
from toolkit.errors import NotFound
from toolkit.stores import Journals

# Missed dweets are sent in batches; each batch waits until the one before has been sent. Frames make a batch at most
# three times as large, which is below the limit for the unread bytes of a listener.
_DWEETS_A_BATCH = 100
_BYTES_A_BATCH = 256 * 1024
_TRANSACTION_PATTERN = re.compile(r"[0-9a-f-]{36}")


class Listener(Protocol):
    """The connection of a listener, such as `toolkit.gateway.http_stream.StreamWriter`."""

    def write(self, *pieces: bytes) -> None: ...

    async def drain(self) -> None: ...

    def end(self) -> None: ...


class LiveStreams:
    def __init__(self, journals: Journals, things: Things, locks: Locks) -> None:
        self._journals = journals
        self._things = things
        self._locks = locks
        self._listeners: dict[str, set[Listener]] = {}

    def end(self, thing: str) -> None:
        for listener in self._listeners.pop(thing, ()):
            listener.end()

    async def position(self, thing: str, key: str | None, since: str | None) -> int:
        """Return the sequence number after which a stream starts; NotFound if `since` matches no dweet.

        `since` is a sequence number, a transaction or a ``created`` time; None for new dweets only.
        """
        wire.checked_thing(thing)
        self._locks.check_reader(thing, key)
        cached = await self._things.load(thing)
        number = cached.last_sequence if since is None else await self._sequence_of(cached, since)
        if number > cached.last_sequence:  # the listener got the number from another gateway, which is ahead
            await self._things.catch_up(cached)
            cached = await self._things.load(thing)  # another object if the cache dropped the thing
        # Numbers above the last one are from an earlier epoch, so only new dweets are sent.
        return min(number, cached.last_sequence)

    async def listen(
        self, thing: str, key: str | None, number: int, encode: Encoder, listener: Listener
    ) -> Callable[[], None]:
        """Write the dweets after `number`, then every new one, in order and exactly once; return a function to stop.

        The stream also ends when the thing is locked; listeners with a key reconnect.
        """
        self._locks.check_reader(thing, key)
        listeners = self._listeners.setdefault(thing, set())
        listeners.add(listener)
        with ExitStack() as stopping:
            stopping.callback(self._remove_listener, thing, listeners, listener)
            stopping.callback(await self._listen(thing, number, encode, listener))
            return stopping.pop_all().close

    def _remove_listener(self, thing: str, listeners: set[Listener], listener: Listener) -> None:
        listeners.discard(listener)
        if not listeners and self._listeners.get(thing) is listeners:
            del self._listeners[thing]

    async def _listen(self, thing: str, number: int, encode: Encoder, listener: Listener) -> Callable[[], None]:
        while True:
            cached = await self._things.load(thing)
            number = await self._replay(cached, number, encode, listener)
            if self._things.holds(cached):
                break  # a thing that the cache has dropped gets no new dweets
        # No await below: a dweet committed between the replay and the subscription would be missed.
        notify(cached.entries_after(number) or [], encode, [listener.write])
        return cached.listen(encode, listener.write)

    async def _replay(self, cached: CachedThing, number: int, encode: Encoder, listener: Listener) -> int:
        """Write missed dweets in batches, until the rest is cached and fits into one batch."""
        count = 1
        while True:
            last, missed = cached.last_sequence, cached.entries_after(number)
            is_cached = missed is not None
            if missed is None:
                missed = await self._read_missed(cached, number, count)
            batch = _first_batch(missed)
            if (not batch and last == cached.last_sequence) or (is_cached and len(batch) == len(missed)):
                return number
            # Read about one batch of dweets next, and hold none in memory while the listener reads this batch.
            count = max(1, min(2 * len(batch), _DWEETS_A_BATCH) if len(batch) == len(missed) else len(batch))
            if batch:
                notify(batch, encode, [listener.write])
                number, _ = batch[-1]
            del missed, batch
            await listener.drain()

    async def _read_missed(self, cached: CachedThing, number: int, count: int) -> list[NumberedRecord]:
        async with self._things.read_slots:
            entries = await self._journals.after(cached.journal, number, count)
        return [(entry.sequence, entry.data) for entry in entries]

    async def _sequence_of(self, cached: CachedThing, since: str) -> int:
        if since.isascii() and since.isdigit() and len(since) < 19:
            return int(since)
        at = _milliseconds(since)
        async with self._things.read_slots:
            if at is not None:
                return await self._last_sequence_until(cached, at)
            if _TRANSACTION_PATTERN.fullmatch(since):
                return await self._sequence_of_transaction(cached, since)
        raise NotFound(wire.NOT_FOUND)

    async def _sequence_of_transaction(self, cached: CachedThing, transaction: str) -> int:
        below = None
        # The newest first: a caller that resumes a stream asks for a recent one.
        while entries := await self._journals.last(cached.journal, _DWEETS_A_BATCH, below):
            for entry in entries:
                if entry.id == transaction:
                    return entry.sequence
            below = entries[0].sequence
        raise NotFound(wire.NOT_FOUND)

    async def _last_sequence_until(self, cached: CachedThing, at: int) -> int:
        """Return the number of the last dweet before the first one that is later than `at` (milliseconds)."""
        sequence = 0
        while entries := await self._journals.after(cached.journal, sequence, _DWEETS_A_BATCH):
            # No binary search: the times are not sorted if a clock was set back.
            if (later := next((entry for entry in entries if entry.at > at), None)) is not None:
                return later.sequence - 1
            sequence = entries[-1].sequence
        return cached.last_sequence


def _first_batch(entries: list[NumberedRecord]) -> list[NumberedRecord]:
    """Return the first entries that fit into a batch, at least one."""
    size = 0
    for number, (_, record) in enumerate(entries[:_DWEETS_A_BATCH]):
        size += len(record)
        if size > _BYTES_A_BATCH and number:
            return entries[:number]
    return entries[:_DWEETS_A_BATCH]


def _milliseconds(text: str) -> int | None:
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(moment.timestamp() * 1000)
