"""Live streams: where one begins, what it missed, and that it ends when its thing is locked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from toolkit.dweets import wire
from toolkit.dweets.service.locks import Locks
from toolkit.dweets.service.things import CachedThing, Numbered, Things, notify
from toolkit.dweets.stream import Encode
from toolkit.errors import NotFound
from toolkit.stores import Journals

# A listener that resumes gets what it missed in such pieces, each once the one before has left. Their bytes, three
# times as many in a frame at worst, stay below what a listener may leave unread.
_DWEETS_A_PIECE = 100
_BYTES_A_PIECE = 256 * 1024
_TRANSACTION = re.compile(r"[0-9a-f-]{36}")


class Reader(Protocol):
    """The reader of a live stream; see `toolkit.gateway.http_stream.StreamWriter`."""

    def write(self, *pieces: bytes) -> None: ...

    async def drain(self) -> None: ...

    def end(self) -> None: ...


class LiveStreams:
    def __init__(self, journals: Journals, things: Things, locks: Locks) -> None:
        self._journals = journals
        self._things = things
        self._locks = locks
        self._readers: dict[str, set[Reader]] = {}

    def end(self, thing: str) -> None:
        for reader in self._readers.pop(thing, ()):
            reader.end()

    async def position(self, thing: str, key: str | None, since: str | None) -> int:
        """Return the number of the dweet that a stream begins after; NotFound where `since` names no dweet.

        `since` is a sequence number, a transaction or a ``created`` time; None for only what is new.
        """
        wire.checked_thing(thing)
        self._locks.check_reader(thing, key)
        cached = await self._things.load(thing)
        number = cached.last_sequence if since is None else await self._number_of(cached, since)
        if number > cached.last_sequence:  # read at another gateway, which got it earlier
            await self._things.catch_up(cached)
            cached = await self._things.load(thing)  # the same one, unless it was dropped
        # A number that does not exist yet is of an earlier epoch: the stream begins now.
        return min(number, cached.last_sequence)

    async def listen(
        self, thing: str, key: str | None, number: int, encode: Encode, reader: Reader
    ) -> Callable[[], None]:
        """Write what came after dweet `number`, then every new dweet: none missed, none twice, in order.

        Returns the call that ends it. It also ends when the thing is locked; a reader with a key opens it again.
        """
        self._locks.check_reader(thing, key)
        readers = self._readers.setdefault(thing, set())
        readers.add(reader)
        try:
            unlisten = await self._listen(thing, number, encode, reader)
        except BaseException:
            self._forget(thing, readers, reader)
            raise

        def stop() -> None:
            unlisten()
            self._forget(thing, readers, reader)

        return stop

    def _forget(self, thing: str, readers: set[Reader], reader: Reader) -> None:
        readers.discard(reader)
        if not readers and self._readers.get(thing) is readers:
            del self._readers[thing]

    async def _listen(self, thing: str, number: int, encode: Encode, reader: Reader) -> Callable[[], None]:
        while True:
            cached = await self._things.load(thing)
            number = await self._replay(cached, number, encode, reader)
            if self._things.holds(cached):
                break  # else it was dropped and gets no new dweets
        # No await from here on, or a dweet could come between the last one replayed and the first new one.
        notify(cached.entries_after(number) or [], encode, [reader.write])
        return cached.listen(encode, reader.write)

    async def _replay(self, cached: CachedThing, number: int, encode: Encode, reader: Reader) -> int:
        """Write what was missed, piece by piece, until the rest is cached and fits into one piece."""
        count = 1
        while True:
            last, missed = cached.last_sequence, cached.entries_after(number)
            is_cached = missed is not None
            if missed is None:
                missed = await self._missed(cached, number, count)
            piece = _piece(missed)
            if (not piece and last == cached.last_sequence) or (is_cached and len(piece) == len(missed)):
                return number
            # About as many as fit into a piece are read next, and none is held while the reader takes these.
            count = max(1, min(2 * len(piece), _DWEETS_A_PIECE) if len(piece) == len(missed) else len(piece))
            if piece:
                notify(piece, encode, [reader.write])
                number, _ = piece[-1]
            del missed, piece
            await reader.drain()

    async def _missed(self, cached: CachedThing, number: int, count: int) -> list[Numbered]:
        async with self._things.turns:
            entries = await self._journals.after(cached.journal, number, count)
        return [(entry.sequence, entry.data) for entry in entries]

    async def _number_of(self, cached: CachedThing, since: str) -> int:
        if since.isascii() and since.isdigit() and len(since) < 19:
            return int(since)
        at, entry = _milliseconds(since), None
        async with self._things.turns:
            if at is not None:
                return await self._last_until(cached, at)
            if _TRANSACTION.fullmatch(since):
                entry = await self._journals.find(cached.journal, since)
        if entry is None:
            raise NotFound(wire.NOT_FOUND)
        return entry.sequence

    async def _last_until(self, cached: CachedThing, at: int) -> int:
        """Return the number of the dweet before the first one that is later than `at` (milliseconds)."""
        sequence = 0
        while entries := await self._journals.after(cached.journal, sequence, _DWEETS_A_PIECE):
            # All are looked at, and not the half of them: a clock may have been set back.
            if (later := next((entry for entry in entries if entry.at > at), None)) is not None:
                return later.sequence - 1
            sequence = entries[-1].sequence
        return cached.last_sequence


def _piece(entries: list[Numbered]) -> list[Numbered]:
    """Return the first entries that go out together: at least one, even where that is too large."""
    size = 0
    for number, (_, record) in enumerate(entries[:_DWEETS_A_PIECE]):
        size += len(record)
        if size > _BYTES_A_PIECE and number:
            return entries[:number]
    return entries[:_DWEETS_A_PIECE]


def _milliseconds(text: str) -> int | None:
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(moment.timestamp() * 1000)
