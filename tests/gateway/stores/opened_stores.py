"""Stores that a test opens: an embedded one, or several on Redis in one event loop, as several gateways would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import Entry, NewEntry, Subscriber
from toolkit_gateway.stores.embedded import EmbeddedStore
from toolkit_gateway.stores.redis.journals import RedisJournals
from toolkit_gateway.stores.redis.store import RedisStore

# A test as a whole, and each of its waits: when to give up on a machine that is slow and busy.
SECONDS = 110
_A_WAIT = 60


def now() -> int:
    return time.time_ns() // 1_000_000


@asynccontextmanager
async def opened(*urls: str, clock: Callable[[], int] = now) -> AsyncIterator[list[RedisStore]]:
    """Open a store for each URL; the same URL twice is two gateways on one Redis."""
    stores = [RedisStore(url, clock) for url in urls]
    for store in stores:
        await store.open()
    try:
        yield stores
    finally:
        await asyncio.gather(*(store.close() for store in stores))


@asynccontextmanager
async def opened_store(
    folder: Path | None, clock: Callable[[], int] = lambda: 0, **options: Any
) -> AsyncIterator[EmbeddedStore]:
    """Open an embedded store."""
    store = EmbeddedStore(folder, clock, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def with_store(folder: Path | None, work: Callable[[EmbeddedStore], Awaitable[Any]], **options: Any) -> Any:
    """Open an embedded store in an event loop that ends with the work."""

    async def bounded() -> Any:
        async with opened_store(folder, **options) as store:
            return await asyncio.wait_for(work(store), 60)

    return asyncio.run(bounded())


def run(work: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(work, SECONDS)

    return asyncio.run(bounded())


async def until(condition: Callable[[], object], otherwise: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + _A_WAIT
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about in time: {otherwise()}"
        await asyncio.sleep(0.005)


async def persist(call: Callable[[], Awaitable[Any]]) -> Any:
    deadline = time.monotonic() + _A_WAIT
    while True:
        try:
            return await call()
        except StoreUnavailable:
            assert time.monotonic() < deadline, "the store did not come back in time"
            await asyncio.sleep(0.01)


def line(text: str, at: int = 5) -> NewEntry:
    return NewEntry(at, f"id-{text}", text.encode())


def numbers(entries: list[Entry]) -> list[int]:
    return [entry.sequence for entry in entries]


async def follow_as_a_thing_does(store: RedisStore, name: str) -> list[Entry]:
    """Return a list that holds every line, kept and to come: follow, read, follow on, as `Things` does."""
    heard: list[Entry] = []

    def take(entries: Any) -> None:
        heard.extend(entry for entry in entries if entry.sequence > (heard[-1].sequence if heard else 0))

    early: list[Entry] = []
    unsubscribe: Callable[[], None] = store.journals.subscribe(name, early.extend)
    kept = await store.journals.last(name, 500)
    unsubscribe()
    take(kept)
    take(early)
    follower: Subscriber = take
    store.journals.subscribe(name, follower)
    return heard


def place_of(store: RedisStore, name: str) -> tuple[str, bytes]:
    journals = store.journals
    assert isinstance(journals, RedisJournals)
    return journals.tag_and_stream(name)
