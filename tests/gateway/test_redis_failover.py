"""A master is killed and its replica takes over: with ``replicas=1`` nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.gateway.opened_stores import follow_as_a_thing_does, line, numbers, opened, persist, run, until
from tests.redis_servers import RedisServer, Sentinel, is_linked, is_master, wait_until
from toolkit.gateway.stores import StoreUnavailable
from toolkit.gateway.stores.redis.store import RedisStore

POSTERS, DWEETS, DWEETS_A_BATCH = 16, 20_000, 25


@pytest.fixture
def servers() -> Iterator[list[RedisServer]]:
    """A master and two replicas that have all it has."""
    settings = {"appendonly": "yes", "appendfsync": "always", "repl_diskless_sync_delay": 0}
    with ExitStack() as stack:
        master = stack.enter_context(RedisServer(**settings))
        of_master = {**settings, "replicaof": f"127.0.0.1 {master.port}"}
        replicas = [stack.enter_context(RedisServer(**of_master)) for _ in range(2)]
        wait_until(lambda: all(map(is_linked, replicas)), "the replicas did not find their master")
        yield [master, *replicas]


class Poster:
    """Posts batches of numbers until it has what it is to have, and remembers those that were acknowledged."""

    def __init__(self, store: RedisStore, who: int) -> None:
        self.store, self.who = store, who
        self.acknowledged: list[str] = []
        self.failed = 0

    async def run(self) -> None:
        batch = 0
        while len(self.acknowledged) < DWEETS // POSTERS:
            texts = [f"{self.who} {batch} {part}" for part in range(DWEETS_A_BATCH)]
            batch += 1
            try:
                await self.store.journals.append("a", [line(text) for text in texts], 100_000)
            except StoreUnavailable:
                self.failed += 1
                await asyncio.sleep(0.02)
            else:
                self.acknowledged += texts


def test_a_master_that_is_killed_takes_nothing_with_it_that_a_replica_has_confirmed(
    servers: list[RedisServer],
) -> None:
    master, *replicas = servers

    async def work(url: str) -> None:
        async with opened(url, url, url) as (one, other, listening):
            heard = await follow_as_a_thing_does(listening, "a")
            posters = [Poster(store, who) for who, store in enumerate([one, other] * (POSTERS // 2))]
            tasks = [asyncio.ensure_future(poster.run()) for poster in posters]
            await until(lambda: sum(len(poster.acknowledged) for poster in posters) > DWEETS // 3)
            await asyncio.to_thread(master.kill)
            await asyncio.gather(*tasks)
            kept = await persist(lambda: one.journals.after("a", 0))
            check(posters, kept)
            assert any(map(is_master, replicas)), "one of them took over"
            await until(lambda: heard and heard[-1] == kept[-1], lambda: (len(heard), len(kept)))
            assert set(kept) <= set(heard), "whoever listens hears all that is kept"
            assert numbers(heard) == sorted(set(numbers(heard)))

    with Sentinel(master, 2) as sentinel:
        run(work(f"{sentinel.url}?replicas=1&timeout=5"))


def check(posters: list[Poster], kept: list[Any]) -> None:
    texts = [entry.data.decode() for entry in kept]
    acknowledged = [text for poster in posters for text in poster.acknowledged]
    print(f"\n{len(acknowledged)} acknowledged, {len(texts)} kept, {sum(p.failed for p in posters)} calls failed")
    assert len(acknowledged) >= DWEETS
    assert sum(poster.failed for poster in posters) > 0, "it was killed in the middle"
    assert len(set(texts)) == len(texts), "none is there twice"
    assert set(acknowledged) <= set(texts), "every acknowledged one is there"
    for poster in posters:
        own = [tuple(map(int, text.split()[1:])) for text in texts if text.startswith(f"{poster.who} ")]
        assert own == sorted(own), "in the order of its poster"
    assert numbers(kept) == sorted(set(numbers(kept)))
