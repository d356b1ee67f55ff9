"""Count, log and limit wrong keys.

A right key is answered at once, however many wrong ones came before it: else anybody could lock its owner out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address

from toolkit.rate_limit import LimitReached, RateLimit

log = logging.getLogger("toolkit.gateway")

BURST = 60
A_SECOND = 1.0
_SECONDS_BETWEEN_WARNINGS = 60.0


class WrongKeys:
    """Counts wrong keys by address, and by what they were tried at (a thing, a lock, a service)."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._by_address = RateLimit(BURST, A_SECOND, seconds)
        self._by_target = RateLimit(BURST, A_SECOND, seconds)
        self._warnings = RateLimit(1, 1 / _SECONDS_BETWEEN_WARNINGS, seconds)
        self._refused = 0

    def is_too_many(self, address: str, target: str) -> bool:
        """Count and log a wrong key, and return whether it is above the limit."""
        source = _source(address)
        log.info("wrong key for %s from %s", target, address)
        try:
            self._by_address.take(source)
            self._by_target.take(target)
        except LimitReached:
            self._refused += 1
            with suppress(LimitReached):
                self._warnings.take(source)
                log.warning(
                    "too many wrong keys: the last for %s from %s, %d refused in all", target, address, self._refused
                )
            return True
        return False


def _source(address: str) -> str:
    """Return what is counted together: one subscriber of IPv6 has a whole /64."""
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address
    return parsed.exploded[:19]
