"""The stored records of a day or an hour, read in blocks to limit the memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from toolkit.stores import NUMBERS_OF_AN_EPOCH, Entry, Journals

BLOCK_BYTES = 256 * 1024
_ENTRIES_A_READ = 128


@dataclass(slots=True)
class _Block:
    first: int
    last: int
    size: int


class StoredRange:
    """The entries of a journal with ``start <= at < end`` (milliseconds since the epoch); call `scan` first.

    All ranges share `slots`, which limit how many hold entries in memory. Entries that retention drops before `blocks`
    reads them are left out.
    """

    def __init__(self, journals: Journals, name: str, start: int, end: int, slots: asyncio.Semaphore) -> None:
        self._journals = journals
        self._name = name
        self._start = start
        self._end = end
        self._slots = slots
        self._blocks: list[_Block] = []
        self._oldest: Entry | None = None  # of the whole journal
        self._gap = 0  # bytes of other entries since the last one of the range

    @property
    def is_small(self) -> bool:
        return len(self._blocks) < 2

    @property
    def gone(self) -> tuple[int, int] | None:
        """The number of dropped entries and the time of the oldest stored one; None if the range is complete."""
        if self._oldest is None or self._start >= self._oldest.at:
            return None
        number = (self._oldest.sequence - 1) % NUMBERS_OF_AN_EPOCH
        return (number, self._oldest.at) if number else None

    async def scan(self, visit: Callable[[bytes], None] = lambda record: None) -> None:
        """Find the blocks and call `visit` with each record; an error in it ends the scan."""
        last: int | None = 0
        while last is not None:
            async with self._slots:
                last = await self._scan_after(last, visit)

    async def _scan_after(self, sequence: int, visit: Callable[[bytes], None]) -> int | None:
        """Scan some entries; return the number of the last one if more may follow."""
        entries, visited = await self._journals.after(self._name, sequence, _ENTRIES_A_READ), 0
        if sequence == 0 and entries:
            self._oldest = entries[0]
        for entry in entries:
            if not self._is_inside(entry):
                self._gap += len(entry.data)
                continue
            self._add(entry)
            visit(entry.data)
            visited += len(entry.data)
            if visited > BLOCK_BYTES:  # give other requests a turn
                visited = 0
                await asyncio.sleep(0)
        return entries[-1].sequence if len(entries) == _ENTRIES_A_READ else None

    async def blocks(self, *, newest_first: bool) -> AsyncIterator[list[bytes]]:
        for block in self._blocks[::-1] if newest_first else self._blocks:
            async with self._slots:
                entries = await self._journals.after(self._name, block.first - 1, block.last - block.first + 1)
            # After a failover numbers are missing, so the entries may reach beyond the block.
            records = [entry.data for entry in entries if entry.sequence <= block.last and self._is_inside(entry)]
            yield records[::-1] if newest_first else records

    def _is_inside(self, entry: Entry) -> bool:
        # Check each entry: the times are not sorted if a clock was set back.
        return self._start <= entry.at < self._end

    def _add(self, entry: Entry) -> None:
        size = self._gap + len(entry.data)
        if self._blocks and self._blocks[-1].size + size <= BLOCK_BYTES:
            self._blocks[-1].last = entry.sequence
            self._blocks[-1].size += size
        else:
            self._blocks.append(_Block(entry.sequence, entry.sequence, len(entry.data)))
        self._gap = 0
