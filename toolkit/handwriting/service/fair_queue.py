"""A queue for slots, with round robin between keys."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class QueueFull(Exception):
    pass


class FairQueue:
    """A bounded queue for a number of slots: round robin between keys, first in, first out within a key.

    If the queue is full, a key with fewer requests displaces the newest request of the key with most requests.
    """

    def __init__(self, slots: int, max_waiting: int) -> None:
        self._free = slots
        self._max_waiting = max_waiting
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # in the order in which keys are served

    async def acquire(self, key: Hashable) -> None:
        """Wait for a slot, or raise QueueFull; if the waiting task is cancelled, its request leaves the queue."""
        if self._free:
            self._free -= 1
            return
        self._displace_waiting(key)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(key, turn)
            elif turn.exception() is None:
                self.release()  # the task was cancelled after it got a slot
            raise

    def release(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            queue = self._waiting.pop(key)
            turn = queue.popleft()
            if queue:
                self._waiting[key] = queue  # re-inserted last, behind the other keys
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _displace_waiting(self, key: Hashable) -> None:
        if sum(map(len, self._waiting.values())) < self._max_waiting:
            return
        longest = max(self._waiting.values(), key=len, default=deque())
        if len(longest) <= len(self._waiting.get(key, ())) + 1:
            raise QueueFull
        turn = longest.pop()
        if not turn.done():
            turn.set_exception(QueueFull())

    def _remove(self, key: Hashable, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(key)
        if queue and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[key]
