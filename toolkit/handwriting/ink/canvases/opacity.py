"""The density of the ink in formats without pixels: a few layers, each of one opacity, are drawn over each other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.handwriting.ink.canvases.texture import Deposit, density, layer_factor
from toolkit.handwriting.ink.page import Page
from toolkit.handwriting.ink.pen import InkFlow
from toolkit.handwriting.ink.ribbons import OUTLINE_FLAG, Strokes
from toolkit.keyed_noise import Floats, Integers

LAYER_QUANTILES = (0.08, 0.4, 0.7, 0.92)  # quantiles of the opacity from which a layer has ink
_FAINT_FACTOR = 0.55  # ink below this share of the first layer's opacity is not drawn
_MIN_PIECE_POINTS = 3  # a shorter piece of a stroke cannot be seen
_MAX_CELLS = 4_000_000


class Layer(NamedTuple):
    opacity: float | None  # None for plain ink, which needs no opacity
    strokes: Strokes
    word: Integers  # (strokes,)


def layers_of(page: Page, size: float) -> list[Layer]:
    """Return the layers of the visible ink, in drawing order; `size` is the cap height in points."""
    visible = page.visible_strokes()
    strokes, word = page.strokes.select(visible), page.stroke_word[visible]
    if page.ink is None or not len(strokes.x):
        return [Layer(None, strokes, word)]
    opacity = point_opacity(page, strokes, page.ink.select(np.repeat(visible, page.strokes.length)), size)
    is_contour = np.repeat((strokes.flags & OUTLINE_FLAG) > 0, strokes.length)
    steps = np.quantile(opacity, LAYER_QUANTILES)
    found, below = [], 0.0
    for number, step in enumerate(steps.tolist()):
        chosen = np.where(is_contour, number == 0, opacity >= (step if number else _FAINT_FACTOR * step))
        upper = steps[number + 1] if number + 1 < len(steps) else opacity.max()
        wanted = min(0.5 * (step + float(upper)) if number else step, 0.995)
        pieces, of_stroke = _cut_to_chosen(strokes, chosen)
        found.append(Layer(1 - (1 - wanted) / (1 - below), pieces, word[of_stroke]))
        below = wanted
    return found


def point_opacity(page: Page, strokes: Strokes, ink: InkFlow, size: float) -> Floats:
    """Return the opacity of the ink at each point of the strokes."""
    cell = max(size / 40, math.sqrt(page.width * page.height / _MAX_CELLS))
    deposit = Deposit.of(strokes, ink, size, (math.ceil(page.width), 0, math.ceil(page.height)), cell)
    _, passes = deposit.at(strokes.x, strokes.y)
    opacity: Floats = density(ink.kind, ink.flow.astype(np.float32) * layer_factor(ink.kind, passes)).astype(np.float64)
    return opacity


def _cut_to_chosen(strokes: Strokes, chosen: npt.NDArray[np.bool_]) -> tuple[Strokes, Integers]:
    """Return the runs of chosen points as strokes, and the number of the original stroke of each run."""
    stroke = strokes.stroke_of_point
    breaks = np.diff(stroke, prepend=-1) != 0
    breaks[1:] |= chosen[1:] != chosen[:-1]
    run = np.cumsum(breaks) - 1
    length = np.bincount(run)
    first = np.nonzero(breaks)[0]
    kept = chosen[first] & (length >= np.minimum(_MIN_PIECE_POINTS, strokes.length[stroke[first]]))
    points = kept[run]
    of_stroke = stroke[first[kept]]
    return (
        Strokes(strokes.x[points], strokes.y[points], strokes.radius[points], length[kept], strokes.flags[of_stroke]),
        of_stroke,
    )
