"""The followers of one journal: they get every entry in order, none twice, and none is missed.

Entries come as messages and as the responses to this gateway's own appends. Both say which number came before them;
a gap is filled by reading the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from toolkit.gateway.stores import Entry, StoreUnavailable
from toolkit.gateway.stores.redis.entries import entries_of_message
from toolkit.gateway.stores.subscribers import Subscribers

if TYPE_CHECKING:
    from toolkit.gateway.stores.redis.journals import RedisJournals

SECONDS_TO_TRY_AGAIN = 1.0
_ENTRIES_A_READ = 500


class JournalSubscription:
    """The followers of one journal.

    ``position`` is the number delivered last, None until it is known where to begin. ``is_live`` says whether the
    followers hear within moments of what is committed.
    """

    def __init__(self, journals: RedisJournals, name: str) -> None:
        self.name = name
        self.followers: Subscribers[[Sequence[Entry]]] = Subscribers()
        self.position: int | None = None
        self.is_live = False
        self._journals = journals
        self._loop = asyncio.get_running_loop()
        self._is_subscribed = self._must_read = self._is_closed = False
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._beginning = asyncio.Lock()
        # Asked for at once, so that whatever this gateway appends from now on comes after it.
        self._last_number: asyncio.Future[int] | None = journals.last_number(name)
        self._reading: asyncio.Task[None] | None = None
        self.catch_up()

    async def begin(self) -> None:
        """Find out where to begin, unless that is known.

        Raises
        ------
        StoreUnavailable
            Redis is away.
        """
        async with self._beginning:
            if self.position is None:
                number = self._last_number = self._last_number or self._journals.last_number(self.name)
                try:
                    found = await asyncio.shield(number)
                except StoreUnavailable:
                    self._last_number = None
                    raise
                self.position = found if self.position is None else self.position  # own entries may have come first

    def on_subscribed(self) -> None:
        """Read what may have been missed: Redis sends messages from now on."""
        self._is_subscribed = True
        self.catch_up()

    def on_lost(self) -> None:
        """Take note that messages may be lost from now on."""
        self._is_subscribed = self.is_live = False

    def on_message(self, data: bytes) -> None:
        """Take a message of the channel."""
        before, last, entries = entries_of_message(data)
        if entries and self.position is not None:
            self.offer(before, last, entries)
        elif self.position is None or last > self.position:
            self.catch_up()

    def offer(self, before: int, last: int, entries: Sequence[Entry]) -> None:
        """Take the entries up to number `last`; `before` is the number before the first of them."""
        if self.position is not None and before > self.position:
            self.catch_up()
        elif self.position is None or last > self.position:
            self._deliver(last, entries)

    def when_delivered(self, number: int, call: Callable[[], None]) -> None:
        """Call once the entry with this number is delivered, or once it is clear that it cannot be read."""
        if self._is_closed or (self.position is not None and self.position >= number):
            call()
        else:
            self._waiting.append((number, call))
            self.catch_up()

    def catch_up(self) -> None:
        """Read what may have been missed."""
        self._must_read = True
        if self._reading is None and not self._is_closed:
            self._reading = self._loop.create_task(self._read_all())

    def close(self) -> None:
        """Deliver nothing any more."""
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
        self._release(self._waiting)

    def _deliver(self, last: int, entries: Sequence[Entry]) -> None:
        position, self.position = self.position or 0, last
        if entries[0].sequence <= position:
            entries = [entry for entry in entries if entry.sequence > position]
        if not self._is_closed:
            self.followers.tell(entries)
        self._release([one for one in self._waiting if one[0] <= last])

    def _release(self, waited: list[tuple[int, Callable[[], None]]]) -> None:
        self._waiting = [one for one in self._waiting if one not in waited]
        for _, call in waited:
            call()

    async def _read_all(self) -> None:
        try:
            await self.begin()
            while self._must_read:
                self._must_read = False
                was_subscribed, committed = self._is_subscribed, list(self._waiting)
                await self._read()
                # What was committed before this read and is still not delivered is gone: trimmed, or lost by a master.
                self._release([one for one in committed if one in self._waiting])
                self.is_live = self.is_live or (was_subscribed and self._is_subscribed)
        except StoreUnavailable:
            # What was committed stays committed: its callers are answered, and followers hear of it later.
            self._release(self._waiting)
            if not self._is_closed:
                self._loop.call_later(SECONDS_TO_TRY_AGAIN, self.catch_up)
        finally:
            self._reading = None

    async def _read(self) -> None:
        position, is_more = self.position or 0, True
        while is_more:
            entries = await self._journals.read_after(self.name, position, _ENTRIES_A_READ)
            if entries and entries[-1].sequence > (self.position or 0):
                self._deliver(entries[-1].sequence, entries)
            is_more = len(entries) == _ENTRIES_A_READ
            position = entries[-1].sequence if entries else position
