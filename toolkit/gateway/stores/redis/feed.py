"""Numbered news, handed on in order, none missed and none twice, whatever way it comes.

News comes as messages of a channel, as the answers to this gateway's own calls, and by reading what was missed.
Each piece has a higher number than the one before, and says which that is. What comes too early waits until the
gap before it is filled: by the message that is on its way, or after a moment by reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from toolkit.gateway.stores import StoreUnavailable

T = TypeVar("T")

# How long a gap may be open before it is read: messages are nearly always faster.
_SECONDS_TO_READ = 0.2
_SECONDS_TO_TRY_AGAIN = 1.0
_PIECES_WAITING = 1_000


class Feed(Generic[T]):
    """One sequence of numbered news.

    ``position`` is the number handed on last, None until it is known where to begin. ``is_live`` says whether what
    is committed anywhere is handed on within moments.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.position: int | None = None
        self.is_live = False
        self._is_open = False
        self._early: dict[int, tuple[int, T]] = {}
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._reading: asyncio.Task[None] | None = None
        self._read_again = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # -- what a kind of news adds -------------------------------------------------------------------------

    def _hand_on(self, news: T, position: int) -> None:
        """Tell the news of those pieces that are numbered above `position`."""
        raise NotImplementedError

    async def _read(self, position: int) -> bool:
        """Read what came after `position`, hand it on and move the position; True where there is more to read."""
        raise NotImplementedError

    # -- news comes ---------------------------------------------------------------------------------------

    def on_open(self) -> None:
        """Read what may have been missed: the channel is open, for the first time or again."""
        self._is_open = True
        self.read_on()

    def on_shut(self) -> None:
        """Take note that messages may be lost from now on."""
        self._is_open = self.is_live = False

    def begin(self, position: int) -> None:
        """Say where to begin, and hand on what came since."""
        self.position = position
        self._drain()
        if self._read_again:
            self.read_on()

    def offer(self, before: int, last: int, news: T) -> None:
        """Take the pieces up to number `last`; `before` is that of the piece before the first of them."""
        if self.position is None or before > self.position:
            if len(self._early) < _PIECES_WAITING:
                self._early.setdefault(before, (last, news))
            self._expect()
        elif last > self.position:
            self._take(last, news)
            if self._early:
                self._drain()

    def when_told(self, number: int, call: Callable[[], None]) -> None:
        """Call once the piece with this number was handed on, or once it is clear that it cannot be read now."""
        if self.position is not None and self.position >= number:
            call()
        else:
            self._waiting.append((number, call))
            self._expect()

    def read_on(self) -> None:
        """Read what may have been missed."""
        self._read_again = True
        if self._reading is None and not self._closed and self.position is not None:
            self._reading = asyncio.ensure_future(self._read_all())

    def close(self) -> None:
        """Hand on nothing any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()
        self._release(self._waiting)

    # -- in order -----------------------------------------------------------------------------------------

    def _take(self, last: int, news: T) -> None:
        position = self.position or 0
        self.position = last
        if not self._closed:
            self._hand_on(news, position)
        self._settle()

    def _drain(self) -> None:
        while self._early:
            before = min(self._early)
            if before > (self.position or 0):
                self._expect()
                break
            last, news = self._early.pop(before)
            if last > (self.position or 0):
                self._take(last, news)
        self._settle()

    def _settle(self) -> None:
        if not self._waiting:
            return
        position = self.position or 0
        told = [call for number, call in self._waiting if number <= position]
        self._waiting = [(number, call) for number, call in self._waiting if number > position]
        for call in told:
            call()

    def _release(self, waited: list[tuple[int, Callable[[], None]]]) -> None:
        """Let those go on who waited for what was read: it is told, or the master that had it is gone."""
        still = [one for one in self._waiting if one not in waited]
        gone, self._waiting = [one for one in self._waiting if one in waited], still
        for _, call in gone:
            call()

    def _expect(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(_SECONDS_TO_READ, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._early or self._waiting:
            self.read_on()

    async def _read_all(self) -> None:
        try:
            while self._read_again and self.position is not None:
                self._read_again = False
                opened = self._is_open
                committed = list(self._waiting)
                while await self._read(self.position):
                    self._drain()
                self._drain()
                self._release(committed)
                self.is_live = self.is_live or (opened and self._is_open)
            if self._early or self._waiting:
                self._expect()
        except StoreUnavailable:
            # What was committed is not unsaid by this: whoever waits for its echo goes on, followers hear it later.
            self._release(self._waiting)
            if not self._closed:
                self._loop.call_later(_SECONDS_TO_TRY_AGAIN, self.read_on)
        finally:
            self._reading = None
