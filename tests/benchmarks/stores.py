"""The Redis store against the embedded one: ``python -m tests.benchmarks.stores [--rounds N] [--appends N]``.

Both kept durably: SQLite with ``synchronous=FULL``, Redis with ``appendfsync always``; and both in memory only. The
same calls of the Store protocol, in turn, from one process; Redis runs beside it on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import redis
import uvloop

from tests.benchmarks.peers import program, running
from tests.ports import free_port
from toolkit.gateway.stores import Draft, Store
from toolkit.gateway.stores.embedded import EmbeddedStore
from toolkit.gateway.stores.redis.store import RedisStore

IN_FLIGHT, THINGS = 64, 64
DATA = b'{"thing":"bench","created":"2026-01-01T00:00:00.000Z","content":{"celsius":21.5,"humidity":40,"ok":true}}'


def now() -> int:
    """Return the time as a gateway's clock does."""
    return time.time_ns() // 1_000_000


async def together(calls: int, call: Callable[[int], Awaitable[Any]]) -> tuple[float, float]:
    """Make so many calls, 64 at a time; return calls a second, and microseconds of this process for each."""
    left = iter(range(calls))

    async def one() -> None:
        for number in left:
            await call(number)

    started, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))
    return calls / (time.perf_counter() - started), (time.process_time() - used) / calls * 1e6


async def measure(store: Store, appends: int) -> dict[str, tuple[float, float]]:
    """Return what each operation reached."""
    journals = store.journals
    ids = [str(uuid4()) for _ in range(1_000)]

    def append(name: str, number: int) -> Awaitable[Any]:
        return journals.append(name, [Draft(1_767_225_600_000, ids[number % 1_000], DATA)], 10_000)

    return {
        "append, one thing": await together(appends, lambda number: append("bench", number)),
        "append, 64 things": await together(appends, lambda number: append(f"bench-{number % THINGS}", number)),
        "latest": await together(appends // 4, lambda number: journals.last(f"bench-{number % THINGS}", 1)),
        "last 500": await together(appends // 40, lambda number: journals.last("bench", 500)),
    }


async def run(makers: dict[str, Callable[[], Store]], rounds: int, appends: int) -> None:
    """Measure all stores in turn and print medians."""
    reached: dict[str, list[dict[str, tuple[float, float]]]] = {name: [] for name in makers}
    for _ in range(rounds):
        for name, make in makers.items():
            store = make()
            await store.open()
            reached[name].append(await measure(store, appends))
            await store.close()
    first = next(iter(makers))
    for operation in reached[first][0]:
        base = statistics.median(measured[operation][0] for measured in reached[first])
        for name, measured in reached.items():
            a_second = statistics.median(one[operation][0] for one in measured)
            own = statistics.median(one[operation][1] for one in measured)
            print(f"{operation:18} {name:30} {a_second:10,.0f}/s  {own:6.1f} us CPU  {a_second / base:5.2f} x {first}")


def main() -> None:
    """Start the Redis servers, measure, stop them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--appends", type=int, default=20_000)
    given = parser.parse_args()
    ports = [free_port(), free_port()]
    with tempfile.TemporaryDirectory() as folder:
        server = [program("redis-server", "redis-server"), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        durable = [*server, "--port", str(ports[0]), "--appendonly", "yes", "--appendfsync", "always"]
        with running(durable, ports[0]), running([*server, "--port", str(ports[1])], ports[1]):
            with redis.Redis(port=ports[0]) as client:
                print(
                    f"Redis {client.info('server')['redis_version']}, {IN_FLIGHT} calls in flight, contents of 60 bytes"
                )
            makers: dict[str, Callable[[], Store]] = {
                "SQLite, synchronous=FULL": lambda: EmbeddedStore(Path(folder) / uuid4().hex, now),
                "Redis, appendfsync always": lambda: _redis_store(ports[0]),
                "SQLite, in memory": lambda: EmbeddedStore(None, now),
                "Redis, in memory": lambda: _redis_store(ports[1]),
            }
            uvloop.run(run(makers, given.rounds, given.appends))


def _redis_store(port: int) -> Store:
    return RedisStore(f"redis://127.0.0.1:{port}?prefix={uuid4().hex}:&timeout=60", now)


if __name__ == "__main__":
    main()
