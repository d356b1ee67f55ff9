"""Group commit: one batch is written while the next one collects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores.group_commit import GroupCommit


class Item:
    """A request that remembers what became of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.outcome: object = None

    def fail(self, error: Exception) -> None:
        if self.outcome is None:
            self.outcome = error


class Disk:
    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.is_written = asyncio.Event()
        self.error: Exception | None = None

    async def write(self, items: list[Item]) -> None:
        self.batches.append([item.number for item in items])
        await self.is_written.wait()
        self.is_written.clear()
        if self.error is not None:
            raise self.error
        for item in items:
            item.outcome = "written"


def run(work: Callable[[GroupCommit[Item], Disk], Coroutine[Any, Any, None]]) -> None:
    async def start() -> None:
        disk = Disk()
        await asyncio.wait_for(work(GroupCommit(disk.write), disk), 60)

    asyncio.run(start())


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_items_of_one_loop_turn_form_one_batch() -> None:
    async def work(commits: GroupCommit[Item], disk: Disk) -> None:
        for number in range(3):
            commits.submit(Item(number))
        assert disk.batches == [], "nothing is written in the turn of the first"
        await turns()
        assert disk.batches == [[0, 1, 2]]

    run(work)


def test_items_during_a_write_form_the_next_batch() -> None:
    async def work(commits: GroupCommit[Item], disk: Disk) -> None:
        for number in range(6):
            commits.submit(Item(number))
            await turns()
        assert disk.batches == [[0]], "one batch at a time"
        disk.is_written.set()
        await turns()
        assert disk.batches == [[0], [1, 2, 3, 4, 5]]
        disk.is_written.set()
        await turns()
        commits.submit(Item(6))
        await turns()
        assert disk.batches[2:] == [[6]], "it starts again after a rest"

    run(work)


def test_failed_batch_fails_its_items_only() -> None:
    async def work(commits: GroupCommit[Item], disk: Disk) -> None:
        items = [Item(number) for number in range(4)]
        for item in items[:2]:
            commits.submit(item)
        await turns()
        for item in items[2:]:
            commits.submit(item)
        disk.error = OSError("no room")
        disk.is_written.set()
        await turns()
        disk.error = None
        disk.is_written.set()
        await commits.close()
        assert [str(item.outcome) for item in items] == ["no room", "no room", "written", "written"]

    run(work)


def test_close_waits_for_all_batches() -> None:
    async def work(commits: GroupCommit[Item], disk: Disk) -> None:
        items = [Item(number) for number in range(3)]
        for item in items:
            commits.submit(item)
            await turns()
        closed = asyncio.create_task(commits.close())
        disk.is_written.set()
        await turns()
        assert not closed.done()
        disk.is_written.set()
        await closed
        assert [item.outcome for item in items] == ["written"] * 3

    run(work)


@pytest.mark.parametrize("is_busy", [True, False])
def test_closed_commit_refuses_but_writes_queued_items(is_busy: bool) -> None:
    async def work(commits: GroupCommit[Item], disk: Disk) -> None:
        first, late = Item(0), Item(1)
        if is_busy:
            commits.submit(first)
        closed = asyncio.create_task(commits.close())
        await turns()
        commits.submit(late)
        assert isinstance(late.outcome, StoreUnavailable)
        disk.is_written.set()
        await closed
        assert first.outcome == ("written" if is_busy else None)

    run(work)
