"""How many planted shifts `shifts` finds, and how many shifts and outliers are false, over 200 seeds; prints only.

python -m tests.benchmarks.outliers

The last lines say how many shifts of 6 times the noise can be placed at all, by the most likely place of a shift whose
size and sign, number and approximate place are known: where that is below 95 %, no method of this kind finds 95 %.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.toolkit.dweets.planted_shifts import hits, noise_of, planted, series
from toolkit.dweets.analysis.outliers import outliers
from toolkit.dweets.analysis.shifts import find_shifts, steps_of

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


def measure_most_likely_places(name: str, size: float = 6.0) -> str:
    """Return one line: the share of planted shifts that lie at the most likely place within 60 readings of them."""
    hit, wanted = 0, 0
    noise = noise_of(series(name, 0))
    for seed in SEEDS:
        with_shifts = planted(series(name, seed), seed, size, size)
        steps, seen = steps_of(with_shifts.values)
        for first, last in with_shifts.shifts:
            sign = 1 if steps[first] > steps[last + 1] else -1
            likelihood = {}
            for length in range(5, 61):
                starts = np.arange(max(5, first - 60), min(len(steps) - 5 - length, first + 61))
                shared = seen[length] if length < len(seen) else 0.0
                places = sign * (steps[starts] - steps[starts + length]) - size * noise * (1 - shared)
                likelihood[length] = (places.max(), starts[places.argmax()])
            length = max(likelihood, key=lambda length: likelihood[length][0])
            start = likelihood[length][1]
            hit += abs(start - first) <= 1 and abs(start + length - 1 - last) <= 1
            wanted += 1
    return f"{name:50} {size:g} times the noise: {hit / wanted:.1%} lie at the most likely place"


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
    for name in SERIES[-3:]:
        print(measure_most_likely_places(name), flush=True)


if __name__ == "__main__":
    main()
