"""HTTP/1.1 on one connection: requests in order to the application, responses to the caller.

The input is parsed in slices: while too many requests wait, or the caller does not read, the rest stays as it came
and no more is read from the socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import Any

from toolkit.errors import ServiceError, StoreUnavailable
from toolkit.gateway.app import log_response
from toolkit.gateway.connections import NEVER, Connections
from toolkit.gateway.exchange import Answer, Request, Response, Stream
from toolkit.gateway.http_reader import RequestReader
from toolkit.gateway.http_stream import StreamWriter

log = logging.getLogger("toolkit.gateway")

_SLICE_BYTES = 4096
# Up to this size, copying the body is cheaper than a second write.
_SMALL_BYTES = 16 * 1024


class HttpProtocol(asyncio.Protocol):
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._application = connections.application
        self._limits = connections.limits
        # Requests that wait, input that is not parsed yet, and the request that is being answered.
        self._waiting: deque[Request] = deque()
        self._raw = b""
        self._current: Request | None = None
        self._task: asyncio.Future[Any] | None = None
        self._is_over = False  # further input is dropped
        self._drop_bytes = 0  # how much of it, before the connection is closed
        self._stream: StreamWriter | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stop_stream: Callable[[], None] = lambda: None
        # When an idle connection is closed, and when a caller who does not read is disconnected.
        self._deadline = connections.idle_deadline
        self._write_deadline = NEVER
        #: The large body that is on its way.
        self.unread_body = b""

    # -- asyncio ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._reader = RequestReader(self._connections, peer[0] if peer else "")
        self._connections.open[self] = None
        if self._connections.is_stopping:
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.open.pop(self, None)
        self._connections.slow.pop(self, None)
        self._cancel()
        self._is_over = True
        self._waiting.clear()
        self._raw = b""
        if self._stream is not None:
            self._stream.resume()
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
        self._stop_stream()

    def eof_received(self) -> bool:
        self._is_over = True
        self._cancel()
        # True keeps the connection of a caller who still reads responses.
        return self._stream is None and (self._current is not None or bool(self._waiting))

    def _cancel(self) -> None:
        """Cancel the current request, and drop those that wait, as far as they may be cancelled: the caller left."""
        if self._current is not None and self._current.is_cancellable and self._task is not None:
            self._waiting.clear()
            self._task.cancel()
        self._waiting = deque(takewhile(lambda request: not request.is_cancellable, self._waiting))

    def pause_writing(self) -> None:
        self._connections.slow[self] = None
        if self._stream is not None:
            self._stream.pause()
            return
        size = self._transport.get_write_buffer_size()
        self._write_deadline = self._connections.now + self._limits.write_seconds + size / self._limits.write_rate
        self._connections.bound_unread()

    def resume_writing(self) -> None:
        self._connections.slow.pop(self, None)
        self.unread_body = b""
        if self._stream is not None:
            self._stream.resume()
        elif not self._transport.is_closing():
            self._write_deadline = NEVER
            self._deadline = self._connections.idle_deadline
            self._resume_requests()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            self._drop_bytes -= len(data)
            if self._drop_bytes < 0 and self._stream is None and self._current is None and not self._waiting:
                self._close_when_sent()
        elif self._raw:
            self._raw += data
        elif len(data) > _SLICE_BYTES or self._waiting or self._write_deadline != NEVER:
            self._parse_slices(data)
        else:
            self._parse(data)

    # -- requests -----------------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        reader = self._reader
        for request in reader.read(data):
            if not request.keep_alive:
                self._is_over = True
            if self._current is None and self._write_deadline == NEVER and not self._waiting:
                self._answer(request, request.handler, request)
            else:
                self._waiting.append(request)
        if reader.awaits_continue:
            self._send_continue()

    def _parse_slices(self, data: bytes) -> None:
        for start in range(0, len(data), _SLICE_BYTES):
            if self._is_full:
                self._raw = data[start:]
                self._transport.pause_reading()
                return
            self._parse(data[start : start + _SLICE_BYTES])
            if self._is_over or self._transport.is_closing():
                return

    @property
    def _is_full(self) -> bool:
        return (
            self._write_deadline != NEVER
            or len(self._waiting) >= self._limits.waiting
            or sum(len(request.body) for request in self._waiting) > self._limits.waiting_bytes
        )

    def _send_continue(self) -> None:
        if self._current is None and not self._waiting:
            self._reader.awaits_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # -- responses ----------------------------------------------------------------------------------------

    def _answer(self, request: Request, make: Callable[[Any], Answer | Awaitable[Any]], argument: object) -> None:
        try:
            answer = make(argument)
        except Exception as error:  # a bug of ours is answered with 500
            answer = self._application.fail(request, error)
        self._send(request, answer)

    def _answer_when_done(self, request: Request, answer: Awaitable[Any]) -> None:
        self._current = request
        if not isinstance(answer, asyncio.Future):
            answer = self._task = asyncio.ensure_future(answer)
            self._connections.hold(answer)
        answer.add_done_callback(self._answered)

    def _answered(self, done: asyncio.Future[Any]) -> None:
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
            self._send(request, self._application.fail(request, error))
        elif isinstance(result := done.result(), (Response, Stream)):
            self._send(request, result)
        else:
            assert request.route is not None, "only a handler of a route returns an awaitable"
            self._answer(request, request.route.respond, result)
        if self._waiting or self._raw:
            self._resume_requests()

    def _resume_requests(self) -> None:
        """Answer what waits, then parse the rest of the input."""
        while self._waiting and self._current is None and self._write_deadline == NEVER:
            request = self._waiting.popleft()
            self._answer(request, request.handler, request)
        if self._raw and not self._is_full and not self._is_over and not self._transport.is_closing():
            raw, self._raw = self._raw, b""
            self._transport.resume_reading()
            self._parse_slices(raw)

    def _send(self, request: Request, response: Answer | Awaitable[Any]) -> None:
        if not isinstance(response, (Response, Stream)):
            self._answer_when_done(request, response)
            return
        if request.started:
            log_response(request, response.status)
        transport = self._transport
        if transport.is_closing():
            return
        common = self._connections.common_headers[request.routes]
        if isinstance(response, Stream):
            self._begin_stream(request, response, common)
            return
        is_last = self._is_over and not self._waiting
        head = response.head(common, close=is_last)
        if request.method == "HEAD":
            transport.write(head)
        elif len(response.body) <= _SMALL_BYTES:
            transport.write(head + response.body)
        else:  # one body may have many readers, and is not copied for each
            self.unread_body = response.body
            transport.writelines((head, response.body))
        if is_last:
            self._close()
        elif self._reader.awaits_continue:
            self._send_continue()
        else:
            self._deadline = self._connections.idle_deadline

    def _begin_stream(self, request: Request, stream: Stream, common: bytes) -> None:
        self._is_over = True
        self._waiting.clear()
        self._raw = b""
        self._transport.resume_reading()  # to notice when the reader goes
        self._transport.write(stream.head(common, chunked=request.is_http_1_1))
        if request.method == "HEAD":
            self._close_when_sent()
            return
        self._stream = StreamWriter(self._transport, self._connections, stream, request.is_http_1_1)
        if self._connections.is_stopping and not stream.is_finite:
            self._stream.end()
        else:
            self._starting = asyncio.ensure_future(self._start_stream(stream, self._stream))

    async def _start_stream(self, stream: Stream, writer: StreamWriter) -> None:
        try:
            self._stop_stream = await stream.start(writer)
        except StoreUnavailable as error:  # the reader sees a broken stream, reconnects and resumes
            log.error("%s", error)
            writer.abort()
        except ServiceError:  # the thing was locked just now; the reader gets the refusal when it reconnects
            writer.end()
        except BaseException:  # a bug of ours: raise it, but let no listener wait
            writer.abort()
            raise

    # -- the end ------------------------------------------------------------------------------------------

    def _close(self) -> None:
        if self._reader.has_refused_body:  # the caller may still send it, and reads the response behind it
            self._drop_bytes = self._limits.dropped_bytes
            self._transport.write_eof()
            self._deadline = self._connections.now + self._limits.drop_seconds
        else:
            self._close_when_sent()

    def _close_when_sent(self) -> None:
        """Close once everything is sent, or when the time for writing is over."""
        self._transport.close()
        self._deadline = NEVER
        self._write_deadline = self._connections.now + self._limits.write_seconds

    def finish(self) -> None:
        """Accept no more requests, and close once those that came are answered."""
        self._is_over = True
        if self._stream is not None:
            self._stream.finish()
        elif self._current is None and not self._waiting:
            self._close_when_sent()

    @property
    def body_bytes(self) -> int:
        """What it holds of bodies: of the request that arrives, of those that wait, and of the one being answered."""
        current = 0 if self._current is None else len(self._current.body)
        return len(self._reader.body) + current + sum([len(request.body) for request in self._waiting])

    @property
    def body_deadline(self) -> float:
        """By when the body that arrives must be complete."""
        return self._reader.deadline if self._reader.body else NEVER

    @property
    def buffered_bytes(self) -> int:
        """What is on its way, besides `unread_body`."""
        return 0 if self.unread_body else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        self._transport.abort()

    def tick(self, now: float) -> None:
        is_receiving = self._reader.is_receiving and not self._is_over
        if self._stream is not None:
            self._stream.tick(now)
        elif self._write_deadline <= now:
            self._transport.abort()
        elif self._reader.deadline <= now and not self._raw and is_receiving:
            self._is_over = True
            self._waiting.append(self._reader.refuse_late())
            self._resume_requests()
        elif self._deadline <= now and self._current is None and self._write_deadline == NEVER and not is_receiving:
            self._close_when_sent()
