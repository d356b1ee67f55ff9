"""HTTP/1.1 on one connection: requests in order to the application, responses to the caller.

A connection is in one of these states, which follow from the attributes of `HttpProtocol`:

- idle: no request has begun; the connection is closed at `_idle_deadline`.
- receiving: the reader has part of a request; the rest must arrive before the deadline of the reader.
- answering: `_current` is the request whose handler has not finished. Later requests wait in `_waiting`, because
  responses go out in the order of their requests (RFC 9112, 9.3.2).
- unread: the caller reads too slowly, so the transport has paused writing. Nothing is parsed or answered until the
  caller has read, or until `_write_deadline` ends the connection.
- streaming: the response is a stream, the last response of its connection. Further input is dropped; the socket is
  read only to notice that the caller leaves.
- dropping: the body of the last request was refused, and the response is sent. `_drop_bytes` of the body are still read
  and dropped, because closing now could destroy the response before the caller has read it (RFC 9112, 9.6).
- closing: everything is answered; what is not sent yet must be read before `_write_deadline`.

Input is parsed in slices, one a turn (`Accounts.run`), so that no caller keeps the event loop from the others. While
too many requests wait, or in the state unread, the rest stays unparsed. While much is unparsed, no more is read from
the socket: TCP then stops a caller who sends without end. All that is held counts in the account of the caller.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import takewhile
from time import perf_counter
from typing import Any

from toolkit_gateway.http.account import REQUEST_BYTES
from toolkit_gateway.http.app import Application, log_response
from toolkit_gateway.http.connections import Connections
from toolkit_gateway.http.exchange import Answer, Request, Response, Stream
from toolkit_gateway.http.limits import LIMITS, NEVER
from toolkit_gateway.http.reader import RequestReader
from toolkit_gateway.http.stream import HttpStream

_SLICE_BYTES = 4096
# Up to this size, copying the body is cheaper than a second write.
_SMALL_BYTES = 16 * 1024


class HttpProtocol(asyncio.Protocol):
    def __init__(self, application: Application, connections: Connections) -> None:
        self._application = application
        self._connections = connections
        # Input that is not parsed yet, how much of its first piece is parsed, the size of all pieces, whether reading
        # the socket is paused because of them, and whether the caller sends nothing after them.
        self._pieces: deque[bytes] = deque()
        self._parsed_bytes = self._unparsed_bytes = 0
        self._is_paused = False
        self._is_all_received = False
        # The request that is being answered, and the task of its handler if it has one.
        self._current: Request | None = None
        self._task: asyncio.Future[Any] | None = None
        self._stream: HttpStream | None = None
        self._drop_bytes = 0
        self._idle_deadline = connections.idle_deadline
        self._write_deadline = NEVER
        self.unread_body = b""

    # -- called by asyncio ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._share = self._connections.accounts.open(self, peer[0] if peer else "")
        self._reader = RequestReader(self._application, self._connections, self._share)
        self._waiting = self._reader.complete
        self._connections.active[self] = None
        if self._connections.is_stopping:  # accepted before the server closed its socket
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.active.pop(self, None)
        self._connections.slow.pop(self, None)
        # A handler that may not be cancelled goes on without its connection: a post is committed nevertheless.
        self._cancel_handlers()
        self._drop_input()
        if self._share.is_late and self._task is not None:
            self._task.cancel()
        if self._current is None:
            self._connections.accounts.close(self._share)
        else:  # it counts until it is answered
            self._share.hold(REQUEST_BYTES, self._current.size)
        if self._stream is not None:
            self._stream.on_lost()

    def eof_received(self) -> bool:
        self._is_all_received = True
        if self._pieces:
            return True
        self._end_input()
        # True keeps the connection open for responses; a listener's stream has no end, so for it EOF means leaving.
        return self._stream is None and not self._is_idle

    def _end_input(self) -> None:
        # The caller has left, or has closed only its half of the connection and still reads responses.
        self._reader.is_over = True
        self._cancel_handlers()

    def pause_writing(self) -> None:
        # The buffer of the transport is full: the caller reads more slowly than we write.
        self._connections.slow[self] = None
        if self._stream is not None:
            self._stream.pause()
            return
        # A large response takes longer to read, so its reader gets more time.
        size = self._transport.get_write_buffer_size()
        self._write_deadline = self._connections.now + LIMITS.write_seconds + size / LIMITS.write_rate
        self._connections.limit_unread()

    def resume_writing(self) -> None:
        # The caller has read enough: answer the requests that wait.
        self._connections.slow.pop(self, None)
        self.unread_body = b""
        if self._stream is not None:
            self._stream.resume()
        elif not self._transport.is_closing():  # a connection that is closing keeps its deadline
            self._write_deadline = NEVER
            self._idle_deadline = self._connections.idle_deadline
            self._connections.accounts.run(self._share)

    def data_received(self, data: bytes) -> None:
        if self._reader.is_over:
            self._drop_bytes -= len(data)
            # Enough is dropped: close, but not before the last response is sent.
            if self._drop_bytes < 0 and self._stream is None and self._is_idle:
                self._close_when_sent()
            return
        account = self._share.account
        is_alone = self._current is None and not self._pieces and not self._reader.has_begun
        if is_alone and len(data) <= _SLICE_BYTES and account is not None and not account.is_busy:
            # Most input is one small request: it is answered in the turn of this call, and counts as its connection.
            began = perf_counter()
            self._reader.parse(data)
            self._answer_waiting()
            self._connections.accounts.spend(account, perf_counter() - began)
            if not self._waiting and not self._reader.is_over and not self._reader.awaits_continue:
                return
        else:
            self._pieces.append(data)
            self._unparsed_bytes += len(data)
        self._connections.accounts.run(self._share)
        if self._pieces:
            self._after_work()

    # -- requests -----------------------------------------------------------------------------------------

    def take_turn(self) -> bool:
        """Answer requests that wait, or parse a slice and answer what it completes; return whether more is left."""
        reader, waiting, pieces = self._reader, self._waiting, self._pieces
        if waiting:
            self._answer_waiting()
        if pieces and not reader.is_over and not self._is_full:
            reader.parse(self._next_slice())
            if waiting:
                self._answer_waiting()
        # Only in its turn: the responses to the requests before it come first.
        if reader.awaits_continue and self._is_idle and not reader.is_over:
            reader.awaits_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if reader.is_over:  # what comes after the last request does not matter
            self._drop_pieces()
        elif self._is_all_received and not pieces:
            self._end_input()
            if self._is_idle:
                self._close_when_sent()
        self._after_work()
        return len(pieces) > 0 and not self._is_full  # if it is full, the end of the handler or of `unread` continues

    def _next_slice(self) -> bytes:
        piece, start = self._pieces[0], self._parsed_bytes
        self._parsed_bytes += _SLICE_BYTES
        if self._parsed_bytes >= len(piece):
            del self._pieces[0]
            self._unparsed_bytes -= len(piece)
            self._parsed_bytes = 0
        return piece[start : start + _SLICE_BYTES]

    def _answer_waiting(self) -> None:
        waiting = self._waiting
        while waiting and self._current is None and self._write_deadline == NEVER:
            request = waiting.popleft()
            if len(request.query_string) > _SLICE_BYTES:
                request.pairs  # noqa: B018 - in this turn, since the time of a handler's task is not shared
            self._answer(request, request.handler, request)

    def _after_work(self) -> None:
        """Count what the connection holds now, and stop or go on reading from its socket."""
        is_paused, held = False, 0
        if self._pieces:
            is_paused = self._is_full or self._unparsed_bytes > LIMITS.unparsed_bytes
            held = self._unparsed_bytes
        if is_paused != self._is_paused:
            self._pause_reading(is_paused)
        if self._reader.has_begun:
            held += self._reader.unfinished_bytes
        if self._current is not None:
            held += self._current.size
        if self._waiting:
            held += sum([request.size for request in self._waiting])
        if held != self._share.held[REQUEST_BYTES]:
            self._share.hold(REQUEST_BYTES, held)

    def _pause_reading(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        if self._transport.is_closing():
            return
        if is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    @property
    def _is_full(self) -> bool:
        """Whether the rest of the input must wait."""
        waiting = self._waiting
        if self._write_deadline != NEVER or not waiting:
            return self._write_deadline != NEVER
        return len(waiting) >= LIMITS.waiting or sum([request.size for request in waiting]) > LIMITS.waiting_bytes

    @property
    def _is_idle(self) -> bool:
        return self._current is None and not self._waiting

    def _cancel_handlers(self) -> None:
        """Cancel or drop all requests from the first one on that may be cancelled, because the caller has left.

        Requests before that one are still answered: posts, for example, are done even if nobody reads their responses.
        """
        if self._current is not None and self._current.is_cancellable and self._task is not None:
            self._waiting.clear()
            self._task.cancel()
        remaining = list(takewhile(lambda request: not request.is_cancellable, self._waiting))
        self._waiting.clear()
        self._waiting.extend(remaining)

    def _drop_input(self) -> None:
        self._reader.drop()
        self._drop_pieces()

    def _drop_pieces(self) -> None:
        self._pieces.clear()
        self._parsed_bytes = self._unparsed_bytes = 0

    # -- responses and the end of the connection ------------------------------------------------------------

    def _answer(self, request: Request, make: Callable[[Any], Answer | Awaitable[Any]], argument: object) -> None:
        """Send what `make` returns: the handler of a request, or the `respond` of its route."""
        try:
            answer = make(argument)
        except Exception as error:  # a bug of the gateway is answered with 500
            answer = self._application.error_response(request, error)
        self._send(request, answer)

    def _on_done(self, done: asyncio.Future[Any]) -> None:
        """Send the result of a handler that had to wait, and go on with the next request."""
        # A task that failed or was cancelled refers to the frames of its handler, and so to the request.
        request, self._current, self._task = self._current, None, None
        assert request is not None
        if done.cancelled():  # by `_cancel_handlers` or a server that stops: nobody waits for the response
            self._transport.abort()
            self._connections.accounts.close(self._share)
            return
        # result() would raise it here, and the traceback would refer to this frame: a cycle that keeps the request's
        # body in memory until the garbage collector runs.
        if error := done.exception():
            if not isinstance(error, Exception):
                raise error
            self._send(request, self._application.error_response(request, error))
        elif isinstance(result := done.result(), (Response, Stream)):
            self._send(request, result)
        else:
            assert request.route is not None, "only a handler of a route returns an awaitable"
            self._answer(request, request.route.respond, result)
        if self not in self._connections.active:  # the connection ended before
            if self._current is None:
                self._connections.accounts.close(self._share)
        elif self._pieces or self._waiting or self._reader.awaits_continue:
            self._connections.accounts.run(self._share)
        elif self._share.held[REQUEST_BYTES]:
            self._after_work()

    def _send(self, request: Request, response: Answer | Awaitable[Any]) -> None:
        """Send a response, at once or when it is done."""
        if not isinstance(response, (Response, Stream)):
            self._current = request
            if not isinstance(response, asyncio.Future):  # a future of the store needs no task, which costs time
                response = self._task = asyncio.ensure_future(response)
                self._connections.keep_task(response)
            response.add_done_callback(self._on_done)
            return
        if request.started:
            log_response(request, response.status)
        transport = self._transport
        if transport.is_closing():  # the caller has left, or was disconnected, while the handler worked
            self._drop_input()
            return
        common = self._connections.common_headers[request.routes]
        if isinstance(response, Stream):
            self._begin_stream(request, response, common)
            return
        is_last = self._reader.is_over and not self._waiting
        head = response.head(common, close=is_last)
        if request.method == "HEAD":  # with the length of the body that a GET gets
            transport.write(head)
        elif len(response.body) <= _SMALL_BYTES:
            transport.write(head + response.body)
        else:  # many callers may read the same body, which is not copied for each
            self.unread_body = response.body
            transport.writelines((head, response.body))
        self._idle_deadline = self._connections.idle_deadline
        if is_last:
            self._close()

    def _begin_stream(self, request: Request, stream: Stream, common: bytes) -> None:
        self._drop_input()
        self._is_paused = False
        self._transport.resume_reading()  # to notice when the caller leaves
        # HTTP/1.0 has no chunks: there the end of the connection is the end of the stream.
        self._transport.write(stream.head(common, chunked=request.is_http_1_1))
        if request.method == "HEAD":
            self._close_when_sent()
            return
        self._stream = HttpStream(self._transport, self._connections, stream, request.is_http_1_1)
        self._stream.start()

    def _close(self) -> None:
        """Close after the last response, and drop a refused body that the caller still sends."""
        if self._reader.has_refused_body:  # the caller may read the response only after sending the body
            self._drop_bytes = LIMITS.dropped_bytes
            self._transport.write_eof()
            self._idle_deadline = self._connections.now + LIMITS.drop_seconds
        else:
            self._close_when_sent()

    def _close_when_sent(self) -> None:
        """Close once everything is sent, or when the time for writing is over."""
        self._transport.close()
        self._idle_deadline = NEVER
        self._write_deadline = self._connections.now + LIMITS.write_seconds

    # -- called by `Connections` ----------------------------------------------------------------------------

    def finish(self) -> None:
        self._reader.is_over = True
        if self._stream is not None:
            self._stream.finish()
        elif self._is_idle:  # otherwise the last response closes it
            self._close_when_sent()

    @property
    def buffered_bytes(self) -> int:
        return 0 if self.unread_body else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        self._transport.abort()
        self._drop_input()

    def check_deadlines(self, now: float) -> None:
        if self._stream is not None:
            self._stream.check_deadlines(now)
        elif self._write_deadline <= now:
            self._transport.abort()
        elif self._reader.is_receiving:
            # What is not parsed yet may hold the rest of the request: then the gateway is late, not the caller.
            if self._reader.deadline <= now and not self._pieces:
                self._reader.refuse_late()
                self._connections.accounts.run(self._share)
        elif self._idle_deadline <= now and self._current is None and self._write_deadline == NEVER:
            self._close_when_sent()
