"""Intervals (95 %) and tests for counts: Wilson, Newcombe, z test, sample size, Holm, bootstrap over devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

_NORMAL = NormalDist()
_Z_95 = _NORMAL.inv_cdf(0.975)
_Z_80_POWER = _NORMAL.inv_cdf(0.8)


#: The lower and the upper bound.
Interval = tuple[float, float]


def wilson(hits: int, n: int) -> Interval:
    """Return Wilson's interval for the proportion ``hits / n``; 0 to 1 if n is 0."""
    if n == 0:
        return 0.0, 1.0
    rate, share = hits / n, _Z_95**2 / n
    middle = (rate + share / 2) / (1 + share)
    half = _Z_95 / (1 + share) * math.sqrt(rate * (1 - rate) / n + share / (4 * n))
    # The ends are exactly 0 and 1; rounding would leave 1e-17.
    return 0.0 if hits == 0 else max(middle - half, 0.0), 1.0 if hits == n else min(middle + half, 1.0)


def newcombe(hits_1: int, n_1: int, hits_2: int, n_2: int) -> Interval:
    """Return Newcombe's interval (method 10) for ``hits_1 / n_1 - hits_2 / n_2``, from both of Wilson's intervals."""
    if n_1 == 0 or n_2 == 0:
        return -1.0, 1.0
    rate_1, rate_2 = hits_1 / n_1, hits_2 / n_2
    (low_1, high_1), (low_2, high_2) = wilson(hits_1, n_1), wilson(hits_2, n_2)
    low = rate_1 - rate_2 - math.hypot(rate_1 - low_1, high_2 - rate_2)
    high = rate_1 - rate_2 + math.hypot(high_1 - rate_1, rate_2 - low_2)
    return low, high


def two_proportions(hits_1: int, n_1: int, hits_2: int, n_2: int) -> tuple[float, float]:
    """Return z and the two-sided p value of the pooled test of ``hits_1 / n_1`` against ``hits_2 / n_2``."""
    if n_1 == 0 or n_2 == 0:
        return math.nan, math.nan
    pooled = (hits_1 + hits_2) / (n_1 + n_2)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n_1 + 1 / n_2))
    if error == 0:
        return 0.0, 1.0
    z = (hits_1 / n_1 - hits_2 / n_2) / error
    return z, 2 * (1 - _NORMAL.cdf(abs(z)))


def sample_size(rate_1: float, rate_2: float) -> float:
    """Return the size of each group that shows this difference with 80 % power; NaN if there is no difference."""
    if rate_1 == rate_2 or math.isnan(rate_1) or math.isnan(rate_2):
        return math.nan
    mean = (rate_1 + rate_2) / 2
    noise = _Z_95 * math.sqrt(2 * mean * (1 - mean))
    signal = _Z_80_POWER * math.sqrt(rate_1 * (1 - rate_1) + rate_2 * (1 - rate_2))
    return float(math.ceil(((noise + signal) / (rate_1 - rate_2)) ** 2))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values, corrected by Holm's method for the number of tests, in the given order."""
    p, places = np.array(p_values, dtype=np.float64), np.argsort(p_values)
    p[places] = np.maximum.accumulate(np.minimum(p[places] * np.arange(len(p), 0, -1), 1.0))
    return [float(corrected) for corrected in p]


def bootstrap_difference(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], *, samples: int, seed: int
) -> Interval:
    """Return the bootstrap interval of the difference of two rates; a group has a row (hits, moments) for each device.

    The function samples devices, not moments, because caps make the moments of one device dependent.
    """
    if not len(first) or not len(second):
        return math.nan, math.nan
    generator = np.random.default_rng(seed)
    rates = []
    for group in (first, second):
        # How often each device is in a sample: needs less memory than a list of the devices.
        counts = generator.multinomial(len(group), np.full(len(group), 1 / len(group)), size=samples)
        hits, moments = (counts @ group).T
        rates.append(hits / moments)
    low, high = np.quantile(rates[0] - rates[1], [0.025, 0.975])
    return float(low), float(high)
