"""Request, response and route, as all services see them."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl

from toolkit.endpoint import Endpoint
from toolkit.errors import KeyRejected, ServiceError
from toolkit_gateway.http.account import Share
from toolkit_gateway.http.limits import StreamWriter

Header = tuple[bytes, bytes]

JSON = b"application/json"

_STATUS_LINES = {code.value: b"HTTP/1.1 %d %b\r\n" % (code.value, code.phrase.encode("ascii")) for code in HTTPStatus}
_WITHOUT_BODY = (204, 304)
#: A Host header; what matches may be put into a URL or a page.
HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_CLOSE = b"connection: close\r\n"
# Only so many characters of the header Accept are read.
_ACCEPT_CHARACTERS = 4_000
# How many bytes a request, a header and a field of the query take in CPython besides their text; a test measures them.
_REQUEST_OVERHEAD, HEADER_OVERHEAD, _FIELD_OVERHEAD = 600, 150, 180


@dataclass(slots=True, eq=False)
class Request:
    """One request; `Application.find_handler` sets `handler`, `route`, `routes` and `values` when its head is read."""

    method: str
    raw_path: bytes
    query_string: bytes
    #: The first value of each header by its lower-case name.
    fields: dict[bytes, bytes]
    #: The address of the caller; `Proxies.resolve` replaces that of a trusted proxy.
    client: str = ""
    body: bytes = b""
    #: The size of its head, or of the slices of input that it came in.
    head_bytes: int = 0
    is_http_1_1: bool = True
    #: When its head was complete (`time.perf_counter`), if responses are logged.
    started: float = 0.0
    _pairs: list[tuple[str, str]] | None = None
    #: What its connection holds. What makes a handler wait on purpose is ``with request.share.answering_late():``.
    share: Share = field(init=False)
    handler: Handler = field(init=False)
    route: Route | None = field(init=False, default=None)
    routes: Routes | None = field(init=False)
    #: The values in the path by their names, decoded once.
    values: dict[str, str] = field(init=False)

    @property
    def is_cancellable(self) -> bool:
        return self.route is not None and self.route.cancellable

    @property
    def size(self) -> int:
        """Return about how many bytes of memory the request takes."""
        size = _REQUEST_OVERHEAD + self.head_bytes + HEADER_OVERHEAD * len(self.fields) + len(self.body)
        return size if self._pairs is None else size + len(self.query_string) + _FIELD_OVERHEAD * len(self._pairs)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Names and values of the query, parsed once: a query of 256 KiB takes long."""
        if self._pairs is None:
            text = self.query_string.decode("latin-1")
            self._pairs = parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
        return self._pairs

    @property
    def query(self) -> dict[str, str]:
        """The first value of each name of the query."""
        return dict(self.pairs) | dict(reversed(self.pairs))

    @property
    def base_url(self) -> str:
        """The URL by which the caller reaches the gateway; empty if the Host header is not a host name."""
        host = self.header(b"host")
        return f"http://{host}" if HOST.fullmatch(host) else ""

    @property
    def media_type(self) -> str:
        """The media type of the body, without parameters."""
        return self.header(b"content-type").partition(";")[0].strip().lower()

    @property
    def accepted(self) -> set[str]:
        """The media types of the header Accept, without their weights; empty without the header."""
        parts = filter(None, self.header(b"accept")[:_ACCEPT_CHARACTERS].split(","))
        return {part.partition(";")[0].strip().lower() for part in parts}

    @property
    def wants_page(self) -> bool:
        """Whether the caller asks for HTML and not for JSON, as a browser does."""
        accepted = self.accepted
        return "text/html" in accepted and "application/json" not in accepted

    def header(self, name: bytes) -> str:
        return self.fields.get(name, b"").decode("latin-1")


def header_lines(headers: Iterable[Header]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def retry_after(error: ServiceError) -> tuple[Header, ...]:
    """Return the header Retry-After if the error says when to try again."""
    seconds = error.retry_after
    return () if seconds is None else ((b"retry-after", b"%d" % max(1, math.ceil(seconds))),)


@dataclass(slots=True)
class Response:
    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[Header, ...] = ()

    def head(self, common: bytes, *, close: bool) -> bytes:
        """Return the status line and all headers; `common` are the header lines that every response has."""
        if self.headers:
            common += header_lines(self.headers)
        if close:
            common += _CLOSE
        if self.status in _WITHOUT_BODY:
            return b"%b%b\r\n" % (_STATUS_LINES[self.status], common)
        parts = _STATUS_LINES[self.status], common, self.content_type, len(self.body)
        return b"%b%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n" % parts


@dataclass(frozen=True, slots=True)
class Stream:
    """A response that is written in pieces after its head; the last one of its connection.

    A server that stops ends endless streams cleanly, but aborts one that ``is_finite``: it would look complete.
    """

    #: Called with the writer once the head is sent; it returns the call that ends the stream.
    start: Callable[[StreamWriter], Awaitable[Callable[[], None]]]
    content_type: bytes
    #: Sent after a while of silence.
    heartbeat: bytes = b""
    status: int = 200
    is_finite: bool = False
    headers: tuple[Header, ...] = ()

    def head(self, common: bytes, *, chunked: bool) -> bytes:
        framing = b"transfer-encoding: chunked\r\n" if chunked else b""
        parts = _STATUS_LINES[self.status], common, header_lines(self.headers), self.content_type, framing, _CLOSE
        return b"%b%b%bcontent-type: %b\r\n%b%b\r\n" % parts


Answer = Response | Stream
Handler = Callable[[Request], Answer | Awaitable[Any]]


class Route(NamedTuple):
    endpoint: Endpoint
    #: Returns an answer, or an awaitable of an answer or of the argument of `respond`.
    handler: Handler
    max_body: int = 0  # bytes; with 0, a body is read and dropped
    #: Whether a GET only reads (RFC 9110, 9.2.1): then HEAD is answered too.
    safe: bool = True
    respond: Callable[[Any], Response] = lambda response: response
    #: Whether the handler is cancelled when the caller stops sending, even if the caller still reads responses.
    cancellable: bool = False
    #: Whether it is a page: for callers who do not ask for HTML its path is unknown.
    for_browsers: bool = False
    #: Whether its query may be long, as that of a rendering or of a GET that posts.
    has_long_query: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        method = self.endpoint.method
        return (method, "HEAD") if method == "GET" and self.safe else (method,)


class KeyAttempt(NamedTuple):
    """The key of a request, and what it is tried on, as a log may show it: a lock, or a service."""

    target: str
    key: str


class Routes(Protocol):
    """All routes of one service, and its responses to errors."""

    table: list[Route]
    #: First path segments that belong to this service, also where no route matches.
    first_segments: frozenset[bytes] = frozenset()
    #: Sent with every response of this service.
    headers: tuple[Header, ...] = ((b"cache-control", b"no-store"),)
    #: Whether browsers of other origins may call (answers OPTIONS).
    cross_origin: bool = False
    #: The error after too many wrong keys.
    too_many_keys: ServiceError = ServiceError("too many wrong keys", status=429)

    def error_response(self, error: ServiceError, request: Request) -> Response:
        """Return the response to an error, in the service's dialect."""

    def key_attempt(self, request: Request) -> KeyAttempt | None:
        """Return the key that the handler of this request will look at; None if it has no key, or needs none."""
        return None

    def is_wrong_key(self, error: KeyRejected) -> bool:
        """Whether this error of a request with a key says that the key is wrong."""
        return True
