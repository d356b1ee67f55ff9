"""Series with planted level shifts, for the benchmark of `shifts` and for its test."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tests.conftest import ROOT

Numbers = np.ndarray[Any, np.dtype[np.float64]]

_READINGS = 5_000
_READINGS_PER_SHIFT = 500
_LONGEST = 60


class Planted(NamedTuple):
    """A series, and the positions of the first and the last reading of each planted shift."""

    values: Numbers
    shifts: list[tuple[int, int]]


def noise_of(values: Numbers) -> float:
    """Return the robust standard deviation of first differences, divided by the square root of 2."""
    differences = np.diff(values)
    return float(1.4826 * np.median(np.abs(differences - np.median(differences))) / np.sqrt(2))


def series(name: str, seed: int) -> Numbers:
    """Return a series without shifts: white noise, with a daily cycle, rounded, or a column of the weather files."""
    noise = np.random.default_rng([seed, 1]).standard_normal(_READINGS)
    if name == "noise":
        return noise
    if name == "noise, rounded":
        return np.round(0.3 * noise, 1)
    if name == "noise and days":
        return noise + 10 * np.sin(np.arange(_READINGS) * 2 * np.pi / 288)
    file, column = name.split(":")
    return pd.read_csv(ROOT / "data" / file)[column].to_numpy(dtype="float64")


def planted(values: Numbers, seed: int, least: float = 6.0, most: float = 12.0) -> Planted:
    """Plant shifts of 5 to 60 readings, and of `least` to `most` times the noise, up or down."""
    random, noise, values = np.random.default_rng([seed, 2]), noise_of(values), values.copy()
    slots, shifts = np.linspace(30, len(values) - 30, max(1, len(values) // _READINGS_PER_SHIFT) + 1), []
    for left, right in zip(slots, slots[1:], strict=False):
        length = int(random.integers(5, _LONGEST + 1))
        first = int(random.integers(left + 15, right - length - 15))
        values[first : first + length] += random.uniform(least, most) * noise * random.choice([-1, 1])
        shifts.append((first, first + length - 1))
    return Planted(values, shifts)


def hits(found: pd.DataFrame, shifts: list[tuple[int, int]]) -> int:
    """Return how many planted shifts were found, with start and end within one reading."""
    starts, ends = found["start"].to_numpy(), found["end"].to_numpy()
    return sum(bool(((abs(starts - first) <= 1) & (abs(ends - last) <= 1)).any()) for first, last in shifts)
