"""A durable gateway whose disk is slow: ``python -m tests.benchmarks.slow_disk [--before CHECKOUT] [--folder FOLDER]``.

Each sync of the disk takes so many milliseconds longer. Beside posts from 64 connections to 10,000 things, one caller
reads the latest dweets of things at random, and one listens to a thing that nobody posts to. Printed are the posts a
second, the CPU time of the gateway for each, how long the reader waits, and the longest time between two heartbeats;
then how fast a notebook posts in a loop to a gateway in its own process. With the folder of another checkout, such as
the commit before a change, both take turns.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psutil

from tests.benchmarks.load import REQUESTS, content_at_random, cpu_seconds, thing_at_random, wrk
from tests.benchmarks.peers import Peer, get, post
from tests.conftest import ROOT

DELAYS, CONNECTIONS, HEARTBEAT_SECONDS, LOOP_POSTS = (0, 1, 20, 500), 64, 1, 1_500
_SLOW_GATEWAY = f"""
import sys, time
from toolkit_gateway import Gateway
from toolkit_gateway.http.connections import LIMITS
from toolkit_gateway.stores import embedded_database

class SlowRdict:
    def __init__(self, *arguments):
        self._rocks = rocks(*arguments)
        self.write = self._rocks.write  # looked up with each batch

    def __getattr__(self, name):
        return getattr(self._rocks, name)

    def flush_wal(self, sync):
        self._rocks.flush_wal(sync)
        time.sleep(seconds)

seconds, rocks = float(sys.argv[2]) / 1000, embedded_database.Rdict
if seconds:
    embedded_database.Rdict = SlowRdict
LIMITS.heartbeat_seconds = {HEARTBEAT_SECONDS}
gateway = Gateway(sys.argv[1])
"""
_SERVE = "print(gateway.base_url, flush=True)\nsys.stdin.read()\ngateway.close()\n"
_NOTEBOOK = f"""
import toolkit
dweets = toolkit.connect(gateway).dweets
dweets.post("kitchen", {{"celsius": 21.5}})
started, used = time.perf_counter(), time.process_time()
for number in range({LOOP_POSTS}):
    dweets.post("kitchen", {{"celsius": number}})
print({LOOP_POSTS} / (time.perf_counter() - started), (time.process_time() - used) / {LOOP_POSTS} * 1e6)
gateway.close()
"""


@contextmanager
def _program(checkout: Path, text: str, folder: str, delay: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _SLOW_GATEWAY + text, folder, str(delay)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=checkout, env=environment
    ) as process:
        yield process
        process.communicate()


class Reader(threading.Thread):
    """Reads the latest dweets of things at random on one connection."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port, self._is_over = port, threading.Event()
        self.milliseconds: list[float] = []

    def run(self) -> None:
        chance = random.Random(20_264)
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            while not self._is_over.wait(0.001):
                started = time.perf_counter()
                connection.sendall(get(f"/get/latest/dweet/for/{thing_at_random(chance)}"))
                if not connection.recv(1 << 16):
                    raise RuntimeError("the gateway closed the connection of a reader")
                self.milliseconds.append((time.perf_counter() - started) * 1000)

    def end(self) -> float:
        """Return the 99th percentile."""
        self._is_over.set()
        self.join()
        return statistics.quantiles(self.milliseconds, n=100)[98]


class Listener(threading.Thread):
    """Listens to a thing that nobody posts to."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.sendall(get("/listen/for/dweets/from/quiet", Accept="text/event-stream"))
        self._heartbeats: list[float] = []

    def run(self) -> None:
        while piece := self._connection.recv(1 << 16):
            if b":\n\n" in piece:
                self._heartbeats.append(time.perf_counter())

    def end(self) -> float:
        """Return the longest time between two heartbeats."""
        if not self.is_alive():
            raise RuntimeError("the gateway closed the connection of a listener")
        self._connection.shutdown(socket.SHUT_RDWR)
        self.join()
        self._connection.close()
        return max(after - before for before, after in pairwise(self._heartbeats))


def serve(checkout: Path, requests: list[bytes], folder: str, delay: float, seconds: int) -> list[float]:
    """Return posts a second, microseconds of CPU for each, p99 of a reader in ms, and a listener's longest silence."""
    with _program(checkout, _SERVE, folder, delay) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        peer = Peer("gateway", port, lambda thing, content: b"", get)
        wrk(peer, requests, CONNECTIONS, 1)
        server, reader, listener = psutil.Process(process.pid), Reader(port), Listener(port)
        listener.start()
        reader.start()
        used = cpu_seconds([server])
        posts = wrk(peer, requests, CONNECTIONS, seconds)
        used = cpu_seconds([server]) - used
        return [posts.a_second, used / posts.count * 1e6, reader.end(), listener.end()]


def loop(checkout: Path, folder: str, delay: float) -> list[float]:
    """Return posts a second of a notebook, and microseconds of CPU of its process for each."""
    with _program(checkout, _NOTEBOOK, folder, delay) as process:
        assert process.stdout is not None
        return [float(figure) for figure in process.stdout.readline().split()]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT")
    parser.add_argument("--folder", type=Path, help="where the gateways keep their data")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    checkouts = {"now": ROOT} if given.before is None else {"before": given.before.resolve(), "now": ROOT}
    chance = random.Random(20_261)
    posts = [(thing_at_random(chance), content_at_random(chance)) for _ in range(REQUESTS)]
    requests = [post(f"/dweet/for/{thing}", content, "application/json") for thing, content in posts]
    figures: dict[tuple[str, float, str], list[list[float]]] = {}
    for _ in range(given.rounds):
        for delay in DELAYS:
            for name, checkout in checkouts.items():
                with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                    served = serve(checkout, requests, folder, delay, given.seconds)
                    figures.setdefault(("served", delay, name), []).append(served)
                if delay < 20:
                    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                        figures.setdefault(("loop", delay, name), []).append(loop(checkout, folder, delay))
    for (what, delay, name), measured in sorted(figures.items()):
        medians = [statistics.median(column) for column in zip(*measured, strict=True)]
        line = f"{what:8}sync {delay:>3} ms  {name:8}{medians[0]:>8,.0f} posts/s {medians[1]:>6.0f} us CPU a post"
        if what == "served":
            line += f"{medians[2]:>8.1f} ms p99 of latest{medians[3]:>6.2f} s between heartbeats"
        print(line)


if __name__ == "__main__":
    main()
