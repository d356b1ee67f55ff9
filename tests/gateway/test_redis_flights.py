"""Several flights of calls are on their way to Redis at a time: each is answered, in order, whatever comes between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import pytest
import uvloop
from redis.asyncio.connection import Connection
from redis.exceptions import BusyLoadingError
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.gateway.opened_stores import line, numbers, opened, persist, run, until
from tests.redis_servers import RedisServer
from toolkit.gateway.stores import OutcomeUnknown, StoreUnavailable
from toolkit.gateway.stores.redis.calls import Call, FutureCall
from toolkit.gateway.stores.redis.link import Link, packed
from toolkit.gateway.stores.redis.store import RedisStore

FLIGHTS = 8


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


def submit(store: RedisStore, *calls: Call) -> None:
    for call in calls:
        store._servers.writing(store._servers.place("")).submit(call)


async def fly(store: RedisStore, *flights: list[FutureCall]) -> list[FutureCall]:
    """Send each of these in a flight of its own."""
    for flight in flights:
        submit(store, *flight)
        await asyncio.sleep(0)
    return [call for flight in flights for call in flight]


def ping() -> FutureCall:
    return FutureCall(b"PING")


def test_appends_keep_their_order_where_the_server_forgets_its_scripts_between_flights(server: RedisServer) -> None:
    async def work() -> None:
        async with opened(f"{server.url}?timeout=30") as (store,):
            await store.journals.append("a", [line("first")])
            server.pause()
            try:
                others = [FutureCall(b"SCRIPT", b"FLUSH")]
                submit(store, *others)
                appends = [store.journals.append("a", [line("0")])]
                await asyncio.sleep(0)
                others += await fly(store, [ping()])
                appends.append(store.journals.append("a", [line("1")]))
                others += await fly(store, *[[ping()] for _ in range(FLIGHTS)])
                appends.append(store.journals.append("a", [line("2")]))
                await asyncio.sleep(0)
            finally:
                server.resume()
            entries = [entry for (entry,) in await asyncio.gather(*appends)]
            assert numbers(entries) == [2, 3, 4]
            assert await store.journals.after("a", 1) == entries
            await asyncio.gather(*(call.future for call in others))

    run(work())


def test_what_the_server_did_not_know_runs_on_the_next_connection_where_this_one_is_left(server: RedisServer) -> None:
    async def work() -> None:
        async with opened(f"{server.url}?timeout=30") as (store,):
            await store.journals.append("a", [line("first")])
            server.pause()
            try:
                await fly(store, [FutureCall(b"SCRIPT", b"FLUSH")])
                append = store.journals.append("a", [line("0")])
                await asyncio.sleep(0)
                store._servers.writing(store._servers.place("")).doubt()
                (last,) = await fly(store, [ping()])
            finally:
                server.resume()
            await last.future
            (entry,) = await append
            assert await store.journals.after("a", 1) == [entry], "it ran once"

    run(work())


def test_a_server_that_dies_with_flights_in_the_air_costs_each_call_its_answer_and_no_more(server: RedisServer) -> None:
    async def work() -> None:
        async with opened(f"{server.url}?timeout=30") as (store,):
            await store.journals.append("a", [line("first")])
            server.pause()
            sent = [store.journals.append("a", [line("0")])]
            for number in range(1, FLIGHTS):
                await asyncio.sleep(0)
                sent.append(store.journals.append("a", [line(str(number))]))
            await asyncio.sleep(0)
            waiting = [store.journals.append("a", [line("waits")]), store.records.put("s", "k", b"waits")]
            await asyncio.sleep(0)
            server.kill()
            found = await asyncio.gather(*sent, *waiting, return_exceptions=True)
            assert [type(outcome) for outcome in found] == [OutcomeUnknown] * FLIGHTS + [StoreUnavailable] * 2
            await asyncio.to_thread(server.start)
            assert (await persist(lambda: store.journals.append("a", [line("back")])))[0].data == b"back"

    run(work())


def test_nothing_is_sent_behind_what_replicas_must_confirm(server: RedisServer) -> None:
    async def work() -> None:
        async with opened(f"{server.url}?timeout=60&replicas=1") as (store,):
            (connected,) = await fly(store, [ping()])
            await connected.future
            appends = []
            for number in range(FLIGHTS):
                appends.append(store.journals.append("a", [line(str(number))]))
                await asyncio.sleep(0)
            with server.client() as client:
                # Flights behind it would wait for it, and for each other, until their own time is over.
                assert store._servers.writing(store._servers.place(""))._flights == 1
                while not all(append.done() for append in appends):
                    for other in client.client_list():
                        if "b" in other["flags"]:
                            client.client_unblock(other["id"])
                    await asyncio.sleep(0)
            for append in appends:
                with pytest.raises(OutcomeUnknown, match="not confirmed by 1 replicas"):
                    await append
            assert len(await store.journals.after("a", 0)) == FLIGHTS

    run(work())


def test_bytes_that_are_on_their_way_count_as_waiting(server: RedisServer) -> None:
    async def work() -> None:
        async with opened(f"{server.url}?timeout=30") as (store,):
            await store.journals.append("a", [line("first")])
            server.pause()
            big = bytes(4 * 1024 * 1024)
            calls = []
            for _ in range(2 * FLIGHTS):
                calls += [store.journals.append("a", [line("x")._replace(data=big)]) for _ in range(3)]
                await asyncio.sleep(0)
            accepted = [call for call in calls if not call.done()]
            server.resume()
            await asyncio.gather(*accepted)
            assert len(accepted) <= 17, "64 MiB and one more"
            await store.journals.append("a", [line("on")])
            assert not [call for call in calls if call not in accepted and call.exception() is None]

    run(work())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_link_that_has_ended_takes_what_is_sent_and_says_so_to_who_asks(
    server: RedisServer, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def work() -> None:
        async with opened(f"{server.url}?timeout=30") as (store,):
            link = await store._servers.connect(store._servers.place(""))
            server.kill()
            await until(lambda: not link.is_open)
            for _ in range(3):
                await asyncio.sleep(0)  # uvloop's transport refuses, once it has told the end
            with pytest.raises(RedisConnectionError, match="hung up"):
                await link.ask(b"PING")
            link.hang_up()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work())


def test_what_was_answered_before_a_server_refuses_all_is_an_answer() -> None:
    async def work() -> None:
        served = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"GET")
            writer.write(b"+one\r\n+two\r\n-LOADING Redis is loading the dataset in memory\r\n")
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            served.set()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            connection = Connection(host=host, port=port, driver_info=None, protocol=2)
            await connection.connect()
            link = Link(connection)
            link.send([packed((b"GET", b"k"))])
            answers = [link.answers(1), link.answers(1), link.answers(1)]
            found = await asyncio.gather(*answers, return_exceptions=True)
            assert found[:2] == [[b"one"], [b"two"]]
            assert isinstance(found[2], BusyLoadingError)
            assert not link.is_open
            await served.wait()

    run(work())
