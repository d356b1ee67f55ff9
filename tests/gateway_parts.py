"""A gateway whose services and store a test can reach, and calls at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from unittest import mock

from toolkit_gateway import Gateway, gateway
from toolkit_gateway.configuration import Configuration
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.services import Services
from toolkit_gateway.stores import Records, Store

T = TypeVar("T")


def gateway_and_services(*arguments: Any, **options: Any) -> tuple[Gateway, NotedServices]:
    started: list[NotedServices] = []

    def note(*parts: Any) -> NotedServices:
        started.append(NotedServices(*parts))
        return started[0]

    with mock.patch.object(gateway, "Services", note):
        return Gateway(*arguments, **options), started[0]


def at_once(calls: int, work: Callable[[int], T]) -> list[T]:
    """Do the work in so many threads that begin together; return what each of them returned."""
    barrier = threading.Barrier(calls)

    def begin(number: int) -> T:
        barrier.wait(60)
        return work(number)

    with ThreadPoolExecutor(calls) as threads:
        return list(threads.map(begin, range(calls)))


class NotedRecords:
    """Records of an embedded store that note their spaces, so that a test can read all values."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._spaces: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._records, name)

        def noted(space: str, *arguments: Any, **options: Any) -> Any:
            self._spaces.add(space)
            return method(space, *arguments, **options)

        return noted

    def all_values(self) -> dict[str, dict[str, bytes]]:
        async def scan() -> dict[str, dict[str, bytes]]:
            return {space: await self._records.scan(space) for space in sorted(self._spaces)}

        return asyncio.run(scan())


class NotedServices(Services):
    """Services over a store whose records are `NotedRecords`."""

    def __init__(self, store: Store, runtime: Runtime, configuration: Configuration) -> None:
        super().__init__(store, runtime, configuration)
        open_store = store.open

        async def open_and_note() -> None:
            await open_store()
            store.records, store.ephemeral = NotedRecords(store.records), NotedRecords(store.ephemeral)

        store.open = open_and_note  # type: ignore[method-assign]
