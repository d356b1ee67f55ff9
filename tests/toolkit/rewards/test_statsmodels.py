"""The intervals of `ab` and `funnel` are those of statsmodels, on twenty made-up data sets.

The tests import it, since each worker of a run imports each file, and it takes seconds.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toolkit.rewards import ab, funnel

Interval = tuple[float, float]
SEEDS = range(20)


def made_up(seed: int) -> tuple[pd.DataFrame, np.random.Generator]:
    """Return devices with their arms; from 2 to about a thousand in an arm."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, [5, 40, 300, 1_500][seed % 4], 2) + [0, seed]
    return pd.DataFrame({"device": range(sum(sizes)), "arm": np.repeat(["A", "B"], sizes)}), generator


def both(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    return frame[frame["arm"] == "A"], frame[frame["arm"] == "B"]


def interval_of(frame: pd.DataFrame) -> Interval:
    (line,) = ab(frame, "outcome").to_dict("records")
    return line["low"], line["high"]


def test_intervals_of_means_are_those_of_statsmodels() -> None:
    from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

    for seed in SEEDS:
        devices, generator = made_up(seed)
        frame = devices.assign(outcome=generator.gamma(1 + seed, 2, len(devices)) + (devices["arm"] == "B"))
        a, b = (DescrStatsW(rows["outcome"].to_numpy()) for rows in both(frame))
        assert interval_of(frame) == pytest.approx(CompareMeans(b, a).tconfint_diff(usevar="unequal"), rel=1e-9), seed


def test_intervals_of_shares_are_those_of_statsmodels() -> None:
    from statsmodels.stats.proportion import confint_proportions_2indep

    for seed in SEEDS:
        devices, generator = made_up(seed)
        frame = devices.assign(outcome=generator.random(len(devices)) < seed / 19)
        a, b = both(frame)
        counts = b["outcome"].sum(), len(b), a["outcome"].sum(), len(a)
        expected = confint_proportions_2indep(*counts, method="newcomb")
        assert interval_of(frame) == pytest.approx(expected, abs=1e-9), seed


def test_intervals_of_units_are_those_of_statsmodels() -> None:
    from scipy import stats
    from statsmodels.regression.linear_model import OLS

    for seed in SEEDS:
        devices, generator = made_up(seed)
        rows = devices.loc[devices.index.repeat(1 + generator.poisson(3, len(devices)))]
        frame = rows.assign(outcome=rows["device"] % 5 + generator.normal(size=len(rows)))
        means, errors, degrees = [], [], []
        for arm in both(frame):
            clusters = {"groups": arm["device"].to_numpy()}
            fit = OLS(arm["outcome"].to_numpy(), np.ones(len(arm))).fit(cov_type="cluster", cov_kwds=clusters)
            means.append(fit.params[0])
            errors.append(fit.bse[0] ** 2)
            degrees.append(arm["device"].nunique() - 1)
        error = sum(errors)
        half = stats.t.ppf(0.975, error**2 / sum(e**2 / n for e, n in zip(errors, degrees, strict=True))) * error**0.5
        difference = means[1] - means[0]
        assert interval_of(frame) == pytest.approx((difference - half, difference + half), rel=1e-9), seed


def test_intervals_of_a_funnel_are_those_of_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for seed in SEEDS:
        devices, generator = made_up(seed)
        frame = devices.assign(rewarded=generator.random(len(devices)) < seed / 19)
        moment, rewarded = funnel(frame).to_dict("records")
        expected = proportion_confint(rewarded["n"], moment["n"], method="wilson")
        assert (rewarded["low"], rewarded["high"]) == pytest.approx(expected, abs=1e-9), seed


def test_student_quantile_is_that_of_scipy() -> None:
    for degrees in [1, 1.5, 3, 10, 99.5, 1_000, 1_001, 1e6]:
        from scipy import stats

        from toolkit.rewards.analysis.experiments import t_quantile

        assert t_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-10)
