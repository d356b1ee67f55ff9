"""Cached things: the bound of their memory counts everything, and what is read while it is posted to is complete."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable

import pytest

from toolkit.dweets.service.things import CachedThing, Things, journal_of
from toolkit.errors import StoreUnavailable
from toolkit.stores import Draft, Store
from toolkit.stores.embedded import EmbeddedStore

BOUND = 4 * 1024 * 1024


def with_store(work: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        store = EmbeddedStore(None, lambda: 0)
        await store.open()
        try:
            await asyncio.wait_for(work(store), 60)
        finally:
            await store.close()

    asyncio.run(run())


def drafts(count: int, size: int) -> list[Draft]:
    return [Draft(number, f"{number:036}", bytes(size)) for number in range(count)]


def numbers(thing: CachedThing) -> list[int]:
    entries = thing.entries_after(0)
    assert entries is not None
    return [entry[0] for entry in entries]


@pytest.mark.parametrize(("things", "entries", "length"), [(6_000, 1, 1), (2_500, 20, 500), (60, 500, 500)])
def test_the_bound_of_cached_things_counts_everything(things: int, entries: int, length: int) -> None:
    async def work(store: Store) -> None:
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

    with_store(work)


def test_what_is_posted_while_a_thing_is_read_is_there_once() -> None:
    async def work(store: Store) -> None:
        things = Things(store.journals)
        for number in range(20):
            await store.journals.append(journal_of("a"), drafts(1, 1))
            loads = [things.load("a", length) for length in (1, 500, 1, 500)]
            appends = [store.journals.append(journal_of("a"), drafts(1, 1)) for _ in range(3)]
            short, long, *others = await asyncio.gather(*loads)
            await asyncio.gather(*appends)
            assert others == [short, long]
            assert numbers(long) == list(range(1, 4 * number + 5))
            assert numbers(things.cached("a", 1) or short)[-1] == 4 * number + 4
            things = Things(store.journals)

    with_store(work)


def test_one_who_gives_up_does_not_disturb_the_others() -> None:
    async def work(store: Store) -> None:
        await store.journals.append(journal_of("a"), drafts(3, 1))
        things = Things(store.journals)
        first, second = things.load("a"), things.load("a")
        first.cancel()
        assert numbers(await second) == [1, 2, 3]

    with_store(work)


def test_a_failed_read_is_told_to_all_and_tried_again() -> None:
    async def work(store: Store) -> None:
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
        assert numbers(await things.load("a")) == [1, 2, 3]

    with_store(work)
