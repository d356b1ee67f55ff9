"""The followers of one journal: they get every entry in order, none twice, and none is missed.

Entries come as messages and as the responses to this gateway's own appends. Both say which number came before them;
a gap is filled by reading the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from toolkit.stores import Entry, StoreUnavailable
from toolkit.stores.redis.entries import entries_of_message
from toolkit.stores.subscribers import Subscribers

if TYPE_CHECKING:
    from toolkit.stores.redis.journals import RedisJournals

_SECONDS_TO_TRY_AGAIN = 1.0
_ENTRIES_A_READ = 500


class Refresh:
    """Runs `read` in one task as often as it is requested; while Redis is away it tries again every second."""

    def __init__(self, read: Callable[[], Awaitable[None]]) -> None:
        self._read = read
        self._loop = asyncio.get_running_loop()
        self._is_requested = False
        self._task: asyncio.Task[None] | None = None
        self.is_closed = False

    def request(self) -> None:
        """Read once more, after what is being read now."""
        self._is_requested = True
        if self._task is None and not self.is_closed:
            self._task = self._loop.create_task(self._run())

    def close(self) -> None:
        """Read nothing any more."""
        self.is_closed = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._is_requested:
                self._is_requested = False
                await self._read()
        except StoreUnavailable:
            self._loop.call_later(_SECONDS_TO_TRY_AGAIN, self.request)
        finally:
            self._task = None


class JournalSubscription:
    """The followers of one journal.

    ``position`` is the number delivered last, None until it is known where to begin. ``is_live`` says whether the
    followers hear within moments of what is committed.
    """

    def __init__(self, journals: RedisJournals, name: str) -> None:
        self.name = name
        self.followers: Subscribers[[Sequence[Entry]]] = Subscribers()
        self.position: int | None = None
        self.is_live = self._is_subscribed = False
        self._journals = journals
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        # Asked for at once, so that whatever this gateway appends from now on comes after it.
        self._last_number = journals.last_number(name)
        self._refresh = Refresh(self._read)
        self._refresh.request()

    async def begin(self) -> None:
        """Find out where to begin, unless that is known; raise StoreUnavailable while Redis is away."""
        if self._last_number.done() and self._last_number.exception() is not None:
            self._last_number = self._journals.last_number(self.name)
        number = await asyncio.shield(self._last_number)
        if self.position is None:  # else own entries have come first
            self.position = number

    def on_subscribed(self) -> None:
        """Read what may have been missed: Redis sends messages from now on."""
        self._is_subscribed = True
        self._refresh.request()

    def on_lost(self) -> None:
        """Take note that messages may be lost from now on."""
        self._is_subscribed = self.is_live = False

    def on_message(self, data: bytes) -> None:
        """Take a message of the channel."""
        before, last, entries = entries_of_message(data)
        if entries and self.position is not None:
            self.offer(before, last, entries)
        elif self.position is None or last > self.position:
            self._refresh.request()

    def offer(self, before: int, last: int, entries: Sequence[Entry]) -> None:
        """Take the entries up to number `last`; `before` is the number before the first of them."""
        if self.position is not None and before > self.position:
            self._refresh.request()
        elif self.position is None or last > self.position:
            self._deliver(entries)

    def when_delivered(self, number: int, call: Callable[[], None]) -> None:
        """Call once the entry with this number is delivered, or once it is clear that it cannot be read."""
        if self._refresh.is_closed or (self.position is not None and self.position >= number):
            call()
        else:
            self._waiting.append((number, call))
            self._refresh.request()

    def close(self) -> None:
        """Deliver nothing any more."""
        self._refresh.close()
        self._release(self._waiting)

    def _deliver(self, entries: Sequence[Entry]) -> None:
        position, self.position = self.position or 0, entries[-1].sequence
        if not self._refresh.is_closed:
            self.followers.tell([entry for entry in entries if entry.sequence > position])
        self._release([one for one in self._waiting if one[0] <= entries[-1].sequence])

    def _release(self, waited: list[tuple[int, Callable[[], None]]]) -> None:
        self._waiting = [one for one in self._waiting if one not in waited]
        for _, call in waited:
            call()

    async def _read(self) -> None:
        was_subscribed, committed, is_more = self._is_subscribed, list(self._waiting), True
        try:
            await self.begin()
            while is_more:
                position = self.position or 0
                entries = await self._journals.read_after(self.name, position, _ENTRIES_A_READ)
                is_more = len(entries) == _ENTRIES_A_READ
                if entries and entries[-1].sequence > (self.position or 0):
                    self._deliver(entries)
        except StoreUnavailable:
            committed = self._waiting  # it stays committed: its callers are answered, and followers hear of it later
            raise
        finally:
            # What was committed before this read and is not delivered now is gone: trimmed, or lost by a master.
            self._release([one for one in committed if one in self._waiting])
        self.is_live = self.is_live or (was_subscribed and self._is_subscribed)
