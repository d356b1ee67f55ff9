"""Cached things: the memory bound counts everything, and reads during posts are complete."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable

import pytest

from tests.gateway.stores.opened_stores import opened_store
from toolkit.errors import NotFound, StoreUnavailable
from toolkit_gateway.dweets.live_streams import LiveStreams
from toolkit_gateway.dweets.locks import Locks
from toolkit_gateway.dweets.thing_cache import CachedThing, Things, journal_of
from toolkit_gateway.stores import Entry, NewEntry, Store

BOUND = 1024 * 1024


def drafts(count: int, size: int) -> list[NewEntry]:
    return [NewEntry(number, f"{number:036}", bytes(size)) for number in range(count)]


def count_of(thing: CachedThing) -> int:
    history = thing.history() or b""
    assert history.count(b"\0") == thing.last_sequence
    return thing.last_sequence


@pytest.mark.parametrize(("things", "entries", "length"), [(1_500, 1, 1), (625, 20, 500), (15, 500, 500)])
async def test_cache_bound_counts_all_memory_of_things(things: int, entries: int, length: int) -> None:
    async with opened_store(None) as store:
        for number in range(things):
            await store.journals.append(journal_of(f"thing {number}"), drafts(entries, 150))
        cache = Things(store.journals, BOUND)
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()

        def held() -> int:
            return tracemalloc.get_traced_memory()[0] - before

        for number in range(things):
            thing = await cache.load(f"thing {number}", length)
            assert thing.latest() if length == 1 else thing.history()
        assert 0.8 * BOUND <= held() <= 1.2 * BOUND
        for number in range(things):  # what is posted later counts too
            await store.journals.append(journal_of(f"thing {number}"), drafts(1, 150))
            assert held() <= 1.2 * BOUND
        tracemalloc.stop()


async def test_dweets_posted_during_a_read_appear_once() -> None:
    async with opened_store(None) as store:
        things = Things(store.journals)
        for number in range(20):
            await store.journals.append(journal_of("a"), drafts(1, 1))
            loads = [things.load("a", length) for length in (1, 500, 1, 500)]
            appends = [store.journals.append(journal_of("a"), drafts(1, 1)) for _ in range(3)]
            short, long, *others = await asyncio.gather(*loads)
            await asyncio.gather(*appends)
            assert others == [short, long]
            assert count_of(long) == 4 * number + 4
            assert (things.cached("a", 1) or short).last_sequence == 4 * number + 4
            things = Things(store.journals)


async def test_cancelled_reader_does_not_affect_others() -> None:
    async with opened_store(None) as store:
        await store.journals.append(journal_of("a"), drafts(3, 1))
        things = Things(store.journals)
        first, second = (asyncio.ensure_future(things.load("a")) for _ in range(2))
        first.cancel()
        assert count_of(await second) == 3


async def test_failed_read_raises_for_all_and_is_retried() -> None:
    async with opened_store(None) as store:
        await store.journals.append(journal_of("a"), drafts(3, 1))
        things, read = Things(store.journals), store.journals.last
        failures = [True]

        def last(name: str, count: int) -> Awaitable[object]:
            if failures.pop():
                failed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                failed.set_exception(StoreUnavailable("away"))
                return failed
            return read(name, count)

        failures.insert(0, False)
        store.journals.last = last  # type: ignore[assignment, method-assign]
        outcomes = await asyncio.gather(things.load("a"), things.load("a"), return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["away", "away"]
        assert count_of(await things.load("a")) == 3


async def streams_of(store: Store, things: Things) -> LiveStreams:
    locks = Locks(store.records)
    await locks.open()
    return LiveStreams(things, locks)


class Reader:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, *pieces: bytes) -> None:
        self.pieces += pieces

    async def drain(self) -> None:
        pass

    def end(self) -> None:
        pass


async def test_listened_things_stay_within_the_bound() -> None:
    async with opened_store(None) as store:
        cache = Things(store.journals, BOUND)
        streams = await streams_of(store, cache)
        heard = {f"thing {number}": Reader() for number in range(12)}
        for name in heard:
            await store.journals.append(journal_of(name), drafts(500, 800))
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for name, reader in heard.items():
            await cache.load(name)
            await streams.listen(name, None, 500, lambda number, record: b"%d" % number, reader)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 1.5 * BOUND, "5 MB without it"
        tracemalloc.stop()
        for name in heard:  # what the cache drops or reads again makes no difference to a listener
            loading = cache.load(name)
            await store.journals.append(journal_of(name), drafts(1, 1))
            assert (await loading).last_sequence == 501
            await store.journals.append(journal_of(name), drafts(1, 1))
        assert {tuple(reader.pieces) for reader in heard.values()} == {(b"501", b"502")}


async def test_stream_since_a_time_reads_in_pieces() -> None:
    async with opened_store(None) as store:
        await store.journals.append(journal_of("a"), drafts(1_500, 10_000))
        streams = await streams_of(store, Things(store.journals))
        await streams.position("a", None, None)
        tracemalloc.start()
        assert await streams.position("a", None, "1970-01-01T00:00:01.399Z") == 1_400
        assert await streams.position("a", None, "1969-01-01T00:00:00.000Z") == 0
        assert await streams.position("a", None, "1970-01-01T00:00:01.500Z") == 1_500
        assert tracemalloc.get_traced_memory()[1] < 10_000_000, "15 MB if all are read"
        tracemalloc.stop()


class SlowReader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self.has_taken = asyncio.Event()

    def write(self, *pieces: bytes) -> None:
        self.has_taken.set()

    async def drain(self) -> None:
        await asyncio.Event().wait()


async def test_slow_reader_of_missed_dweets_holds_one_piece() -> None:
    async with opened_store(None) as store:
        await store.journals.append(journal_of("a"), drafts(700, 60_000))
        things = Things(store.journals)
        streams = await streams_of(store, things)
        await things.load("a")
        tracemalloc.start()
        readers = [SlowReader() for _ in range(20)]
        listening = [asyncio.ensure_future(streams.listen("a", None, 0, _bytes_of, reader)) for reader in readers]
        await asyncio.gather(*(reader.has_taken.wait() for reader in readers))
        assert tracemalloc.get_traced_memory()[0] < 12_000_000, "120 MB if each holds a hundred dweets"
        tracemalloc.stop()
        for task in listening:
            task.cancel()


async def test_concurrent_resumes_read_a_few_at_a_time() -> None:
    async with opened_store(None) as store:
        await store.journals.append(journal_of("a"), drafts(600, 1))
        things = Things(store.journals)
        streams = await streams_of(store, things)
        await things.load("a")
        last, reading, most = store.journals.last, 0, 0

        async def counted(name: str, count: int, below: int | None = None) -> list[Entry]:
            nonlocal reading, most
            reading += count > 1  # the newest dweet alone is read at once
            most = max(most, reading)
            found = await last(name, count, below)
            reading -= count > 1
            return found

        store.journals.last = counted  # type: ignore[method-assign]
        unknown = [streams.position("a", None, f"{number:036}") for number in range(1_000, 1_050)]
        outcomes = await asyncio.gather(*unknown, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {NotFound}
        assert most == 4
        positions = [await streams.position("a", None, f"{number:036}") for number in (0, 500, 599)]
        assert positions == [1, 501, 600]


def _bytes_of(number: int, record: bytes) -> bytes:
    return record
