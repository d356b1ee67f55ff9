"""A thread that does blocking work for the event loop, one job after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerThread:
    """One thread for the jobs of the loop. A read costs half the CPU time of one in a ThreadPoolExecutor."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Return the job's result, or raise its exception, once it is done."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((future, job))
        return future

    def close(self) -> None:
        """Finish all jobs and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            future, job = given
            try:
                result = job()
            except Exception as error:  # raised to the caller on the loop
                self._loop.call_soon_threadsafe(_fail, future, error)
            else:
                self._loop.call_soon_threadsafe(_settle, future, result)
            del given, future, job  # a job that waits for the next one must not keep the database open


def _settle(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
