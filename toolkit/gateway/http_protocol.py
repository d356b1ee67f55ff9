"""HTTP/1.1 on one connection: requests in order to the application, responses to the caller.

The input is parsed in slices: while too many requests wait, or the caller does not read, the rest stays unparsed
and no more is read from the socket.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import Any

from toolkit.gateway.app import log_response
from toolkit.gateway.connections import LIMITS, NEVER, Connections
from toolkit.gateway.exchange import Answer, Request, Response, Stream
from toolkit.gateway.http_reader import RequestReader
from toolkit.gateway.http_stream import StreamWriter

_SLICE_BYTES = 4096
# Up to this size, copying the body is cheaper than a second write.
_SMALL_BYTES = 16 * 1024


class HttpProtocol(asyncio.Protocol):
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        # Input that is not parsed yet, whether reading the socket is paused, and the request that is being answered.
        self._slices: deque[bytes] = deque()
        self._is_paused = False
        self._current: Request | None = None
        self._task: asyncio.Future[Any] | None = None
        self._stream: StreamWriter | None = None
        self._drop_bytes = 0  # bytes that are still read and dropped after the last request
        # When an idle connection is closed, and when a caller who does not read is disconnected.
        self._deadline = connections.idle_deadline
        self._write_deadline = NEVER
        #: The large body of the response that the caller is reading.
        self.unread_body = b""

    # -- asyncio ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._reader = RequestReader(self._connections, peer[0] if peer else "")
        self._waiting = self._reader.complete
        self._connections.open[self] = None
        if self._connections.is_stopping:
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.open.pop(self, None)
        self._connections.slow.pop(self, None)
        self._cancel()
        self._drop_input()
        if self._stream is not None:
            self._stream.on_lost()

    def eof_received(self) -> bool:
        self._reader.is_over = True
        self._cancel()
        # True keeps the connection of a caller who still reads responses.
        return self._stream is None and not self._is_idle

    def _cancel(self) -> None:
        """Cancel or drop all requests from the first one on that may be cancelled, because the caller has left."""
        if self._current is not None and self._current.is_cancellable and self._task is not None:
            self._waiting.clear()
            self._task.cancel()
        remaining = list(takewhile(lambda request: not request.is_cancellable, self._waiting))
        self._waiting.clear()
        self._waiting.extend(remaining)

    def _drop_input(self) -> None:
        self._reader.is_over = True
        self._waiting.clear()
        self._slices.clear()

    def pause_writing(self) -> None:
        self._connections.slow[self] = None
        if self._stream is not None:
            self._stream.pause()
            return
        size = self._transport.get_write_buffer_size()
        self._write_deadline = self._connections.now + LIMITS.write_seconds + size / LIMITS.write_rate
        self._connections.bound_unread()

    def resume_writing(self) -> None:
        self._connections.slow.pop(self, None)
        self.unread_body = b""
        if self._stream is not None:
            self._stream.resume()
        elif not self._transport.is_closing():
            self._write_deadline = NEVER
            self._deadline = self._connections.idle_deadline
            self._go_on()

    def data_received(self, data: bytes) -> None:
        if self._reader.is_over:
            self._drop_bytes -= len(data)
            if self._drop_bytes < 0 and self._stream is None and self._is_idle:
                self._close_when_sent()
            return
        if len(data) <= _SLICE_BYTES:
            self._slices.append(data)
        else:
            self._slices.extend([data[at : at + _SLICE_BYTES] for at in range(0, len(data), _SLICE_BYTES)])
        self._go_on()

    # -- requests -----------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Answer waiting requests, and parse the rest of the input, until one of them must wait."""
        reader, waiting, slices = self._reader, self._waiting, self._slices
        while True:
            while waiting and self._current is None and self._write_deadline == NEVER:
                request = waiting.popleft()
                self._answer(request, request.handler, request)
            if not slices or reader.is_over:
                break
            is_full = self._write_deadline != NEVER or (len(waiting) > 0 and self._too_many_wait())
            if is_full != self._is_paused:
                self._pause_reading(is_full)
            if is_full:
                return
            reader.feed(slices.popleft())
        if reader.awaits_continue and self._is_idle and not reader.is_over:
            reader.awaits_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _pause_reading(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        if self._transport.is_closing():
            return
        if is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _too_many_wait(self) -> bool:
        bodies = sum([len(request.body) for request in self._waiting])
        return len(self._waiting) >= LIMITS.waiting or bodies > LIMITS.waiting_bytes

    @property
    def _is_idle(self) -> bool:
        return self._current is None and not self._waiting

    # -- responses and the end of the connection ------------------------------------------------------------

    def _answer(self, request: Request, make: Callable[[Any], Answer | Awaitable[Any]], argument: object) -> None:
        try:
            answer = make(argument)
        except Exception as error:  # a bug of the gateway is answered with 500
            answer = self._connections.application.respond_to_error(request, error)
        self._send(request, answer)

    def _on_done(self, done: asyncio.Future[Any]) -> None:
        request, self._current = self._current, None
        assert request is not None
        if done.cancelled():
            self._transport.abort()
            return
        # result() would raise it here, and the traceback would refer to this frame: a cycle that keeps the request's
        # body in memory until the garbage collector runs.
        if error := done.exception():
            if not isinstance(error, Exception):
                raise error
            self._send(request, self._connections.application.respond_to_error(request, error))
        elif isinstance(result := done.result(), (Response, Stream)):
            self._send(request, result)
        else:
            assert request.route is not None, "only a handler of a route returns an awaitable"
            self._answer(request, request.route.respond, result)
        self._go_on()

    def _send(self, request: Request, response: Answer | Awaitable[Any]) -> None:
        """Send a response, at once or when it is done."""
        if not isinstance(response, (Response, Stream)):
            self._current = request
            if not isinstance(response, asyncio.Future):
                response = self._task = asyncio.ensure_future(response)
                self._connections.hold(response)
            response.add_done_callback(self._on_done)
            return
        if request.started:
            log_response(request, response.status)
        transport = self._transport
        if transport.is_closing():
            self._drop_input()
            return
        common = self._connections.common_headers[request.routes]
        if isinstance(response, Stream):
            self._begin_stream(request, response, common)
            return
        is_last = self._reader.is_over and not self._waiting
        head = response.head(common, close=is_last)
        if request.method == "HEAD":
            transport.write(head)
        elif len(response.body) <= _SMALL_BYTES:
            transport.write(head + response.body)
        else:  # many callers may read the same body, which is not copied for each
            self.unread_body = response.body
            transport.writelines((head, response.body))
        self._deadline = self._connections.idle_deadline
        if is_last:
            self._close()

    def _begin_stream(self, request: Request, stream: Stream, common: bytes) -> None:
        self._drop_input()
        self._transport.resume_reading()  # to notice when the caller leaves
        self._transport.write(stream.head(common, chunked=request.is_http_1_1))
        if request.method == "HEAD":
            self._close_when_sent()
            return
        self._stream = StreamWriter(self._transport, self._connections, stream, request.is_http_1_1)
        self._stream.start()

    def _close(self) -> None:
        if self._reader.has_refused_body:  # the caller may read the response only after sending the body
            self._drop_bytes = LIMITS.dropped_bytes
            self._transport.write_eof()
            self._deadline = self._connections.now + LIMITS.drop_seconds
        else:
            self._close_when_sent()

    def _close_when_sent(self) -> None:
        """Close once everything is sent, or when the time for writing is over."""
        self._transport.close()
        self._deadline = NEVER
        self._write_deadline = self._connections.now + LIMITS.write_seconds

    def finish(self) -> None:
        """Accept no more requests, and close once those that came are answered."""
        self._reader.is_over = True
        if self._stream is not None:
            self._stream.finish()
        elif self._is_idle:
            self._close_when_sent()

    @property
    def body_bytes(self) -> int:
        """Size of the bodies in memory: of the arriving request, the waiting ones and the one being answered."""
        current = 0 if self._current is None else len(self._current.body)
        return len(self._reader.body) + current + sum([len(request.body) for request in self._waiting])

    @property
    def body_deadline(self) -> float:
        """By when the arriving body must be complete."""
        return self._reader.deadline if self._reader.body else NEVER

    @property
    def buffered_bytes(self) -> int:
        """The size of what is not sent yet; 0 if that is `unread_body`."""
        return 0 if self.unread_body else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        self._transport.abort()

    def tick(self, now: float) -> None:
        is_receiving = self._reader.is_receiving
        if self._stream is not None:
            self._stream.tick(now)
        elif self._write_deadline <= now:
            self._transport.abort()
        elif is_receiving and self._reader.deadline <= now and not self._slices:
            self._reader.refuse_late()
            self._go_on()
        elif not is_receiving and self._deadline <= now and self._current is None and self._write_deadline == NEVER:
            self._close_when_sent()
