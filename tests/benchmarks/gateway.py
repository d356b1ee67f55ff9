"""The gateway against nchan and webdis+Redis: ``python -m tests.benchmarks.gateway [--seconds S] [--rounds N]``.

Load comes from wrk (POST, latest, history) and from a reader of raw sockets (fan-out). What each server promises:
the gateway and webdis+Redis acknowledge a POST once it is on disk; nchan keeps messages in memory only.
"""

from __future__ import annotations

import re
import selectors
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from tests.benchmarks.peers import CONTENT, Missing, Peer, all_peers, program, seconds_and_rounds

LISTENERS = 100
_PUBLISHERS = 64


def wrk(peer: Peer, path: str, connections: int, seconds: float, body: str | None = None) -> float:
    """Return requests a second, as wrk counts them; refuses to count errors as answers."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        if body is not None:
            kind = "application/x-www-form-urlencoded" if peer.name.startswith("webdis") else "application/json"
            script.write(f'wrk.method="POST"\nwrk.body=[==[{body}]==]\nwrk.headers["Content-Type"]="{kind}"\n')
            script.flush()
        command = [program("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{round(seconds)}s", "-s", script.name]
        result = subprocess.run([*command, f"http://127.0.0.1:{peer.port}{path}"], capture_output=True, text=True)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", result.stdout)
    if bad:
        raise RuntimeError(f"{peer.name} refused {bad[1]} requests of {path}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", result.stdout)
    if found is None:
        raise RuntimeError(result.stdout + result.stderr)
    return float(found[1])


class Audience:
    """Listeners on raw sockets; counts deliveries by a mark in each message."""

    def __init__(self, peer: Peer, count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets = []
        path, headers = peer.listen
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", peer.port))
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode())
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ)
            self._sockets.append(connection)
        self.deliveries = 0

    def hear(self, until: Callable[[], bool], silence: float = 1.0) -> float:
        """Read until `until` says so and nothing came for `silence` seconds; return when the last piece came."""
        last = time.perf_counter()
        while True:
            for key, _ in self._selector.select(0.05):
                heard = key.fileobj.recv(1 << 20).count(b"kitchen")  # type: ignore[union-attr]
                if heard:
                    self.deliveries += heard
                    last = time.perf_counter()
            if until() and time.perf_counter() - last > silence:
                return last

    def leave(self) -> None:
        for connection in self._sockets:
            connection.close()
        self._selector.close()


def fan_out(peer: Peer, posts: int) -> float:
    """Return deliveries a second to 100 listeners of one thing."""
    audience = Audience(peer, LISTENERS)
    audience.hear(lambda: True, silence=0.3)  # a message from before, if the server sends one
    before = audience.deliveries
    path, body = peer.post
    one = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
    sent = threading.Event()
    publisher = threading.Thread(target=_publish, args=(peer.port, one, posts, sent))
    started = time.perf_counter()
    publisher.start()
    ended = audience.hear(sent.is_set)
    publisher.join()
    audience.leave()
    delivered = audience.deliveries - before
    if delivered < posts * LISTENERS * 0.999:
        raise RuntimeError(f"{peer.name} delivered {delivered} of {posts * LISTENERS}")
    return delivered / (ended - started)


def _publish(port: int, one: bytes, posts: int, sent: threading.Event) -> None:
    """Post from 64 connections at once, each waiting for its answer."""
    with ExitStack() as stack:
        address = ("127.0.0.1", port)
        connections = [stack.enter_context(socket.create_connection(address)) for _ in range(_PUBLISHERS)]
        for _ in range(posts // _PUBLISHERS):
            for connection in connections:
                connection.sendall(one)
            for connection in connections:
                answer = b""
                while b"HTTP/1.1 2" not in answer:
                    answer += connection.recv(1 << 16)
    sent.set()


def measure(peers: list[Peer], seconds: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return medians by measurement and peer, all peers in turn in each round."""
    tasks: dict[str, Callable[[Peer], float]] = {
        "POST, 16 connections": lambda peer: wrk(peer, peer.post[0], 16, seconds, peer.post[1]),
        "POST, 64 connections": lambda peer: wrk(peer, peer.post[0], 64, seconds, peer.post[1]),
        "latest": lambda peer: wrk(peer, peer.latest, 16, seconds),
        "history of 500": lambda peer: wrk(peer, peer.history, 16, seconds),
        f"fan-out to {LISTENERS}": lambda peer: fan_out(peer, _PUBLISHERS * 15 * seconds),
    }
    figures: dict[str, dict[str, list[float]]] = {task: {} for task in tasks}
    for _ in range(rounds):
        for task, run in tasks.items():
            for peer in peers:
                skipped = (peer.name == "nchan" and task in ("latest", "history of 500")) or (
                    peer.name == "webdis+redis" and task.startswith("fan-out")
                )
                if not skipped:
                    figures[task].setdefault(peer.name, []).append(run(peer))
    return {task: {name: statistics.median(values) for name, values in by.items()} for task, by in figures.items()}


def main() -> None:
    """Measure and print."""
    given = seconds_and_rounds(__doc__)
    try:
        program("wrk", "wrk")
        with all_peers() as peers:
            table = measure(peers, given.seconds, given.rounds)
    except Missing as missing:
        raise SystemExit(str(missing)) from None
    print(f"\nper second, medians of {given.rounds} interleaved rounds, content of {len(CONTENT)} bytes")
    print(f"{'':24}{'gateway':>12}{'peer':>16}{'':>12}{'ratio':>8}")
    for task, by in table.items():
        for name, value in by.items():
            if name != "gateway":
                print(f"{task:24}{by['gateway']:>12,.0f}{name:>16}{value:>12,.0f}{by['gateway'] / value:>8.2f}")


if __name__ == "__main__":
    main()
