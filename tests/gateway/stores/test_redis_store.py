"""The Redis store: several gateways see each other's entries, also after broken connections."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import required_program
from tests.gateway.stores.opened_stores import (
    follow_as_a_thing_does,
    line,
    numbers,
    opened,
    persist,
    place_of,
    run,
    until,
)
from tests.gateway.stores.stores_under_test import SetClock
from tests.ports import free_port
from tests.redis_servers import RedisServer, fresh_cluster_url, fresh_url, migration_of, shared_cluster, shared_server
from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import NewEntry, Records
from toolkit_gateway.stores.redis.records import RedisRecords
from toolkit_gateway.stores.redis.store import RedisStore

ON_BOTH = pytest.mark.parametrize("fresh", [fresh_url, fresh_cluster_url], ids=["server", "cluster"])
Fresh = Callable[[], str]


@ON_BOTH
async def test_all_gateways_get_entries_once_in_order(fresh: Fresh) -> None:
    url = fresh()
    async with opened(url, url, url) as stores:
        everyone = [await follow_as_a_thing_does(store, "a") for store in stores]

        async def write(store: RedisStore, who: int) -> None:
            for number in range(50):
                (entry,) = await store.journals.append("a", [line(f"{who} {number}")], 1_000)
                assert everyone[who][-1].sequence >= entry.sequence, "heard before its writer went on"

        await asyncio.gather(*(write(store, n) for n, store in enumerate(stores)))
        for heard in everyone:
            await until(lambda heard=heard: len(heard) == 150, lambda heard=heard: len(heard))
            assert numbers(heard) == list(range(1, 151))
        assert everyone[0] == everyone[1] == everyone[2] == await stores[0].journals.last("a", 150)


@ON_BOTH
async def test_new_subscriber_misses_nothing_during_appends(fresh: Fresh) -> None:
    url = fresh()
    async with opened(url, url) as (writing, listening):
        going = True

        async def write() -> None:
            while going:
                await writing.journals.append("a", [line("x"), line("y")])

        writer = asyncio.ensure_future(write())
        everyone = [await follow_as_a_thing_does(listening, "a") for _ in range(30)]
        going = False
        await writer
        (last,) = await writing.journals.append("a", [line("last")])
        for heard in everyone:
            await until(lambda heard=heard: heard and heard[-1].sequence == last.sequence)
            assert numbers(heard) == list(range(heard[0].sequence, last.sequence + 1))


@ON_BOTH
async def test_broken_connection_loses_no_entry_or_change(fresh: Fresh) -> None:
    url = fresh()
    async with opened(url, url) as (writing, listening):
        heard = await follow_as_a_thing_does(listening, "a")
        seen: dict[str, bytes | None] = {}
        await listening.records.subscribe("s", lambda key, value: seen.update({key: value}))
        await writing.records.put("s", "gone", b"1")
        await until(lambda: seen == {"gone": b"1"})  # of what came and went in between nobody is told
        for number in range(60):
            if number % 10 == 5:
                _cut_listeners(url)
            await writing.journals.append("a", [line(str(number))])
            await writing.records.put("s", str(number % 7), b"%d" % number)
        await writing.records.compare_and_set("s", {}, {"gone": None})
        await until(lambda: len(heard) == 60, lambda: len(heard))
        assert numbers(heard) == list(range(1, 61))
        expected = {**await writing.records.scan("s"), "gone": None}
        await until(lambda: seen == expected, lambda: (seen, expected))


def _cut_listeners(url: str) -> None:
    for server in shared_cluster() if "cluster" in url else [shared_server()]:
        with server.client() as client:
            client.client_kill_filter(_type="pubsub")


@ON_BOTH
async def test_entries_too_large_for_a_message_are_delivered(fresh: Fresh) -> None:
    url = fresh()
    async with opened(url, url) as (writing, listening):
        heard = await follow_as_a_thing_does(listening, "a")
        await listening.journals.append("a", [line("own")])
        entries = await writing.journals.append("a", [NewEntry(1, str(n), bytes(60_000)) for n in range(50)])
        await until(lambda: len(heard) == 51)
        assert heard[1:] == entries


async def test_sequence_numbers_of_lost_entries_are_not_reused() -> None:
    async with opened(fresh_url()) as (store,):
        heard = await follow_as_a_thing_does(store, "a")
        with shared_server().client() as client:
            await store.journals.append("a", [line("1"), line("2")])
            client.xtrim(place_of(store, "a")[1], maxlen=0, approximate=False)
            await store.journals.append("a", [line("3")])
            client.delete(place_of(store, "a")[1])  # a promoted replica had not heard of them
            kept = await store.journals.append("a", [line("4"), line("5")])
        assert [(entry.sequence, entry.data) for entry in heard] == [(n, b"%d" % n) for n in range(1, 6)]
        assert await store.journals.after("a", 0) == kept


async def test_subscribers_continue_after_redis_lost_its_data() -> None:
    with RedisServer() as server:  # in memory only
        async with opened(server.url, server.url) as (writing, listening):
            heard = await follow_as_a_thing_does(listening, "a")
            await writing.journals.append("a", [line("1"), line("2")])
            await until(lambda: len(heard) == 2)
            server.kill()
            await asyncio.to_thread(server.start)
            assert await persist(lambda: writing.journals.names("", 9)) == []
            await persist(lambda: writing.journals.append("a", [line("3")]))
            assert await writing.journals.names("", 9) == ["a"]
            await until(lambda: len(heard) == 3, lambda: heard)
            assert [entry.data for entry in heard] == [b"1", b"2", b"3"]


async def test_writers_and_subscribers_follow_a_moved_slot() -> None:
    url = fresh_cluster_url()
    async with opened(url, url) as (writing, listening):
        heard = await follow_as_a_thing_does(listening, "a")
        going, written = True, 0

        async def write() -> None:
            nonlocal written
            while going:
                await writing.journals.append("a", [line(str(written))])
                written += 1

        await writing.journals.append("a", [line("here")])  # so that there is a key to move
        writer = asyncio.ensure_future(write())
        with migration_of(place_of(writing, "a")[1]) as move:
            await asyncio.to_thread(move)
        await writing.journals.append("a", [line("there")])
        going = False
        await writer
        await until(lambda: len(heard) == written + 2, lambda: (len(heard), written))
        assert numbers(heard) == list(range(1, written + 3))


async def test_stuck_slot_migration_is_reported() -> None:
    async with opened(fresh_cluster_url().replace("timeout=30", "timeout=1")) as (store,):
        await store.journals.append("a", [line("1")])
        tag, key = place_of(store, "a")
        new = next(name for name in map(str, range(10_000)) if place_of(store, name)[0] == tag)
        with migration_of(key):
            # What the journals of a hash tag share is here, the new journal is not: Redis says TRYAGAIN.
            with pytest.raises(StoreUnavailable, match="is moving these keys: TRYAGAIN"):
                await store.journals.append(new, [line("1")])
            assert [entry.data for entry in await store.journals.last("a", 9)] == [b"1"]
        (entry,) = await store.journals.append(new, [line("1")])
        assert entry.sequence == 1, "what was refused was not written"


def keys_of(records: Records, space: str) -> list[bytes]:
    assert isinstance(records, RedisRecords)
    return records.keys(space)


class TestWhatExpires:
    """By the gateway's clock at once; and out of Redis, where nobody would look for it any more."""

    async def test_space_of_expired_records_disappears(self) -> None:
        clock = SetClock()
        async with opened(fresh_url(), clock=clock) as (store,):
            values, expiries = keys_of(store.ephemeral, "codes")
            with shared_server().client() as client:
                await store.ephemeral.put("codes", "a", b"1", clock.at + 100_000)
                assert 100_000 < client.pttl(values) <= 160_000
                await store.ephemeral.put("codes", "b", b"1", clock.at + 1_000)
                assert 100_000 < client.pttl(values) <= 160_000, "the latest decides"
                await store.ephemeral.put("codes", "c", b"1")
                assert client.pttl(values) == -1, "what never expires keeps all"
                await store.ephemeral.put("codes", "c", b"1", clock.at + 1_000)
                assert 100_000 < client.pttl(values) <= 160_000
                assert 100_000 < client.pttl(expiries) <= 160_000
                await store.ephemeral.compare_and_set("codes", {}, {"a": None})
                assert client.pttl(values) <= 61_000

    async def test_expired_records_are_swept_after_a_minute(self) -> None:
        clock = SetClock()
        async with opened(fresh_url(), clock=clock) as (store,):
            values, expiries = keys_of(store.records, "s")
            await store.records.put("s", "keeps the space", b"1")
            for number in range(10):
                await store.records.put("s", str(number), b"1", clock.at + number)
            clock.at += 60_005
            await store.records.put("s", "keeps the space", b"2")
            with shared_server().client() as client:
                assert sorted(client.hkeys(values)) == [b"6", b"7", b"8", b"9", b"keeps the space"]
                assert client.zcard(expiries) == 4


def test_unix_socket_connection_works() -> None:
    async def work(path: Path) -> None:
        async with opened(f"unix://{path}?prefix=x:&db=1") as (store,):
            assert repr(store) == f"unix://{path}"
            await store.journals.append("a", [line("1")])
            assert [entry.data for entry in await store.journals.last("a", 1)] == [b"1"]

    with RedisServer(unixsocket="socket") as server:  # in its folder
        run(work(server.folder / "socket"))
        with server.client(db=1) as client:
            assert client.xlen("x:{0}:journal:a") == 1


def test_tls_connection_works(tmp_path: Path) -> None:
    certificate = _certificate(tmp_path)
    settings = {"tls_cert_file": certificate, "tls_key_file": tmp_path / "key.pem", "tls_auth_clients": "no"}
    with RedisServer(tls_port=(tls := free_port()), tls_ca_cert_file=certificate, **settings):

        async def work(query: str) -> None:
            async with opened(f"rediss://127.0.0.1:{tls}{query}") as (store,):
                heard = await follow_as_a_thing_does(store, "a")
                await store.journals.append("a", [line("1")])
                assert numbers(heard) == [1]

        run(work(f"?ssl_ca_certs={certificate}"))
        with pytest.raises(StoreUnavailable, match=r"rediss://127.0.0.1:\d+ cannot be used now: .*certificate"):
            run(work(""))


def _certificate(folder: Path) -> Path:
    certificate = folder / "certificate.pem"
    command = [required_program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate
