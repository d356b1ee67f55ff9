"""Level shifts: runs of readings at another level, as of a sensor that reports °F for some hours.

The noise of a series is the robust standard deviation of its first differences, divided by the square root of 2: slow
changes, and the shifts themselves, hardly count in it. A shift has two edges, and the search has two parts.

1. Steps. The step at a boundary is the difference of the two readings there, less what the differences around it
   predict: the best linear interpolation, from the autocovariance of all differences. So the series itself says what
   a step is: in white noise it is the difference of two means, in a smooth daily cycle a difference that does not fit
   to its neighbours. A step is also seen at the boundaries around it, with a factor that is the same everywhere.
2. Pairs. A shift is a step and, five or more readings later, a step of similar size back. All pairs are ranked by
   their evidence (generalised least squares) less a penalty that grows with the logarithm of their distance, and taken
   from the best on, where they do not overlap. What a pair explains is subtracted before the next one is looked at.
   Closer pairs are spikes: they are taken, too, and not reported. One step that never comes back is no shift.

Why not ruptures: PELT and its relatives split a series into segments of constant mean, which cuts every daily cycle
into many, and need a penalty chosen for each series; they do not pair the edges, and need SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.charts.columns import NUMBERS
from toolkit.dweets.analysis.gaps import analyse_each_thing
from toolkit.dweets.analysis.outliers import robust_deviation
from toolkit.dweets.analysis.series import chosen_with_warning
from toolkit.frames import declared_frame

_Floats = np.ndarray[Any, np.dtype[np.float64]]
_Integers = np.ndarray[Any, np.dtype[np.int64]]

_MIN_READINGS, _MIN_VALUES = 5, 20
#: So many differences on each side of a boundary predict the one there.
_REACH = 12
#: The least size of a shift and of a single step, in units of the noise: a shift of 6 times the noise is estimated with
#: an error, which is largest in series that wander.
_SIZE, _STEP = 4.5, 2.5
#: The least evidence of a shift, in standard deviations of the steps that the series has by itself.
_EVIDENCE = 5.5
#: The smaller step of a pair is at least this part of the larger one.
_LEAST_RATIO = 0.5
_PENALTY_OF_DISTANCE = 1.2
#: A pair of distant steps has at most so many others between its own.
_MOST_STEPS_BETWEEN = 40
#: The level beside an edge is the median of so many readings.
_LEVEL_READINGS = 3

_EXPLANATIONS: dict[str, Callable[[_Floats], _Floats]] = {
    "x 1.8 + 32": lambda x: x * 1.8 + 32,
    "(x - 32) / 1.8": lambda x: (x - 32) / 1.8,
    "x 10": lambda x: x * 10,
    "x / 10": lambda x: x / 10,
    "x 1000": lambda x: x * 1000,
    "x / 1000": lambda x: x / 1000,
    "-x": lambda x: -x,
}
_MOST_UNEXPLAINED = 0.1
_LEVELS = {"before": "float64", "inside": "float64", "size": "float64", "explained_by": "str"}


@checked_arguments
def shifts(frame: pd.DataFrame, fields: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Find level shifts: five or more readings in a row at another level, with sharp edges, and back.

    A sensor that reports °F for some hours, or millivolts for volts, is no outlier: all its neighbours are as far off.
    Shifts of at least 6 times the noise are found, where the noise is the robust standard deviation of first
    differences, divided by the square root of 2. Changes of the weather may look the same: look at each one found.

    Parameters
    ----------
    fields
        Columns with numbers; None for all of them. Missing values are skipped; a field with fewer than 20 values has no
        shifts.

    Returns
    -------
    pandas.DataFrame
        One row per shift, by field and then by time: ``field``, ``start`` and ``end`` (the times of its first and its
        last reading), ``before`` (the level around it), ``inside`` (the level of the shift), ``size`` (their
        difference), ``explained_by``: the conversion that leads from one level to the other, of ``x 1.8 + 32``,
        ``x 10``, ``x 1000``, their inverses (``(x - 32) / 1.8``, ``x / 10``, ``x / 1000``) and ``-x``; missing if none
        does.

    Warns
    -----
    DataWarning
        Values that are no numbers, such as ``"n/a"``, were left out.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=60, freq="h")
    >>> celsius = pd.Series([20.0 + 0.3 * (hour % 3) for hour in range(60)], index=times)
    >>> celsius.iloc[30:40] = celsius.iloc[30:40] * 1.8 + 32
    >>> pd.DataFrame({"celsius": celsius}).dweets.shifts()[["start", "end", "explained_by"]]
                    start                 end explained_by
    0 2026-01-02 06:00:00 2026-01-02 15:00:00   x 1.8 + 32
    """
    chosen = chosen_with_warning(frame, fields, NUMBERS)
    found = analyse_each_thing(chosen.frame, lambda rows: _shifts_of_one(rows, chosen.names))
    return found.reset_index(drop=True)


def _shifts_of_one(frame: pd.DataFrame, fields: Sequence[str]) -> pd.DataFrame:
    ascending = frame[frame.index.notna()].sort_index(kind="stable")
    rows: list[Any] = []
    for field in fields:
        values = ascending[field].dropna()
        for shift in find_shifts(values.to_numpy(dtype="float64")).to_dict("records"):
            start, end = values.index[[shift["start"], shift["end"]]]
            rows.append({"field": field, **shift, "start": start, "end": end})
    time = ascending.index.dtype
    return declared_frame(rows, {"field": "str", "start": time, "end": time, **_LEVELS})


def find_shifts(values: _Floats) -> pd.DataFrame:
    """Return the shifts of a series, by the positions of their first and last readings: ``start``, ``end``."""
    rows = []
    if len(values) >= _MIN_VALUES and (noise := _noise(np.diff(values))) > 0:
        for start, after, sizes in _shifts_of_steps(*steps_of(values), noise):
            beside = values[max(0, start - _LEVEL_READINGS) : start], values[after : after + _LEVEL_READINGS]
            outer = np.array([np.median(readings) for readings in beside])
            before, size = float(outer.mean()), float(sizes.mean())
            explanation = _explanation(outer, outer + sizes, abs(size), noise)
            row = {"start": start, "end": after - 1, "before": before, "inside": before + size, "size": size}
            rows.append({**row, "explained_by": explanation})
    rows.sort(key=itemgetter("start"))
    return declared_frame(rows, {"start": "int64", "end": "int64", **_LEVELS})


def _noise(differences: _Floats) -> float:
    noise = robust_deviation(differences) / 2**0.5
    if 2 * np.count_nonzero(differences) >= len(differences):
        return noise
    # A slow measure with few digits stays and then goes on by its last digit: that is its noise, and no shift.
    return max(noise, float(np.quantile(np.abs(differences), 0.95)) / 2)


def steps_of(values: _Floats) -> tuple[_Floats, _Floats]:
    """Return the step at each boundary, and the factors with which a step is seen 0, 1, 2, ... boundaries away.

    Boundary t lies between reading t - 1 and reading t.
    """
    differences = np.diff(values)
    differences = differences - np.median(differences)
    reach = min(_REACH, len(differences) // 2 - 1)
    limit = 3 * robust_deviation(differences)
    clipped = np.clip(differences, -limit, limit)  # the shifts must not count
    lags = np.arange(2 * reach + 1)
    covariance = np.array([clipped[lag:] @ clipped[: len(clipped) - lag] for lag in lags])
    covariance[0] *= 1.001  # the matrix of a perfectly regular series has no inverse
    weights = np.linalg.inv(covariance[np.abs(np.subtract.outer(lags, lags))])[reach]
    weights /= weights[reach]
    return np.concatenate([[0.0], np.convolve(differences, weights, "same"), [0.0]]), weights[reach:]


class _Pairs(NamedTuple):
    """Pairs of boundaries as shifts: the step at each, their evidence, and whether they can be a shift or a spike."""

    up: _Floats
    down: _Floats
    evidence: _Floats
    may_be: np.ndarray[Any, np.dtype[np.bool_]]


def _pairs(steps: _Floats, seen: _Floats, first: _Integers, after: _Integers, noise: float) -> _Pairs:
    distance = after - first
    shared = np.where(distance < len(seen), seen[np.minimum(distance, len(seen) - 1)], 0)
    # Each of the two steps is also seen at the other boundary.
    up = (steps[first] - shared * steps[after]) / (1 - shared**2)
    down = (shared * steps[first] - steps[after]) / (1 - shared**2)
    size, sizes = np.abs(up + down) / 2, np.abs([up, down])
    may_be = (up * down > 0) & (sizes.min(axis=0) >= _LEAST_RATIO * sizes.max(axis=0)) & (size >= _SIZE * noise)
    return _Pairs(up, down, size * np.sqrt(2 * (1 - shared)), may_be)


def _candidates(steps: _Floats, seen: _Floats, noise: float, spread: float) -> list[tuple[float, int, int]]:
    """Return pairs of boundaries that may be shifts or spikes, with their rank: the best last."""
    boundaries, inner, signs = np.arange(1, len(steps) - 1), steps[1:-1], np.sign(steps[1:-1])
    sizes = np.abs(inner)
    is_peak = (sizes >= signs * steps[:-2]) & (sizes >= signs * steps[2:]) & (sizes >= _STEP * noise)
    peaks = boundaries[is_peak]
    places = [(boundaries[:-distance], boundaries[distance:]) for distance in range(1, len(seen))]
    places += [(peaks[:-ahead], peaks[ahead:]) for ahead in range(1, min(_MOST_STEPS_BETWEEN, len(peaks)))]
    candidates = []
    for first, after in places:
        pairs = _pairs(steps, seen, first, after, noise)
        penalty = _PENALTY_OF_DISTANCE * spread * np.log(np.maximum(after - first, _MIN_READINGS))
        rank = pairs.evidence - penalty
        candidates += [(rank[place], int(first[place]), int(after[place])) for place in np.flatnonzero(pairs.may_be)]
    return sorted(candidates)


def _shifts_of_steps(steps: _Floats, seen: _Floats, noise: float) -> list[tuple[int, int, _Floats]]:
    """Return the boundaries at which shifts begin and end, and the sizes of both steps."""
    spread = robust_deviation(steps[1:-1])
    candidates, is_taken, found = _candidates(steps, seen, noise, spread), np.zeros(len(steps), dtype=bool), []
    for _, start, after in reversed(candidates):
        if is_taken[start : after + 1].any():
            continue
        pair = _pairs(steps, seen, np.array(start), np.array(after), noise)
        if not pair.may_be:  # a better pair nearby explains these steps
            continue
        is_taken[start : after + 1] = True
        for boundary, step in ((start, pair.up), (after, -pair.down)):
            near = np.arange(max(0, boundary - len(seen) + 1), min(len(steps), boundary + len(seen)))
            steps[near] -= step * seen[np.abs(near - boundary)]
        is_inside = start >= _MIN_READINGS and len(steps) - 1 - after >= _MIN_READINGS
        if after - start >= _MIN_READINGS and is_inside and pair.evidence >= _EVIDENCE * spread:
            found.append((start, after, np.array([pair.up, pair.down])))
    return found


def _explanation(outer: _Floats, inner: _Floats, size: float, noise: float) -> str | None:
    """Return the conversion that leads from the levels outside of both edges to those inside, or None."""
    unexplained = {name: float(np.abs(convert(outer) - inner).max()) for name, convert in _EXPLANATIONS.items()}
    best = min(unexplained, key=unexplained.__getitem__)
    return best if unexplained[best] <= _MOST_UNEXPLAINED * size + noise else None
