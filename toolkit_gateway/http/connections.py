"""All open connections of a server: their clock, their accounts, and how they end."""

import asyncio
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any

from toolkit_gateway.http.account import Accounts
from toolkit_gateway.http.exchange import Routes
from toolkit_gateway.http.limits import LIMITS, OpenConnection
from toolkit_gateway.memory import give_back

_TICK_SECONDS = 0.25
# Free memory is given back to the system every 20 s.
_TICKS_PER_TRIM = 80


class Connections:
    """The open connections of one server, with one timer for all: a timer for each request would cost more."""

    def __init__(
        self, service_headers: Mapping[Routes | None, bytes], log_unavailable: Callable[[BaseException], None]
    ) -> None:
        self.log_unavailable = log_unavailable
        self._service_headers = service_headers
        self.accounts = Accounts()
        self.active: dict[OpenConnection, None] = {}  # the oldest first
        #: Connections whose callers do not read; the one that has waited longest comes first.
        self.slow: dict[OpenConnection, None] = {}
        self.is_stopping = False
        #: As of the last tick: the event loop's time, and when a connection that is idle from now on is closed.
        self.now = self.idle_deadline = 0.0
        #: What every response of a service has in its head, as bytes: the Date header of the last tick, and more.
        self.common_headers: dict[Routes | None, bytes] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._tick()

    async def run_clock(self) -> None:
        while True:
            for _ in range(_TICKS_PER_TRIM):
                self._tick()
                await asyncio.sleep(_TICK_SECONDS)
            await asyncio.to_thread(give_back)

    def _tick(self) -> None:
        self.now = now = asyncio.get_running_loop().time()
        self.idle_deadline = now + LIMITS.idle_seconds
        date = b"date: %b\r\n" % formatdate(usegmt=True).encode("ascii")
        self.common_headers = {routes: date + lines for routes, lines in self._service_headers.items()}
        for connection in tuple(self.active):
            connection.check_deadlines(now)
        self.limit_unread()

    def limit_unread(self) -> None:
        """Disconnect the slowest readers while callers have too much left to read."""
        while len(self.slow) > 1 and self._unread_bytes() > LIMITS.unread_bytes:
            slowest = next(iter(self.slow))
            del self.slow[slowest]
            slowest.abort()

    def _unread_bytes(self) -> int:
        # A body that several callers read counts once.
        bodies = {id(connection.unread_body): len(connection.unread_body) for connection in self.slow}
        return sum(bodies.values()) + sum(connection.buffered_bytes for connection in self.slow)

    def keep_task(self, task: asyncio.Future[Any]) -> None:
        """Refer to a handler's task until it is done: the event loop does not, and its connection may end earlier."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait up to `Limits.grace_seconds` for requests at hand and streams to end; then abort the rest."""
        self.is_stopping = True
        for connection in tuple(self.active):
            connection.finish()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LIMITS.grace_seconds
        while (self.active or self._tasks) and loop.time() < deadline:
            await asyncio.sleep(0.002)
        for task in tuple(self._tasks):
            task.cancel()
        for connection in tuple(self.active):
            connection.abort()
        await asyncio.sleep(0)
