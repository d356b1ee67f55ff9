"""Write a stream to one connection; a reader who leaves too much unread is disconnected."""

import asyncio
from collections.abc import Callable
from functools import lru_cache

from toolkit.errors import ServiceError, StoreUnavailable
from toolkit_gateway.http.connections import Connections
from toolkit_gateway.http.exchange import Stream
from toolkit_gateway.http.limits import LIMITS, NEVER


class HttpStream:
    """Chunks go straight to the transport, whose buffer is the queue: a listener costs one write of shared bytes."""

    def __init__(self, transport: asyncio.Transport, connections: Connections, stream: Stream, chunked: bool) -> None:
        self._transport = transport
        self._connections = connections
        self._stream = stream
        self._chunked = chunked
        self._silent_since = connections.now
        self._deadline = NEVER  # by when the reader must have read the end, or the next piece
        self._is_over = False
        self._writable: asyncio.Future[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] = lambda: None

    def start(self) -> None:
        if self._connections.is_stopping and not self._stream.is_finite:
            self.end()
        else:
            self._starting = asyncio.ensure_future(self._start())

    async def _start(self) -> None:
        is_broken = True
        try:
            self._stop = await self._stream.start(self)
            is_broken = False
        except StoreUnavailable as error:
            self._connections.log_unavailable(error)
        except ServiceError:  # the thing was locked just now; the reader gets the refusal when it reconnects
            self.end()
            is_broken = False
        finally:
            if is_broken:  # also by a bug of the gateway: the reader must not wait. A listener reconnects and resumes.
                self.abort()

    def write(self, *pieces: bytes) -> None:
        transport = self._transport
        if self._is_over or transport.is_closing():
            return
        transport.write(_chunks(pieces) if self._chunked else b"".join(pieces))
        self._silent_since = self._connections.now
        # Only if the transport has said that its buffer is full: asking for its size costs as much as writing.
        if self._writable is not None and transport.get_write_buffer_size() > LIMITS.stream_bytes:
            self.abort()

    async def drain(self) -> None:
        if self._writable is not None:
            await asyncio.shield(self._writable)

    def end(self) -> None:
        if self._is_over or self._transport.is_closing():
            return
        self._is_over = True
        if self._chunked:
            self._transport.write(b"0\r\n\r\n")
        seconds = LIMITS.write_seconds if self._stream.is_finite else LIMITS.end_seconds
        self._deadline = self._connections.now + seconds
        self._transport.close()

    def finish(self) -> None:
        """End an endless stream because the server stops."""
        if not self._stream.is_finite:  # a clean end would make it look complete
            self.end()

    def abort(self) -> None:
        self._is_over = True
        self._transport.abort()  # close() would wait until the reader takes what is queued

    def on_lost(self) -> None:
        self.resume()
        if self._starting is not None:
            self._starting.cancel()
        self._stop()

    def pause(self) -> None:
        if self._writable is None:
            self._writable = asyncio.get_running_loop().create_future()
            if self._stream.is_finite and not self._is_over:
                self._deadline = self._connections.now + LIMITS.write_seconds

    def resume(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None
            if not self._is_over:
                self._deadline = NEVER

    def check_deadlines(self, now: float) -> None:
        if self._deadline <= now:
            self._transport.abort()
        elif self._stream.heartbeat and now - self._silent_since >= LIMITS.heartbeat_seconds:
            self.write(self._stream.heartbeat)


@lru_cache(8)
def _chunks(pieces: tuple[bytes, ...]) -> bytes:
    # Cached: all listeners of the same dweets share the result.
    return b"".join([b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces])
