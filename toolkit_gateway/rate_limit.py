"""A token bucket for each key: a burst at once, then a steady rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import NamedTuple

from cachetools import LRUCache

MOST_BUCKETS = 50_000


class Allowance(NamedTuple):
    """The calls a key may make: at most ``limit`` at once, ``remaining`` now, all again after ``reset`` seconds."""

    limit: int
    remaining: int
    reset: int


class LimitReached(Exception):
    """The key has too few calls left; the refused calls are possible in ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"try again in {retry_after:.1f} seconds")
        self.retry_after = retry_after


class RateLimit:
    """Limits the calls of each key in this process; if the clock `seconds` is set back, all buckets are full again."""

    def __init__(self, burst: float, calls_a_second: float, seconds: Callable[[], float]) -> None:
        self._burst = burst
        self._rate = calls_a_second
        self._seconds = seconds
        self._latest = -math.inf
        # Each bucket has 0 tokens at this time, and fills from then on. Bounded, because callers choose the keys.
        self._empty_at: LRUCache[Hashable, float] = LRUCache(MOST_BUCKETS)

    def take(self, key: Hashable, calls: int = 1) -> Allowance:
        """Count calls and return what is left, or raise LimitReached and count nothing.

        More calls than the burst need a full bucket and empty it.
        """
        needed = min(calls, self._burst)
        tokens = self._tokens(key)
        if tokens < needed - 1e-9:
            raise LimitReached((needed - tokens) / self._rate)
        self._empty_at[key] = self._latest + (needed - tokens) / self._rate
        return self._allowance(tokens - needed)

    def give_back(self, key: Hashable) -> None:
        """Undo the counting of one call."""
        if key in self._empty_at:
            self._empty_at[key] -= 1 / self._rate

    def left(self, key: Hashable) -> Allowance:
        return self._allowance(self._tokens(key))

    def _tokens(self, key: Hashable) -> float:
        """Return the calls that are left, with fractions."""
        return min(self._burst, (self._now() - self._empty_at.get(key, -math.inf)) * self._rate)

    def _now(self) -> float:
        now = self._seconds()
        if now < self._latest:  # otherwise keys would have no calls until the old time is reached again
            self._empty_at.clear()
        self._latest = now
        return now

    def _allowance(self, tokens: float) -> Allowance:
        reset = math.ceil((self._burst - tokens) / self._rate - 1e-9)
        return Allowance(int(self._burst), int(tokens + 1e-9), reset)
