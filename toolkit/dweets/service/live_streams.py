"""Live streams: where one begins, what it missed, and that it ends when its thing is locked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from toolkit.dweets import wire
from toolkit.dweets.service.locks import Locks
from toolkit.dweets.service.things import HotThing, Things, journal_of, tell
from toolkit.dweets.stream import Encode
from toolkit.errors import NotFound
from toolkit.stores import Entry, Journals

# A listener that resumes gets what it missed in such pieces, each once the one before has left. Their bytes, three
# times as many in a frame at worst, stay below what a listener may leave unread.
_DWEETS_A_PIECE = 100
_BYTES_A_PIECE = 256 * 1024
_TRANSACTION = re.compile(r"[0-9a-f-]{36}")


class Reader(Protocol):
    """The reader of a live stream; see `toolkit.gateway.http_stream.StreamWriter`."""

    def write(self, *pieces: bytes) -> None:
        """Take one piece for each dweet; never blocks."""
        ...

    async def drain(self) -> None:
        """Wait until what was written has left."""
        ...

    def end(self) -> None:
        """End the stream."""
        ...


class LiveStreams:
    """All live streams of one gateway.

    Parameters
    ----------
    journals, things, locks
        What is kept, what is at hand, and who may read it.
    """

    def __init__(self, journals: Journals, things: Things, locks: Locks) -> None:
        self._journals = journals
        self._things = things
        self._locks = locks
        self._readers: dict[str, set[Reader]] = {}

    def end(self, thing: str) -> None:
        """End all streams of a thing: it was locked, and who has a key opens them again."""
        for reader in self._readers.pop(thing, ()):
            reader.end()

    async def position(self, thing: str, key: str | None, since: str | None) -> int:
        """Return the number of the dweet that a stream begins after.

        Parameters
        ----------
        since
            A sequence number, a transaction or a ``created`` time; None for only what is new.

        Raises
        ------
        KeyRejected, NotFound
            The thing is locked, or has no dweet with this transaction.
        """
        wire.checked_thing(thing)
        self._locks.check_reader(thing, key)
        ring = await self._things.load(thing)
        number = ring.last_sequence if since is None else await self._number_of(ring, since)
        if number > ring.last_sequence:  # read at another gateway, which heard of it earlier
            await self._things.catch_up(ring)
            ring = await self._things.load(thing)  # the same one, unless it was let go meanwhile
        # A number that does not exist yet is of an earlier life of the thing: the stream begins now.
        return min(number, ring.last_sequence)

    async def listen(
        self, thing: str, key: str | None, number: int, encode: Encode, reader: Reader
    ) -> Callable[[], None]:
        """Write what came after dweet `number`, then every new dweet: none missed, none twice, in order.

        The stream ends when the thing is locked; who has a key opens it again.

        Parameters
        ----------
        number
            From `position`.
        encode, reader
            The form of the stream, and who reads it.

        Returns
        -------
        callable
            Ends it.

        Raises
        ------
        KeyRejected
            The thing was locked since `position` was asked for.
        """
        self._locks.check_reader(thing, key)
        readers = self._readers.setdefault(thing, set())
        readers.add(reader)

        def forget() -> None:
            readers.discard(reader)
            if not readers and self._readers.get(thing) is readers:
                del self._readers[thing]

        try:
            unhear = await self._hear(thing, number, encode, reader)
        except BaseException:
            forget()
            raise

        def stop() -> None:
            unhear()
            forget()

        return stop

    async def _hear(self, thing: str, number: int, encode: Encode, reader: Reader) -> Callable[[], None]:
        while True:
            ring = await self._things.load(thing)
            number = await self._replay(ring, number, encode, reader)
            if self._things.holds(ring):
                break  # else it was let go meanwhile and hears nothing any more
        # No waiting from here on, or a dweet could come between the last one replayed and the first one heard.
        tell(ring.entries_after(number) or [], encode, [reader.write])
        return ring.listen(encode, reader.write)

    async def _replay(self, ring: HotThing, number: int, encode: Encode, reader: Reader) -> int:
        """Write what was missed, piece by piece, until the rest is at hand in the ring and fits into one piece."""
        while True:
            missed = ring.entries_after(number)
            is_at_hand = missed is not None
            if missed is None:
                missed = await self._journals.after(journal_of(ring.name), number, _DWEETS_A_PIECE)
            piece = _piece(missed)
            if not piece or (is_at_hand and len(piece) == len(missed)):
                return number
            tell(piece, encode, [reader.write])
            number = piece[-1].sequence
            await reader.drain()

    async def _number_of(self, ring: HotThing, since: str) -> int:
        if since.isascii() and since.isdigit() and len(since) < 19:
            return int(since)
        journal = journal_of(ring.name)
        at = _milliseconds(since)
        if at is not None:
            later = await self._journals.between(journal, at + 1, 1 << 62)
            return later[0].sequence - 1 if later else ring.last_sequence
        entry = await self._journals.find(journal, since) if _TRANSACTION.fullmatch(since) else None
        if entry is None:
            raise NotFound(wire.NOT_FOUND)
        return entry.sequence


def _piece(entries: list[Entry]) -> list[Entry]:
    """Return the first entries that go out together: at least one, even where that is too large."""
    size = 0
    for number, entry in enumerate(entries[:_DWEETS_A_PIECE]):
        size += len(entry.data)
        if size > _BYTES_A_PIECE and number:
            return entries[:number]
    return entries[:_DWEETS_A_PIECE]


def _milliseconds(text: str) -> int | None:
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(moment.timestamp() * 1000)
