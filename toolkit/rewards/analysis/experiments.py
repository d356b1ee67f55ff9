"""A/B comparisons of decisions, by moment and by device, with intervals (95 %) and tests."""

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis.rates import Z_95, Interval, wilson_interval, without_tests

_Z_80_POWER = NormalDist().inv_cdf(0.8)
_BOOTSTRAP_SAMPLES = 2_000
Metric = Literal["rewarded", "shown", "claimed"]


@checked_arguments
def ab(
    decisions: pd.DataFrame, a: str | None = None, b: str | None = None, *, metric: Metric = "rewarded", by: str = "arm"
) -> pd.DataFrame:
    """Compare arms of an experiment.

    Parameters
    ----------
    decisions
        Needs the columns device, rewarded and `by`; rows without an arm are ignored.
    a, b
        Two arms; None compares every pair of arms.
    metric
        ``rewarded``, ``shown`` or ``claimed``: the share of moments to compare.
    by
        The column with the names of the arms.

    Returns
    -------
    pandas.DataFrame
        One row per pair: a, b, n_a, n_b (moments), devices_a, devices_b, rate_a, rate_b, difference (b minus a),
        low, high (Newcombe's interval, which assumes independent moments), device_low, device_high (bootstrap over
        devices; missing for an arm of one device), z, p, p_holm (for all pairs), n_for_80_power (moments per arm).

    Notes
    -----
    Caps make the moments of a device dependent: use device_low and device_high, not the z test or Newcombe's interval.
    Randomise by device, never by moment: if one device is in both arms, rewards of A use up the cap for B.
    devices_a and devices_b then add up to more than the number of devices.
    """
    needed = ("device", "rewarded", by, *(() if metric == "rewarded" else (f"{metric}_at",)))
    moments = without_tests(decisions, needed)
    is_hit = moments["rewarded"] if metric == "rewarded" else moments[f"{metric}_at"].notna()
    counts = is_hit.groupby([moments[by].rename("arm"), moments["device"]]).agg(["sum", "size"])
    arms = {str(arm): devices.to_numpy(dtype=np.float64) for arm, devices in counts.groupby("arm")}
    rows = [_comparison(arms, x, y) for x, y in _compared_pairs(sorted(arms), a, b)]
    result = pd.DataFrame(rows)
    result.insert(list(result.columns).index("p") + 1, "p_holm", holm_corrected([row["p"] for row in rows]))
    result.attrs.update(moments.attrs)
    return result


def _compared_pairs(arms: list[str], a: str | None, b: str | None) -> list[tuple[str, str]]:
    if (a is None) != (b is None):
        raise InvalidArgument("give both arms, a and b, or neither to compare every pair")
    if missing := [arm for arm in (a, b) if arm is not None and arm not in arms]:
        raise InvalidArgument(f"there is no arm {', '.join(missing)}; there are {', '.join(arms) or 'none'}")
    pairs = list(combinations(arms, 2)) if a is None or b is None else [(a, b)]
    if not pairs:
        raise InvalidArgument("a comparison needs two arms")
    return pairs


def _comparison(arms: dict[str, npt.NDArray[np.float64]], a: str, b: str) -> dict[str, Any]:
    # Each device of an arm is a row (hits, moments).
    devices_a, devices_b = arms[a], arms[b]
    (hits_a, n_a), (hits_b, n_b) = ([int(total) for total in arm.sum(axis=0)] for arm in (devices_a, devices_b))
    rate_a, rate_b = hits_a / n_a, hits_b / n_b
    low, high = newcombe_interval(hits_b, n_b, hits_a, n_a)
    device_low, device_high = bootstrap_interval(devices_b, devices_a)
    z, p = z_test(hits_b, n_b, hits_a, n_a)
    sizes = {"n_a": n_a, "n_b": n_b, "devices_a": len(devices_a), "devices_b": len(devices_b)}
    rates = {"rate_a": rate_a, "rate_b": rate_b, "difference": rate_b - rate_a}
    intervals = {"low": low, "high": high, "device_low": device_low, "device_high": device_high}
    tests = {"z": z, "p": p, "n_for_80_power": sample_size(rate_a, rate_b)}
    return {"a": a, "b": b, **sizes, **rates, **intervals, **tests}


def newcombe_interval(hits_1: int, n_1: int, hits_2: int, n_2: int) -> Interval:
    """Return Newcombe's interval (method 10) for ``hits_1 / n_1 - hits_2 / n_2``, from both of Wilson's intervals."""
    rate_1, rate_2 = hits_1 / n_1, hits_2 / n_2
    (low_1, high_1), (low_2, high_2) = wilson_interval(hits_1, n_1), wilson_interval(hits_2, n_2)
    low = rate_1 - rate_2 - math.hypot(rate_1 - low_1, high_2 - rate_2)
    high = rate_1 - rate_2 + math.hypot(high_1 - rate_1, rate_2 - low_2)
    return low, high


def z_test(hits_1: int, n_1: int, hits_2: int, n_2: int) -> tuple[float, float]:
    """Return z and the two-sided p value of the pooled test of ``hits_1 / n_1`` against ``hits_2 / n_2``."""
    pooled = (hits_1 + hits_2) / (n_1 + n_2)
    standard_error = math.sqrt(pooled * (1 - pooled) * (1 / n_1 + 1 / n_2))
    if standard_error == 0:
        return 0.0, 1.0
    z = (hits_1 / n_1 - hits_2 / n_2) / standard_error
    return z, math.erfc(abs(z) / math.sqrt(2))  # equals 2 * (1 - cdf(|z|)), but a cdf near 1 would round to 1


def sample_size(rate_1: float, rate_2: float) -> float:
    """Return the size of each group with which a test finds this difference with 80 % power; NaN if it is 0."""
    if rate_1 == rate_2:
        return math.nan
    mean = (rate_1 + rate_2) / 2
    if_equal = Z_95 * math.sqrt(2 * mean * (1 - mean))
    if_different = _Z_80_POWER * math.sqrt(rate_1 * (1 - rate_1) + rate_2 * (1 - rate_2))
    return float(math.ceil(((if_equal + if_different) / (rate_1 - rate_2)) ** 2))


def holm_corrected(p_values: Sequence[float]) -> list[float]:
    """Return p values, corrected by Holm's method for the number of tests, in the given order."""
    p, order = np.array(p_values, dtype=np.float64), np.argsort(p_values)
    p[order] = np.maximum.accumulate(np.minimum(p[order] * np.arange(len(p), 0, -1), 1.0))
    return [float(corrected) for corrected in p]


def bootstrap_interval(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> Interval:
    """Return the bootstrap interval of the difference of two rates; a group has a row (hits, moments) for each device.

    The function samples devices, not moments, because caps make the moments of one device dependent. The interval is
    NaN if a group has only one device.
    """
    if min(len(first), len(second)) < 2:
        return math.nan, math.nan
    generator = np.random.default_rng(0)
    rates = []
    for group in (first, second):
        # A sample is stored as a count per device, which needs less memory than a list of devices.
        counts = generator.multinomial(len(group), np.full(len(group), 1 / len(group)), size=_BOOTSTRAP_SAMPLES)
        hits, moments = (counts @ group).T
        rates.append(hits / moments)
    low, high = np.quantile(rates[0] - rates[1], [0.025, 0.975])
    return float(low), float(high)
