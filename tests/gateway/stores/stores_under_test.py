"""The stores that the conformance suite runs on. A further store is one more entry of STORES."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.redis_servers import fresh_cluster_url, fresh_url
from toolkit_gateway.stores import Store
from toolkit_gateway.stores.embedded import EmbeddedStore
from toolkit_gateway.stores.redis.store import RedisStore

T = TypeVar("T")
Now = Callable[[], int]


class SetClock:
    """A gateway's clock that stands where a test sets it."""

    def __init__(self, at: int = 1_000_000) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at

    now = tick = __call__


class StoreKind:
    """One kind of store: how to make it in a place, and whether it keeps what it holds when it is opened again."""

    def __init__(
        self, name: str, make: Callable[[Path, Now], Store], *, keeps: bool, keeps_ephemeral: bool = False
    ) -> None:
        self.name = name
        self.make = make
        self.keeps = keeps
        self.keeps_ephemeral = keeps_ephemeral


def _world(folder: Path, fresh: Callable[[], str]) -> str:
    # The same test opens the same world again.
    note = folder / "world"
    if not note.exists():
        note.write_text(fresh())
    return note.read_text()


STORES = [
    StoreKind("memory", lambda folder, now: EmbeddedStore(None, now), keeps=False),
    StoreKind("disk", lambda folder, now: EmbeddedStore(folder / "store", now), keeps=True),
    StoreKind(
        "redis", lambda folder, now: RedisStore(_world(folder, fresh_url), now), keeps=True, keeps_ephemeral=True
    ),
    StoreKind(
        "redis cluster",
        lambda folder, now: RedisStore(_world(folder, fresh_cluster_url), now),
        keeps=True,
        keeps_ephemeral=True,
    ),
]


class StoreBench:
    """Runs pieces of a test on one kind of store, each time opened anew in the same place."""

    def __init__(self, kind: StoreKind, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.clock = SetClock()

    def __call__(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Open the store, do the work, close it."""

        async def run() -> T:
            store = self.kind.make(self.folder, self.clock)
            await store.open()
            try:
                return await asyncio.wait_for(work(store), 60)
            finally:
                await store.close()

        return asyncio.run(run())


def with_store(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test that is a coroutine function on the opened store of the fixture `on_store`.

    Its arguments are the ``store``, the ``records`` that the parameter `part` names, and fixtures.
    """
    wanted = inspect.signature(test).parameters

    @functools.wraps(test)
    def run_test(*self: Any, on_store: StoreBench, part: str = "records", **fixtures: Any) -> None:
        def work(store: Store) -> Awaitable[None]:
            given = {"store": store, "records": getattr(store, part), "on_store": on_store}
            return test(*self, **{name: given[name] for name in given if name in wanted}, **fixtures)

        on_store(work)

    of_test = [name for name in wanted if name not in ("store", "records", "on_store")]
    names = [*of_test, "on_store", *(["part"] if "records" in wanted else [])]
    new = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    run_test.__signature__ = inspect.Signature(new)  # type: ignore[attr-defined]
    return run_test
