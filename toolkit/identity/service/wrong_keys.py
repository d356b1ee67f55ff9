"""Wrong keys, limited and logged by the address they come from."""

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

    Once there were too many, a right key is refused as well, as it may be a right guess; but not that of a caller
    who has called from this address before.

    Parameters
    ----------
    what
        What the keys are, for the log: ``partner keys``.
    most
        Wrong keys that one address may send in a minute.
    seconds
        A clock in seconds.

    Examples
    --------
    >>> keys = WrongKeys("keys", 1, lambda: 0.0)
    >>> keys.check("192.0.2.1", None)
    >>> keys.check("192.0.2.1", "shop")
    Traceback (most recent call last):
    ...
    toolkit.rate_limit.LimitReached: try again in 60.0 seconds
    """

    def __init__(self, what: str, most: int, seconds: Callable[[], float]) -> None:
        self._what = what
        self._most = most
        self._seconds = seconds
        # By address: how many in this minute, and when it ends.
        self._counts: LRUCache[str, tuple[int, float]] = LRUCache(_REMEMBERED)
        self._seen: LRUCache[tuple[Hashable, str], bool] = LRUCache(_REMEMBERED)

    def check(self, address: str, caller: Hashable | None) -> None:
        """Take note of a call with the key of `caller`, or with a wrong key: None.

        Raises
        ------
        LimitReached
            This address has sent too many wrong keys.
        """
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
