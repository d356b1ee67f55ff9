"""Ports for servers that tests start."""

from __future__ import annotations

import contextlib
import os
import random
import socket

# No two workers of a test run ever get the same one, nor does one worker get it twice.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 4
_PORTS = iter(random.SystemRandom().sample(range(20_000 + _WORKER, 32_000, 4), 3_000))


def free_port() -> int:
    """Return a port that is free, and stays so while nothing listens on it.

    The system gives its connections and whoever asks for port 0 another range, on every usual machine.
    """
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")
