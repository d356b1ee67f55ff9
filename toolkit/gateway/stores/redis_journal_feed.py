"""What the followers of one journal in Redis hear, and how its lines are read."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any, Protocol

from toolkit.gateway.stores import Entry, Follower, StoreUnavailable
from toolkit.gateway.stores.redis_feed import Feed

# A message: the numbers of the line before it and of its last, how many it has; of each its time and two lengths.
_HEAD, _LINE = struct.Struct(">ddI"), struct.Struct(">dII")
_LINES_A_PIECE = 500
_SECONDS_TO_TRY_AGAIN = 1.0


class ReadableJournals(Protocol):
    """What a feed needs of the journals that it belongs to."""

    def last_number(self, name: str) -> asyncio.Future[int]:
        """Return the number of the last line."""
        ...

    def after(self, name: str, sequence: int, count: int | None = None) -> asyncio.Future[list[Entry]]:
        """Return lines above a number."""
        ...


class JournalFeed(Feed[Sequence[Entry]]):
    """The followers of one journal, and what they have heard.

    Parameters
    ----------
    journals, name
        What is followed.
    """

    def __init__(self, journals: ReadableJournals, name: str) -> None:
        super().__init__()
        self.name = name
        self.followers: list[Follower] = []
        self._journals = journals
        self._based: asyncio.Future[None]
        self._find_base()

    @property
    def is_based(self) -> bool:
        """Whether it is known where to begin."""
        return self.position is not None

    async def based(self) -> None:
        """Wait until it is known where to begin.

        Raises
        ------
        StoreUnavailable
            Redis is away.
        """
        await asyncio.shield(self._based)

    def on_message(self, data: bytes) -> None:
        """Take a message of the journal's channel."""
        before, last, entries = entries_of_message(data)
        if entries:
            self.offer(before, last, entries)
        elif self.position is None or last > self.position:
            self.read_on()

    def close(self) -> None:
        """Hand on nothing any more."""
        super().close()
        if not self._based.done():
            self._based.set_exception(StoreUnavailable("the gateway is stopping"))

    def _find_base(self) -> None:
        if not self._closed:
            # In the lane of the appends: whatever this gateway appends from now on comes after it.
            self._based = self._loop.create_future()
            self._based.add_done_callback(lambda based: based.cancelled() or based.exception())
            self._journals.last_number(self.name).add_done_callback(self._take_base)

    def _take_base(self, number: asyncio.Future[int]) -> None:
        error = number.exception()
        if self._closed or self._based.done():
            return
        if error is None:
            # Where an earlier try failed, this gateway may have appended meanwhile, and that is to be heard.
            self.begin(min([number.result(), *self._early]))
            self._based.set_result(None)
            self.read_on()
        else:
            self._based.set_exception(error)
            self._release(self._waiting)
            self._loop.call_later(_SECONDS_TO_TRY_AGAIN, self._find_base)

    async def _read(self, position: int) -> bool:
        lines = await self._journals.after(self.name, position, _LINES_A_PIECE)
        if lines and lines[-1].sequence > (self.position or 0):
            self._take(lines[-1].sequence, lines)
        return len(lines) == _LINES_A_PIECE

    def _hand_on(self, news: Sequence[Entry], position: int) -> None:
        if news[0].sequence <= position:
            news = [entry for entry in news if entry.sequence > position]
        for follower in tuple(self.followers):  # one may end itself or another
            try:
                follower(news)
            except Exception as error:  # one follower's mistake must not cost the others their lines
                self._loop.call_exception_handler({"message": "a journal's follower failed", "exception": error})


def entries_of(lines: Sequence[Any]) -> list[Entry]:
    """Read lines as Redis gives them: an id ``0-number``, and the fields at, id, data."""
    return [Entry(int(number[2:]), int(fields[1]), fields[3].decode("utf-8"), fields[5]) for number, fields in lines]


def entries_of_message(data: bytes) -> tuple[int, int, list[Entry]]:
    """Read a message of a journal's channel: the number before, the last, and the lines if they were not too much."""
    before, last, count = _HEAD.unpack_from(data)
    here, entries = _HEAD.size, []
    for number in range(int(last) - count + 1, int(last) + 1):
        at, id_size, data_size = _LINE.unpack_from(data, here)
        here += _LINE.size
        end = here + id_size
        entries.append(Entry(number, int(at), data[here:end].decode("utf-8"), data[end : end + data_size]))
        here = end + data_size
    return int(before), int(last), entries
