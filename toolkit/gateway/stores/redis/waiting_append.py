"""An append that waits for its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from toolkit.gateway.stores import Draft, Entry

# Makes an Entry of its fields, twice as fast as Entry(*fields): an append may have thousands of lines.
_entry: Callable[[tuple[int, int, str, bytes]], Entry] = partial(tuple.__new__, Entry)


class WaitingAppend:
    """One caller's drafts, and where its numbered lines go."""

    __slots__ = ("drafts", "floor", "future", "keep", "name")

    def __init__(
        self,
        name: str,
        drafts: Sequence[Draft],
        keep: int | None,
        floor: int | None,
        future: asyncio.Future[list[Entry]],
    ) -> None:
        self.name = name
        self.drafts = drafts
        self.keep = keep
        self.floor = floor
        self.future = future

    def numbered(self, before: int) -> list[Entry]:
        """Return its lines, numbered from the one behind `before`."""
        numbers = range(before + 1, before + 1 + len(self.drafts))
        return list(map(_entry, zip(numbers, *zip(*self.drafts, strict=True), strict=True)))

    def settle(self, entries: list[Entry]) -> None:
        """Answer the caller, unless nobody waits any more."""
        if not self.future.done():
            self.future.set_result(entries)

    def fail(self, error: Exception) -> None:
        """Tell the caller why there is no answer."""
        if not self.future.done():
            self.future.set_exception(error)
