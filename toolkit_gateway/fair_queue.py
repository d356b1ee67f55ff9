"""A queue for a limited number of slots, which the keys of the waiting requests share fairly."""

import asyncio
from collections import deque
from collections.abc import Hashable
from itertools import chain


class QueueFull(Exception):
    pass


class FairQueue:
    """A queue for a limited number of slots, in which keys take turns.

    Requests of one key are served first in, first out. If a bounded queue is full, a key with fewer requests displaces
    the newest request of the key with most requests.
    """

    def __init__(self, slots: int, max_waiting: int | None = None) -> None:
        self._free_slots = slots
        self._max_waiting = max_waiting
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # in the order in which keys are served

    async def acquire(self, key: Hashable) -> None:
        """Wait for a slot; raise QueueFull if there is no room, or later if another key displaces this request."""
        if self._free_slots:
            self._free_slots -= 1
            return
        self._make_room(key)
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
                self._waiting[key] = queue  # now behind the other keys
            if not turn.done():
                turn.set_result(None)
                return
        self._free_slots += 1

    def close(self) -> None:
        """Cancel all tasks that wait for a slot."""
        for turn in chain.from_iterable(self._waiting.values()):
            turn.cancel()

    def _make_room(self, key: Hashable) -> None:
        if self._max_waiting is None or sum(map(len, self._waiting.values())) < self._max_waiting:
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
