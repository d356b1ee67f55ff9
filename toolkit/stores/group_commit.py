"""Group commit: requests that arrive while a batch is being written form the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from toolkit.errors import StoreUnavailable

R = TypeVar("R")


class Request(Generic[R]):
    """One request of a batch: its result, and the future that its caller waits for."""

    __slots__ = ("future", "result")

    def __init__(self) -> None:
        self.future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.result: R

    def settle(self) -> None:
        """Answer the caller, unless nobody waits any more."""
        if not self.future.done():
            self.future.set_result(self.result)

    def fail(self, error: Exception) -> None:
        """Answer the caller with an error, unless there is an answer already."""
        if not self.future.done():
            self.future.set_exception(error)


def failed(error: Exception) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future


def run_now(job: Callable[[], R]) -> asyncio.Future[R]:
    """Return the result of a job that takes no time."""
    try:
        result = job()
    except Exception as error:  # raised to the caller, who awaits it
        return failed(error)
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


T = TypeVar("T", bound=Request[Any])


class GroupCommit(Generic[T]):
    """Write batches one after the other; what is submitted while one is being written is the next one.

    Every call is made on the event loop.

    Parameters
    ----------
    write
        Called with the requests of a batch, in the order of their submission, which it settles itself. Where it
        returns an awaitable, the next batch is written once that has ended; if it raises, every request of the batch
        fails with that error. Where it returns None, it has somebody call `write_next` when the batch is durable or
        has failed.
    """

    def __init__(self, write: Callable[[list[T]], Awaitable[None] | None]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._waiting: list[T] = []
        self.is_closed = self._is_writing = False
        self._is_idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def submit(self, item: T) -> None:
        """Add an item to the next batch, which starts on the next turn of the loop if none is being written."""
        if self.is_closed:
            item.fail(StoreUnavailable("the gateway is stopping"))
            return
        self._waiting.append(item)
        if not self._is_writing:
            self._is_writing = True
            self._is_idle.clear()
            self._loop.call_soon(self.write_next)

    def write_next(self) -> None:
        """Start to write what waits: call this as soon as a batch is over, before its callers are answered."""
        if not self._waiting:
            self._is_writing = False
            self._is_idle.set()
            return
        items, self._waiting = self._waiting, []
        outcome = self._write(items)
        if outcome is not None:
            self._task = self._loop.create_task(self._end(outcome, items))

    async def drain(self) -> None:
        """Wait until everything that was submitted is durable or has failed."""
        while self._is_writing:
            await self._is_idle.wait()

    async def close(self) -> None:
        """Refuse new items and wait for those that were submitted."""
        self.is_closed = True
        await self.drain()

    async def _end(self, outcome: Awaitable[None], items: list[T]) -> None:
        try:
            await outcome
        except Exception as error:  # the callers of this batch get it; the next batch is written all the same
            for item in items:
                item.fail(error)
        self.write_next()
