"""The gateway under attack: ``python -m tests.benchmarks.attack [--seconds S] [--rounds N] [--before CHECKOUT]``.

While `attacker.py` sends large heads on 1,000 connections, a caller at another address reads the latest dweet of a
thing, one request after the other. All of this machine is one address, so that caller comes through a trusted proxy.
"""

from __future__ import annotations

import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.load import reply_to
from tests.benchmarks.peers import Peer, gateway_with, get, seconds_and_rounds
from tests.conftest import ROOT

SETTLE_SECONDS, LONGEST_SECONDS, MEGABYTE = 60, 30, 2**20
MASTER_KEY = "kV7mQ2xT9bLw4RzN"
FORWARDED = b"\r\nX-Forwarded-For: 192.0.2.1\r\n"


class Suffered(NamedTuple):
    """What an attack costs: latency of another caller in milliseconds, memory of the gateway in MB."""

    p99: float
    slowest: float
    reads: int
    start: float
    most: float
    later: float


def latencies(peer: Peer, seconds: float) -> list[float]:
    """Return the milliseconds of each read of the latest dweet, one after the other, until one takes too long."""
    request, found = peer.latest("hall").replace(b"\r\n", FORWARDED, 1), []  # type: ignore[misc]
    with socket.create_connection(("127.0.0.1", peer.port), timeout=LONGEST_SECONDS) as connection:
        connection.sendall(request)  # until its first request, the connection belongs to the account of the proxy
        connection.recv(65536)
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            connection.sendall(request)
            with suppress(TimeoutError):
                connection.recv(65536)
            found.append((time.perf_counter() - began) * 1000)
            if found[-1] > LONGEST_SECONDS * 1000:
                break
            time.sleep(0.002)
    return found


def suffered(checkout: Path, seconds: float) -> Suffered:
    """Return what one attack costs a gateway that is started for it."""
    options = f"--lock=attic-lock={MASTER_KEY}", "--trusted-proxy=127.0.0.1"
    with (
        tempfile.TemporaryDirectory() as folder,
        gateway_with("", "--data", folder, *options, checkout=checkout) as peer,
    ):
        reply_to(peer, peer.post("hall", '{"celsius":21}'))
        reply_to(peer, get(f"/lock/attic?lock=attic-lock&key={MASTER_KEY}"))
        latencies(peer, 1)
        start = _megabytes(peer)
        command = [sys.executable, str(Path(__file__).with_name("attacker.py")), str(peer.port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as attacker, ThreadPoolExecutor(1) as thread:
            assert attacker.stdout is not None
            attacker.stdout.readline()
            reading = thread.submit(latencies, peer, seconds)
            reading.add_done_callback(lambda _: attacker.kill())
            most, until = start, time.perf_counter() + seconds + SETTLE_SECONDS
            while time.perf_counter() < until or not reading.done():
                most = max(most, _megabytes(peer))
                time.sleep(0.02)
        found = sorted(reading.result())
        p99 = found[int(len(found) * 0.99)]
        return Suffered(p99, found[-1], len(found), start, most, _megabytes(peer) - start)


def _megabytes(peer: Peer) -> float:
    return sum(process.memory_info().rss for process in peer.processes) / MEGABYTE


def main() -> None:
    """Attack and print."""
    given = seconds_and_rounds(__doc__)
    checkouts = {"gateway": ROOT} | ({"before": given.before} if given.before else {})
    # Both sides need more descriptors than the 1,024 that are usual.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found: dict[str, list[Suffered]] = {name: [] for name in checkouts}
    for _ in range(given.rounds):
        for name, checkout in checkouts.items():
            found[name].append(suffered(checkout, given.seconds))
    print(f"1,000 connections send heads of 250 KiB; medians of {given.rounds} attacks of {given.seconds} s")
    print(f"{'':10}{'p99 ms':>10}{'slowest':>10}{'reads':>10}{'MB before':>12}{'at most':>10}{'a minute later':>16}")
    for name, rounds in found.items():
        p99, slowest, reads, start, most, later = map(statistics.median, zip(*rounds, strict=True))
        print(f"{name:10}{p99:10.1f}{slowest:10.1f}{reads:10.0f}{start:12.0f}{most:10.0f}{later:+16.0f}")


if __name__ == "__main__":
    main()
