"""A/B comparisons of decisions, by moment and by device."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis.rates import without_tests
from toolkit.rewards.analysis.statistics import bootstrap_difference, holm, newcombe, sample_size, two_proportions

METRICS = ("rewarded", "shown", "claimed")


@checked_arguments
def ab(
    decisions: pd.DataFrame,
    a: str | None = None,
    b: str | None = None,
    *,
    metric: str = "rewarded",
    by: str = "arm",
    samples: int = 2_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare arms of an experiment.

    Parameters
    ----------
    decisions
        Needs the columns device, rewarded and `by`; rows without an arm are ignored.
    a, b
        Two arms; every pair if None.
    metric
        ``rewarded``, ``shown`` or ``claimed``: the share of moments to compare.
    by
        The column with the names of the arms.
    samples, seed
        Number of bootstrap samples; the same seed gives the same samples.

    Returns
    -------
    pandas.DataFrame
        One row per pair: a, b, n_a, n_b (moments), devices_a, devices_b, rate_a, rate_b, difference (b minus a),
        low, high (Newcombe's interval, which assumes independent moments), device_low, device_high (bootstrap over
        devices), z, p, p_holm (corrected for the number of pairs), n_for_80_power (moments per arm).

    Notes
    -----
    Caps make the moments of a device dependent: use device_low and device_high, not the z test or Newcombe's interval.
    Randomise by device, never by moment: if one device is in both arms, rewards of A use up the cap for B.
    devices_a and devices_b then add up to more than the number of devices.
    """
    if metric not in METRICS:
        raise InvalidArgument(f"metric must be {', '.join(METRICS)}, not {metric!r}")
    needed = ("device", "rewarded", by, *(() if metric == "rewarded" else (f"{metric}_at",)))
    kept = without_tests(decisions, needed)
    hit = kept["rewarded"] if metric == "rewarded" else kept[f"{metric}_at"].notna()
    counted = kept.assign(hit=hit).groupby([by, "device"])["hit"].agg(["sum", "size"]).reset_index()
    arms = {str(arm): of[["sum", "size"]].to_numpy(dtype=np.float64) for arm, of in counted.groupby(by)}
    rows = [_comparison(arms, x, y, samples, seed) for x, y in _pairs(sorted(arms), a, b)]
    result = pd.DataFrame(rows)
    result.insert(list(result.columns).index("p") + 1, "p_holm", holm([row["p"] for row in rows]))
    result.attrs.update(kept.attrs)
    return result


def _pairs(arms: list[str], a: str | None, b: str | None) -> list[tuple[str, str]]:
    if (a is None) != (b is None):
        raise InvalidArgument("give both arms, or none for every pair")
    if missing := [arm for arm in (a, b) if arm is not None and arm not in arms]:
        raise InvalidArgument(f"there is no arm {', '.join(missing)}; there are {', '.join(arms) or 'none'}")
    pairs = list(combinations(arms, 2)) if a is None or b is None else [(a, b)]
    if not pairs:
        raise InvalidArgument("a comparison needs two arms")
    return pairs


def _comparison(arms: dict[str, npt.NDArray[np.float64]], a: str, b: str, samples: int, seed: int) -> dict[str, Any]:
    # One row per device: hits and moments.
    of_a, of_b = arms[a], arms[b]
    (hits_a, n_a), (hits_b, n_b) = ([int(total) for total in of.sum(axis=0)] for of in (of_a, of_b))
    rate_a, rate_b = hits_a / n_a, hits_b / n_b
    low, high = newcombe(hits_b, n_b, hits_a, n_a)
    device_low, device_high = bootstrap_difference(of_b, of_a, samples=samples, seed=seed)
    z, p = two_proportions(hits_b, n_b, hits_a, n_a)
    sizes = {"n_a": n_a, "n_b": n_b, "devices_a": len(of_a), "devices_b": len(of_b)}
    rates = {"rate_a": rate_a, "rate_b": rate_b, "difference": rate_b - rate_a}
    intervals = {"low": low, "high": high, "device_low": device_low, "device_high": device_high}
    tests = {"z": z, "p": p, "n_for_80_power": sample_size(rate_a, rate_b)}
    return {"a": a, "b": b, **sizes, **rates, **intervals, **tests}
