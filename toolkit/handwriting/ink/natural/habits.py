"""The habits of a natural writer besides slant, width and nib: proportions, joins, bars, dots, gaps and lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from toolkit.handwriting.writers import Writer, writer_of
from toolkit.keyed_noise import Floats, KeyedNoise

MAX_NATURAL_NIB = 0.95  # the pen of a natural writer is at most this multiple of the script's pen width
_WARM_UP_STEPS = 24  # after these steps, an autoregressive series does not depend on the first value


@dataclass(frozen=True, slots=True)
class Habits:
    """Lengths in cap heights, angles as slopes."""

    ascender: float  # factor on the height of letters above the x-height
    descender: float  # factor on the depth of letters below the baseline
    figure: float  # factor on the size of digits
    join_rate: float  # share of the joinable letter pairs that a print hand joins
    longest_run: int  # most letters that a joined hand writes without a lift, at least three
    bar_length: float  # factor on the length of bars
    bar_slope: float
    dot_shift: float  # to the right, in x-heights
    gap: float  # factor on the gaps between words
    margin: float  # drift of the left margin
    line_slope: float


def natural_writer(script: str, number: int) -> Writer:
    """Return writer `number` of a script with a nib of at most `MAX_NATURAL_NIB`."""
    writer = writer_of(script, number)
    return replace(writer, nib=min(writer.nib, MAX_NATURAL_NIB))


@cache
def habits_of(script: str, writer: str) -> Habits:
    u = KeyedNoise("natural", script, writer).uniform("habits", 11).tolist()
    return Habits(
        ascender=1 + 0.1 * u[0],
        descender=1 + 0.12 * u[1],
        figure=1 + 0.06 * u[2],
        join_rate=0.5 + 0.15 * u[3],
        longest_run=5 + int(1.49 * u[4] + 0.5),
        bar_length=1 + 0.2 * u[5],
        bar_slope=0.05 + 0.05 * u[6],
        dot_shift=0.12 + 0.06 * u[7],
        gap=0.92 + 0.12 * u[8],
        margin=1.0 + 0.25 * u[9],
        line_slope=0.006 * u[10],
    )


def drift_series(noise: KeyedNoise, name: str, count: int, memory: float = 0.7) -> Floats:
    """Return an autoregressive series of variance 1: each value keeps the share `memory` of the value before."""
    kernel = np.cumprod(np.full(_WARM_UP_STEPS, memory)) / memory
    fresh = noise.gaussian(name, count + _WARM_UP_STEPS - 1)
    drifting: Floats = np.convolve(fresh, kernel)[_WARM_UP_STEPS - 1 :][:count] * np.sqrt(1 - memory * memory)
    return drifting


def exponential(z: Floats) -> Floats:
    """Approximate e to the power of z, for z above -32, by multiplications: the result is equal on every machine."""
    power = 1 + z / 64
    for _ in range(6):
        power = power * power
    return power
