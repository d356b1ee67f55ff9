"""How often the 95 % interval of `ab` covers the truth: ``python -m tests.benchmarks.coverage [experiments]``.

Each experiment has its number as its seed, and its true difference is known. Of 10,000 intervals, 94 to 96.5 % should
cover it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

import numpy as np
import pandas as pd

from toolkit.rewards import ab

#: The numbers of devices in arm A and in arm B.
SIZES = (150, 250)
ARM = np.repeat(["A", "B"], SIZES)
IS_B = ARM == "B"


def visits(generator: np.random.Generator) -> pd.DataFrame:
    """One skewed count for each device: a few devices are very active. In arm B the mean is 0.6 higher."""
    means = generator.gamma(1.2, np.where(IS_B, 3.6, 3.0) / 1.2)
    return pd.DataFrame({"device": range(len(ARM)), "arm": ARM, "outcome": generator.poisson(means)})


def shares(generator: np.random.Generator) -> pd.DataFrame:
    """One yes or no for each device, with a probability of 0.30 in arm A and of 0.36 in arm B."""
    won = generator.random(len(ARM)) < np.where(IS_B, 0.36, 0.30)
    return pd.DataFrame({"device": range(len(ARM)), "arm": ARM, "outcome": won})


def moments(generator: np.random.Generator) -> pd.DataFrame:
    """Several yes or no for each device, which has a probability of its own: 0.30 on average in A, 0.36 in B."""
    mean = np.where(IS_B, 0.36, 0.30)
    counts = 1 + generator.poisson(generator.gamma(1.2, 4.0, len(ARM)))
    probability = generator.beta(5 * mean, 5 * (1 - mean))
    device = np.repeat(np.arange(len(ARM)), counts)
    won = generator.random(len(device)) < probability[device]
    return pd.DataFrame({"device": device, "arm": ARM[device], "outcome": won})


EXPERIMENTS: dict[str, tuple[Callable[[np.random.Generator], pd.DataFrame], float]] = {
    "Welch": (visits, 0.6),
    "Newcombe": (shares, 0.06),
    "clustered": (moments, 0.06),
}


def coverage(name: str, experiments: int) -> float:
    """Return the share of the experiments whose interval covers the true difference."""
    made_up, truth = EXPERIMENTS[name]
    covered = 0
    for seed in range(experiments):
        result = ab(made_up(np.random.default_rng(seed)), "outcome").iloc[0]
        covered += bool(result["low"] <= truth <= result["high"])
    return covered / experiments


def main(arguments: list[str]) -> None:
    """Print all figures."""
    experiments = int(arguments[0]) if arguments else 10_000
    with ProcessPoolExecutor(len(EXPERIMENTS)) as pool:
        for name, share in zip(EXPERIMENTS, pool.map(coverage, EXPERIMENTS, repeat(experiments)), strict=True):
            print(f"{name}: {share:.2%} of {experiments:,} intervals cover the truth", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
