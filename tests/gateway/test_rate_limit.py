"""The token bucket behind every rate limit of one process."""

from __future__ import annotations

import pytest

from toolkit_gateway.rate_limit import Allowance, LimitReached, RateLimit


def test_burst_then_steady_rate() -> None:
    now = 0.0
    limit = RateLimit(2, 0.5, lambda: now)
    assert [limit.take("k").remaining for _ in range(2)] == [1, 0]
    with pytest.raises(LimitReached) as caught:
        limit.take("k")
    assert caught.value.retry_after == 2.0
    assert limit.take("another").remaining == 1
    now = 2.0
    assert limit.take("k") == Allowance(limit=2, remaining=0, reset=4)


def test_batch_above_the_burst_needs_a_full_bucket() -> None:
    now = 0.0
    limit = RateLimit(3, 3.0, lambda: now)
    assert limit.take("k", 10).remaining == 0
    now = 0.9
    with pytest.raises(LimitReached):
        limit.take("k", 10)
    now = 1.0
    assert limit.take("k", 10).remaining == 0


def test_clock_set_back_costs_at_most_one_burst() -> None:
    now = 1_000.0
    limit = RateLimit(2, 1.0, lambda: now)
    limit.take("k", 2)
    now = 10.0
    assert limit.take("k", 2).remaining == 0
    with pytest.raises(LimitReached) as caught:
        limit.take("k")
    assert caught.value.retry_after == 1.0
    now = 11.0
    assert limit.take("k").remaining == 0
