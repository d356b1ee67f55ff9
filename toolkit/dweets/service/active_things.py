"""Which public things were active last: read at most once a second, however often it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson

from toolkit.dweets.content import content_of
from toolkit.dweets.service.locks import Locks
from toolkit.dweets.service.things import journal_of
from toolkit.stores import Journals

MOST_THINGS = 100
_MILLISECONDS_KEPT = 1_000


class ActiveThings:
    """The public things that were active last, each with the keywords of its newest content.

    Parameters
    ----------
    journals, locks
        Where dweets are kept, and which things are nobody's business.
    now
        The gateway's clock in milliseconds since the epoch.
    """

    def __init__(self, journals: Journals, locks: Locks, now: Callable[[], int]) -> None:
        self._journals = journals
        self._locks = locks
        self._now = now
        self._found: dict[str, list[str]] = {}
        self._read_at = 0
        self._is_stale = True
        self._all: set[str] | None = None  # None: there are more than were read
        self._reading = asyncio.Lock()

    def posted(self, thing: str) -> None:
        """Tell a thing that was not there before at once, as long as all there are were read."""
        if self._all is not None and thing not in self._all:
            self._is_stale = True

    async def find(self) -> list[dict[str, object]]:
        """Return them, the last one first. What is locked meanwhile is not told from what was read before."""
        async with self._reading:
            now = self._now()
            if self._is_stale or not 0 <= now - self._read_at < _MILLISECONDS_KEPT:
                self._is_stale = False  # before reading: what is posted meanwhile may be missed
                try:
                    self._found = await self._read()
                except BaseException:
                    self._is_stale = True
                    raise
                self._read_at = now
        return [
            {"thing": thing, "keywords": keywords}
            for thing, keywords in self._found.items()
            if not self._locks.is_locked(thing)
        ]

    async def _read(self) -> dict[str, list[str]]:
        prefix = journal_of("")
        # Enough that so many remain even where every locked thing is among them.
        count = MOST_THINGS + self._locks.locked_things
        things = [name.removeprefix(prefix) for name in await self._journals.names(prefix, count)]
        self._all = set(things) if len(things) < count else None
        public = [thing for thing in things if not self._locks.is_locked(thing)][:MOST_THINGS]
        keywords = await asyncio.gather(*(self._keywords(thing) for thing in public))
        return dict(zip(public, keywords, strict=True))

    async def _keywords(self, thing: str) -> list[str]:
        newest = await self._journals.last(journal_of(thing), 1)
        content = orjson.loads(content_of(newest[0].data)) if newest else None
        return list(content) if isinstance(content, dict) else []
