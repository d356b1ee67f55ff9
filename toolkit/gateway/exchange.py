"""Request and replies, as the routes of all services see them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qsl

from toolkit.contract import Endpoint, first_values
from toolkit.errors import ServiceError

Header = tuple[bytes, bytes]

JSON = b"application/json"


class Request:
    """One request, its path values decoded once.

    ``method`` and ``raw_path`` are as they came, ``values`` holds the path's values, ``query_string`` and ``body``
    are raw bytes, ``headers`` have lower-case names, ``client`` is the caller's address.
    """

    __slots__ = ("_query", "body", "client", "headers", "method", "query_string", "raw_path", "values")

    def __init__(
        self,
        method: str,
        raw_path: bytes,
        values: dict[str, str],
        query_string: bytes,
        headers: list[Header],
        body: bytes,
        client: str,
    ) -> None:
        self.method = method
        self.raw_path = raw_path
        self.values = values
        self.query_string = query_string
        self.headers = headers
        self.body = body
        self.client = client
        self._query: dict[str, str] | None = None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query's names and values in order, empty values kept."""
        text = self.query_string.decode("latin-1")
        return parse_qsl(text, keep_blank_values=True, errors="surrogateescape") if text else []

    @property
    def query(self) -> dict[str, str]:
        """The first value of each name of the query."""
        if self._query is None:
            self._query = first_values(self.pairs) if self.query_string else {}
        return self._query

    def header(self, name: bytes) -> str:
        """Return the first header of this (lower-case) name, or an empty text."""
        for given, value in self.headers:
            if given == name:
                return value.decode("latin-1")
        return ""


class Reply(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[Header, ...] = ()


class Sink(Protocol):
    """Where a stream writes to."""

    def write(self, *pieces: bytes) -> None:
        """Send each piece as one chunk, or queue them; never blocks. A reader too slow for its queue is cut off."""
        ...

    async def drain(self) -> None:
        """Wait until all that was written has left."""
        ...

    def end(self) -> None:
        """End the stream properly."""
        ...


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer without end.

    ``start`` is called with the sink once the head has been sent and returns the call that ends the stream;
    what it raises must have been checked before. ``heartbeat`` is sent when nothing else was for a while.
    """

    start: Callable[[Sink], Awaitable[Callable[[], None]]]
    content_type: bytes
    headers: tuple[Header, ...] = ()
    heartbeat: bytes = b""


T = TypeVar("T")


class Eventually(Generic[T]):
    """A reply that is written once a future is done. Awaitable, and usable without a task.

    Parameters
    ----------
    future
        What the reply waits for, such as the commit of a dweet.
    write
        Makes the reply from the future's result.
    """

    __slots__ = ("future", "write")

    def __init__(self, future: asyncio.Future[T], write: Callable[[T], Reply]) -> None:
        self.future = future
        self.write = write

    def __await__(self) -> Generator[Any, None, Reply]:
        result = yield from self.future
        return self.write(result)

    def then(self, change: Callable[[Reply], Reply]) -> Eventually[T]:
        """Return this with a change made to its reply."""
        write = self.write
        return Eventually(self.future, lambda result: change(write(result)))


class Call(Protocol):
    """One of the requests that are answered together; each is answered once."""

    @property
    def prepared(self) -> Any:  # noqa: ANN401
        """What `Together.prepare` made of the request's head."""
        ...

    @property
    def body(self) -> bytes:
        """Its body."""
        ...

    def hold(self, reply: Reply) -> None:
        """Make its answer ready to be sent."""
        ...

    def send(self) -> None:
        """Answer it with what is ready."""
        ...

    def refuse(self, error: Exception) -> None:
        """Answer it with an error, unless it has its answer."""
        ...


class Together:
    """Answers the requests of one route that come in the same turn of the event loop together.

    Under load that spares most of what each of them costs: its own steps from route to store and back.

    Parameters
    ----------
    prepare
        Reads what does not change while the same head comes again and again.
    answer
        Answers all, now or later.
    """

    def __init__(self, prepare: Callable[[Request], Any], answer: Callable[[Sequence[Call]], None]) -> None:
        self.prepare = prepare
        self._answer = answer
        self._calls: list[Call] = []

    def add(self, call: Call) -> None:
        """Answer this call with the others of this turn."""
        if not self._calls:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._calls.append(call)

    def _end_turn(self) -> None:
        calls, self._calls = self._calls, []
        try:
            self._answer(calls)
        except Exception as error:  # the last fence: a mistake of ours is an answer too, for each of them
            for call in calls:
                call.refuse(error)


Answer = Reply | Stream
Handler = Callable[[Request], Answer | Awaitable[Answer]]


class Route(NamedTuple):
    """An endpoint, what answers it, and how large a body may be.

    A GET is ``safe`` where it only reads (RFC 9110, 9.2.1): then HEAD is answered too. The handler of a ``hot`` route
    returns a Reply or an Eventually and is called without a task; see `lane`. There, requests with a head that came
    before are answered ``together``, where that is given.
    """

    endpoint: Endpoint
    handler: Handler
    max_body: int = 0
    hot: bool = False
    safe: bool = True
    together: Together | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """What the route answers to: HEAD like GET, unless that acts."""
        method = self.endpoint.method
        return (method, "HEAD") if method == "GET" and self.safe else (method,)


class Routes(Protocol):
    """All routes of one service, and how it says no."""

    table: list[Route]
    #: First path segments that belong to this service, also where no route matches.
    segments: frozenset[bytes]
    #: Sent with every answer of this service.
    headers: tuple[Header, ...]
    #: Whether browsers of other origins may call (answers OPTIONS).
    cross_origin: bool

    def refuse(self, error: ServiceError, request: Request) -> Reply:
        """Write an error in the service's dialect."""
        ...


@dataclass
class Found:
    """What the router found for a path: a route with its values, or the methods that the path would take."""

    routes: Routes
    route: Route | None = None
    values: dict[str, str] = field(default_factory=dict)
    allowed: list[str] = field(default_factory=list)
