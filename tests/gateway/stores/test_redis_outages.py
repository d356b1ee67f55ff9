"""Redis hangs, refuses, is killed and returns: every call is answered, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.gateway.stores.opened_stores import follow_as_a_thing_does, line, opened, persist, run, until
from tests.gateway.stores.posters import Poster, check
from tests.redis_servers import RedisServer, fresh_url, shared_server, wait_until
from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit_gateway.stores.redis.store import RedisStore

CALLS: list[Callable[[RedisStore], Awaitable[Any]]] = [
    lambda store: store.journals.append("a", [line("refused")]),
    lambda store: store.journals.last("a", 10),
    lambda store: store.journals.after("a", 0),
    lambda store: store.journals.last("a", 1, 5),
    lambda store: store.journals.names("", 10),
    lambda store: store.records.get("s", "k"),
    lambda store: store.records.put("s", "k", b"refused"),
    lambda store: store.records.increment("s", "refused"),
    lambda store: store.records.compare_and_set("s", {}, {"k": b"refused"}),
    lambda store: store.records.scan("s"),
    lambda store: store.records.subscribe("s", lambda key, value: None),
]
WRITES = [CALLS[n] for n in (0, 6, 7, 8)]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


async def outcomes(store: RedisStore, calls: list[Callable[[RedisStore], Awaitable[Any]]]) -> list[str]:
    """Make all calls at once; return what they fail with."""
    found = await asyncio.gather(*(call(store) for call in calls), return_exceptions=True)
    return [type(outcome).__name__ for outcome in found]


async def until_told(store: RedisStore) -> None:
    # The end of a connection that is idle may be noticed by the next call only.
    with pytest.raises(StoreUnavailable):
        await store.records.get("s", "k")


async def test_calls_to_a_redis_that_hangs_end_in_time(server: RedisServer) -> None:
    async with opened(f"{server.url}?timeout=1") as (store,):
        await persist(lambda: store.records.put("s", "k", b"kept"))
        server.pause()
        try:
            found = await outcomes(store, CALLS)
            assert set(found) <= {"StoreUnavailable", "OutcomeUnknown"}
            assert all(found[CALLS.index(write)] == "OutcomeUnknown" for write in WRITES), "it may be done later"
            again = await outcomes(store, CALLS)
            assert set(again) == {"StoreUnavailable"}, "nothing was sent, so nothing of this will ever be done"
        finally:
            server.resume()
        (entry,) = await persist(lambda: store.journals.append("a", [line("back")]))
        assert [e.data for e in await store.journals.last("a", 10)].count(b"back") == 1
        assert entry.sequence <= 2


async def test_unreachable_redis_fails_at_once_and_reconnects(server: RedisServer) -> None:
    async with opened(f"{server.url}?timeout=30") as (store,):
        await store.records.put("s", "k", b"kept")
        server.kill()
        await until_told(store)
        assert set(await outcomes(store, CALLS)) == {"StoreUnavailable"}
        await asyncio.to_thread(server.start)
        assert await store.records.get("s", "k") == b"kept", "a server that is back is used at once"


def break_saving(client: redis.Redis) -> None:
    """Let Redis fail at its snapshot, as on a full disk: then it takes no writes until one succeeds."""
    snapshot_of(client).mkdir()
    client.config_set("save", "3600 1")
    save(client, "err")


def mend_saving(client: redis.Redis) -> None:
    snapshot_of(client).rmdir()
    save(client, "ok")
    client.config_set("save", "")


def save(client: redis.Redis, outcome: str) -> None:
    client.bgsave()
    wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == outcome)


def snapshot_of(client: redis.Redis) -> Path:
    return Path(client.config_get("dir")["dir"]) / "dump.rdb"


def setting(name: str, value: int, usual: int) -> tuple[Callable[[redis.Redis], object], ...]:
    return lambda client: client.config_set(name, value), lambda client: client.config_set(name, usual)


def without_right(right: str) -> tuple[Callable[[redis.Redis], object], ...]:
    def set_rights(rights: str) -> Callable[[redis.Redis], object]:
        return lambda client: client.execute_command(f"ACL SETUSER default {rights}")

    return set_rights(f"-@{right}"), set_rights("+@all")


def become_replica(client: redis.Redis) -> None:
    client.replicaof("127.0.0.1", 1)


def become_master(client: redis.Redis) -> None:
    client.replicaof("NO", "ONE")


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ((become_replica, become_master), "READONLY .*give its master"),
        (setting("maxmemory", 1, 0), "OOM .*give it more memory"),
        (setting("min-replicas-to-write", 1, 0), "NOREPLICAS .*fewer replicas than min-replicas-to-write"),
        ((break_saving, mend_saving), "MISCONF .*see its log"),
        (without_right("write"), "script.*grant its user the ACL permissions"),
        (without_right("scripting"), "NOPERM .*grant its user the ACL permissions"),
    ],
    ids=["replica", "memory", "replicas", "disk", "write", "scripts"],
)
async def test_redis_that_refuses_writes_changes_nothing(change: Any, advice: str) -> None:
    refuse, allow = change
    async with opened(fresh_url()) as (store,):
        await store.records.put("s", "k", b"kept")
        with shared_server().client() as client:
            refuse(client)
            try:
                assert set(await outcomes(store, WRITES)) == {"StoreUnavailable"}
                with pytest.raises(StoreUnavailable, match=advice):
                    await store.journals.append("a", [line("refused")])
                assert await store.records.get("s", "k") == b"kept"
            finally:
                allow(client)
        assert await store.records.scan("s") == {"k": b"kept"}
        (entry,) = await store.journals.append("a", [line("1")])
        assert entry.sequence == 1


async def test_loading_redis_is_reported_and_used_once_loaded() -> None:
    # It looks at its connections at every 1024th of the commands that it reads again: every half second here.
    with RedisServer(appendonly="yes", key_load_delay=500) as server:
        async with opened(f"{server.url}?timeout=10") as (store,):
            await store.records.put("s", "k", b"kept")
            with server.client() as client, client.pipeline(transaction=False) as commands:
                for number in range(4000):
                    commands.set(f"another's-{number}", "")
                commands.execute()
            server.kill()
            starting = asyncio.ensure_future(asyncio.to_thread(server.start))
            refusals: set[str] = set()

            async def again() -> Any:
                try:
                    return await store.records.get("s", "k")
                except StoreUnavailable as error:
                    refusals.add(str(error))
                    raise

            assert await persist(again) == b"kept"
            await starting
    assert any("is loading the dataset" in refusal for refusal in refusals), refusals


async def test_write_without_its_replicas_is_reported() -> None:
    async with opened(f"{fresh_url()}&replicas=1&timeout=2".replace("&timeout=30", "")) as (store,):
        heard: list[Any] = []
        store.journals.subscribe("a", heard.extend)
        with pytest.raises(OutcomeUnknown, match="not confirmed by 1 replicas"):
            await store.journals.append("a", [line("1")])
        await until(lambda: len(heard) == 1)
        assert await store.journals.last("a", 1) == heard, "reading asks no replica"
        seen: dict[str, bytes | None] = {}
        await store.records.subscribe("s", lambda key, value: seen.update({key: value}))
        with pytest.raises(OutcomeUnknown, match="not confirmed by 1 replicas"):
            await store.records.put("s", "k", b"1")
        await until(lambda: seen == {"k": b"1"}, lambda: seen)


async def test_kill_and_restart_under_load_loses_nothing(server: RedisServer) -> None:
    """With `appendfsync always` nothing acknowledged is lost, nothing is there twice, and listeners hear it all."""
    async with opened(server.url, server.url, f"{server.url}?timeout=1") as (one, other, listening):
        heard = await follow_as_a_thing_does(listening, "a")
        seen: dict[str, bytes | None] = {}
        await listening.records.subscribe("s", lambda key, value: seen.update({key: value}))
        posters = [Poster(store, "a", str(n), 5) for n, store in enumerate([one, other] * 8)]
        is_over = asyncio.Event()
        tasks = [asyncio.ensure_future(poster.run(is_over.is_set)) for poster in posters]
        for life in range(3):
            before = [len(poster.acknowledged) for poster in posters]
            await until(lambda before=before: sum(len(p.acknowledged) for p in posters) > sum(before) + 500)
            await persist(lambda life=life: one.records.put("s", f"life {life}", b"%d" % life))
            if life < 2:
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
        is_over.set()
        await asyncio.gather(*tasks)
        kept = await one.journals.after("a", 0)
        await until(lambda: len(heard) == len(kept), lambda: (len(heard), len(kept)))
        check(posters, kept, heard)
        assert heard == kept
        values = await one.records.scan("s")
        assert sorted(values) == ["life 0", "life 1", "life 2"]
        await until(lambda: seen == values, lambda: (seen, values))


def test_closed_store_leaves_no_task() -> None:
    async def work() -> None:
        before = asyncio.all_tasks()
        async with opened(fresh_url()) as (store,):
            await store.journals.append("a", [line("1")])
            store.journals.subscribe("a", lambda entries: None)
        assert asyncio.all_tasks() == before

    run(work())
