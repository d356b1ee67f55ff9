"""One port for several processes of one machine.

Linux spreads connections over all sockets that listen on a port together (``SO_REUSEPORT``): each process opens its
own, and one that dies takes only its own connections with it. macOS does not spread them, so there all processes
accept from one socket that they inherit.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.gateway.server import cannot_listen


class NoSharedPort(ToolkitError):
    """The system cannot share a port between processes."""


class SharedPort:
    """Hold a port, and say how a process gets its part of it.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.

    Raises
    ------
    NoSharedPort
        On Windows.
    CannotServe
        The address cannot be listened on.
    """

    def __init__(self, host: str, port: int) -> None:
        if sys.platform == "win32":
            raise NoSharedPort(
                "several workers on one port need Linux or macOS; here, start several gateways, each with a --port of "
                "its own, and put a balancer in front of them"
            )
        self._spreads = sys.platform == "linux"
        try:
            if self._spreads:
                # Alone first: with the flag alone, somebody else's gateway on this port would go unnoticed.
                with _bound(host, port) as probe:
                    port = probe.getsockname()[1]
                    probe.close()
                self._holder = _bound(host, port, shared=True)  # holds the port, and never listens
            else:
                self._holder = _bound(host, port)
                self._holder.listen(4096)
        except OSError:
            raise cannot_listen(host, port) from None
        self.host = host
        self.port: int = self._holder.getsockname()[1]

    @property
    def inherited(self) -> tuple[int, ...]:
        """The file descriptors that a process must inherit."""
        return () if self._spreads else (self._holder.fileno(),)

    @property
    def part(self) -> dict[str, Any]:
        """What `listener` needs in the process that gets it, as JSON can carry it."""
        return {"host": self.host, "port": self.port, "descriptor": None if self._spreads else self._holder.fileno()}

    def close(self) -> None:
        """Let go of the port."""
        self._holder.close()


def listener(host: str, port: int, descriptor: int | None) -> socket.socket:
    """Return this process's socket on a shared port, not listening yet on Linux.

    Raises
    ------
    CannotServe
        The address cannot be listened on any more.
    """
    if descriptor is not None:
        return socket.socket(proto=socket.IPPROTO_TCP, fileno=descriptor)  # not every system tells its protocol
    try:
        return _bound(host, port, shared=True)
    except OSError:
        raise cannot_listen(host, port) from None


def _bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # One address of a name that has several, such as localhost: the one that every client tries.
    family, kind, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    # With its protocol named: asyncio sends small answers at once (TCP_NODELAY) only on sockets that say they are TCP,
    # and without that a request on a connection that is kept costs 45 ms.
    bound = socket.socket(family, kind, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
