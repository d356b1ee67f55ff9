"""A lane for hot routes: answered from the parser's callback, without a task, an ASGI scope or messages.

uvicorn's own way costs as much again as reading one dweet from memory does. A request takes the lane when its
route is hot, its body is small and of known length, and nothing of the connection is being answered. Every other
request, and everything about the connection itself (keep-alive, pipelining, flow control, shutdown), is uvicorn's.
The same handler answers in both ways, with the same head, so the bytes are the same; a test holds that.
A request whose head is known (see `known_heads`) does not even meet the parser.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from toolkit.gateway.app import Application, head_of, log_answer, start_of_log_line
from toolkit.gateway.exchange import Eventually, Found, Header, Reply, Request
from toolkit.gateway.http_bounds import BoundedProtocol
from toolkit.gateway.known_heads import KnownHead

# Larger bodies go uvicorn's way, which stops reading when too much of them waits.
_LANE_BODY_BYTES = 64 * 1024
_METHODS = (b"GET", b"POST")


class _NoEvent:
    """Stands where uvicorn wakes the task of a request: a request in the lane has none."""

    def set(self) -> None:
        """Wake nobody."""


class _LaneCycle:
    """A request in the lane, in the place where the protocol keeps the one being answered."""

    __slots__ = (
        "body",
        "disconnected",
        "eventually",
        "found",
        "keep_alive",
        "protocol",
        "request",
        "response_complete",
        "started",
    )

    message_event = _NoEvent()

    def __init__(self, protocol: LaneProtocol, found: Found, request: Request, keep_alive: bool) -> None:
        self.protocol = protocol
        self.found = found
        self.request = request
        self.keep_alive = keep_alive
        self.started = start_of_log_line()
        self.body: list[bytes] = []
        self.response_complete = False
        self.disconnected = False

    def wait_for(self, answer: Eventually[Any]) -> None:
        """Reply once the answer's future is done, without a task."""
        self.eventually = answer
        answer.future.add_done_callback(self._settle)

    def _settle(self, future: asyncio.Future[Any]) -> None:
        try:
            reply = self.eventually.write(future.result())
        except Exception as error:  # refusal() answers what is ours to answer, and logs the rest
            reply = Application.refusal(self.found, self.request, error)
        self.protocol.reply(self, reply)


class LaneProtocol(BoundedProtocol):
    """uvicorn's HTTP/1.1 protocol with a lane for hot routes."""

    _lane: _LaneCycle | None = None
    # Whether the parser stands between two requests, and how many began in the piece that it is being fed.
    _between = True
    _begun_in_piece = 0

    def data_received(self, data: bytes) -> None:
        """Take what came: a request with a known head at once, everything else through the parser."""
        was_between = self._between
        if was_between and (known := self._application.known_heads.find(data)) is not None and not self._is_busy:
            self._take(*known)
            return
        self._begun_in_piece = 0
        super().data_received(data)
        lane = self._lane
        if was_between and self._between and self._begun_in_piece == 1 and lane is not None and lane.keep_alive:
            self._application.known_heads.remember(data, lane.found, lane.request)

    def on_message_begin(self) -> None:
        """Begin a request; the scope is made once it is clear that uvicorn needs one."""
        self._between = False
        self._begun_in_piece += 1
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._lane = None
        self.begun()

    def on_headers_complete(self) -> None:
        """Choose the way of this request."""
        self._lane = self._lane_cycle()
        if self._lane is not None:
            self.cycle = self._lane  # type: ignore[assignment]
            return
        url, headers, expect = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.scope["state"]["connection"] = self  # streams write to it directly
        self.url, self.expect_100_continue = url, expect
        self.headers += headers  # the scope holds this very list
        super().on_headers_complete()
        self.finished()  # the application has a time of its own for the body

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self._lane is None:
            super().on_body(body)
        else:
            self._lane.body.append(body)

    def on_message_complete(self) -> None:
        """Answer, or let uvicorn go on."""
        self._between = True
        lane = self._lane
        if lane is None:
            super().on_message_complete()
            return
        self.finished()
        lane.request.body = b"".join(lane.body)
        self._answer(lane)

    def _take(self, known: KnownHead, body: bytes) -> None:
        """Take a request whose head is known."""
        client = self.client[0] if self.client else ""
        request = Request(known.method, known.raw_path, known.found.values, b"", known.headers, body, client)
        lane = self._lane = _LaneCycle(self, known.found, request, keep_alive=True)
        self.cycle = lane  # type: ignore[assignment]
        self._answer(lane)

    def _answer(self, lane: _LaneCycle) -> None:
        answer = self._application.answer_hot(lane.found, lane.request)
        if isinstance(answer, Eventually):
            lane.wait_for(answer)
        else:
            self.reply(lane, answer)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        application: Any = self.config.loaded_app
        self._application: Application = application

    @property
    def is_answering(self) -> bool:
        """Whether an earlier request of this connection is being answered."""
        begun: object = self._lane
        return self.cycle is not begun and super().is_answering

    @property
    def _is_busy(self) -> bool:
        """Whether an answer is under way, or the caller does not read: then uvicorn waits, and no answers pile up."""
        return (self.cycle is not None and not self.cycle.response_complete) or self.flow.write_paused

    def _lane_cycle(self) -> _LaneCycle | None:
        """Return the request as one of the lane, or None where it must go uvicorn's way."""
        method = self.parser.get_method()
        if self._is_busy or method not in _METHODS or self.expect_100_continue or self.parser.should_upgrade():
            return None
        url = httptools.parse_url(self.url)
        found = self._application.find(method.decode("ascii"), url.path)
        if found.route is None or not found.route.hot or not self._is_small(method):
            return None
        client = self.client[0] if self.client else ""
        text = method.decode("ascii")
        request = Request(text, url.path, found.values, url.query or b"", self.headers, b"", client)
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        return _LaneCycle(self, found, request, keep_alive)

    def _is_small(self, method: bytes) -> bool:
        length = b"0" if method == b"GET" else b""
        for name, value in self.headers:
            if name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                return False
        return length.isdigit() and int(length) <= _LANE_BODY_BYTES

    def reply(self, lane: _LaneCycle, reply: Reply) -> None:
        """Send the reply of a request in the lane, and go on as after any other."""
        lane.response_complete = True
        if lane.started:
            log_answer(lane.request, reply.status, lane.started)
        if lane.disconnected or self.transport.is_closing():
            return
        self.transport.write(self._reply_bytes(lane, reply))
        if not lane.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _reply_bytes(self, lane: _LaneCycle, reply: Reply) -> bytes:
        routes = lane.found.routes
        head = _head_bytes(reply.status, reply.content_type, reply.headers, routes.headers)
        date = _joined(tuple(self.server_state.default_headers))
        length = b"" if reply.status == 204 else b"content-length: %d\r\n" % len(reply.body)
        close = b"" if lane.keep_alive else b"connection: close\r\n"
        return b"%b%b%b%b%b\r\n%b" % (STATUS_LINE[reply.status], date, head, length, close, reply.body)


@lru_cache(256)
def _head_bytes(
    status: int, content_type: bytes, reply_headers: tuple[Header, ...], routes_headers: tuple[Header, ...]
) -> bytes:
    """Return the headers that a reply shares with thousands of others, without its length."""
    return _joined(tuple(head_of(status, content_type, reply_headers, routes_headers)))


@lru_cache(256)
def _joined(headers: tuple[Header, ...]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])
