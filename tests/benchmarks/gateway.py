"""The gateway against its peers: ``python -m tests.benchmarks.gateway [--seconds S] [--rounds N] [--before CHECKOUT]``.

The load is a fleet: 10,000 things at random, contents of one to eight numbers. The figures of one thing and one body
are printed beside it; they show what repetition hides. All peers take turns in each round. The gateway, webdis and the
program on Starlette acknowledge a POST once it is on disk; nchan keeps messages in memory only. Beside requests a
second stands the CPU time of all processes of a server for each request, which is steadier on a shared machine.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tests.benchmarks.load import (
    LISTENERS,
    PUBLISHERS,
    REQUESTS,
    THINGS,
    Reached,
    content_at_random,
    cpu_seconds,
    fan_out,
    reply_to,
    thing_at_random,
    wrk,
)
from tests.benchmarks.peers import Missing, Peer, all_peers, program, seconds_and_rounds

ENTRIES, ONE_THING, ONE_CONTENT = 20, "bench", '{"celsius":21.5,"humidity":40,"room":"kitchen","ok":true}'
GATEWAY, ON_REDIS, BEFORE = "gateway", "gateway on redis", "before"
WEBDIS, STARLETTE, NCHAN = "webdis+redis", "starlette+redis", "nchan"
#: Which measured server is divided by which peer.
RATIOS = ((GATEWAY, WEBDIS), (GATEWAY, STARLETTE), (GATEWAY, BEFORE), (ON_REDIS, WEBDIS), (GATEWAY, NCHAN))


class Task(NamedTuple):
    """One measurement: its name, and what it runs on a peer that has the operation."""

    name: str
    run: Callable[[Peer], Reached]
    applies_to: Callable[[Peer], bool]


def tasks(seconds: int) -> list[Task]:
    """Return all measurements, in the order in which they are made."""
    chance = random.Random(20_261)
    posts = [(thing_at_random(chance), content_at_random(chance)) for _ in range(REQUESTS)]
    things = [thing for thing, _ in posts]
    found = []
    for connections in (16, 64, 256):
        found += [
            _posts(f"POST, {THINGS:,} things, {connections}", posts, connections, seconds),
            _posts(f"POST, one thing, {connections}", [(ONE_THING, ONE_CONTENT)], connections, seconds),
        ]
    for operation, connections in (("latest", 64), ("history", 16)):
        found += [
            _reads(f"{operation}, {THINGS:,} things, {connections}", operation, things, connections, seconds),
            _reads(f"{operation}, one thing, {connections}", operation, [ONE_THING], connections, seconds),
        ]
    crowd = Task(
        f"fan-out to {LISTENERS}",
        lambda peer: fan_out(peer, PUBLISHERS * 15 * seconds),
        lambda peer: peer.name in (GATEWAY, BEFORE, NCHAN),
    )
    return [*found, crowd]


def _posts(name: str, posts: list[tuple[str, str]], connections: int, seconds: int) -> Task:
    def run(peer: Peer) -> Reached:
        return wrk(peer, (peer.post(f"p-{thing}", content) for thing, content in posts), connections, seconds)

    return Task(name, run, lambda peer: peer.name != NCHAN)


def _reads(name: str, operation: str, things: list[str], connections: int, seconds: int) -> Task:
    def run(peer: Peer) -> Reached:
        return wrk(peer, (getattr(peer, operation)(thing) for thing in things), connections, seconds)

    return Task(name, run, lambda peer: getattr(peer, operation) is not None)


def fill(peer: Peer) -> None:
    """Store the same dweets on each peer that reads are measured on: some for every thing, 500 for one."""
    if peer.fill is None:
        return
    chance = random.Random(20_262)
    contents = {f"device-{number:05d}": [content_at_random(chance) for _ in range(ENTRIES)] for number in range(THINGS)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(peer.fill, contents.keys(), contents.values()))
    peer.fill(ONE_THING, [ONE_CONTENT] * 500)
    for thing, mark in ((ONE_THING, b"kitchen"), ("device-00007", b"celsius")):
        for read in (peer.latest, peer.history):
            if read is not None and b"200 OK" not in reply_to(peer, read(thing)):
                raise RuntimeError(f"{peer.name} does not answer for {thing}")
        if peer.history is not None and mark not in reply_to(peer, peer.history(thing)):
            raise RuntimeError(f"{peer.name} has lost what was stored of {thing}")


class Figure(NamedTuple):
    """Medians: requests a second, and microseconds of the server's CPU time for each."""

    a_second: float
    cpu: float


def measured(task: Task, peer: Peer) -> Figure:
    """Return what a peer reaches once."""
    used = cpu_seconds(peer.processes)
    reached = task.run(peer)
    return Figure(reached.a_second, (cpu_seconds(peer.processes) - used) / reached.count * 1e6)


def measure(peers: list[Peer], seconds: int, rounds: int) -> dict[str, dict[str, Figure]]:
    """Return medians by measurement and peer, all peers in turn in each round."""
    for peer in peers:
        fill(peer)
    figures: dict[str, dict[str, list[Figure]]] = {}
    for number in range(rounds):
        for task in tasks(seconds):
            # Every other round in the opposite order, so that no peer always runs on a machine that another one heated.
            for peer in peers if number % 2 == 0 else reversed(peers):
                if task.applies_to(peer):
                    figures.setdefault(task.name, {}).setdefault(peer.name, []).append(measured(task, peer))
    return {
        task: {name: Figure(*map(statistics.median, zip(*values, strict=True))) for name, values in by.items()}
        for task, by in figures.items()
    }


def main() -> None:
    """Measure and print."""
    given = seconds_and_rounds(__doc__)
    try:
        program("wrk", "wrk")
        with all_peers(given.before) as peers:
            table = measure(peers, given.seconds, given.rounds)
    except Missing as missing:
        raise SystemExit(str(missing)) from None
    print(f"\nper second, and us of CPU for each; medians of {given.rounds} rounds of {given.seconds} s")
    print(f"history: {ENTRIES} dweets of each of {THINGS:,} things, 500 of one thing; names end with connections")
    print(f"{'':30}{'measured':>36}{'peer':>36}{'ratio':>8}{'of CPU':>8}")
    for task, by in table.items():
        for ours, peer in RATIOS:
            if ours in by and peer in by:
                pair = "".join(f"{name:>18}{by[name].a_second:>10,.0f}{by[name].cpu:>8.1f}" for name in (ours, peer))
                ratios = [one / other for one, other in zip(by[ours], by[peer], strict=True)]
                print(f"{task:30}{pair}{ratios[0]:>8.2f}{ratios[1]:>8.2f}")


if __name__ == "__main__":
    main()
