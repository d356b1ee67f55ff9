"""The load of the benchmarks: a fleet of 10,000 things whose contents change, sent by wrk; and a crowd of listeners.

Every request is built before the clock starts, so that the load generator costs the same for every peer.
"""

from __future__ import annotations

import json
import random
import re
import selectors
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import psutil

from tests.benchmarks.peers import Peer, program

THINGS = 10_000
REQUESTS = 30_000
LISTENERS = 100
PUBLISHERS = 64
_NAMES = ("celsius", "humidity", "volts", "pressure", "lux", "rpm", "ppm", "watts")
_SCRIPT = """
local requests, next = {}, 0
function init(arguments)
  for request in io.open(arguments[1], "rb"):read("*a"):gmatch("[^%z]+") do requests[#requests + 1] = request end
  next = tonumber(arguments[2]) % #requests
end
function request()
  next = next % #requests + 1
  return requests[next]
end
"""


def thing_at_random(chance: random.Random) -> str:
    """Return the name of one of the fleet's things."""
    return f"device-{chance.randrange(THINGS):05d}"


def content_at_random(chance: random.Random) -> str:
    """Return a content of one to eight numbers, as JSON text whose length changes."""
    names = chance.sample(_NAMES, chance.randint(1, len(_NAMES)))
    return json.dumps({name: round(chance.uniform(-50, 1500), chance.randint(0, 4)) for name in names})


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """Return the CPU time that these processes have used so far, user and system."""
    times = [process.cpu_times() for process in processes]
    return sum(one.user + one.system for one in times)


class Reached(NamedTuple):
    """How many requests or deliveries there were, and how many a second."""

    count: int
    a_second: float


def wrk(peer: Peer, requests: Iterable[bytes], connections: int, seconds: float) -> Reached:
    """Return what wrk counts; refuses to count errors as responses."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script, tempfile.NamedTemporaryFile("wb") as file:
        script.write(_SCRIPT)
        script.flush()
        file.write(b"\0".join(requests))
        file.flush()
        command = [program("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{round(seconds)}s", "--timeout", "30s"]
        start = str(random.randrange(REQUESTS))
        command += ["-s", script.name, f"http://127.0.0.1:{peer.port}", "--", file.name, start]
        result = subprocess.run(command, capture_output=True, text=True)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)", result.stdout)
    if bad:
        raise RuntimeError(f"{peer.name}: {bad[0]}")
    found = re.search(r"(\d+) requests in .*Requests/sec:\s+([\d.]+)", result.stdout, re.DOTALL)
    if found is None:
        raise RuntimeError(result.stdout + result.stderr)
    return Reached(int(found[1]), float(found[2]))


def reply_to(peer: Peer, request: bytes) -> bytes:
    """Send one request on its own connection and return what comes back within a moment."""
    with socket.create_connection(("127.0.0.1", peer.port)) as connection:
        connection.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        connection.settimeout(5)
        reply = b""
        while piece := connection.recv(1 << 20):
            reply += piece
    return reply


class Audience:
    """Listeners on raw sockets; counts deliveries by a mark in each message."""

    def __init__(self, peer: Peer, thing: str, mark: bytes, count: int) -> None:
        self._mark = mark
        self._selector = selectors.DefaultSelector()
        self._sockets = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", peer.port))
            connection.sendall(peer.listen(thing))
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ)
            self._sockets.append(connection)
        self.deliveries = 0

    def hear(self, until: Callable[[], bool], silence: float = 1.0) -> float:
        """Read until `until` is true and nothing came for `silence` seconds; return when the last piece came."""
        last = time.perf_counter()
        while True:
            for key, _ in self._selector.select(0.05):
                heard = key.fileobj.recv(1 << 20).count(self._mark)  # type: ignore[union-attr]
                if heard:
                    self.deliveries += heard
                    last = time.perf_counter()
            if until() and time.perf_counter() - last > silence:
                return last

    def leave(self) -> None:
        for connection in self._sockets:
            connection.close()
        self._selector.close()


def fan_out(peer: Peer, posts: int) -> Reached:
    """Return the deliveries to 100 listeners of one thing."""
    thing, content, mark = "crowded", '{"celsius": 21.5, "room": "kitchen"}', b"kitchen"
    audience = Audience(peer, thing, mark, LISTENERS)
    audience.hear(lambda: True, silence=0.3)  # a message from before, if the server sends one
    before = audience.deliveries
    sent = threading.Event()
    publisher = threading.Thread(target=_publish, args=(peer.port, peer.post(thing, content), posts, sent))
    started = time.perf_counter()
    publisher.start()
    ended = audience.hear(sent.is_set)
    publisher.join()
    audience.leave()
    delivered = audience.deliveries - before
    if delivered < posts * LISTENERS * 0.999:
        raise RuntimeError(f"{peer.name} delivered {delivered} of {posts * LISTENERS}")
    return Reached(delivered, delivered / (ended - started))


def _publish(port: int, one: bytes, posts: int, sent: threading.Event) -> None:
    """Post from 64 connections at once, each waiting for its response."""
    with ExitStack() as stack:
        address = ("127.0.0.1", port)
        connections = [stack.enter_context(socket.create_connection(address)) for _ in range(PUBLISHERS)]
        for _ in range(posts // PUBLISHERS):
            for connection in connections:
                connection.sendall(one)
            for connection in connections:
                reply = b""
                while b"HTTP/1.1 2" not in reply:
                    reply += connection.recv(1 << 16)
    sent.set()
