"""What the followers of one journal in Redis hear, and how its lines are read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from toolkit.gateway.stores import Entry, Follower, StoreUnavailable
from toolkit.gateway.stores.redis.feed import Feed
from toolkit.gateway.stores.redis.lines import entries_of_message

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
