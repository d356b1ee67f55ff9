"""How many planted shifts `shifts` finds, and how many shifts and outliers are false, over 200 seeds; prints only.

python -m tests.benchmarks.outliers
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.toolkit.dweets.planted_shifts import hits, planted, series
from toolkit.dweets.analysis.outliers import outliers
from toolkit.dweets.analysis.shifts import find_shifts

#: Fixed before the first run.
SEEDS = range(200)
SERIES = (
    "noise",
    "noise, rounded",
    "noise and days",
    "seattle_temperature_hourly_normals.csv:temp",
    "san_francisco_temperature_hourly_normals.csv:temp",
    "seattle_weather_daily_2012_2015.csv:temp_max",
    "seattle_weather_daily_2012_2015.csv:temp_min",
    "seattle_weather_daily_2012_2015.csv:wind",
)
SIZES = ((6.0, 6.0), (6.0, 12.0), (12.0, 40.0))
LENGTHS = (100, 1_000, 20_000, 100_000)


def measure_shifts(name: str, least: float, most: float) -> str:
    """Return one line: the share of planted shifts that are found, and false ones in 10,000 readings.

    A shift that is also found in the series without planted ones is no false one; their number is printed, too.
    """
    hit, wanted, false, readings, natural = 0, 0, 0, 0, 0
    for seed in SEEDS:
        values = series(name, seed)
        before, with_shifts = find_shifts(values), planted(values, seed, least, most)
        found = find_shifts(with_shifts.values)
        found_again = hits(found, list(zip(before["start"], before["end"], strict=True)))
        found_of_planted = hits(found, with_shifts.shifts)
        hit, wanted = hit + found_of_planted, wanted + len(with_shifts.shifts)
        false += max(0, len(found) - found_of_planted - found_again)
        readings, natural = readings + len(values), natural + len(before)
    figures = (
        f"found {hit / wanted:7.2%}, false {1e4 * false / readings:5.2f}, unplanted {1e4 * natural / readings:5.2f}"
    )
    return f"{name:50} {least:>2g} to {most:<2g} times the noise: {figures} in 10,000"


def measure_outliers(length: int) -> str:
    """Return one line: false outliers in a series of faultless noise, and in 20,000 values of it."""
    found = 0
    for seed in SEEDS:
        noise = np.random.default_rng([seed, 3]).standard_normal(length)
        found += len(outliers(pd.DataFrame({"v": noise}, index=pd.date_range("2026-01-01", periods=length, freq="s"))))
    each = found / len(SEEDS)
    return f"noise of {length:>7,} values: {each:.3f} outliers, {each / length * 20_000:.3f} in 20,000 values"


def main() -> None:
    """Print all figures."""
    for length in LENGTHS:
        print(measure_outliers(length), flush=True)
    for least, most in SIZES:
        for name in SERIES:
            print(measure_shifts(name, least, most), flush=True)


if __name__ == "__main__":
    main()
