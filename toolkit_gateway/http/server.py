"""The server: an event loop in a daemon thread, with the HTTP protocol on its port."""

import asyncio
import atexit
import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial

from toolkit.errors import CannotServe, CannotStop
from toolkit_gateway.http.app import Application
from toolkit_gateway.http.connections import Connections
from toolkit_gateway.http.protocol import HttpProtocol

try:
    from uvloop import new_event_loop

    # uvloop accepts one connection for each listening socket in a round of the loop, so with one socket, a crowd of new
    # connections would keep others out for seconds.
    _MORE_LISTENING_SOCKETS = 15
except ImportError:  # Windows: the standard loop works too, more slowly
    new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]
    _MORE_LISTENING_SOCKETS = 0

log = logging.getLogger("toolkit_gateway")

# Connections that wait to be accepted.
_BACKLOG = 4096


class ServerThread:
    """Serve an application from a daemon thread. `opened` opens it, and closes it after the last response."""

    def __init__(
        self,
        host: str,
        port: int,
        opened: Callable[[], AbstractAsyncContextManager[Application]],
        stop_seconds: float,
    ) -> None:
        self._host = host
        self.port = port
        self._opened = opened
        self._stop_seconds = stop_seconds
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def start(self) -> None:
        """Return once requests are accepted; raise CannotServe, or the error of opening the application."""
        atexit.register(self._end_with_process)
        self._thread.start()
        # No time limit here, because each part that opens has one. Ctrl-C on Windows does not end one long wait.
        while not self._is_ready.wait(1.0):
            pass
        if self._failure is not None:
            self._thread.join(self._stop_seconds)
            raise self._failure

    def ask_to_stop(self) -> None:
        """Make the thread end, without waiting for it; may be called from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._stop_asked.set)

    def stop(self) -> None:
        """Answer the requests at hand and end all streams; raise CannotStop, or the error of closing."""
        if not self._thread.is_alive():
            return
        self.ask_to_stop()
        self._thread.join(self._stop_seconds)
        if self._thread.is_alive():
            raise CannotStop(
                f"the gateway did not end within {self._stop_seconds:g} seconds: port {self.port} and its folder stay "
                "taken until it does, at the latest with this process"
            )
        if self._failure is not None:
            raise self._failure

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive() and self._failure is None

    def _end_with_process(self) -> None:
        # A loop that still runs while the interpreter shuts down sometimes crashes the process.
        self.ask_to_stop()
        self._thread.join(self._stop_seconds)
        if self._failure is not None:  # raising would be too late, and executors may be gone
            log.debug("the gateway ended with its process: %r", self._failure)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # raised again by start() or stop(), in the thread of the caller
            self._failure = error
        finally:
            atexit.unregister(self._end_with_process)
            self._is_ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._opened() as application:
            connections = Connections(application.common_headers, application.log_unavailable)
            make_protocol = partial(HttpProtocol, application, connections)
            try:
                servers = [await self._loop.create_server(make_protocol, self._host, self.port, backlog=_BACKLOG)]
            except OSError:
                why = "it is in use, not permitted, or not this machine's address; take another, or 0 for a free one"
                raise CannotServe(f"cannot listen on {self._host}:{self.port}: {why}") from None
            self.port = servers[0].sockets[0].getsockname()[1]
            for descriptor in [listening.fileno() for listening in servers[0].sockets] * _MORE_LISTENING_SOCKETS:
                listening = socket.socket(fileno=os.dup(descriptor))
                servers.append(await self._loop.create_server(make_protocol, sock=listening, backlog=_BACKLOG))
            clock = asyncio.ensure_future(connections.run_clock())
            self._is_ready.set()
            await self._stop_asked.wait()
            for server in servers:
                server.close()
            await connections.finish()
            clock.cancel()
