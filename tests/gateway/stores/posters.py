"""A caller that posts while servers die, and the check of what is stored afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tests.gateway.stores.opened_stores import line, numbers
from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import Entry
from toolkit_gateway.stores.redis.store import RedisStore


class Poster:
    """Posts batches to a journal, each behind the answer to the one before; remembers what was acknowledged.

    Parameters
    ----------
    store, journal
        Where it posts.
    who
        Its name, of letters or digits; no other poster to the journal has it.
    lines_a_batch
        How many lines it posts at once.

    Between two batches it waits for ``pause`` seconds, at first for none.
    """

    def __init__(self, store: RedisStore, journal: str, who: str, lines_a_batch: int) -> None:
        self.store, self.journal, self.who = store, journal, who
        self.acknowledged: list[str] = []
        self.failed = 0
        self.pause = 0.0
        self._lines_a_batch = lines_a_batch

    async def run(self, is_enough: Callable[[], bool]) -> None:
        batch = 0
        while not is_enough():
            texts = [f"{self.who} {batch} {part}" for part in range(self._lines_a_batch)]
            batch += 1
            try:
                await self.store.journals.append(self.journal, [line(text) for text in texts], 1_000_000)
            except StoreUnavailable:
                self.failed += 1
                await asyncio.sleep(0.02)
            else:
                self.acknowledged += texts
                await asyncio.sleep(self.pause)


def check(posters: Sequence[Poster], kept: Sequence[Entry], heard: Sequence[Entry]) -> None:
    """Hold what one journal has, and what its listener heard, against what its posters know."""
    texts = [entry.data.decode() for entry in kept]
    acknowledged = [text for poster in posters for text in poster.acknowledged]
    print(f"\n{len(acknowledged)} acknowledged, {len(texts)} kept, {sum(p.failed for p in posters)} calls failed")
    assert set(acknowledged) <= set(texts), "every acknowledged line is there"
    assert len(set(texts)) == len(texts), "none is there twice"
    for poster in posters:
        own = [tuple(map(int, text.split()[1:])) for text in texts if text.startswith(f"{poster.who} ")]
        assert own == sorted(own), "in the order of its poster"
    # A master that dies may take with it what was heard, and was acknowledged to nobody.
    assert set(kept) <= set(heard), "whoever listens hears all that is kept"
    for entries in (kept, heard):
        assert numbers(list(entries)) == sorted(set(numbers(list(entries)))), "once and in order"
