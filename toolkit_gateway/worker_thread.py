"""Threads that run jobs for an event loop.

When a process ends, Python first waits for the threads of executors (also of `asyncio.to_thread`), then gateways stop.
They still write then, and a mail server may hold a thread for ever, so gateways use the threads of this module.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerThread:
    """A thread that runs jobs one after the other."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def run(self, job: Callable[[], T]) -> asyncio.Future[T]:
        future: Future[T] = Future()
        self._jobs.put((job, future))
        return asyncio.wrap_future(future)

    def end(self) -> None:
        """Wait until the thread has finished the queued jobs, and end it."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        for job, future in iter(self._jobs.get, None):
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:  # raised to the caller, who awaits it
                    future.set_exception(error)
            del job, future  # or a large result would stay in memory until the next job
