"""Two workers against one gateway and webdis: ``python -m tests.benchmarks.workers [--seconds S] [--rounds N]``.

All three stand on the same Redis, which syncs every write (``appendfsync always``): what is acknowledged is on disk.
The load comes from wrk, one after the other in each round. What is printed first is what a ratio depends on.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

from tests.benchmarks.gateway import wrk
from tests.benchmarks.peers import (
    CONTENT,
    Missing,
    Peer,
    durable_redis,
    gateway_with,
    program,
    seconds_and_rounds,
    webdis_on,
)

ONE, TWO, WEBDIS = "one gateway", "two workers", "webdis+redis"


@contextmanager
def peers_on_one_redis() -> Iterator[list[Peer]]:
    """One gateway, two workers and webdis, each with keys of its own in the same Redis."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        port = stack.enter_context(durable_redis(folder))
        store = f"redis://127.0.0.1:{port}?timeout=30&prefix="
        yield [
            stack.enter_context(gateway_with(ONE, "--store", f"{store}one:")),
            stack.enter_context(gateway_with(TWO, "--store", f"{store}two:", "--workers", "2")),
            stack.enter_context(webdis_on(port, folder)),
        ]


def measure(peers: list[Peer], seconds: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return all figures by measurement and peer, the peers in turn in each round."""
    tasks: dict[str, Callable[[Peer], float]] = {
        "POST, 16 connections": lambda peer: wrk(peer, peer.post[0], 16, seconds, peer.post[1]),
        "POST, 64 connections": lambda peer: wrk(peer, peer.post[0], 64, seconds, peer.post[1]),
        "POST, 256 connections": lambda peer: wrk(peer, peer.post[0], 256, seconds, peer.post[1]),
        "latest, 16 connections": lambda peer: wrk(peer, peer.latest, 16, seconds),
        "latest, 64 connections": lambda peer: wrk(peer, peer.latest, 64, seconds),
    }
    figures: dict[str, dict[str, list[float]]] = {task: {peer.name: [] for peer in peers} for task in tasks}
    for _ in range(rounds):
        for task, run in tasks.items():
            for peer in peers:
                figures[task][peer.name].append(run(peer))
    return figures


def setting() -> str:
    """Say on what this was measured."""
    redis = subprocess.run([program("redis-server", "redis-server"), "--version"], capture_output=True, text=True)
    found = re.search(r"v=([\d.]+)", redis.stdout)
    packages = ", ".join(f"{name} {version(name)}" for name in ("uvicorn", "uvloop", "httptools", "redis", "hiredis"))
    load = ", ".join(f"{one:.2f}" for one in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{os.cpu_count()} cores, load before {load}; Redis {found[1] if found else '?'} with appendonly yes and "
        f"appendfsync always; {packages}; content of {len(CONTENT)} bytes; webdis with 2 threads: LPUSH, untrimmed"
    )


def main() -> None:
    """Measure and print."""
    given = seconds_and_rounds(__doc__)
    try:
        program("wrk", "wrk")
        before = setting()
        with peers_on_one_redis() as peers:
            figures = measure(peers, given.seconds, given.rounds)
    except Missing as missing:
        raise SystemExit(str(missing)) from None
    print(before)
    print(f"\nper second, medians of {given.rounds} interleaved rounds of {given.seconds} s")
    print(f"{'':24}{ONE:>14}{TWO:>14}{WEBDIS:>14}{'two/one':>10}{'two/webdis':>12}")
    for task, by in figures.items():
        one, two, webdis = (statistics.median(by[name]) for name in (ONE, TWO, WEBDIS))
        print(f"{task:24}{one:>14,.0f}{two:>14,.0f}{webdis:>14,.0f}{two / one:>10.2f}{two / webdis:>12.2f}")


if __name__ == "__main__":
    main()
