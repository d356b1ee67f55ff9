"""Group commit: one batch is written while the next one collects."""

from __future__ import annotations

import asyncio

import pytest

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores.group_commit import GroupCommit


class Item:
    """A request that remembers what became of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.outcome: object = None

    def fail(self, error: Exception) -> None:
        self.outcome = self.outcome or error


class Disk:
    def __init__(self) -> None:
        self.commits: GroupCommit[Item] = GroupCommit(self._write)
        self.batches: list[list[int]] = []
        self.may_write = asyncio.Event()
        self.error: Exception | None = None

    async def _write(self, items: list[Item]) -> None:
        self.batches.append([item.number for item in items])
        await self.may_write.wait()
        self.may_write.clear()
        if self.error is not None:
            raise self.error
        for item in items:
            item.outcome = "written"

    def add(self, *numbers: int) -> list[Item]:
        return [self.commits.add_to_next_batch(Item(number)) for number in numbers]

    async def write(self) -> None:
        self.may_write.set()
        await turns()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_items_during_a_write_form_the_next_batch() -> None:
    disk = Disk()
    disk.add(0, 1, 2)
    assert disk.batches == [], "nothing is written in the turn of the first"
    await turns()
    for number in range(3, 6):
        disk.add(number)
        await turns()
    assert disk.batches == [[0, 1, 2]], "one batch at a time"
    await disk.write()
    assert disk.batches[1:] == [[3, 4, 5]]
    await disk.write()
    disk.add(6)
    await turns()
    assert disk.batches[2:] == [[6]], "it starts again after a rest"


async def test_failed_batch_fails_its_items_only() -> None:
    disk = Disk()
    failed = disk.add(0, 1)
    await turns()
    written = disk.add(2, 3)
    disk.error = OSError("no room")
    await disk.write()
    disk.error = None
    disk.may_write.set()
    await disk.commits.close()
    assert [str(item.outcome) for item in failed + written] == ["no room", "no room", "written", "written"]


@pytest.mark.parametrize("batches", [0, 1, 2])
async def test_close_refuses_new_items_but_writes_queued_ones(batches: int) -> None:
    disk, items = Disk(), []
    for number in range(batches):
        items += disk.add(number)
        await turns()
    closed = asyncio.create_task(disk.commits.close())
    await turns()
    (late,) = disk.add(9)
    assert isinstance(late.outcome, StoreUnavailable)
    for _ in range(batches):
        assert not closed.done()
        await disk.write()
    await closed
    assert [item.outcome for item in items] == ["written"] * batches
