"""Group commit: requests that arrive while a batch is being written form the next batch."""

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
        if not self.future.done():  # its caller may have given up
            self.future.set_result(self.result)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def done_future(result: R) -> asyncio.Future[R]:
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


def failed_future(error: Exception) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future


T = TypeVar("T", bound=Request[Any])


class GroupCommit(Generic[T]):
    """Write batches one after the other, on the event loop.

    `write` gets the requests of a batch in the order of their submission, and settles them; if it raises, they fail.
    """

    def __init__(self, write: Callable[[list[T]], Awaitable[None]]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._waiting: list[T] = []
        self._task: asyncio.Task[None] | None = None
        self.is_closed = False

    def add_to_next_batch(self, item: T) -> T:
        """Add an item to the next batch, which starts on the next turn of the loop if none is being written."""
        if self.is_closed:
            item.fail(StoreUnavailable("the gateway is stopping"))
            return item
        self._waiting.append(item)
        if self._task is None:
            self._task = self._loop.create_task(self._write_all())
        return item

    async def close(self) -> None:
        """Refuse new items and wait for those that were submitted."""
        self.is_closed = True
        if self._task is not None:
            await asyncio.wait([self._task])  # a caller that gives up does not cancel it

    async def _write_all(self) -> None:
        while self._waiting:
            items, self._waiting = self._waiting, []
            try:
                await self._write(items)
            except Exception as error:  # the callers of this batch get the error; the next batch is still written
                for item in items:
                    item.fail(error)
        self._task = None
