"""Start and memory of a gateway whose folder holds 1,000,000 dweets: ``python -m tests.benchmarks.folder``.

10,000 things have 100 dweets each. The gateway is stopped and started again on the folder; what is measured is the
time from the start of the process until its first answer, and its memory after 100 of the things were read.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.benchmarks.load import THINGS, content_at_random, reply_to
from tests.benchmarks.peers import gateway, get

ENTRIES, READ = 100, 100


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
            began = time.perf_counter()
            with gateway(folder) as peer:
                if b'"succeeded"' not in reply_to(peer, get("/get/latest/dweet/for/device-00007")):
                    raise RuntimeError("the gateway has lost a dweet")
                seconds.append(time.perf_counter() - began)
                for number in random.sample(range(THINGS), READ):
                    reply_to(peer, get(f"/get/dweets/for/device-{number:05d}"))
                megabytes.append(peer.processes[0].memory_info().rss / 1e6)
        size = sum(os.path.getsize(path) for path in folder.rglob("*") if path.is_file()) / 1e6
    print(f"{THINGS * ENTRIES:,} dweets of {THINGS:,} things, {size:,.0f} MB on disk, medians of {rounds} starts:")
    print(f"first answer after {statistics.median(seconds):.2f} s, {statistics.median(megabytes):.0f} MB of memory")


if __name__ == "__main__":
    main()
