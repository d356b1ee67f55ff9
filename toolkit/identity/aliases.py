"""Aliases: one persistent GUID for each pair of client and subscriber, so that two clients cannot compare theirs."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.gateway.stores import Records
from toolkit.identity.one_time import hashed

_SPACE = "identity.aliases"


class Aliases:
    """Aliases, kept durably: random, so that nothing about a subscriber can be computed from one.

    Parameters
    ----------
    records
        The store's durable records.
    fresh_id
        Makes a new GUID.
    """

    def __init__(self, records: Records, fresh_id: Callable[[], str]) -> None:
        self._records = records
        self._fresh_id = fresh_id

    async def alias_of(self, caller: str, subscriber_id: str) -> str:
        """Return the alias of this pair, the same for ever."""
        key = hashed(f"{len(caller)}:{caller}:{subscriber_id}")
        stored = await self._records.get(_SPACE, key)
        if stored is None:
            # Of two first times at once, one alias stands and both get it.
            await self._records.swap(_SPACE, {key: None}, {key: self._fresh_id().encode("ascii")})
            stored = await self._records.get(_SPACE, key)
        if stored is None:
            raise LookupError("an alias that was just kept is gone")
        return stored.decode("ascii")
