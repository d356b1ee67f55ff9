"""The stores under the fleet load: ``python -m tests.benchmarks.stores [--rounds N] [--appends N]``.

10,000 things at random, contents of 1 to 8 numbers, 64 calls in flight, from one process. The embedded store syncs
every batch and Redis has ``appendfsync always``; both are measured without a disk too. The stores take turns, and
Redis runs beside them on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
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
from toolkit_gateway.stores import NewEntry, Store
from toolkit_gateway.stores.embedded import EmbeddedStore
from toolkit_gateway.stores.redis.store import RedisStore

IN_FLIGHT, THINGS, KEEP = 64, 10_000, 10_000
START = 1_767_225_600_000


def now() -> int:
    """Return the time as a gateway's clock does."""
    return time.time_ns() // 1_000_000


def content(chance: random.Random) -> bytes:
    """Return a content of 1 to 8 numbers."""
    return json.dumps({f"n{n}": round(chance.uniform(-50, 50), 2) for n in range(chance.randint(1, 8))}).encode()


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
    chance = random.Random(1)
    things = [f"thing-{chance.randrange(THINGS)}" for _ in range(appends)]
    contents = [content(chance) for _ in range(1_000)]
    ids = [str(uuid4()) for _ in range(1_000)]

    def append(name: str, number: int) -> Awaitable[Any]:
        draft = NewEntry(START + number, ids[number % 1_000], contents[number % 1_000])
        return store.journals.append(name, [draft], KEEP)

    for start in range(0, THINGS, 500):
        await asyncio.gather(*(append(f"thing-{number}", number) for number in range(start, start + 500)))
    await asyncio.gather(*(append("hot", number) for number in range(500)))
    return {
        "append, 10,000 things": await together(appends, lambda number: append(things[number], number)),
        "append, one thing": await together(appends, lambda number: append("bench", number)),
        "latest, 10,000 things": await together(appends // 4, lambda number: store.journals.last(things[number], 1)),
        "last 500": await together(appends // 40, lambda number: store.journals.last("hot", 500)),
        "names, 100 of 10,000": await together(20, lambda number: store.journals.names("", 100)),
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
            print(f"{operation:22} {name:26} {a_second:10,.0f}/s  {own:8.1f} us CPU  {a_second / base:5.2f} x {first}")


def main() -> None:
    """Start the Redis servers, measure, stop them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--appends", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure_all(Path(folder), given.rounds, given.appends)


def measure_all(folder: Path, rounds: int, appends: int) -> None:
    """Measure all stores against each other."""
    ports = [free_port(), free_port()]
    server = [program("redis-server", "redis-server"), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    durable = [*server, "--port", str(ports[0]), "--appendonly", "yes", "--appendfsync", "always"]
    with running(durable, ports[0]), running([*server, "--port", str(ports[1])], ports[1]):
        with redis.Redis(port=ports[0]) as client:
            print(f"Redis {client.info('server')['redis_version']}, {IN_FLIGHT} calls in flight")
        makers: dict[str, Callable[[], Store]] = {
            "RocksDB, synced": lambda: EmbeddedStore(folder / uuid4().hex, now),
            "Redis, appendfsync always": lambda: _redis_store(ports[0]),
            "RocksDB, not synced": lambda: EmbeddedStore(None, now),
            "Redis, in memory": lambda: _redis_store(ports[1]),
        }
        uvloop.run(run(makers, rounds, appends))


def _redis_store(port: int) -> Store:
    return RedisStore(f"redis://127.0.0.1:{port}?prefix={uuid4().hex}:&timeout=60", now)


if __name__ == "__main__":
    main()
