"""A thread that does blocking work for the event loop, one job after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Done = Callable[[Any, Exception | None], None]


class WorkerThread:
    """One thread for the jobs of the loop. A read costs half the CPU time of one in a ThreadPoolExecutor."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Run a job, and call ``done(result, error)`` on the loop, where one of the two is None."""
        self._jobs.put((job, done))

    def run(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Return the job's result, or raise its exception, once it is done."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((job, partial(_settle, future)))
        return future

    def close(self) -> None:
        """Finish all jobs and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            job, done = given
            try:
                result, error = job(), None
            except Exception as raised:  # raised to the caller on the loop
                result, error = None, raised
            self._loop.call_soon_threadsafe(done, result, error)
            del given, job, done, result, error  # a job that waits for the next one must not keep the database open


def _settle(future: asyncio.Future[T], result: T, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
