"""Calls are sent to Redis in batches: each is answered once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import redis

from tests.gateway.stores.opened_stores import follow_as_a_thing_does, line, numbers, opened, persist, place_of, until
from tests.redis_servers import RedisServer, fresh_cluster_url, fresh_url, shared_cluster, shared_server
from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit_gateway.stores import Entry, NewEntry

THINGS = 64


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


def calls_of(client: redis.Redis, command: str) -> int:
    statistics: Any = client.info("commandstats")
    return int(statistics.get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def appended(appends: list[asyncio.Future[list[Entry]]]) -> list[Entry]:
    return [entry for (entry,) in await asyncio.gather(*appends)]


async def leave() -> None:
    """Let the batch that waits be sent: connections are open, so that takes some turns of the loop and no more."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.mark.parametrize("fresh", [fresh_url, fresh_cluster_url], ids=["server", "cluster"])
async def test_posts_at_once_are_one_script_call_per_hash_tag(fresh: Callable[[], str]) -> None:
    names = [str(number) for number in range(THINGS)]
    servers = [shared_server()] if fresh is fresh_url else shared_cluster()
    async with opened(fresh()) as (store,), AsyncExitStack() as stack:
        await appended([store.journals.append(name, [line("1")]) for name in names])
        clients = [stack.enter_context(server.client()) for server in servers]
        tags = {place_of(store, name)[0] for name in names}
        before = sum(calls_of(client, "evalsha") for client in clients)
        entries = await appended([store.journals.append(name, [line("2")]) for name in names for _ in range(2)])
        assert sum(calls_of(client, "evalsha") for client in clients) - before == len(tags)
        assert numbers(entries) == [2, 3] * THINGS


async def test_large_appends_at_once_are_several_script_calls() -> None:
    # Each call has a separate deadline, and other clients of the server get their turn in between.
    async with opened(fresh_url()) as (store,):
        await store.journals.append("first", [line("1")])
        with shared_server().client() as client:
            before = calls_of(client, "evalsha")
            large = [NewEntry(5, f"{n}", bytes(10_000)) for n in range(100)]
            appends = [store.journals.append(f"{n % 3}", large) for n in range(20)]
            entries = await asyncio.gather(*appends)
            assert 4 <= calls_of(client, "evalsha") - before <= 10
        assert [numbers(part)[0] for part in entries] == [n // 3 * 100 + 1 for n in range(20)]


async def test_a_busy_journal_is_indexed_once_in_five_seconds(server: RedisServer) -> None:
    async with opened(server.url) as (store,):
        for second in range(11):
            for number in range(10):
                await store.journals.append("a", [line(f"{second} {number}", at=second * 1_000 + number)])
        with server.client() as client:
            assert client.zscore("gateway:{0}:names", "a") == 10_000
            assert calls_of(client, "zadd") == 3


async def test_appends_keep_their_order_after_script_flush(server: RedisServer) -> None:
    async with opened(f"{server.url}?timeout=30") as (store,):
        heard = await follow_as_a_thing_does(store, "a")
        appends = []
        with server.client() as client:
            for number in range(20):
                client.script_flush()
                appends += [store.journals.append("a", [line(f"{number} {part}")]) for part in range(3)]
                await asyncio.sleep(0)
                await store.records.put("s", "k", b"%d" % number)
        entries = await appended(appends)
        assert numbers(entries) == list(range(1, 61))
        assert await store.journals.after("a", 0) == entries == heard, "each ran once"
        assert await store.records.get("s", "k") == b"19"


async def test_batch_lost_with_its_server_is_outcome_unknown(server: RedisServer) -> None:
    """What was sent may have been done; what waited for the next batch was not."""
    async with opened(f"{server.url}?timeout=30") as (store,):
        await store.journals.append("a", [line("first")])
        server.pause()
        sent = [store.journals.append("a", [line(str(number))]) for number in range(3)]
        await leave()
        waiting = [store.journals.append("a", [line("waits")]), store.records.put("s", "k", b"waits")]
        server.kill()
        found = await asyncio.gather(*sent, *waiting, return_exceptions=True)
        assert [type(outcome) for outcome in found] == [OutcomeUnknown] * 3 + [StoreUnavailable] * 2
        await asyncio.to_thread(server.start)
        assert (await persist(lambda: store.journals.append("a", [line("back")])))[0].data == b"back"


async def test_bytes_in_flight_count_as_queued(server: RedisServer) -> None:
    async with opened(f"{server.url}?timeout=30") as (store,):
        await store.journals.append("a", [line("first")])
        server.pause()
        big = bytes(4 * 1024 * 1024)
        calls = []
        for _ in range(16):
            calls += [store.journals.append("a", [line("x")._replace(data=big)]) for _ in range(3)]
            await leave()
        accepted = [call for call in calls if not call.done()]
        server.resume()
        await asyncio.gather(*accepted)
        assert len(accepted) <= 17, "64 MiB and one more"
        await store.journals.append("a", [line("on")])
        assert not [call for call in calls if call not in accepted and call.exception() is None]


async def test_unreadable_message_ends_no_subscription(server: RedisServer) -> None:
    async with opened(server.url, server.url) as (store, other):
        heard = await follow_as_a_thing_does(store, "a")
        seen: dict[str, bytes | None] = {}
        await store.records.subscribe("s", lambda key, value: seen.update({key: value}))
        await until(lambda: store.journals.is_live("a"))
        with server.client() as client:
            for channel in ("gateway:{0}:journal:a", "gateway:{s}:records"):
                for message in ("5", "x", "[[]]"):
                    assert client.execute_command("SPUBLISH", channel, message) == 1
        await other.journals.append("a", [line("1")])
        await other.records.put("s", "k", b"1")
        await until(lambda: len(heard) == 1 and seen == {"k": b"1"}, lambda: (heard, seen))
