"""All open connections of a server: their limits, their clock, and how they end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from toolkit.gateway.app import Application
from toolkit.gateway.exchange import Routes

if TYPE_CHECKING:
    from toolkit.gateway.http_protocol import HttpProtocol

NEVER = float("inf")
_TICK_SECONDS = 0.25


@dataclass
class Limits:
    """Sizes in bytes, times in seconds; a test sets some of them."""

    #: Size of the head of a request; as much again for what is neither head nor body (trailers, chunk extensions).
    head_bytes: int = 256 * 1024
    #: Number of headers of a request, and of fields in its query.
    headers: int = 100
    query_fields: int = 10_000
    #: Size of a body where none is expected, and of the input after a refusal; both are read and dropped.
    dropped_bytes: int = 512 * 1024 * 1024
    #: Number of requests of a connection that wait for the one before them, and size of their bodies.
    waiting: int = 16
    waiting_bytes: int = 256 * 1024
    #: Size of what a listener has not read yet; above it the listener is disconnected, and resumes with ``since``.
    stream_bytes: int = 4 * 1024 * 1024
    #: Size of all responses that their callers have not read yet; above it the slowest callers are disconnected.
    unread_bytes: int = 256 * 1024 * 1024
    #: Size of all request bodies in memory; above it, the connections with the slowest ones are closed.
    body_bytes: int = 256 * 1024 * 1024
    #: How long the head of a request may take to arrive, and then its body.
    request_seconds: float = 30.0
    #: How long a connection stays open between two requests.
    idle_seconds: float = 75.0
    #: How long a caller may take to read a response: this time, and a second more per `write_rate` bytes.
    write_seconds: float = 60.0
    write_rate: float = 256 * 1024
    #: How long a connection stays open after the body of a request was refused, so that its client notices.
    drop_seconds: float = 10.0
    #: How long a stream is silent before it sends a heartbeat.
    heartbeat_seconds: float = 15.0
    #: How long the reader of a stream that is ended may take to read the rest.
    end_seconds: float = 1.0
    #: How long a server that stops waits for all connections to end.
    grace_seconds: float = 3.0


LIMITS = Limits()


class Connections:
    """The open connections of one server, with one timer for all: a timer for each request would cost more."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.open: dict[HttpProtocol, None] = {}  # the oldest first
        #: Connections whose callers do not read; the one that has waited longest comes first.
        self.slow: dict[HttpProtocol, None] = {}
        self.is_stopping = False
        #: As of the last tick: the event loop's time, and when a connection that is idle from now on is closed.
        self.now = self.idle_deadline = 0.0
        #: What every response of a service has in its head, as bytes: the Date header of the last tick, and more.
        self.common_headers: dict[Routes | None, bytes] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._tick()

    async def run_clock(self) -> None:
        while True:
            self._tick()
            await asyncio.sleep(_TICK_SECONDS)

    def _tick(self) -> None:
        self.now = now = asyncio.get_running_loop().time()
        self.idle_deadline = now + LIMITS.idle_seconds
        date = b"date: %b\r\n" % formatdate(usegmt=True).encode("ascii")
        self.common_headers = {routes: date + lines for routes, lines in self.application.common_headers.items()}
        for connection in tuple(self.open):
            connection.tick(now)
        self.bound_unread()
        self._bound_bodies()

    def _bound_bodies(self) -> None:
        sizes = {connection: size for connection in self.open if (size := connection.body_bytes)}
        surplus = sum(sizes.values()) - LIMITS.body_bytes
        for connection in sorted(sizes, key=lambda candidate: candidate.body_deadline) if surplus > 0 else ():
            if surplus > 0 and connection.body_deadline < NEVER:
                surplus -= sizes[connection]
                connection.abort()

    def bound_unread(self) -> None:
        """Disconnect the slowest readers while callers have too much left to read."""
        while len(self.slow) > 1 and self._unread_bytes() > LIMITS.unread_bytes:
            slowest = next(iter(self.slow))
            del self.slow[slowest]
            slowest.abort()

    def _unread_bytes(self) -> int:
        # A body that several callers read counts once.
        bodies = {id(connection.unread_body): len(connection.unread_body) for connection in self.slow}
        return sum(bodies.values()) + sum(connection.buffered_bytes for connection in self.slow)

    def hold(self, task: asyncio.Future[Any]) -> None:
        """Refer to a handler's task until it is done: the event loop does not, and its connection may end earlier."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait up to `Limits.grace_seconds` for requests at hand and streams to end; then abort the rest."""
        self.is_stopping = True
        for connection in tuple(self.open):
            connection.finish()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LIMITS.grace_seconds
        while (self.open or self._tasks) and loop.time() < deadline:
            await asyncio.sleep(0.002)
        for task in tuple(self._tasks):
            task.cancel()
        for connection in tuple(self.open):
            connection.abort()
        await asyncio.sleep(0)
