"""A token bucket for each key: a burst at once, then a steady rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import NamedTuple

from cachetools import LRUCache

_MOST_BUCKETS = 50_000


class Allowance(NamedTuple):
    """The calls a key may make: at most ``limit`` at once, ``remaining`` now, all again after ``reset`` seconds."""

    limit: int
    remaining: int
    reset: int


class LimitReached(Exception):
    """The key has no call left; the next call is possible in ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"try again in {retry_after:.1f} seconds")
        self.retry_after = retry_after


class RateLimit:
    """Limits the calls of each key in this process; if the clock `seconds` is set back, the bucket is empty."""

    def __init__(self, burst: int, calls_a_second: float, seconds: Callable[[], float]) -> None:
        self._burst = burst
        self._rate = calls_a_second
        self._seconds = seconds
        # The time at which each bucket was (or would have been) empty; bounded, because callers choose keys.
        self._empty_at: LRUCache[Hashable, float] = LRUCache(_MOST_BUCKETS)

    def take(self, key: Hashable, calls: int = 1) -> Allowance:
        """Count calls and return what is left, or raise LimitReached and count nothing.

        If `calls` is more than the burst, they need a full bucket and empty the bucket.
        """
        calls = min(calls, self._burst)
        now, since = self._now_and_empty_time(key)
        tokens = (now - since) * self._rate
        if tokens < calls - 1e-9:
            raise LimitReached((calls - tokens) / self._rate)
        self._empty_at[key] = since + calls / self._rate
        return self._allowance(tokens - calls)

    def left(self, key: Hashable) -> Allowance:
        now, since = self._now_and_empty_time(key)
        return self._allowance((now - since) * self._rate)

    def _now_and_empty_time(self, key: Hashable) -> tuple[float, float]:
        now = self._seconds()
        return now, min(now, max(self._empty_at.get(key, -math.inf), now - self._burst / self._rate))

    def _allowance(self, tokens: float) -> Allowance:
        return Allowance(self._burst, int(tokens + 1e-9), math.ceil((self._burst - tokens) / self._rate - 1e-9))
