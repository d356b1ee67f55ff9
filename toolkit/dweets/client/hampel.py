"""The Hampel filter: how far each value is from the median of its neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

# A standard normal's MAD is 0.6745 and its mean absolute deviation 0.7979: both make up for it here.
_MAD_TO_SIGMA, _MEAN_DEVIATION_TO_SIGMA = 1.4826, 1.2533
_ROWS_A_PIECE = 65_536


def hampel(values: np.ndarray[Any, Any], window: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return for each value the median of its window and its distance in robust standard deviations."""
    length = len(values)
    window = min(window, length)
    if not length:
        return values, values
    windows = sliding_window_view(values, window)
    medians, sigmas = np.empty(len(windows)), np.empty(len(windows))
    for start in range(0, len(windows), _ROWS_A_PIECE):  # the deviations of all windows at once would not fit
        piece = slice(start, start + _ROWS_A_PIECE)
        medians[piece], sigmas[piece] = _spread(windows[piece])
    nearest = np.clip(np.arange(length) - window // 2, 0, length - window)
    expected, sigma = medians[nearest], sigmas[nearest]
    distance = np.abs(values - expected)
    score = np.divide(distance, sigma, out=np.zeros(length), where=sigma > 0)
    return expected, score


def _spread(windows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    medians = np.median(windows, axis=1)
    deviations = np.abs(windows - medians[:, None])
    mad = np.median(deviations, axis=1) * _MAD_TO_SIGMA
    return medians, np.where(mad > 0, mad, deviations.mean(axis=1) * _MEAN_DEVIATION_TO_SIGMA)
