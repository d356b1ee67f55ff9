"""Level shifts: runs of readings at another level, as of a sensor that reports °F for some hours.

The noise of a series is the robust standard deviation of its first differences, divided by the square root of 2: slow
changes, and the shifts themselves, hardly count in it. A shift has two edges, and the search has two steps.

1. Edges. The step at a boundary is the median of the k readings after it minus that of the k readings before it. More
   readings average more noise away, but trends and slow changes within them look like steps; subtracting the slope of
   the neighbours helps, and adds noise. Which step is the best depends on the series, so all of `_FILTERS` are
   computed, and the one that scatters least over the whole series is used: five readings in white noise, one reading
   less the slope in a smooth daily cycle. An edge is where its size exceeds `_EDGE` times the noise.
2. Pairs. A shift is a step and, five or more readings later, a step of similar size back. All pairs of edges that may
   be one are ranked by their smaller step, less a penalty that grows with the logarithm of their distance, and taken
   from the best on, where they do not overlap. One step that never comes back, as after moving a sensor, is no shift.

In a series that wanders, as daily weather does, steps of one reading scatter least; there, a shift must also last.

Why not ruptures: PELT and its relatives split a series into segments of constant mean, which cuts every daily cycle
into many, and need a penalty chosen for each series; they do not pair the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from toolkit.argument_checks import checked_arguments
from toolkit.dweets.analysis.gaps import analyse_each_thing
from toolkit.dweets.analysis.outliers import robust_deviation
from toolkit.dweets.analysis.series import chosen_numbers

_Floats = np.ndarray[Any, np.dtype[np.float64]]
_Integers = np.ndarray[Any, np.dtype[np.int64]]

#: Readings on each side of a step, and whether the slope of the neighbours is subtracted.
_FILTERS = ((5, False), (3, False), (1, False), (1, True))
#: The widest filter needs so many readings on both sides of a boundary.
_REACH = 5
_MIN_READINGS = 5
_MIN_VALUES = 4 * _REACH
#: In units of the noise. A shift of 6 times the noise is estimated with an error of up to 0.6, and each of its edges
#: with one of up to 1.4, so lower limits find 95 % of such shifts.
_EDGE, _SIZE = 2.8, 4.5
#: The smaller step of a pair is at least this part of the larger one.
_LEAST_RATIO = 0.5
#: The part of the variance around an edge that the step explains; where the slope is subtracted, it says nothing.
_LEAST_EXPLAINED = 0.5
#: A short shift comes back to its level: the levels before and after it differ by less than this part of its size.
_MOST_DRIFT, _SHORT = 0.6, 15
#: In a series that wanders, the level of so many readings must differ by this many times the noise, too: one cold day
#: and one warm day, weeks apart, are no shift.
_MANY_READINGS, _LASTING = 30, 2.5
_PENALTY_OF_DISTANCE = 1.5
#: A pair has at most so many edges between its own.
_MOST_EDGES_BETWEEN = 40

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
_COLUMNS = {"before": 0.0, "inside": 0.0, "size": 0.0, "explained_by": pd.Series(dtype="str")}


class _Edges(NamedTuple):
    """Boundaries at which a step was found; boundary t lies between reading t - 1 and reading t."""

    boundaries: _Integers
    steps: _Floats
    before: _Floats
    after: _Floats
    explained: _Floats


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
    chosen = chosen_numbers(frame, fields)
    return find_all_shifts(chosen.frame, chosen.names)


def find_all_shifts(frame: pd.DataFrame, fields: Sequence[str]) -> pd.DataFrame:
    """Do what `shifts` does, for columns of numbers."""
    return analyse_each_thing(frame, lambda rows: _shifts_of_one(rows, fields)).reset_index(drop=True)


def _shifts_of_one(frame: pd.DataFrame, fields: Sequence[str]) -> pd.DataFrame:
    ascending = frame[frame.index.notna()].sort_index(kind="stable")
    no_times = ascending.index[:0]
    nothing = {"field": pd.Series(dtype="str"), "start": no_times, "end": no_times, **_COLUMNS}
    parts = [pd.DataFrame(nothing, index=pd.RangeIndex(0))]
    for field in fields:
        values = ascending[field].dropna()
        found = find_shifts(values.to_numpy(dtype="float64"))
        times = {"start": values.index[found["start"]], "end": values.index[found["end"]]}
        parts.append(found.assign(field=pd.Series(field, found.index, dtype="str"), **times)[parts[0].columns])
    return pd.concat(parts)


def find_shifts(values: np.ndarray[Any, Any]) -> pd.DataFrame:
    """Return the shifts of a series, by the positions of their first and last readings: ``start``, ``end``."""
    rows: list[tuple[Any, ...]] = []
    if len(values) >= _MIN_VALUES and (noise := robust_deviation(np.diff(values)) / np.sqrt(2)) > 0:
        width, is_sloped, steps = _least_scattered_steps(values)
        edges = _edges(values, steps, width, _EDGE * noise)
        is_wandering = width == 1 and not is_sloped
        for first, second in _pairs(edges, noise, is_sloped=is_sloped):
            if is_wandering and not _persists(values, edges.boundaries[first], edges.boundaries[second], noise):
                continue
            start, after = edges.boundaries[first], edges.boundaries[second]
            outer = np.array([np.median(values[start - width : start]), np.median(values[after : after + width])])
            inner = np.array([np.median(values[start : start + width]), np.median(values[after - width : after])])
            size = float((inner - outer).mean())
            levels = float(outer.mean()), float(inner.mean()), size
            rows.append((start, after - 1, *levels, _explanation(outer, inner, abs(size), noise)))
    found = pd.DataFrame(sorted(rows), columns=["start", "end", *_COLUMNS])
    dtypes = dict.fromkeys(["before", "inside", "size"], "float64")
    return found.astype({"start": "int64", "end": "int64", "explained_by": "str", **dtypes})


def _least_scattered_steps(values: _Floats) -> tuple[int, bool, _Floats]:
    """Return the filter that scatters least, and its step at each boundary."""
    around = sliding_window_view(np.pad(values, _REACH, mode="edge"), 2 * _REACH)
    results = []
    for width, is_sloped in _FILTERS:
        after, before = around[:, _REACH : _REACH + width], around[:, _REACH - width : _REACH]
        steps = np.median(after, axis=1) - np.median(before, axis=1)
        if is_sloped:
            slopes = np.diff(around, axis=1)[:, [_REACH - 3, _REACH - 2, _REACH, _REACH + 1]]
            steps = steps - np.median(slopes, axis=1)
        results.append((robust_deviation(steps), width, is_sloped, steps))
    _, width, is_sloped, steps = min(results, key=lambda result: result[0])
    return width, is_sloped, steps


def _edges(values: _Floats, steps: _Floats, width: int, limit: float) -> _Edges:
    """Return an edge for each run of boundaries with steps beyond the limit in the same direction."""
    inner = slice(_REACH, len(values) - _REACH + 1)  # the levels on both sides of an edge are of five readings
    signs = np.zeros(len(steps))
    signs[inner] = np.where(np.abs(steps[inner]) >= limit, np.sign(steps[inner]), 0)
    starts = np.flatnonzero((signs != 0) & (signs != np.append(0, signs[:-1])))
    ends = np.flatnonzero((signs != 0) & (signs != np.append(signs[1:], 0))) + 1
    found = {}
    for start, end in zip(starts, ends, strict=True):
        sizes = np.abs(steps[start:end])
        # Medians make a plateau around an edge: its middle is near the edge.
        near = int(start + np.median(np.flatnonzero(sizes >= 0.8 * sizes.max())))
        found[_exact_boundary(values, near, width)] = steps[start + int(sizes.argmax())]
    boundaries = np.array(sorted(found), dtype="int64")
    around = values[boundaries[:, None] + np.arange(-_REACH, _REACH)].reshape(-1, 2, _REACH)
    unexplained = around.var(axis=2).mean(axis=1)
    total = around.reshape(-1, 2 * _REACH).var(axis=1)
    explained = 1 - np.divide(unexplained, total, out=np.ones(len(total)), where=total > 0)
    before, after = np.median(around, axis=2).T
    return _Edges(boundaries, np.array([found[boundary] for boundary in boundaries]), before, after, explained)


def _exact_boundary(values: _Floats, near: int, width: int) -> int:
    """Return the boundary that best divides readings near the level before from those near the level after."""
    if width == 1:
        return near
    before, after = np.median(values[near - width : near]), np.median(values[near : near + width])
    first = max(near - width + 1, _REACH)
    last = min(near + width - 1, len(values) - _REACH)
    readings = values[first - 2 : last + 2]
    closer_to_before = np.cumsum(np.abs(readings - after) - np.abs(readings - before))
    # The sum up to reading t - 1 belongs to boundary t.
    return first + int(np.argmax(closer_to_before[1 : 2 + last - first]))


def _pairs(edges: _Edges, noise: float, *, is_sloped: bool) -> list[tuple[int, int]]:
    """Return the pairs of edges (by position in `edges`) that are shifts."""
    boundaries, steps, before, after, explained = edges
    candidates = []
    for ahead in range(1, min(_MOST_EDGES_BETWEEN, len(boundaries))):
        first = np.arange(len(boundaries) - ahead)
        second = first + ahead
        distance = boundaries[second] - boundaries[first]
        sizes = np.abs(steps[first]), np.abs(steps[second])
        smaller = np.minimum(*sizes)
        may_be = (distance >= _MIN_READINGS) & (steps[first] * steps[second] < 0)
        may_be &= smaller >= _LEAST_RATIO * np.maximum(*sizes)
        if is_sloped:
            may_be &= sizes[0] + sizes[1] >= 2 * _SIZE * noise
            weight = np.ones(len(first))
        else:
            size = np.abs(after[first] - before[first] + before[second] - after[second]) / 2
            weight = np.minimum(explained[first], explained[second])
            drift = np.abs(before[first] - after[second])
            may_be &= (size >= _SIZE * noise) & (weight >= _LEAST_EXPLAINED)
            may_be &= (drift <= _MOST_DRIFT * size) | (distance > _SHORT)
        rank = smaller * weight - _PENALTY_OF_DISTANCE * noise * np.log(distance)
        candidates += [(rank[place], place, place + ahead) for place in np.flatnonzero(may_be).tolist()]
    is_taken = np.zeros(len(boundaries), dtype=bool)
    pairs = []
    for _, one, other in sorted(candidates, reverse=True):
        if not is_taken[one : other + 1].any():
            is_taken[one : other + 1] = True
            pairs.append((one, other))
    return pairs


def _persists(values: _Floats, start: int, after: int, noise: float) -> bool:
    """Return whether the level differs also where many readings are looked at."""
    width = min(_MANY_READINGS, after - start)
    outer = np.median(values[max(0, start - width) : start]), np.median(values[after : after + width])
    inner = np.median(values[start : start + width]), np.median(values[after - width : after])
    steps = np.subtract(inner, outer)
    return bool(steps[0] * steps[1] > 0 and np.abs(steps).min() >= _LASTING * noise)


def _explanation(outer: _Floats, inner: _Floats, size: float, noise: float) -> str | None:
    """Return the conversion that leads from the levels outside of both edges to those inside, or None."""
    unexplained = {name: float(np.abs(convert(outer) - inner).max()) for name, convert in _EXPLANATIONS.items()}
    best = min(unexplained, key=unexplained.__getitem__)
    return best if unexplained[best] <= _MOST_UNEXPLAINED * size + noise else None
