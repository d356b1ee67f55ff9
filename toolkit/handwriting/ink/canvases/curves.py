"""The outlines of the ink as Bezier curves, for formats without pixels (PDF, SVG)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from toolkit.handwriting.ink.ribbons import Polygons, Strokes, ribbons
from toolkit.keyed_noise import Floats

POINT_UNITS = 100  # coordinates are integers: hundredths of a point
_STROKES_AT_ONCE = 1000  # limits the memory
_EVERY_NTH_POINT = 3  # one point in three is enough for a curve


def outline_curves(strokes: Strokes, relative: bool = False) -> Iterator[tuple[int, list[int]]]:
    """Yield the number of the stroke and a closed curve for each polygon of the ink.

    A curve is a list: x and y of the start, then six numbers for each Bezier piece, in hundredths of a point, y
    downwards. In a `relative` curve the six numbers are relative to the start of the piece.
    """
    number = np.arange(len(strokes.length))
    for least in range(0, len(number), _STROKES_AT_ONCE):
        polygons = ribbons(strokes.select((number >= least) & (number < least + _STROKES_AT_ONCE)), _EVERY_NTH_POINT)
        corner = np.rint(np.stack([polygons.x, polygons.y], axis=1) * POINT_UNITS).astype(np.int64)
        pieces = np.rint(_bezier_pieces(polygons) * POINT_UNITS).astype(np.int64)
        if relative:
            pieces -= np.tile(corner, 3)
        first = np.cumsum(polygons.length) - polygons.length
        figures = pieces.ravel().tolist()
        columns = (least + polygons.stroke, corner[first], first, polygons.length)
        for stroke, start, at, count in zip(*(column.tolist() for column in columns), strict=True):
            yield stroke, start + figures[6 * at : 6 * (at + count)]


def _bezier_pieces(polygons: Polygons) -> Floats:
    """Return Bezier pieces that pass smoothly through the corners: (control, control, end), shape (corners, 6)."""
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
    # Handles of a third of the chord do not overshoot, even if the distances between corners differ much.
    return np.hstack([at + direction * chord / 3, at[after] - direction[after] * chord / 3, at[after]])
