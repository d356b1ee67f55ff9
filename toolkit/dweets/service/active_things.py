"""Which public things were active last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

import orjson

from toolkit.dweets.content import content_of
from toolkit.dweets.service.locks import Locks
from toolkit.dweets.service.things import journal_of
from toolkit.stores import Journals

MOST_THINGS = 100
_KEYWORD_MILLISECONDS = 1_000


class ActiveThings:
    def __init__(self, journals: Journals, locks: Locks, now: Callable[[], int]) -> None:
        self._journals = journals
        self._locks = locks
        self._now = now
        self._keywords: dict[str, list[str]] = {}
        self._read_at = 0
        self._reading = asyncio.Lock()

    async def find(self) -> list[dict[str, object]]:
        """Return the public things, the last active one first, each with the keywords of its newest content.

        The keywords may be a second old; a new thing and a new lock are seen at once.
        """
        async with self._reading:
            if not 0 <= self._now() - self._read_at < _KEYWORD_MILLISECONDS:
                self._keywords, self._read_at = {}, self._now()
            things = await self._public_names()
            await asyncio.gather(*(self._read_keywords(thing) for thing in things if thing not in self._keywords))
            # Without the things that were locked in between, and those whose first dweet is being written.
            things = [thing for thing in things if thing in self._keywords and not self._locks.is_locked(thing)]
            self._keywords = {thing: self._keywords[thing] for thing in things}
            return [{"thing": thing, "keywords": self._keywords[thing]} for thing in things]

    async def _public_names(self) -> list[str]:
        prefix, count = journal_of(""), 2 * MOST_THINGS
        while True:
            names = await self._journals.names(prefix, count)
            things = (name.removeprefix(prefix) for name in names)
            public = list(islice((thing for thing in things if not self._locks.is_locked(thing)), MOST_THINGS))
            if len(names) < count or len(public) == MOST_THINGS:
                return public
            count *= 4  # most of them are locked

    async def _read_keywords(self, thing: str) -> None:
        for newest in await self._journals.last(journal_of(thing), 1):
            content = orjson.loads(content_of(newest.data))
            self._keywords[thing] = list(content) if isinstance(content, dict) else []
