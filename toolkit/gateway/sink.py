"""Write a stream to one connection without ever waiting for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Protocol

# What one listener may leave unread before it is cut off; it resumes with `since`.
QUEUE_BYTES = 4 * 1024 * 1024
# How long a stream that is ended waits for its reader to take what is queued.
END_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0


class Connection(Protocol):
    """What a sink needs of a connection: uvicorn's protocol has it."""

    transport: asyncio.Transport
    flow: Any


class ConnectionSink:
    """See `toolkit.gateway.exchange.Sink`.

    Chunks go straight to the connection, without an ASGI message or a task: a thousand listeners cost a thousand
    writes of the same bytes and nothing else, however many dweets those hold. Once the connection is full, they queue.

    Parameters
    ----------
    connection
        Its head has been sent, and chunked encoding announced.
    heartbeat
        Sent after 15 seconds of silence; empty for none.
    """

    def __init__(self, connection: Connection, heartbeat: bytes = b"") -> None:
        self._write_out = connection.transport.write
        self._abort = connection.transport.abort
        self._is_closing = connection.transport.is_closing
        self._flow = connection.flow
        self._heartbeat = heartbeat
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._flushing: asyncio.Task[None] | None = None
        self._over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._wrote = False
        self._ended = False

    def write(self, *pieces: bytes) -> None:
        """Send each piece as one chunk, or queue them; nothing more once the stream is ended."""
        self._wrote = True
        if self._ended:
            return
        data = _chunks(pieces)
        if self._flushing is None and not self._flow.write_paused:
            if not self._is_closing():
                self._write_out(data)
            return
        self._queue.append(data)
        self._queued += len(data)
        if self._queued > QUEUE_BYTES:
            self._cut_off()
        elif self._flushing is None:
            self._flushing = asyncio.ensure_future(self._flush())

    async def drain(self) -> None:
        """Wait until all that was written has left."""
        if self._flushing is not None:
            waits: list[asyncio.Future[Any]] = [self._flushing, self._over]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)

    def end(self) -> None:
        """End the stream properly, as when the gateway stops: what is queued leaves first, if soon enough."""
        if self._ended:
            return
        self._ended = True
        if self._flushing is None:
            self._settle(True)
        else:
            self._flushing.add_done_callback(lambda _: self._settle(True))
            asyncio.get_running_loop().call_later(END_SECONDS, self._cut_off)

    def close(self) -> None:
        """Let go of what is queued."""
        self._ended = True
        self._settle(False)
        if self._flushing is not None:
            self._flushing.cancel()

    async def until_over(self, receive: Callable[[], Awaitable[dict[str, Any]]]) -> bool:
        """Wait until the reader leaves, is cut off, or the gateway ends the stream; True for the last."""
        gone = asyncio.ensure_future(_disconnect(receive))
        waits: list[asyncio.Future[Any]] = [gone, self._over]
        try:
            while not self._over.done() and not gone.done():
                await asyncio.wait(waits, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                self._beat()
        finally:
            gone.cancel()
        return self._over.done() and self._over.result()

    def _settle(self, properly: bool) -> None:
        if not self._over.done():
            self._over.set_result(properly)

    def _cut_off(self) -> None:
        # Closed politely, the socket would stay until the reader takes what is on its way, which may be never.
        self._ended = True
        if not self._over.done():
            self._over.set_result(False)
            self._abort()

    def _beat(self) -> None:
        if self._heartbeat and not self._wrote:
            self.write(self._heartbeat)
        self._wrote = False

    async def _flush(self) -> None:
        while self._queue:
            await self._flow.drain()
            data = self._queue.popleft()
            self._queued -= len(data)
            self._write_out(data)
        self._flushing = None


@lru_cache(8)
def _chunks(pieces: tuple[bytes, ...]) -> bytes:
    """Return the pieces as HTTP chunks; made once for all listeners of the same dweets."""
    return b"".join([b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces])


async def _disconnect(receive: Callable[[], Awaitable[dict[str, Any]]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
