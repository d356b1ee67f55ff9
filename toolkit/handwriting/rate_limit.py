"""A token bucket for each key: a burst at once, then a steady rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from toolkit.errors import RateLimited
from toolkit.handwriting import wire
from toolkit.secret import Secret

_MANY_BUCKETS = 10_000


class Allowance(NamedTuple):
    """What a key has left: ``limit`` calls at most at once, ``remaining`` now, all again after ``reset`` seconds."""

    limit: int
    remaining: int
    reset: int


class RateLimit:
    """Counts the calls of every key.

    Parameters
    ----------
    burst
        Calls that may come at once.
    calls_a_second
        How fast they come back.
    seconds
        A clock that never goes back.

    Examples
    --------
    >>> limit = RateLimit(2, 1.0, lambda: 0.0)
    >>> limit.take(Secret("k")), limit.take(Secret("k"))
    (Allowance(limit=2, remaining=1, reset=1), Allowance(limit=2, remaining=0, reset=2))
    """

    def __init__(self, burst: int, calls_a_second: float, seconds: Callable[[], float]) -> None:
        self._burst = burst
        self._rate = calls_a_second
        self._seconds = seconds
        self._empty_at: dict[Secret, float] = {}  # when the bucket was or would have been empty

    def take(self, key: Secret) -> Allowance:
        """Count one call and return what is left.

        Raises
        ------
        RateLimited
            Nothing was left; ``retry_after`` seconds bring the next call.
        """
        now = self._seconds()
        full = self._burst / self._rate
        since = max(self._empty_at.get(key, -math.inf), now - full)
        tokens = (now - since) * self._rate
        if tokens < 1 - 1e-9:
            raise RateLimited(wire.RATE_EXCEEDED, retry_after=(1 - tokens) / self._rate)
        self._forget_the_rested(now - full)
        self._empty_at[key] = since + 1 / self._rate
        return self._allowance(tokens - 1)

    def left(self, key: Secret) -> Allowance:
        """Return what a key has left, without a call."""
        now = self._seconds()
        since = max(self._empty_at.get(key, -math.inf), now - self._burst / self._rate)
        return self._allowance((now - since) * self._rate)

    def _allowance(self, tokens: float) -> Allowance:
        return Allowance(self._burst, int(tokens + 1e-9), math.ceil((self._burst - tokens) / self._rate - 1e-9))

    def _forget_the_rested(self, long_ago: float) -> None:
        # Any key may be valid, so strangers could fill the memory; a full bucket need not be remembered.
        if len(self._empty_at) >= _MANY_BUCKETS:
            self._empty_at = {key: at for key, at in self._empty_at.items() if at > long_ago}
