"""A master is killed and its replica takes over: with ``replicas=1`` nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

from tests.gateway.stores.opened_stores import follow_as_a_thing_does, opened, persist, run, until
from tests.gateway.stores.posters import Poster, check
from tests.redis_servers import RedisServer, Sentinel, is_linked, is_master, wait_until

POSTERS, DWEETS, DWEETS_PER_BATCH = 16, 20_000, 25


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


def is_done(poster: Poster, posters: Sequence[Poster]) -> bool:
    """Whether it has posted its part, and has not done so before the master was killed."""
    return len(poster.acknowledged) >= DWEETS // POSTERS and any(each.failed for each in posters)


def test_killed_master_loses_nothing_that_was_confirmed(
    servers: list[RedisServer],
) -> None:
    master, *replicas = servers

    async def work(url: str) -> None:
        async with opened(url, url, url) as (one, other, listening):
            heard = await follow_as_a_thing_does(listening, "a")
            stores = enumerate([one, other] * (POSTERS // 2))
            posters = [Poster(store, "a", str(who), DWEETS_PER_BATCH) for who, store in stores]
            tasks = [asyncio.ensure_future(poster.run(lambda p=poster: is_done(p, posters))) for poster in posters]
            await until(lambda: sum(len(poster.acknowledged) for poster in posters) > DWEETS // 3)
            await asyncio.to_thread(master.kill)
            await asyncio.gather(*tasks)
            kept = await persist(lambda: one.journals.after("a", 0))
            assert any(map(is_master, replicas)), "one of them took over"
            assert sum(len(poster.acknowledged) for poster in posters) >= DWEETS
            assert sum(poster.failed for poster in posters) > 0, "it was killed in the middle"
            await until(lambda: heard and heard[-1] == kept[-1], lambda: (len(heard), len(kept)))
            check(posters, kept, heard)

    with Sentinel(master, 2) as sentinel:
        run(work(f"{sentinel.url}?replicas=1&timeout=5"))
