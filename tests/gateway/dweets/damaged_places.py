"""Stores of gateways, whose records a test damages while no gateway runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.redis_servers import fresh_url
from toolkit_gateway import Gateway
from toolkit_gateway.dweets.stored_records import SPACE
from toolkit_gateway.gateway import store_of
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import Records

T = TypeVar("T")
Changes = Mapping[str, bytes | None]


class Place:
    """A folder, or a world in a Redis.

    Parameters
    ----------
    kind
        ``folder`` or ``redis``.
    folder
        A folder that nothing else uses.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder = folder if kind == "folder" else None
        self.url = fresh_url() if kind == "redis" else None

    @property
    def options(self) -> list[str]:
        return ["--data", str(self.folder)] if self.folder is not None else ["--store", str(self.url)]

    def gateway(self, **options: Any) -> Gateway:
        return Gateway(self.folder, store=self.url, **options)

    def work(self, work: Callable[[Records], Awaitable[T]]) -> T:
        async def run() -> T:
            store = store_of(self.folder, self.url, Runtime().clock.now)
            await store.open()
            try:
                return await work(store.records)
            finally:
                await store.close()

        return asyncio.run(run())

    def records(self) -> dict[str, bytes]:
        """Return the records of locks, locked things, alerts and mails, as they are."""

        async def scan(records: Records) -> dict[str, bytes]:
            return await records.scan(SPACE)

        return self.work(scan)

    def change(self, changes: Changes) -> None:
        async def compare_and_set(records: Records) -> None:
            assert await records.compare_and_set(SPACE, {}, changes)

        self.work(compare_and_set)
