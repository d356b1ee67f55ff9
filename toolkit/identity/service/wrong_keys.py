"""Limits the wrong keys that an address may send."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable

from cachetools import LRUCache

from toolkit.rate_limit import LimitReached

_SECONDS = 60
_REMEMBERED = 10_000

log = logging.getLogger("toolkit.gateway")


class WrongKeys:
    """Counts the wrong keys of each address, in this process and by the minute.

    After too many, a valid key is refused as well, as it may be a guess, unless its caller has called from this
    address before. `what` names the keys in the log, `seconds` is a clock.
    """

    def __init__(self, what: str, most: int, seconds: Callable[[], float]) -> None:
        self._what = what
        self._most = most
        self._seconds = seconds
        # By address: how many in this minute, and when it ends.
        self._counts: LRUCache[str, tuple[int, float]] = LRUCache(_REMEMBERED)
        self._seen: LRUCache[tuple[Hashable, str], bool] = LRUCache(_REMEMBERED)

    def check(self, address: str, caller: Hashable | None) -> None:
        """Count a call, where `caller` is None for a wrong key; LimitReached after too many wrong keys."""
        if (caller, address) in self._seen:
            return
        now = self._seconds()
        count, end = self._counts.get(address, (0, now))
        if now >= end:
            count, end = 0, now + _SECONDS
        if count >= self._most:
            raise LimitReached(end - now)
        if caller is not None:
            self._seen[caller, address] = True
            return
        self._counts[address] = count + 1, end
        if count + 1 == self._most:
            log.warning("%s sent %d wrong %s within a minute; more are refused", address, self._most, self._what)
