"""HTTP/1.1 on one connection: bytes in, requests to the application in order, responses out.

The parser is httptools. It is fed in slices, so that a long pipeline does not become a heap of parsed requests: while
too many of them wait, or the caller does not read, the rest stays as it came and no more is read from the socket.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable

import httptools

from toolkit.errors import MalformedRequest, ServiceError
from toolkit.gateway.app import log_response
from toolkit.gateway.connections import Connections
from toolkit.gateway.exchange import Answer, Header, Request, Response, Stream
from toolkit.gateway.http_stream import StreamWriter
from toolkit.gateway.stores import StoreUnavailable

log = logging.getLogger("toolkit.gateway")

_SLICE_BYTES = 4096
# Up to here a copy of the body is cheaper than a second write.
_SMALL_BYTES = 64 * 1024
_NEVER = float("inf")
_AUTHORITY = re.compile(rb"https?://[^/?#]+", re.IGNORECASE)

_NOT_HTTP = b"this is not a valid HTTP/1.1 request"
_HOST_NEEDED = b"a request of HTTP/1.1 names its host once"
_HEAD_TOO_LARGE = b"the head of the request is too large"
_HEAD_TOO_SLOW = b"the request did not arrive in time"


class _Refused(Exception):
    """The request that is being parsed is refused: raised by a callback to stop the parser."""

    def __init__(self, status: int, text: bytes) -> None:
        super().__init__(status)
        self.response = Response(status, text, b"text/plain")


class HttpProtocol(asyncio.Protocol):
    """One connection.

    Parameters
    ----------
    connections
        The other connections of the server, its application and its limits.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._application = connections.application
        self._limits = connections.limits
        self._parser = httptools.HttpRequestParser(self)
        # The request that is being received: parts of its head, then the request and the pieces of its body.
        self._target = b""
        self._headers: list[Header] = []
        self._incoming: Request | None = None
        self._is_receiving = False
        self._pieces: list[bytes] = []
        self._body_bytes = 0
        self._max_body = 0
        self._overhead_bytes = 0
        self._awaits_continue = False
        # Requests that wait, bytes that were not parsed yet, and what is being answered.
        self._waiting: deque[Request] = deque()
        self._waiting_bytes = 0
        self._raw = b""
        self._current: Request | None = None
        self._is_over = False  # nothing of the input counts any more
        self._drop_bytes = 0  # how much of it is still read and dropped
        self._stream: StreamWriter | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stop_stream: Callable[[], None] = lambda: None
        # Times of the clock at which the input, or the reader, is too late.
        self._deadline = connections.now + self._limits.idle_seconds
        self._write_deadline = _NEVER

    # -- asyncio ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._client: str = peer[0] if isinstance(peer, tuple) else ""
        self._connections.open.add(self)
        if self._connections.is_stopping:
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """End what is done for a caller who is gone."""
        self._connections.open.discard(self)
        self._is_over = True
        self._waiting.clear()
        self._raw = b""
        if self._stream is not None:
            self._stream.resume()
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
        self._stop_stream()

    def eof_received(self) -> bool:
        """Keep the connection of a caller who has sent all and still reads its responses."""
        self._is_over = True
        return self._stream is None and (self._current is not None or bool(self._waiting))

    def pause_writing(self) -> None:
        """Answer no more while the caller does not read, and not for long."""
        if self._stream is not None:
            self._stream.pause()
            return
        size = self._transport.get_write_buffer_size()
        self._write_deadline = self._connections.now + self._limits.write_seconds + size / self._limits.write_rate

    def resume_writing(self) -> None:
        """Go on with what waits."""
        if self._stream is not None:
            self._stream.resume()
            return
        if not self._transport.is_closing():
            self._write_deadline = _NEVER
            self._go_on()

    def data_received(self, data: bytes) -> None:
        """Parse what came, or keep it while too much waits."""
        if self._is_over:
            self._drop(len(data))
        elif self._raw:
            self._raw += data
        else:
            self._feed(data)

    # -- the input ----------------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        """Give the parser as much as may wait, and keep the rest."""
        for start in range(0, len(data), _SLICE_BYTES):
            if self._transport.is_closing():
                return
            if self._is_full:
                self._raw = data[start:]
                self._transport.pause_reading()
                return
            self._parse(data[start : start + _SLICE_BYTES])
            if self._is_over:
                return

    @property
    def _is_full(self) -> bool:
        limits = self._limits
        return (
            len(self._waiting) >= limits.waiting
            or self._waiting_bytes > limits.waiting_bytes
            or self._write_deadline != _NEVER
        )

    def _parse(self, piece: bytes) -> None:
        received = self._body_bytes
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._parse_without_upgrade(piece[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if self._is_over:
                return  # behind the last request
            refused = error.__context__
            if isinstance(error, httptools.HttpParserCallbackError) and not isinstance(refused, _Refused):
                log.error("the HTTP protocol failed: %r", refused)
            self._end_with(refused.response if isinstance(refused, _Refused) else _Refused(400, _NOT_HTTP).response)
        else:
            if self._is_receiving and self._body_bytes == received:
                self._overhead_bytes += len(piece)
                if self._overhead_bytes > self._limits.head_bytes:
                    self._end_with(_Refused(431, _HEAD_TOO_LARGE).response)

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Parse a request once more that asked for another protocol: the parser skips the body of such a one."""
        head = [b"%b %b HTTP/1.1\r\n" % (self._parser.get_method(), self._target)]
        head += [b"%b: %b\r\n" % (name, value) for name, value in self._headers if name != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        self._parse(b"%b\r\n%b" % (b"".join(head), rest))

    def _drop(self, size: int) -> None:
        self._drop_bytes -= size
        if self._drop_bytes < 0 and self._stream is None and self._current is None:
            self._shut()

    # -- httptools ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._is_over:
            raise _Refused(400, _NOT_HTTP)
        self._target, self._headers, self._incoming, self._is_receiving = b"", [], None, True
        self._pieces, self._body_bytes, self._overhead_bytes = [], 0, 0
        self._deadline = self._connections.now + self._limits.request_seconds

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer, which comes behind the body, is dropped."""
        if self._incoming is None:
            if len(self._headers) >= self._limits.headers:
                raise _Refused(431, _HEAD_TOO_LARGE)
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Find out who answers, and what body is expected."""
        parser, headers = self._parser, self._headers
        method = parser.get_method()
        if parser.should_upgrade():
            if method == b"CONNECT":
                raise _Refused(400, _NOT_HTTP)
            return
        fields = dict(headers)
        keep_alive, is_new = parser.should_keep_alive(), True
        if not keep_alive or b"connection" in fields:
            version = parser.get_http_version()
            is_new = version == "1.1"
            if not is_new and version != "1.0":
                raise _Refused(505, b"send HTTP/1.0 or HTTP/1.1")
        has_host = b"host" in fields
        if len(fields) < len(headers):
            has_host = sum(name == b"host" for name, _ in headers) == 1
        if is_new and not has_host:
            raise _Refused(400, _HOST_NEEDED)
        path, query = split_target(self._target)
        request = Request(method.decode("ascii"), path, query, headers, self._client)
        request.keep_alive, request.is_chunkable = keep_alive and is_new, is_new
        self._incoming = request
        self._max_body = self._application.begin(request)
        self._expect_body(request, fields, is_new)

    def _expect_body(self, request: Request, fields: dict[bytes, bytes], is_new: bool) -> None:
        length = fields.get(b"content-length")
        if length is None and b"transfer-encoding" not in fields:
            return
        self._deadline = self._connections.now + self._limits.request_seconds
        if length is not None and self._max_body and int(length) > self._max_body:
            self._refuse_body(_too_large(self._max_body))
        elif is_new and fields.get(b"expect", b"").lower() == b"100-continue":
            self._awaits_continue = True
            self._continue()

    def on_body(self, piece: bytes) -> None:
        """Take a piece of the body; where none is expected it is dropped."""
        if self._incoming is None:
            return
        self._awaits_continue = False
        self._body_bytes += len(piece)
        if self._body_bytes > (self._max_body or self._limits.dropped_bytes):
            self._refuse_body(_too_large(self._max_body))
        elif self._max_body:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Answer the request, or let it wait for the ones before."""
        request = self._incoming
        if request is None:  # refused, or parsed once more without its upgrade
            return
        pieces = self._pieces
        if pieces:
            request.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._pieces = []
        self._incoming, self._is_receiving, self._awaits_continue = None, False, False
        self._deadline = _NEVER
        if not request.keep_alive:
            self._is_over = True
        self._take(request)

    # -- responses ----------------------------------------------------------------------------------------

    def _take(self, request: Request) -> None:
        self._waiting.append(request)
        self._waiting_bytes += len(request.body)
        self._answer_waiting()

    def _answer_waiting(self) -> None:
        """Answer in order, until one takes its time or the caller does not read."""
        while self._waiting and self._current is None and self._write_deadline == _NEVER:
            request = self._current = self._waiting.popleft()
            self._waiting_bytes -= len(request.body)
            answer = self._application.answer(request)
            if isinstance(answer, asyncio.Future):
                if isinstance(answer, asyncio.Task):
                    self._connections.hold(answer)
                answer.add_done_callback(self._answered)
            else:
                self._send(request, answer)

    def _answered(self, done: asyncio.Future[Answer]) -> None:
        request = self._current
        if done.cancelled():
            self._transport.abort()
        elif request is not None:
            error = done.exception()
            self._send(request, done.result() if error is None else self._application.refuse(request, error))
            self._go_on()

    def _go_on(self) -> None:
        """Go on with what waits, and with what was not parsed yet."""
        self._answer_waiting()
        if self._raw and not self._is_full and not self._is_over and not self._transport.is_closing():
            raw, self._raw = self._raw, b""
            self._transport.resume_reading()
            self._feed(raw)

    def _send(self, request: Request, answer: Answer) -> None:
        transport, connections = self._transport, self._connections
        if request.started:
            log_response(request, answer.status if isinstance(answer, Response) else 200)
        if transport.is_closing():
            return
        common = connections.date_line + self._application.common_headers[request.routes]
        if isinstance(answer, Stream):
            self._begin_stream(request, answer, common)
            return
        self._current = None
        is_last = self._is_over and not self._waiting
        head = answer.head(common, close=is_last)
        if request.method == "HEAD":
            transport.write(head)
        elif len(answer.body) <= _SMALL_BYTES:
            transport.write(head + answer.body)
        else:
            transport.writelines((head, answer.body))
        if is_last:
            self._close()
        elif not self._is_receiving:
            self._deadline = connections.now + self._limits.idle_seconds
        elif self._awaits_continue:
            self._continue()

    def _begin_stream(self, request: Request, stream: Stream, common: bytes) -> None:
        """Send the head; nothing that comes after the request counts."""
        self._is_over = True
        self._waiting.clear()
        self._raw = b""
        self._deadline = _NEVER
        self._transport.resume_reading()  # it tells whether the reader is still there
        chunked = request.is_chunkable
        self._transport.write(stream.head(common, chunked=chunked))
        if request.method == "HEAD":
            self._current = None
            self._close()
            return
        self._stream = writer = StreamWriter(
            self._transport, self._connections, chunked=chunked, heartbeat=stream.heartbeat
        )
        if self._connections.is_stopping:
            writer.end()
        else:
            self._starting = asyncio.ensure_future(self._start_stream(stream, writer))

    async def _start_stream(self, stream: Stream, writer: StreamWriter) -> None:
        try:
            self._stop_stream = await stream.start(writer)
        except StoreUnavailable as error:  # the stream is cut off here; its reader comes back and resumes
            log.error("%s", error)
            writer.abort()
        except ServiceError:  # a thing that was locked in this moment: its reader comes back and is told
            writer.end()

    def _continue(self) -> None:
        """Ask for the body of a request that waits for that, once it is its turn."""
        if self._current is None and not self._waiting:
            self._awaits_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # -- the end ------------------------------------------------------------------------------------------

    def _end_with(self, response: Response) -> None:
        """Refuse what is being received, in its turn, and take nothing more."""
        request = self._incoming or Request("-", b"-", b"", [], self._client)
        request.refusal = response
        self._incoming, self._is_receiving, self._is_over, self._pieces = None, False, True, []
        self._deadline = _NEVER
        self._take(request)

    def _refuse_body(self, error: ServiceError) -> None:
        """Refuse a body; the caller may send all of it before it reads why."""
        assert self._incoming is not None
        self._drop_bytes = self._limits.dropped_bytes
        self._end_with(self._application.refuse(self._incoming, error))

    def _close(self) -> None:
        """Close once all is sent; a caller who still sends a body that was refused gets some time."""
        if self._drop_bytes > 0:
            self._transport.write_eof()
            self._deadline = self._connections.now + self._limits.drop_seconds
        else:
            self._shut()

    def _shut(self) -> None:
        """Close once all is sent, but do not wait for ever for a caller who does not read."""
        self._transport.close()
        self._deadline = _NEVER
        self._write_deadline = self._connections.now + self._limits.write_seconds

    def finish(self) -> None:
        """Take no more requests, and close once the present ones are answered."""
        self._is_over = True
        if self._stream is not None:
            self._stream.end()
        elif self._current is None and not self._waiting:
            self._shut()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def tick(self, now: float) -> None:
        """Look at the time."""
        if self._stream is not None:
            self._stream.tick(now)
        elif self._write_deadline <= now:
            self._transport.abort()
        elif self._deadline > now or self._raw:
            return
        elif not self._is_receiving:
            self._shut()
        elif self._incoming is None:
            self._end_with(_Refused(408, _HEAD_TOO_SLOW).response)
        else:
            text = f"the request did not arrive within {self._limits.request_seconds:.0f} seconds"
            self._end_with(self._application.refuse(self._incoming, MalformedRequest(text, status=408)))


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Return the raw path and the query of a request's target, in origin form or absolute form."""
    if not target.startswith(b"/"):
        authority = _AUTHORITY.match(target)
        if authority is None:
            raise _Refused(400, _NOT_HTTP)
        target = target[authority.end() :]
        if not target.startswith(b"/"):
            target = b"/" + target
    if b"#" in target:
        target = target.partition(b"#")[0]
    path, _, query = target.partition(b"?")
    return path, query


def _too_large(limit: int) -> MalformedRequest:
    return MalformedRequest(f"the body is larger than {limit} bytes", status=413)
