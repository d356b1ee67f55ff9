"""A lane for hot routes: answered from the parser's callback, without a task, an ASGI scope or messages.

uvicorn's own way costs as much again as reading one dweet from memory does. A request takes the lane when its
route is hot, its body is small and of known length, and nothing of the connection is being answered. Every other
request, and everything about the connection itself (keep-alive, pipelining, flow control, shutdown), is uvicorn's.
The same handler answers in both ways, with the same head, so the bytes are the same; a test holds that.
A request whose head is known (see `known_heads`) does not even meet the parser.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools

from toolkit.gateway.app import Application, log_answer, start_of_log_line
from toolkit.gateway.exchange import Eventually, Reply, Request
from toolkit.gateway.http_bounds import BoundedProtocol
from toolkit.gateway.known_heads import Head

# Larger bodies go uvicorn's way, which stops reading when too much of them waits.
_LANE_BODY_BYTES = 64 * 1024
_METHODS = (b"GET", b"POST")


class _NoEvent:
    """Stands where uvicorn wakes the task of a request: a request in the lane has none."""

    def set(self) -> None:
        """Wake nobody."""


class _LaneCall:
    """A request in the lane, in the place where the protocol keeps the one being answered."""

    __slots__ = (
        "_answer",
        "_request",
        "body",
        "disconnected",
        "eventually",
        "head",
        "keep_alive",
        "protocol",
        "response_complete",
        "started",
    )

    message_event = _NoEvent()

    def __init__(self, protocol: LaneProtocol, head: Head, body: bytes) -> None:
        self.protocol = protocol
        self.head = head
        self.body = body
        self.keep_alive = head.keep_alive  # until the server stops
        self.response_complete = False
        self.started = start_of_log_line()
        self._request: Request | None = None

    @property
    def prepared(self) -> Any:  # noqa: ANN401
        """What the route made of the head."""
        return self.head.prepared

    @property
    def request(self) -> Request:
        """The request, made for who needs more of it than its body."""
        if self._request is None:
            client = self.protocol.client
            self._request = self.head.request(self.body, client[0] if client else "")
        return self._request

    def answer(self) -> None:
        """Let the route's handler answer, now or once a future is done."""
        try:
            assert self.head.found.route is not None
            answer = self.head.found.route.handler(self.request)
        except Exception as error:  # see `refuse`
            self.refuse(error)
        else:
            if isinstance(answer, Eventually):
                self.eventually = answer
                answer.future.add_done_callback(self._settle)
            else:
                self.reply(answer)  # type: ignore[arg-type]  # of a hot route it is a Reply

    def _settle(self, future: asyncio.Future[Any]) -> None:
        try:
            reply = self.eventually.write(future.result())
        except Exception as error:  # see `refuse`
            self.refuse(error)
        else:
            self.reply(reply)

    def refuse(self, error: Exception) -> None:
        """Answer with an error, unless it has its answer; one that is no answer of ours is logged."""
        if not self.response_complete:
            self._answer = b""  # one that was ready is for nothing
            self.reply(Application.refusal(self.head.found, self.request, error))

    def reply(self, reply: Reply) -> None:
        """Answer."""
        self.protocol.send(self, self._written(reply))

    def hold(self, reply: Reply) -> None:
        """Make the answer ready to be sent."""
        self._answer = self._written(reply)

    def send(self) -> None:
        """Answer with what is ready, and hold it no longer: the call stays until the next of its connection."""
        answer, self._answer = self._answer, b""
        self.protocol.send(self, answer)

    def _written(self, reply: Reply) -> bytes:
        protocol = self.protocol
        defaults = protocol.server_state.default_headers
        return b"%b\r\n%b" % (protocol.reply_heads.head(reply, self.head.found.routes, defaults), reply.body)


class LaneProtocol(BoundedProtocol):
    """uvicorn's HTTP/1.1 protocol with a lane for hot routes."""

    _lane: _LaneCall | None = None
    _pieces: list[bytes]
    # Whether the parser stands between two requests, and how many began in the piece that it is being fed.
    _between = True
    _begun_in_piece = 0

    def data_received(self, data: bytes) -> None:
        """Take what came: a request with a known head at once, everything else through the parser."""
        was_between = self._between
        if was_between and not self._is_busy and (known := self._application.known_heads.find(data)) is not None:
            self._take(*known)
            return
        self._begun_in_piece = 0
        super().data_received(data)
        lane = self._lane
        if was_between and self._between and self._begun_in_piece == 1 and lane is not None and lane.head.keep_alive:
            self._application.known_heads.remember(data, lane.head, lane.request)

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
        head = self._lane_head()
        if head is not None:
            self._pieces = []
            self._lane = self.cycle = _LaneCall(self, head, b"")  # type: ignore[assignment]
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
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Answer, or let uvicorn go on."""
        self._between = True
        lane = self._lane
        if lane is None:
            super().on_message_complete()
            return
        self.finished()
        lane.body = b"".join(self._pieces)
        lane.answer()

    def _take(self, head: Head, body: bytes) -> None:
        """Take a request whose head is known."""
        lane = self._lane = self.cycle = _LaneCall(self, head, body)  # type: ignore[assignment]
        if head.together is None:
            lane.answer()
        else:
            head.together.add(lane)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        application: Any = self.config.loaded_app
        self._application: Application = application
        self.reply_heads = application.reply_heads

    @property
    def is_answering(self) -> bool:
        """Whether an earlier request of this connection is being answered."""
        begun: object = self._lane
        return self.cycle is not begun and super().is_answering

    @property
    def _is_busy(self) -> bool:
        """Whether an answer is under way, or the caller does not read: then uvicorn waits, and no answers pile up."""
        return (self.cycle is not None and not self.cycle.response_complete) or self.flow.write_paused

    def _lane_head(self) -> Head | None:
        """Return the head of a request of the lane, or None where it must go uvicorn's way."""
        method = self.parser.get_method()
        if self._is_busy or method not in _METHODS or self.expect_100_continue or self.parser.should_upgrade():
            return None
        url = httptools.parse_url(self.url)
        text = method.decode("ascii")
        found = self._application.find(text, url.path)
        if found.route is None or not found.route.hot or not self._is_small(method):
            return None
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        return Head(found, text, url.path, url.query or b"", self.headers, keep_alive)

    def _is_small(self, method: bytes) -> bool:
        length = b"0" if method == b"GET" else b""
        for name, value in self.headers:
            if name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                return False
        return length.isdigit() and int(length) <= _LANE_BODY_BYTES

    def send(self, lane: _LaneCall, answer: bytes) -> None:
        """Send the answer to a request in the lane, and go on as after any other."""
        lane.response_complete = True
        if lane.started:
            log_answer(lane.request, int(answer[9:12]), lane.started)
        if self.transport.is_closing():
            return
        if lane.keep_alive:
            self.transport.write(answer)
        else:
            self.transport.write(answer.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
            self.transport.close()
        self.on_response_complete()
