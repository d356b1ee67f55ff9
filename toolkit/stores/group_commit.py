"""Group commit: requests that arrive while a batch is being written form the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from toolkit.stores import StoreUnavailable

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
    """Return a future that has failed."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future


T = TypeVar("T", bound=Request[Any])


class GroupCommit(Generic[T]):
    """Write batches one after the other; whatever is submitted in the meantime is the next one.

    Every call is made on the event loop.

    Parameters
    ----------
    write
        Called with the requests of a batch, in the order of their submission. Returns an awaitable that ends when they
        are durable; the next batch is written then. If it raises, every request of the batch fails with that error.
        `write` settles the others itself, at best with ``loop.call_soon`` just before it returns: then the next batch
        is on its way before the answers are sent.
    """

    def __init__(self, write: Callable[[list[T]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: list[T] = []
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, item: T) -> None:
        """Add an item to the next batch, which starts on the next turn of the loop if none is being written."""
        if self._is_closed:
            item.fail(StoreUnavailable("the gateway is stopping"))
            return
        self._waiting.append(item)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def drain(self) -> None:
        """Wait until everything that was submitted is durable or has failed."""
        while self._writing is not None:
            await asyncio.shield(self._writing)

    async def close(self) -> None:
        """Refuse new items and wait for those that were submitted."""
        self._is_closed = True
        await self.drain()

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                items, self._waiting = self._waiting, []
                try:
                    await self._write(items)
                except Exception as error:  # the callers of this batch get it; the next batch is written all the same
                    for item in items:
                        item.fail(error)
        finally:
            self._writing = None
