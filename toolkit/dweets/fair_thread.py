"""A thread that many users share: the next turn goes to the user that has used it least."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, PriorityQueue
from typing import Any, TypeVar

from cachetools import TTLCache

T = TypeVar("T")

_USERS_REMEMBERED = 10_000
_SECONDS_REMEMBERED = 60.0
# Users that differ by less than this are equal: the one that waits longest goes first.
_SECONDS_A_STEP = 0.25

_Turn = tuple[int, int, str, Callable[[], Any], "Future[Any]"]


class FairThread:
    """One thread. First in, first out would let many slow users delay all others at each turn."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._waiting: PriorityQueue[_Turn] = PriorityQueue()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._used: TTLCache[str, float] = TTLCache(_USERS_REMEMBERED, _SECONDS_REMEMBERED)

    async def run(self, user: str, work: Callable[[], T]) -> T:
        """Return the result of `work`, which runs in the thread and counts as one turn of `user`."""
        result: Future[T] = Future()
        self._waiting.put((int(self._used_by(user) / _SECONDS_A_STEP), next(self._numbers), user, work, result))
        self._thread.submit(self._take_turn)
        return await asyncio.wrap_future(result)

    def close(self) -> None:
        """Cancel the turns that wait, and wait for the one that runs."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        while True:
            try:
                *_, result = self._waiting.get_nowait()
            except Empty:
                return
            result.cancel()

    def _take_turn(self) -> None:
        *_, user, work, result = self._waiting.get_nowait()
        if not result.set_running_or_notify_cancel():
            return
        began = time.monotonic()
        try:
            value = work()
        except BaseException as error:
            self._count(user, time.monotonic() - began)
            result.set_exception(error)
        else:
            self._count(user, time.monotonic() - began)  # first: the user's next turn must know it
            result.set_result(value)

    def _used_by(self, user: str) -> float:
        with self._lock:
            return self._used.get(user, 0.0)

    def _count(self, user: str, seconds: float) -> None:
        with self._lock:
            self._used[user] = self._used.get(user, 0.0) + seconds
