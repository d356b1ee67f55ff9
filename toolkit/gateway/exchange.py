"""Request, response and route, as all services see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import parse_qsl

from toolkit.endpoint import Endpoint, first_values
from toolkit.errors import KeyRejected, ServiceError

if TYPE_CHECKING:
    from toolkit.gateway.http_stream import StreamWriter

Header = tuple[bytes, bytes]

JSON = b"application/json"

_STATUS_LINES = {one.value: b"HTTP/1.1 %d %b\r\n" % (one.value, one.phrase.encode("ascii")) for one in HTTPStatus}
_WITHOUT_BODY = (204, 304)
_CLOSE = b"connection: close\r\n"


@dataclass(slots=True, eq=False)
class Request:
    """One request.

    ``method``, ``raw_path``, ``query_string`` and ``body`` are as they came; ``fields`` holds the first value of each
    header by its lower-case name, ``client`` is the address of the caller. `Application.begin` sets the last four;
    ``values`` are those of the path, decoded once.
    """

    method: str
    raw_path: bytes
    query_string: bytes
    fields: dict[bytes, bytes]
    client: str = ""
    body: bytes = b""
    #: Whether the connection may be kept after it, and whether the caller knows chunked encoding.
    keep_alive: bool = True
    is_http_1_1: bool = True
    #: When it began, where that is logged.
    started: float = 0.0
    _query: dict[str, str] | None = None
    handler: Handler = field(init=False)
    route: Route | None = field(init=False)
    routes: Routes | None = field(init=False)
    values: dict[str, str] = field(init=False)

    @property
    def is_cancellable(self) -> bool:
        """Whether it is not worth finishing for a caller who is gone."""
        return self.route is not None and self.route.cancellable

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query's names and values in order, empty values kept."""
        return parse_qsl(self.query_string.decode("latin-1"), keep_blank_values=True, errors="surrogateescape")

    @property
    def query(self) -> dict[str, str]:
        """The first value of each name of the query."""
        if self._query is None:
            self._query = first_values(self.pairs)
        return self._query

    def header(self, name: bytes) -> str:
        return self.fields.get(name, b"").decode("latin-1")


@dataclass(slots=True)
class Response:
    """A whole response."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[Header, ...] = ()

    def head(self, common: bytes, *, close: bool) -> bytes:
        """Return the status line and all headers; `common` are the header lines that every response has."""
        if self.headers:
            common += b"".join([b"%b: %b\r\n" % header for header in self.headers])
        if close:
            common += _CLOSE
        if self.status in _WITHOUT_BODY:
            return b"%b%b\r\n" % (_STATUS_LINES[self.status], common)
        parts = _STATUS_LINES[self.status], common, self.content_type, len(self.body)
        return b"%b%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n" % parts


@dataclass(frozen=True, slots=True)
class Stream:
    """A response that is written after its head, in pieces; the last one of its connection.

    ``start`` is called with the writer once the head has been sent and returns the call that ends the stream; what it
    raises must have been checked before. ``heartbeat`` is sent when nothing else was for a while.

    One that ``is_finite`` ends itself and waits for its reader with `StreamWriter.drain`. It is cut off when that reads
    nothing for too long; a server that stops never ends it early as if it were whole.
    """

    start: Callable[[StreamWriter], Awaitable[Callable[[], None]]]
    content_type: bytes
    heartbeat: bytes = b""
    status: int = 200
    is_finite: bool = False

    def head(self, common: bytes, *, chunked: bool) -> bytes:
        """Return the status line and all headers, as `Response.head` does."""
        framing = b"transfer-encoding: chunked\r\n" if chunked else b""
        lines = (
            _STATUS_LINES[self.status],
            common,
            b"content-type: %b\r\n" % self.content_type,
            framing,
            _CLOSE,
            b"\r\n",
        )
        return b"".join(lines)


Answer = Response | Stream
Handler = Callable[[Request], Answer | Awaitable[Any]]


class Route(NamedTuple):
    """An endpoint, its handler, and how large a body may be.

    A GET is ``safe`` where it only reads (RFC 9110, 9.2.1): then HEAD is answered too. A handler may return an
    awaitable; ``respond`` makes the response of its result, where that is not one yet. A handler that is
    ``cancellable`` is cancelled when the caller closes the connection, also where that can still read the response.
    """

    endpoint: Endpoint
    handler: Handler
    max_body: int = 0
    safe: bool = True
    respond: Callable[[Any], Response] = lambda response: response
    cancellable: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """What the route answers to: HEAD like GET, unless that acts."""
        method = self.endpoint.method
        return (method, "HEAD") if method == "GET" and self.safe else (method,)


class WrongKey(NamedTuple):
    """What a wrong key was tried at, as a log may show it, and the error after too many of them."""

    target: str
    too_many: ServiceError


class Routes(Protocol):
    """All routes of one service, and how it says no."""

    table: list[Route]
    #: First path segments that belong to this service, also where no route matches.
    segments: frozenset[bytes]
    #: Sent with every response of this service.
    headers: tuple[Header, ...]
    #: Whether browsers of other origins may call (answers OPTIONS).
    cross_origin: bool

    def refuse(self, error: ServiceError, request: Request) -> Response:
        """Write an error in the service's dialect."""
        ...

    def wrong_key(self, error: KeyRejected, request: Request) -> WrongKey | None:
        """Return what a key was tried at; None where none was given, or the service counts wrong ones itself."""
        ...
