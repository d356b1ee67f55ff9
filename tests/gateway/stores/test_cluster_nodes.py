"""A node of a cluster is killed: its data returns with it, or with the replica that replaces it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.gateway.stores.opened_stores import follow_as_a_thing_does, opened, persist, place_of, run, until
from tests.gateway.stores.posters import Poster, check
from tests.redis_servers import RedisServer, cluster_of, is_linked, is_master, wait_until
from toolkit_gateway.stores import Entry

# Of the three masters, each has some of these.
NAMES = ("a", "b", "c", "d", "e", "g")
LINES = 5


async def more(posters: list[Poster], lines: int) -> None:
    """Wait until so many more lines of each journal were acknowledged."""
    before = [len(poster.acknowledged) for poster in posters]

    def counts() -> list[int]:
        return [len(poster.acknowledged) - start for poster, start in zip(posters, before, strict=True)]

    await until(lambda: min(counts()) >= lines, counts)


async def lose_a_master(
    url: str, lose: Callable[[], None], come_back: Callable[[], None] | None = None
) -> list[tuple[list[Entry], list[Entry]]]:
    """Post to all journals through two gateways meanwhile; check and return what each has kept and what was heard."""
    outcomes = []
    async with opened(url, url, url) as (one, other, listening):
        heard = {name: await follow_as_a_thing_does(listening, name) for name in NAMES}
        places = {one.topology.node_of(place_of(one, name)[0]) for name in NAMES}
        assert len(places) == 3, "the journals lie on all masters"
        posters = [Poster(store, name, name, LINES) for store, name in zip([one, other] * 3, NAMES, strict=True)]
        is_over = asyncio.Event()
        tasks = [asyncio.ensure_future(poster.run(is_over.is_set)) for poster in posters]
        await more(posters, 100)
        await asyncio.to_thread(lose)
        for poster in posters:  # until the node is back, those of other nodes need not go on at full speed
            poster.pause = 0.01
        if come_back is not None:
            await until(lambda: any(poster.failed for poster in posters))
            await asyncio.to_thread(come_back)
        await more(posters, 100)
        is_over.set()
        await asyncio.gather(*tasks)
        for poster in posters:
            kept = await persist(lambda name=poster.journal: one.journals.after(name, 0))
            of_this = heard[poster.journal]
            await until(lambda of_this=of_this, kept=kept: of_this[-1:] == kept[-1:])
            check([poster], kept, of_this)
            outcomes.append((kept, of_this))
    return outcomes


def url_of(nodes: list[RedisServer], query: str) -> str:
    return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in nodes)}?{query}"


def test_restarted_node_has_all_acknowledged_entries() -> None:
    with cluster_of(3, cluster_node_timeout=1500, appendonly="yes", appendfsync="always") as nodes:
        outcomes = run(lose_a_master(url_of(nodes, "timeout=5"), nodes[0].kill, nodes[0].start))
    assert all(kept == heard for kept, heard in outcomes), "nothing was heard that the disk did not have"


def test_replica_replaces_a_master_that_runs_or_is_killed() -> None:
    settings = {"cluster_node_timeout": 1500, "cluster_replica_validity_factor": 0, "repl_diskless_sync_delay": 0}
    # Only once it was told something is a replica known to all.
    with cluster_of(6, repl_ping_replica_period=1, **settings) as nodes:
        first, second = nodes[1], nodes[4]

        def promote() -> None:
            with second.client() as client:
                client.execute_command("CLUSTER FAILOVER")
            wait_until(lambda: is_master(second) and is_linked(first), "it was not promoted")

        def come_back() -> None:
            wait_until(lambda: is_master(first), "its replica did not take over")
            second.start()  # as the replica of its replica, so that again somebody can confirm

        run(lose_a_master(url_of(nodes, "timeout=1&replicas=1&prefix=promoted:"), promote))
        run(lose_a_master(url_of(nodes, "timeout=5&replicas=1&prefix=killed:"), second.kill, come_back))
