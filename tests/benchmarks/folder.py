"""Start and memory of a gateway whose folder holds 1,000,000 dweets: ``python -m tests.benchmarks.folder``.

10,000 things have 100 dweets each. The gateway is stopped and started again on the folder; what is measured is the
time from the start of the process until its first answer, and its memory after 100 of the things were read.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.benchmarks.load import THINGS, content_at_random, reply_to
from tests.benchmarks.peers import Peer, free_port, gateway, get

ENTRIES, READ = 100, 100


@contextmanager
def started(folder: Path) -> Iterator[tuple[float, Peer, psutil.Process]]:
    """Start a gateway on the folder; gives the seconds until its first answer, and the process."""
    port = free_port()
    began = time.perf_counter()
    command = [sys.executable, "-m", "toolkit", "gateway", "--port", str(port), "--log-level", "error"]
    process = subprocess.Popen([*command, "--data", str(folder)], stdout=subprocess.DEVNULL)
    peer = Peer("gateway", port, lambda thing, content: b"", get)
    try:
        yield _seconds_until_answer(peer, began), peer, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _seconds_until_answer(peer: Peer, began: float) -> float:
    while True:
        try:
            reply = reply_to(peer, get("/get/latest/dweet/for/device-00007"))
        except ConnectionError:
            time.sleep(0.005)
            continue
        if b'"succeeded"' not in reply:
            raise RuntimeError(reply)
        return time.perf_counter() - began


def fill(folder: Path) -> None:
    """Post the million dweets."""
    chance = random.Random(20_263)
    with gateway(folder) as peer, ThreadPoolExecutor(4) as threads:
        assert peer.fill is not None
        things = [f"device-{number:05d}" for number in range(THINGS)]
        contents = [content_at_random(chance) for _ in range(ENTRIES * 10)]
        list(threads.map(peer.fill, things, (chance.sample(contents, ENTRIES) for _ in things)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        fill(folder)
        seconds, megabytes = [], []
        for _ in range(rounds):
            with started(folder) as (first_answer, peer, process):
                seconds.append(first_answer)
                for number in random.sample(range(THINGS), READ):
                    reply_to(peer, get(f"/get/dweets/for/device-{number:05d}"))
                megabytes.append(process.memory_info().rss / 1e6)
        size = sum(os.path.getsize(path) for path in folder.rglob("*") if path.is_file()) / 1e6
    print(f"{THINGS * ENTRIES:,} dweets of {THINGS:,} things, {size:,.0f} MB on disk, medians of {rounds} starts:")
    print(f"first answer after {statistics.median(seconds):.2f} s, {statistics.median(megabytes):.0f} MB of memory")


if __name__ == "__main__":
    main()
