"""Bytes to requests, within the limits of a connection. The parser is httptools."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import httptools

from toolkit.gateway.connections import Connections
from toolkit.gateway.exchange import Header, Request

log = logging.getLogger("toolkit.gateway")

NEVER = float("inf")
_AUTHORITY = re.compile(rb"https?://[^/?#]+", re.IGNORECASE)


class Refused(Exception):
    """What is being received is refused, and the connection is closed.

    Parameters
    ----------
    status, text
        Why.
    request
        Its head, where that was complete: then its service says no in its own dialect.
    """

    def __init__(self, status: int, text: str, request: Request | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.request = request


class RequestReader:
    """Reads the requests of one connection.

    Parameters
    ----------
    connections
        Application, limits and clock.
    client
        The caller's address.
    take
        Called with each request once it is complete.
    """

    def __init__(self, connections: Connections, client: str, take: Callable[[Request], None]) -> None:
        self._connections = connections
        self._limits = connections.limits
        self._begin = connections.application.begin
        self._client = client
        self._take = take
        self._parser = httptools.HttpRequestParser(self)
        #: Whether a request has begun and is not complete, and by when it must be.
        self.is_receiving = False
        self.deadline = NEVER
        #: Whether the caller waits for a "100 Continue" before it sends the body.
        self.awaits_continue = False
        self._target = b""
        self._headers: list[Header] = []
        self._request: Request | None = None  # once its head is complete
        self._pieces: list[bytes] = []
        self._body_bytes = 0
        self._max_body = 0
        self._overhead_bytes = 0

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the input.

        Raises
        ------
        Refused
            It is not HTTP, or larger than a request may be.
        """
        before = self._body_bytes
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed_without_upgrade(piece[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, Refused):
                raise cause from None
            if isinstance(error, httptools.HttpParserCallbackError):
                raise RuntimeError("the HTTP protocol failed at a request") from cause
            raise Refused(400, "this is not a valid HTTP/1.1 request") from None
        if self.is_receiving:
            self._check_unfinished(0 if self._body_bytes > before else len(piece))

    def _check_unfinished(self, overhead: int) -> None:
        """Bound a request that is not complete: its time, and what is no body (head, trailers, chunk extensions)."""
        if self.deadline == NEVER:
            self.deadline = self._connections.now + self._limits.request_seconds
        self._overhead_bytes += overhead
        if self._overhead_bytes > self._limits.head_bytes:
            raise Refused(431, "the head of the request is too large")
        self._check_headers()

    def _check_headers(self) -> None:
        if len(self._headers) > self._limits.headers:
            raise Refused(431, f"a request has at most {self._limits.headers} headers")

    def late(self) -> Refused:
        """Return why a request whose deadline is over is refused."""
        return Refused(408, f"the request did not arrive within {self._limits.request_seconds:g} s", self._request)

    def _feed_without_upgrade(self, rest: bytes) -> None:
        """Parse a request for another protocol once more as an ordinary one: the parser skips the body of the first."""
        head = [b"%b %b HTTP/1.1\r\n" % (self._parser.get_method(), self._target)]
        head += [b"%b: %b\r\n" % (name, value) for name, value in self._headers if name != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        self.feed(b"%b\r\n%b" % (b"".join(head), rest))

    # -- called by the parser -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._target, self._headers, self._request = b"", [], None
        self._body_bytes = self._overhead_bytes = 0
        self.is_receiving = True

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer, which comes behind the body, is dropped."""
        if self._request is None:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Find out who answers, and what body is expected."""
        parser, headers = self._parser, self._headers
        if parser.should_upgrade():
            if parser.get_method() == b"CONNECT":
                raise Refused(400, "CONNECT is not served")
            return  # the parser raises HttpParserUpgrade behind the head
        self._check_headers()
        path, query = split_target(self._target)
        request = Request(parser.get_method().decode("ascii"), path, query, headers, self._client)
        keeps = parser.should_keep_alive()
        # What is kept without a word about it is HTTP/1.1; to ask the parser costs as much as a header.
        if not keeps or b"connection" in request.fields:
            version = parser.get_http_version()
            request.is_http_1_1 = version == "1.1"
            if version not in ("1.0", "1.1"):
                raise Refused(505, "send HTTP/1.0 or HTTP/1.1")
        if request.is_http_1_1 and not _names_its_host_once(request):
            raise Refused(400, "a request of HTTP/1.1 names its host once")
        request.keep_alive = keeps and request.is_http_1_1
        if len(request.fields) < len(headers):
            _join_forwarding(request.fields, headers)
        self._max_body = self._begin(request, is_proxied=not self._target.startswith(b"/"))
        self._request = request
        if b"content-length" in request.fields or b"transfer-encoding" in request.fields:
            self._expect_body(request)

    def _expect_body(self, request: Request) -> None:
        fields = request.fields
        if self._max_body and int(fields.get(b"content-length", b"0")) > self._max_body:
            raise _body_too_large(self._max_body, request)
        self.deadline = NEVER  # the time limit of the body starts with its first bytes
        if b"expect" in fields:
            self.awaits_continue = request.is_http_1_1 and fields[b"expect"].lower() == b"100-continue"

    def on_body(self, piece: bytes) -> None:
        """Take a piece of the body; where none is expected it is dropped."""
        self.awaits_continue = False
        self._body_bytes += len(piece)
        if self._body_bytes > (self._max_body or self._limits.dropped_bytes):
            assert self._request is not None, "its head is complete"
            raise _body_too_large(self._max_body, self._request)
        if self._max_body:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Hand the request over."""
        request, pieces = self._request, self._pieces
        if request is None:  # it will be parsed once more, without its upgrade
            return
        if pieces:
            request.body = b"".join(pieces)  # of one piece it is that very piece
            self._pieces = []
        self.is_receiving = False
        self.deadline = NEVER
        self._take(request)


def _join_forwarding(fields: dict[bytes, bytes], headers: list[Header]) -> None:
    """Join repeated headers of proxies to one list (RFC 9110, 5.3): what the nearest proxy says comes last in it."""
    for name in (b"x-forwarded-for", b"forwarded"):
        if name in fields:
            fields[name] = b",".join([value for given, value in headers if given == name])


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Return the raw path and the query of a target in origin form or absolute form.

    Raises
    ------
    Refused
        It is neither.

    Examples
    --------
    >>> split_target(b"/dweet/for/a%2Fb?n=1"), split_target(b"http://host/get/stats")
    ((b'/dweet/for/a%2Fb', b'n=1'), (b'/get/stats', b''))
    """
    if not target.startswith(b"/"):
        authority = _AUTHORITY.match(target)
        if authority is None:
            raise Refused(400, "the target of a request is a path or an http URL")
        target = target[authority.end() :]
        if not target.startswith(b"/"):
            target = b"/" + target
    if b"#" in target:
        target = target.partition(b"#")[0]
    path, _, query = target.partition(b"?")
    return path, query


def _names_its_host_once(request: Request) -> bool:
    if b"host" not in request.fields:
        return False
    return len(request.fields) == len(request.headers) or [name for name, _ in request.headers].count(b"host") == 1


def _body_too_large(limit: int, request: Request) -> Refused:
    return Refused(413, f"the body is larger than {limit} bytes", request)
