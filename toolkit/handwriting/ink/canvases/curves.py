"""Ink outlines as Bezier curves, for the formats that are drawn at any size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from toolkit.handwriting.ink.ribbons import Polygons, Strokes, ribbons
from toolkit.keyed_noise import Floats

UNIT = 100  # coordinates are whole hundredths of a point
_AT_ONCE = 1000  # strokes
_EVERY = 3  # curves need a third of the points that straight lines need


def outline_curves(strokes: Strokes, relative: bool = False) -> Iterator[tuple[int, list[int]]]:
    """Yield the number of a stroke and one closed curve for each polygon of its ink.

    A curve is start x, y, then six numbers for each Bezier piece, in hundredths of a point, y down. The six numbers
    of a `relative` curve count from the beginning of their piece.
    """
    number = np.arange(len(strokes.length))
    for least in range(0, len(number), _AT_ONCE):
        polygons = ribbons(strokes.select((number >= least) & (number < least + _AT_ONCE)), _EVERY)
        corner = np.rint(np.stack([polygons.x, polygons.y], axis=1) * UNIT).astype(np.int64)
        pieces = np.rint(_controls(polygons) * UNIT).astype(np.int64)
        if relative:
            pieces -= np.tile(corner, 3)
        first = np.cumsum(polygons.length) - polygons.length
        figures = pieces.ravel().tolist()
        columns = (least + polygons.stroke, corner[first], first, polygons.length)
        for stroke, start, at, count in zip(*(column.tolist() for column in columns), strict=True):
            yield stroke, start + figures[6 * at : 6 * (at + count)]


def _controls(polygons: Polygons) -> Floats:
    """Bezier pieces through the corners of closed polygons, smooth there: (c1, c2, end) of shape (corners, 6)."""
    i = np.arange(len(polygons.x))
    start = np.cumsum(polygons.length) - polygons.length
    after, before = i + 1, i - 1
    after[start + polygons.length - 1] = start
    before[start] = start + polygons.length - 1
    at = np.stack([polygons.x, polygons.y], axis=1)
    chord = np.sqrt(((at[after] - at) ** 2).sum(axis=1, keepdims=True))
    direction = at[after] - at[before]
    norm = np.sqrt((direction * direction).sum(axis=1, keepdims=True))
    direction = direction / np.where(norm > 0, norm, 1.0)
    # handles a third of the chord on either side: corners at very different distances do not overshoot
    return np.hstack([at + direction * chord / 3, at[after] - direction[after] * chord / 3, at[after]])
