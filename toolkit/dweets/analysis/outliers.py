"""Outliers: a Hampel filter whose threshold counts how many values were looked at.

How far must a value be from the median of its window to be an outlier? In Gaussian noise with a known spread, one value
of 20,000 is more than 4.1 standard deviations off. Here the spread is estimated from the window, and an estimate from
25 values is itself noisy: where it happens to be small, harmless values have large scores. So the tail of the scores is
far heavier than that of a Gaussian, the more so the smaller the window, and no simple formula has it.

`_THRESHOLDS` was calibrated by simulation. A value so far off that it matters is the extreme of its window, so median m
and spread s of the window do not depend on how far off it is, and P(score > t) is the mean of 2 * (1 - Phi(m + t * s))
over windows of Gaussian noise with one infinite value. That mean is smooth even where no simulated score would be.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from toolkit.argument_checks import checked_arguments
from toolkit.charts.columns import NUMBERS
from toolkit.dweets.analysis.gaps import analyse_each_thing
from toolkit.dweets.analysis.series import chosen_with_warning
from toolkit.errors import InvalidArgument

# Factors from a deviation to sigma: a standard normal has a MAD of 0.6745 and a mean absolute deviation of 0.7979.
_MAD_TO_SIGMA, _MEAN_DEVIATION_TO_SIGMA = 1.4826, 1.2533
_WINDOWS_PER_CHUNK = 8_192
# A series with fewer values has no outliers, because its spread is not known well enough.
_MIN_VALUES = 8
_WINDOW = 25
#: The thresholds for one false outlier in so many values of noise, by window; a shorter series has the first. An even
#: window has a lower threshold than the odd one before it; between windows and values, logarithms are interpolated.
_VALUES = (20_000, 100_000, 1_000_000, 10_000_000)
_THRESHOLDS = {
    3: (8600.0, 35000.0, 180000.0, 460000.0),
    5: (130.0, 300.0, 1100.0, 2900.0),
    7: (38.0, 66.0, 124.0, 194.0),
    9: (20.2, 31.0, 60.0, 95.0),
    11: (14.4, 20.4, 35.0, 62.0),
    15: (9.7, 12.6, 18.0, 26.0),
    25: (6.7, 8.1, 10.5, 13.5),
    51: (5.15, 5.85, 6.9, 8.0),
    101: (4.6, 5.1, 5.8, 6.5),
}


@checked_arguments
def outliers(
    frame: pd.DataFrame,
    fields: str | Sequence[str] | None = None,
    *,
    window: int = _WINDOW,
    threshold: float | None = None,
) -> pd.DataFrame:
    """Find values far from the median of their neighbours (a Hampel filter).

    The score of a value is its distance from the median of the `window` values around it, in robust standard
    deviations: 1.4826 times the median absolute deviation of that window, or, if more than half of the window is the
    same value, 1.2533 times its mean absolute deviation. So slow seasonal changes are no outliers, and outliers cannot
    hide each other as they do with mean and standard deviation.

    Parameters
    ----------
    fields
        Columns with numbers; None for all of them. Missing values are skipped; a field with fewer than eight values has
        no outliers.
    window
        The number of values in a window, at least 3; at the ends of the series, the nearest values. Below 9, only
        values that are many times the spread off can be told from noise.
    threshold
        Scores above it are outliers. None counts the values in all chosen fields: in faultless Gaussian noise, one
        false outlier is expected in 20,000 values, and one in a longer series, however long. With windows of 25 that is
        6.7 for up to 20,000 values and 10.5 for a million. A skewed measure such as rain has many outliers by nature.

    Returns
    -------
    pandas.DataFrame
        One row per outlier, by field and then by time: index as in `frame`, ``field``, ``value``, ``expected`` (the
        median), ``score``.

    Warns
    -----
    DataWarning
        Values that are no numbers, such as ``"n/a"``, were left out.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=40, freq="h")
    >>> celsius = [20.0 + hour % 3 for hour in range(40)]
    >>> celsius[30] = 85.0
    >>> pd.DataFrame({"celsius": celsius}, index=times).dweets.outliers()["value"].tolist()
    [85.0]
    """
    chosen = chosen_with_warning(frame, fields, NUMBERS)
    return find_outliers(chosen.frame, chosen.names, window, threshold)


def find_outliers(
    frame: pd.DataFrame, fields: Sequence[str], window: int = _WINDOW, threshold: float | None = None
) -> pd.DataFrame:
    """Do what `outliers` does, in columns that hold numbers only."""
    if window < 3 or not (threshold is None or threshold > 0):
        raise InvalidArgument(f"outliers need a window of at least 3 values, not {window}, and a threshold above 0")
    looked_at = int(frame[list(fields)].notna().to_numpy().sum())
    return analyse_each_thing(frame, lambda rows: _outliers_of_one(rows, fields, window, threshold, looked_at))


def threshold_for(values: int, window: int = _WINDOW) -> float:
    """Return the threshold above which noise has one false outlier in so many values, at least in 20,000."""
    decades = np.log(np.clip(values, _VALUES[0], _VALUES[-1]))
    by_window = [np.interp(decades, np.log(_VALUES), np.log(row)) for row in _THRESHOLDS.values()]
    odd = max(3, window - 1 + window % 2)
    return round(float(np.exp(np.interp(np.log(odd), np.log([*_THRESHOLDS]), by_window))), 2)


def robust_deviation(values: np.ndarray[Any, Any]) -> float:
    """Return the standard deviation of values around their median, as robust as that of `hampel`."""
    deviations = np.abs(values - np.median(values))
    return float(np.median(deviations)) * _MAD_TO_SIGMA or float(deviations.mean()) * _MEAN_DEVIATION_TO_SIGMA


def _outliers_of_one(
    frame: pd.DataFrame, fields: Sequence[str], window: int, threshold: float | None, looked_at: int
) -> pd.DataFrame:
    ascending = frame.sort_index(kind="stable")
    nothing = {"field": pd.Series(dtype="str"), "value": 0.0, "expected": 0.0, "score": 0.0}
    parts = [pd.DataFrame(nothing, ascending.index[:0])]
    for field in fields:
        values = ascending[field].dropna()
        if len(values) < _MIN_VALUES:
            continue
        expected, score = hampel(values.to_numpy(dtype="float64"), window)
        limit = threshold_for(looked_at, min(window, len(values))) if threshold is None else threshold
        far = score > limit
        columns = {"field": field, "value": values[far].astype("float64"), "expected": expected[far]}
        parts.append(pd.DataFrame({**columns, "score": score[far]}, index=values.index[far]).astype({"field": "str"}))
    return pd.concat(parts)


def hampel(values: np.ndarray[Any, Any], window: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return for each value the median of its window and its distance in robust standard deviations."""
    length = len(values)
    window = min(window, length)
    windows = sliding_window_view(values, window)
    medians, sigmas = np.empty(len(windows)), np.empty(len(windows))
    middles = sorted({(window - 1) // 2, window // 2})  # one, or two in an even number of values
    for start in range(0, len(windows), _WINDOWS_PER_CHUNK):  # what fits into the processor's cache
        chunk = slice(start, start + _WINDOWS_PER_CHUNK)
        ordered = np.ascontiguousarray(np.sort(windows[chunk], axis=1).T)
        median = medians[chunk] = ordered[middles].mean(axis=0)
        mad = np.mean([_distance_within(ordered, median, middle + 1) for middle in middles], axis=0) * _MAD_TO_SIGMA
        same = mad == 0
        mad[same] = np.abs(windows[chunk][same] - median[same, None]).mean(axis=1) * _MEAN_DEVIATION_TO_SIGMA
        sigmas[chunk] = mad
    nearest = np.clip(np.arange(length) - window // 2, 0, length - window)
    expected, sigma = medians[nearest], sigmas[nearest]
    distance = np.abs(values - expected)
    score = np.divide(distance, sigma, out=np.zeros(length), where=sigma > 0)
    return expected, score


def _distance_within(ordered: np.ndarray[Any, Any], median: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Return the distance from the median within which `count` values of each window (a column, ascending) lie."""
    # The values nearest to a point are neighbours in their order: of all such runs, the one that reaches least far.
    last = len(ordered) - count
    runs = (np.maximum(median - ordered[i], ordered[i + count - 1] - median) for i in range(last + 1))
    return functools.reduce(np.minimum, runs)
