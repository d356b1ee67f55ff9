"""uvicorn's HTTP/1.1 protocol with two bounds that it lacks: how large a request's head is, and how slowly it comes.

Without them one caller who never ends a header fills the memory, and one who never ends a request keeps a
connection for ever. A connection that never says anything is closed like one that has nothing more to say.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 256 * 1024
REQUEST_SECONDS = 30.0

_ANSWERS = {
    408: (b"408 Request Timeout", b"the request did not arrive in time"),
    431: (b"431 Request Header Fields Too Large", b"the head of the request is too large"),
}


class BoundedProtocol(HttpToolsProtocol):
    """Refuse a head that is too large with 431, and what does not arrive in time with 408.

    A connection has one timer that looks now and then, where uvicorn makes and cancels one at every request.
    """

    _unfinished = False
    _head_bytes = 0
    _deadline = 0.0
    _idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; close it where it stays silent."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._look_in(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of a connection that is gone."""
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; where it leaves a request unfinished, look at its size and the time."""
        super().data_received(data)
        if self._unfinished and not self.transport.is_closing():
            self._check(len(data))

    def on_response_complete(self) -> None:
        """Finish a request: begin the next of a pipeline, or note since when the connection is idle."""
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self._idle_since = self.loop.time()
        if self.flow.read_paused and not self.transport.is_closing():
            self.flow.resume_reading()

    def begun(self) -> None:
        """Begin a request."""
        self._unfinished, self._head_bytes, self._deadline = True, 0, 0.0

    def finished(self) -> None:
        """Leave the rest to others: the request is whole, or whoever reads its body has bounds of its own."""
        self._unfinished = False

    @property
    def is_answering(self) -> bool:
        """Whether an earlier request of this connection is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _unset_keepalive_if_required(self) -> None:
        """Leave the timer alone, where uvicorn cancels it: it looks by itself whether the connection is idle."""

    def _check(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431)
        elif not self._deadline:
            self._deadline = self.loop.time() + REQUEST_SECONDS
            self._look_in(REQUEST_SECONDS)

    def _look_in(self, seconds: float) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Refuse a request that is too late, close a connection that is idle, or look again later."""
        if self.transport.is_closing():
            return
        now = self.loop.time()
        unfinished = self._unfinished and self._deadline > 0
        idle = 0.0 if self.is_answering else now - self._idle_since
        left = self._deadline - now if unfinished else self.timeout_keep_alive - idle
        if left > 0:
            self._look_in(left)
        elif unfinished:
            self._refuse(408)
        else:
            self.timeout_keep_alive_handler()

    def _refuse(self, status: int) -> None:
        self._unfinished = False
        line, why = _ANSWERS[status]
        if not self.is_answering:  # else an earlier request of a pipeline is, and its bytes are on their way
            head = b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(head % (line, len(why)) + why)
        self.transport.close()
