"""The server: an event loop in a daemon thread, with the HTTP protocol on its port."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from toolkit.errors import InvalidArgument, ToolkitError
from toolkit.gateway.app import Application
from toolkit.gateway.connections import Connections
from toolkit.gateway.http_protocol import HttpProtocol

T = TypeVar("T")

log = logging.getLogger("toolkit.gateway")

_START_SECONDS = 10.0
_STOP_SECONDS = 15.0
# Connections that wait to be accepted.
_BACKLOG = 4096


class CannotServe(ToolkitError):
    """The server could not start: the port is taken, the address is not this machine's, ..."""


class CannotStop(ToolkitError):
    """The server did not end in time; its port and its folder stay taken."""


class ServerThread:
    """Serve an application from a daemon thread.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    open_application
        Called on the server's loop: opens the services and returns the application.
    close_application
        Called on the server's loop after the last answer.
    """

    def __init__(
        self,
        host: str,
        port: int,
        open_application: Callable[[], Awaitable[Application]],
        close_application: Callable[[], Awaitable[None]],
    ) -> None:
        if not 0 <= port <= 65535:
            raise InvalidArgument(f"a port is 0 (a free one) to 65535, not {port}")
        self._host = host
        self._requested_port = port
        self._open = open_application
        self._close = close_application
        self._opened = threading.Event()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked: asyncio.Event | None = None
        self.port = port
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def start(self) -> None:
        """Start and return once calls are accepted.

        Raises
        ------
        CannotServe
            The address cannot be listened on.
        """
        atexit.register(self._end_with_process)
        self._thread.start()
        # However long it takes: whatever may stay away has times of its own, and a folder of an older gateway, which is
        # moved to new tables first, would begin anew at each start.
        while not self._opened.wait(1.0):
            pass  # in pieces: on Windows a wait without end does not hear Ctrl-C
        if not self._ready.wait(_START_SECONDS):
            raise CannotServe(f"the gateway did not start within {_START_SECONDS:.0f} seconds")
        if self._failure is not None:
            self._thread.join(_STOP_SECONDS)
            raise self._failure

    def ask_to_stop(self) -> None:
        """Let it end by itself, without waiting: for when whoever held it is forgotten, in whichever thread."""
        if self._loop is not None and self._stop_asked is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # it ended in this moment
                self._loop.call_soon_threadsafe(self._stop_asked.set)

    def stop(self) -> None:
        """Finish what is being answered, end all streams, and return once the thread is gone.

        Raises
        ------
        CannotStop
            The thread is still there after 15 seconds.
        StoreUnavailable
            What was left could not be written.
        """
        if self._loop is None or self._stop_asked is None or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop_asked.set)
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise CannotStop(
                f"the gateway did not end within {_STOP_SECONDS:.0f} seconds: port {self.port} and its folder stay "
                "taken until it does, at the latest with this process"
            )
        if self._failure is not None:
            raise self._failure

    @property
    def is_running(self) -> bool:
        """Whether calls are accepted."""
        return self._thread.is_alive() and self._failure is None

    def call(self, work: Coroutine[Any, Any, T], timeout: float = 30.0) -> T:
        """Run a coroutine on the server's loop, from any other thread, and return its result."""
        if self._loop is None or not self.is_running:
            work.close()
            raise CannotServe("the gateway is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def _end_with_process(self) -> None:
        """Stop before the interpreter goes: a loop that it is taken away from crashes the process now and then."""
        self.ask_to_stop()
        self._thread.join(_STOP_SECONDS)
        if self._failure is not None:
            log.debug("the gateway ended with its process: %r", self._failure)  # executors may be gone by then

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:  # raised again by start() or stop(), in the thread of the caller
            self._failure = error
        finally:
            atexit.unregister(self._end_with_process)
            self._opened.set()
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop_asked = asyncio.Event()
        application = await self._open()
        self._opened.set()
        try:
            connections = Connections(application)
            server = await self._listen(connections)
            clock = asyncio.ensure_future(connections.run_clock())
            self._ready.set()
            await self._stop_asked.wait()
            server.close()
            await connections.finish()
            clock.cancel()
        finally:
            await self._close()

    async def _listen(self, connections: Connections) -> asyncio.Server:
        loop, address = asyncio.get_running_loop(), (self._host, self._requested_port)
        try:
            server = await loop.create_server(lambda: HttpProtocol(connections), *address, backlog=_BACKLOG)
        except OSError:
            why = "it is in use or not this machine's address; take another port, or 0 for a free one"
            raise CannotServe(f"cannot listen on {self._host}:{self._requested_port}: {why}") from None
        self.port = server.sockets[0].getsockname()[1]
        return server


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows: the standard loop serves as well, more slowly
        return None
    return uvloop.new_event_loop
