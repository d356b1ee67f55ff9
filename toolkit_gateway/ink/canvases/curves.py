"""The ink for formats without pixels (SVG, PDF without paper): outlines as Bezier curves, with one opacity."""

from collections.abc import Iterator

import numpy as np

from toolkit_gateway.ink.canvases.texture import density
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.random_streams import Floats, Integers
from toolkit_gateway.ink.ribbons import COARSE_END, SMOOTH_END, Polygons, Strokes, ribbons

_CAP_UNITS = 400  # coordinates are integers, of which about so many are a cap height: 1 / 18 of a usual nib each
_STROKES_AT_ONCE, _POINTS_AT_ONCE = 1000, 100_000  # outlined in one step, which takes 500 bytes per point
_MANY_STROKES = 50_000  # more are drawings, not letters; with smooth ends, the file would take 10 s and 80 MB
_EVERY_NTH_POINT = 4  # one point in four is enough for a curve


def ink_opacity(page: Page) -> float | None:
    """Return the mean opacity of the ink; None for plain ink, and for a page without ink."""
    if page.ink is None or not len(page.ink.flow):
        return None
    return float(density(page.ink.kind, page.ink.flow.astype(np.float32)).mean())


def units_per_point(size: float) -> int:
    """Return how many units of the coordinates are a point, in writing of this cap height."""
    return max(1, round(_CAP_UNITS / size))


def outline_curves(
    strokes: Strokes, relative: bool = False, word: Integers | None = None
) -> Iterator[tuple[int, list[int]]]:
    """Yield the number of the stroke and a closed curve for each polygon of the ink.

    A curve is a list of integers: x and y of the start, then six numbers for each Bezier piece, y downwards. In a
    `relative` curve the six numbers are relative to the start of the piece. With `word`, the number of the word of each
    stroke, all curves of a word follow each other.
    """
    number, end = np.arange(len(strokes.length)), COARSE_END if len(strokes.length) > _MANY_STROKES else SMOOTH_END
    begin = 0
    while begin < len(number):
        points = np.cumsum(strokes.length[begin : begin + _STROKES_AT_ONCE])
        stop = begin + max(1, int(np.searchsorted(points, _POINTS_AT_ONCE, "right")))
        polygons = ribbons(strokes.select((number >= begin) & (number < stop)), _EVERY_NTH_POINT, end)
        corner = np.rint(np.stack([polygons.x, polygons.y], axis=1)).astype(np.int64)
        pieces = np.rint(_bezier_pieces(polygons)).astype(np.int64)
        if relative:
            pieces -= np.tile(corner, 3)
        first = np.cumsum(polygons.length) - polygons.length
        numbers = pieces.ravel().tolist()
        columns = (begin + polygons.stroke, corner[first], first, polygons.length)
        order = slice(None) if word is None else np.argsort(word[begin + polygons.stroke], kind="stable")
        for stroke, start, index, count in zip(*(column[order].tolist() for column in columns), strict=True):
            yield stroke, start + numbers[6 * index : 6 * (index + count)]
        begin = stop


def _bezier_pieces(polygons: Polygons) -> Floats:
    """Return Bezier pieces that pass smoothly through the corners: (control, control, end), shape (corners, 6)."""
    i = np.arange(len(polygons.x))
    start = np.cumsum(polygons.length) - polygons.length
    after, before = i + 1, i - 1
    after[start + polygons.length - 1] = start
    before[start] = start + polygons.length - 1
    corner = np.stack([polygons.x, polygons.y], axis=1)
    chord = np.sqrt(((corner[after] - corner) ** 2).sum(axis=1, keepdims=True))
    direction = corner[after] - corner[before]
    norm = np.sqrt((direction * direction).sum(axis=1, keepdims=True))
    direction = direction / np.where(norm > 0, norm, 1.0)
    # Handles of a third of the chord do not overshoot, even if the distances between corners differ much.
    return np.hstack([corner + direction * chord / 3, corner[after] - direction[after] * chord / 3, corner[after]])
