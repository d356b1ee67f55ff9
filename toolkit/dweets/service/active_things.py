"""Which public things were active last: a list that each post keeps up to date."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice

import orjson

from toolkit.dweets.content import content_of
from toolkit.dweets.service.locks import Locks
from toolkit.dweets.service.things import journal_of
from toolkit.stores import Journals

MOST_THINGS = 100
MOST_REMEMBERED = 1_000
_MILLISECONDS_KEPT = 1_000


class ActiveThings:
    def __init__(self, journals: Journals, locks: Locks, now: Callable[[], int]) -> None:
        self._journals = journals
        self._locks = locks
        self._now = now
        self._recent: OrderedDict[str, None] = OrderedDict()  # the last one at the end
        self._has_all = False
        self._keywords: dict[str, list[str]] = {}
        self._read_at: int | None = None
        self._reading = asyncio.Lock()

    def posted(self, thing: str) -> None:
        self._recent[thing] = None
        self._recent.move_to_end(thing)
        if len(self._recent) > MOST_REMEMBERED:
            self._recent.popitem(last=False)
            self._has_all = False

    async def find(self) -> list[dict[str, object]]:
        """Return the public things, the last one first, each with the keywords of its newest content.

        The keywords may be a second old; a new thing and a new lock are known at once.
        """
        async with self._reading:
            now = self._now()
            if self._read_at is None or not 0 <= now - self._read_at < _MILLISECONDS_KEPT:
                await self._read_names()
                self._keywords.clear()
                self._read_at = now
            things = self._public(reversed(self._recent))
            await asyncio.gather(*(self._read_keywords(thing) for thing in things if thing not in self._keywords))
            # Without those that were locked in between, and those whose first dweet is being written.
            known = [thing for thing in self._public(things) if thing in self._keywords]
            self._keywords = {thing: self._keywords[thing] for thing in known}
            return [{"thing": thing, "keywords": self._keywords[thing]} for thing in known]

    def _public(self, things: Iterable[str]) -> list[str]:
        return list(islice((thing for thing in things if not self._locks.is_locked(thing)), MOST_THINGS))

    async def _read_names(self) -> None:
        """Read the names from the store, where others write to it too, or too few public ones are remembered."""
        if self._journals.is_shared:
            self._recent = OrderedDict()
        elif self._has_all or len(self._public(self._recent)) == MOST_THINGS:
            return
        prefix, count = journal_of(""), 2 * MOST_THINGS
        while True:
            things = [name.removeprefix(prefix) for name in await self._journals.names(prefix, count)]
            self._has_all = len(things) < count
            if self._has_all or len(self._public(things)) == MOST_THINGS:
                break
            count *= 4  # most of them are locked
        posted_here, self._recent = self._recent, OrderedDict.fromkeys(reversed(things))
        for thing in posted_here:
            self._recent[thing] = None
            self._recent.move_to_end(thing)

    async def _read_keywords(self, thing: str) -> None:
        for newest in await self._journals.last(journal_of(thing), 1):
            content = orjson.loads(content_of(newest.data))
            self._keywords[thing] = list(content) if isinstance(content, dict) else []
