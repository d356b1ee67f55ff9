"""Parse requests with httptools, within the limits of a connection.

httptools calls ``on_url``, ``on_header``, ``on_headers_complete``, ``on_body`` and ``on_message_complete``, in this
order. A request passes these states:

- none has begun: `_target` is empty and `_request` is None.
- head: `_target` and `_fields` are filled, piece by piece.
- body: the head is complete, `_request` is set and its handler is found. So an error (too large, too late) is answered
  by the service of the request, in its own dialect. Before that, only a plain text is possible.
- complete: the request waits in `complete`, and the next one may begin.

The first error ends the connection, because nobody can tell where the next request begins: the request that stands for
it in `complete` is the last one, and its handler returns the error.
"""

import re
from collections import deque

import httptools

from toolkit.errors import MalformedRequest
from toolkit_gateway.http.account import Share
from toolkit_gateway.http.app import Application
from toolkit_gateway.http.connections import Connections
from toolkit_gateway.http.exchange import HEADER_OVERHEAD, Header, Request, Response
from toolkit_gateway.http.limits import LIMITS, NEVER

_ONE_HOST = "a request of HTTP/1.1 names its host once"
_SLASH, _HASH = b"/#"
_FORWARDING = (b"x-forwarded-for", b"forwarded")
_AUTHORITY = re.compile(rb"https?://[^/?#]+", re.IGNORECASE)
# The service of a request, known when its head is complete, writes the responses with these statuses.
_STATUSES_OF_SERVICE = (408, 413)
# The parser also reads RTSP and ICE. It takes these methods for one of the two only, except for SOURCE.
_OTHER_PROTOCOLS = (b" RTSP/", b" ICE/")
_OTHER_METHODS = {
    "DESCRIBE", "ANNOUNCE", "SETUP", "PLAY", "PAUSE", "TEARDOWN", "GET_PARAMETER", "SET_PARAMETER", "REDIRECT",
    "RECORD", "FLUSH", "SOURCE",
}  # fmt: skip


class RequestReader:
    """Reads the requests of one connection."""

    def __init__(self, application: Application, connections: Connections, share: Share) -> None:
        self._application = application
        self._connections = connections
        self._share = share
        self._peer = share.address
        self._parser = self._new_parser()
        self._slice = b""  # what the parser reads now
        #: Requests that wait for their responses.
        self.complete: deque[Request] = deque()
        #: Whether the last request of the connection is complete, or no more are accepted; further input is dropped.
        self.is_over = False
        #: Whether the slices so far end inside a request.
        self.has_begun = False
        #: By when a request that has begun must be complete.
        self.deadline = NEVER
        #: Whether the caller waits for "100 Continue".
        self.awaits_continue = False
        #: Whether the last request was refused for its body, which the caller may still send.
        self.has_refused_body = False
        self._target: bytes | bytearray = b""
        self._fields: dict[bytes, bytes] = {}
        self._repeated: list[Header] = []  # headers whose name came before
        self._request: Request | None = None  # once its head is complete
        self._is_last = False  # whether the connection ends with it
        #: The body received so far. For tiny chunks, a list of pieces would take 25 times the memory.
        self.body = bytearray()
        self._body_bytes = self._max_body = 0
        self._overhead_bytes = 0  # of the current request: all bytes that are not in its body
        self._max_head = LIMITS.head_bytes

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_version=True)  # `_is_http_1_1` checks the version
        return parser

    def parse(self, data: bytes) -> None:
        """Parse input, append finished requests to `complete`; a refused one is the last, and its response says why."""
        before, rest, self._slice = self._body_bytes, None, data
        try:
            self._parser.feed_data(data)
            self.has_begun = bool(self._target) or self._request is not None
            if self.has_begun:
                # A slice with some of the body may also have chunk sizes, which are not worth counting.
                self._check_unfinished(0 if self._body_bytes > before else len(data))
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except (httptools.HttpParserError, MalformedRequest) as error:
            if not self.is_over:  # bytes after the last request do not matter
                self._refuse(_refusal_of(error))
        if rest is not None:  # outside of the except clause, so that its error is not chained
            self._read_without_upgrade(rest)

    @property
    def is_receiving(self) -> bool:
        """Whether a request has begun that is not complete."""
        return self.has_begun and not self.is_over

    @property
    def unfinished_bytes(self) -> int:
        """Return about how many bytes of memory the request takes that has begun and is not complete."""
        request = self._request
        head = self._overhead_bytes + HEADER_OVERHEAD * len(self._fields) if request is None else request.size
        return head + len(self.body) if self.is_receiving else 0

    def drop(self) -> None:
        """Accept no more input, and forget the requests that are not answered."""
        self.is_over = True
        self.complete.clear()
        self._slice = b""
        self.has_begun = False
        self._target, self._fields, self._repeated, self._request = b"", {}, [], None
        self.body = bytearray()

    def refuse_late(self) -> None:
        self._refuse(MalformedRequest(f"the request did not arrive within {LIMITS.request_seconds:g} s", status=408))

    def _refuse(self, error: MalformedRequest) -> None:
        request = self._request
        if request is None or error.status not in _STATUSES_OF_SERVICE:  # what came may not be a request at all
            request = Request("-", b"-", b"", {})
            request.routes = request.route = None
            response = Response(error.status, error.message.encode("ascii"), b"text/plain")
        else:
            response = self._application.error_response(request, error)
        request.handler = lambda _: response
        self.has_refused_body = error.status == 413
        self.awaits_continue = False
        self.is_over = True
        self.body = bytearray()
        self.complete.append(request)

    def _check_unfinished(self, overhead: int) -> None:
        """Limit the time and the overhead (head, trailers, chunk extensions) of a request that is not complete."""
        if self.deadline == NEVER:
            self.deadline = self._connections.now + LIMITS.request_seconds
        self._overhead_bytes += overhead
        if self._overhead_bytes > self._max_head and self._overhead_bytes > self._find_max_head():
            raise MalformedRequest("the head of the request is too large", status=431)
        self._check_headers()

    def _find_max_head(self) -> int:
        if self._request is not None:
            method, path = self._request.method, self._request.raw_path
        else:
            method, path = self._parser.get_method().decode(), _split_target(bytes(self._target))[0]
        self._max_head = self._application.max_head(method, path)
        return self._max_head

    def _check_headers(self) -> None:
        """Limit the number of headers, and refuse a second Host: a proxy in front may have checked the other one."""
        if len(self._fields) + len(self._repeated) > LIMITS.headers:
            raise MalformedRequest(f"a request has at most {LIMITS.headers} headers", status=431)
        if any(name == b"host" for name, _ in self._repeated):
            raise MalformedRequest(_ONE_HOST)

    def _read_without_upgrade(self, rest: bytes) -> None:
        """Parse a request for another protocol again as an ordinary one, because the parser skips its body."""
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        # Without this header the parser takes the same head for an ordinary request (RFC 9110, 7.8, allows that).
        headers = [header for header in (*self._fields.items(), *self._repeated) if header[0] != b"upgrade"]
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, bytes(self._target), version, lines)
        self._target, self._fields, self._repeated = b"", {}, []
        self._parser = self._new_parser()
        self.parse(head + rest)

    # -- called by the parser -----------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        if self._target and isinstance(self._target, bytes):
            self._target = bytearray(self._target)  # a long target comes in many pieces
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name, fields = name.lower(), self._fields
        if name in fields:
            self._repeated.append((name, value))
        else:
            fields[name] = value

    def on_headers_complete(self) -> None:
        if self.is_over:  # the same slice holds a request after "Connection: close"
            raise MalformedRequest("the request before this one was the last of its connection")
        parser, fields = self._parser, self._fields
        method = parser.get_method().decode()
        if method == "CONNECT":  # asks for a tunnel, whose bytes are not HTTP
            raise MalformedRequest("CONNECT is not served")
        is_kept = parser.should_keep_alive()
        if (not is_kept or b"connection" in fields) and parser.should_upgrade():
            return  # the parser raises HttpParserUpgrade after the head, and `parse` reads the head once more
        is_http_1_1 = _is_http_1_1(parser.get_http_version())
        is_kept = is_kept and is_http_1_1
        self._check_protocol(method)
        if self._repeated or len(fields) > LIMITS.headers:
            self._check_headers()
            self._join_forwarding()
        if is_http_1_1 and b"host" not in fields:
            raise MalformedRequest(_ONE_HOST)
        target = self._target if isinstance(self._target, bytes) else bytes(self._target)
        path, query = (target, b"") if target == b"*" and method == "OPTIONS" else _split_target(target)
        if query.count(b"&") >= LIMITS.query_fields:
            raise MalformedRequest(f"a query has at most {LIMITS.query_fields:,} fields", status=431)
        self._target, self._fields = b"", {}  # the request has them; later headers are trailers
        request = self._request = Request(method, path, query, fields, self._peer)
        request.share = self._share
        request.head_bytes = self._overhead_bytes + len(self._slice)
        if not is_kept:
            self._is_last, request.is_http_1_1 = True, is_http_1_1
        self._max_body = self._application.find_handler(request, is_url=target[0] != _SLASH)
        if request.client != self._share.address:
            self._connections.accounts.move(self._share, request.client)
        if b"content-length" in fields or b"transfer-encoding" in fields:
            self._expect_body(request)

    def _check_protocol(self, method: str) -> None:
        """Refuse RTSP and ICE; a request line that comes in two slices is not seen, and read as HTTP."""
        data = self._slice
        others = [name for name in _OTHER_PROTOCOLS if name in data]
        lines = [b"%b %b%b" % (method.encode(), bytes(self._target), name) for name in others]
        if method in _OTHER_METHODS or any(data.startswith(line) or b"\n" + line in data for line in lines):
            raise MalformedRequest("this is not a request of HTTP")

    def _join_forwarding(self) -> None:
        for name, value in self._repeated:
            if name in _FORWARDING:  # one list (RFC 9110, 5.3): the nearest proxy's entry comes last
                self._fields[name] += b"," + value

    def _expect_body(self, request: Request) -> None:
        fields = request.fields
        self._body_bytes = 0
        codings = [fields.get(b"transfer-encoding", b""), *(v for n, v in self._repeated if n == b"transfer-encoding")]
        *others, last = [coding.strip().lower() for value in codings for coding in value.split(b",")]
        if others and last == b"chunked":  # the parser refuses all others, after this method
            raise MalformedRequest("the only transfer coding is chunked", status=501)
        # Refuse before the body is sent, if its length says that it is too large. A body that is dropped is not: the
        # caller has reasons of its own to send one, such as a GET with an empty JSON object.
        if self._max_body and int(fields.get(b"content-length", b"0")) > self._max_body:
            raise MalformedRequest(f"the body is larger than {self._max_body} bytes", status=413)
        self.deadline = NEVER  # the time limit of the body starts with its first bytes
        if b"expect" in fields:
            self.awaits_continue = request.is_http_1_1 and fields[b"expect"].lower() == b"100-continue"

    def on_body(self, piece: bytes) -> None:
        self.awaits_continue = False
        self._body_bytes += len(piece)
        if self._body_bytes > (limit := self._max_body or LIMITS.dropped_bytes):
            raise MalformedRequest(f"the body is larger than {limit} bytes", status=413)
        if self._max_body:  # otherwise the body is dropped
            self.body += piece

    def on_message_complete(self) -> None:
        """Reset everything for the next request of the connection."""
        request = self._request
        if request is None:  # the request will be parsed again without its upgrade
            return
        if self.body:
            request.body = bytes(self.body)
            self.body = bytearray()
        if self._fields or self._repeated:  # trailers are ignored
            self._fields, self._repeated = {}, []
        self._request = None
        self._overhead_bytes, self._max_head = 0, LIMITS.head_bytes
        self.awaits_continue = False  # a body without bytes needs no leave
        self.deadline = NEVER
        self.is_over = self._is_last
        self.complete.append(request)


def _split_target(target: bytes) -> tuple[bytes, bytes]:
    """Return the raw path and the query of a target in origin form or absolute form."""
    if target[0] == _SLASH and _HASH not in target:  # most targets
        path, _, query = target.partition(b"?")
        return path, query
    if not target.startswith(b"/"):
        authority = _AUTHORITY.match(target)
        if authority is None:
            raise MalformedRequest("the target of a request is a path or an http URL")
        target = target[authority.end() :]
        if not target.startswith(b"/"):
            target = b"/" + target
    path, _, query = target.partition(b"#")[0].partition(b"?")
    return path, query


def _is_http_1_1(version: str) -> bool:
    if version[0] != "1":
        raise MalformedRequest("send HTTP/1.0 or HTTP/1.1", status=505)
    return version != "1.0"  # a later minor version is read as the latest that we know (RFC 9110, 2.5)


def _refusal_of(error: Exception) -> MalformedRequest:
    # The parser replaces an exception of one of our methods by its own, with ours as the context.
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
    if isinstance(cause, MalformedRequest):
        return cause
    if isinstance(error, httptools.HttpParserCallbackError):
        raise RuntimeError("the HTTP protocol failed to handle a request") from cause
    return MalformedRequest("this is not a valid HTTP/1.1 request")
