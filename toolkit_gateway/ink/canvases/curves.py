"""The ink for formats without pixels (PDF, SVG): outlines as Bezier curves, in layers of one opacity each.

Plain ink is one layer. Other ink has several layers over each other; each layer has only those parts of the strokes
that are darker than the layer below.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from toolkit_gateway.ink.canvases.texture import density, ink_at, layer_factor
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.random_streams import Floats, Integers
from toolkit_gateway.ink.ribbons import COARSE_END, OUTLINE_FLAG, SMOOTH_END, Mask, Polygons, Strokes, ribbons

LAYER_QUANTILES = (0.08, 0.4, 0.7, 0.92)  # a layer has the ink with an opacity above this quantile
_FAINT_FACTOR = 0.55  # ink below this share of the first layer's opacity is not drawn
_MIN_PIECE_POINTS = 3  # a shorter piece of a stroke cannot be seen
_MAX_CELLS = 4_000_000
POINT_UNITS = 100  # coordinates are integers: hundredths of a point
_STROKES_AT_ONCE, _POINTS_AT_ONCE = 1000, 100_000  # outlined in one step, which takes 500 bytes per point
_MANY_STROKES = 50_000  # more are drawings, not letters; with smooth ends, the file would take 10 s and 80 MB
_EVERY_NTH_POINT = 3  # one point in three is enough for a curve


class Layer(NamedTuple):
    opacity: float | None  # None for plain ink, which needs no opacity
    strokes: Strokes
    word: Integers  # (strokes,) number of the word of each stroke


def layers_of(page: Page, size: float) -> list[Layer]:
    """Return the layers of the ink, in drawing order; `size` is the cap height in points."""
    strokes, word = page.strokes, page.word_of_stroke
    opacity = point_opacity(page, size)
    if opacity is None:
        return [Layer(None, strokes, word)]
    is_contour = np.repeat((strokes.flags & OUTLINE_FLAG) > 0, strokes.length)
    thresholds = np.quantile(opacity, LAYER_QUANTILES)
    layers, opacity_below = [], 0.0
    for number, threshold in enumerate(thresholds.tolist()):
        chosen = np.where(is_contour, number == 0, opacity >= (threshold if number else _FAINT_FACTOR * threshold))
        upper = thresholds[number + 1] if number + 1 < len(thresholds) else opacity.max()
        wanted = min(0.5 * (threshold + float(upper)) if number else threshold, 0.995)
        pieces, of_stroke = _cut_to_chosen(strokes, chosen)
        layers.append(Layer(1 - (1 - wanted) / (1 - opacity_below), pieces, word[of_stroke]))
        opacity_below = wanted
    return layers


def point_opacity(page: Page, size: float) -> Floats | None:
    """Return the opacity of the ink at each point of the strokes; None for plain ink, or for a page without ink."""
    if page.ink is None or not len(page.strokes.x):
        return None
    cell = max(size / 40, math.sqrt(page.width * page.height / _MAX_CELLS))
    area = math.ceil(page.width), 0, math.ceil(page.height)
    _, passes = ink_at(page.strokes.x, page.strokes.y, page.strokes, page.ink, size, area, cell)
    amount = page.ink.flow.astype(np.float32) * layer_factor(page.ink.kind, passes)
    return density(page.ink.kind, amount).astype(np.float64)


def _cut_to_chosen(strokes: Strokes, chosen: Mask) -> tuple[Strokes, Integers]:
    """Return each run of chosen points as a stroke, and the number of the stroke that the run was part of."""
    stroke = strokes.stroke_of_point
    breaks = np.diff(stroke, prepend=-1) != 0
    breaks[1:] |= chosen[1:] != chosen[:-1]
    run = np.cumsum(breaks) - 1
    length = np.bincount(run)
    first = np.nonzero(breaks)[0]
    is_kept = chosen[first] & (length >= np.minimum(_MIN_PIECE_POINTS, strokes.length[stroke[first]]))
    points = is_kept[run]
    of_stroke = stroke[first[is_kept]]
    x, y, radius = strokes.x[points], strokes.y[points], strokes.radius[points]
    return Strokes(x, y, radius, length[is_kept], strokes.flags[of_stroke]), of_stroke


def outline_curves(
    strokes: Strokes, relative: bool = False, word: Integers | None = None
) -> Iterator[tuple[int, list[int]]]:
    """Yield the number of the stroke and a closed curve for each polygon of the ink.

    A curve is a list: x and y of the start, then six numbers for each Bezier piece, in hundredths of a point, y
    downwards. In a `relative` curve the six numbers are relative to the start of the piece. With `word`, the number of
    the word of each stroke, all curves of a word follow each other.
    """
    number, end = np.arange(len(strokes.length)), COARSE_END if len(strokes.length) > _MANY_STROKES else SMOOTH_END
    begin = 0
    while begin < len(number):
        points = np.cumsum(strokes.length[begin : begin + _STROKES_AT_ONCE])
        stop = begin + max(1, int(np.searchsorted(points, _POINTS_AT_ONCE, "right")))
        polygons = ribbons(strokes.select((number >= begin) & (number < stop)), _EVERY_NTH_POINT, end)
        corner = np.rint(np.stack([polygons.x, polygons.y], axis=1) * POINT_UNITS).astype(np.int64)
        pieces = np.rint(_bezier_pieces(polygons) * POINT_UNITS).astype(np.int64)
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
