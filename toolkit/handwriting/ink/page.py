"""Put the path of the pen on a page: baselines, left margin, squeezing of long lines, automatic size, padding.

From here on lengths are in points (a pixel is a point), and y points downwards from the top of the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.errors import InvalidParameters, Problem
from toolkit.handwriting.ink.layout import STRUCK, Layout
from toolkit.handwriting.ink.line_distance import reach
from toolkit.handwriting.ink.motion import BASELINE_WANDER, LINE_SLOPE, MARGIN_WANDER, WANDER_LENGTH, PenPath
from toolkit.handwriting.ink.paper import Sheet
from toolkit.handwriting.ink.pens import Ink
from toolkit.handwriting.ink.ribbons import Strokes
from toolkit.handwriting.ink.shaping import Shaper
from toolkit.handwriting.parameters import LONGEST, Parameters
from toolkit.handwriting.wire import Format
from toolkit.keyed_noise import Floats, Integers, KeyedNoise

_SHARES = (1.0, 0.5, 0.2, 0.0)  # of the slope and the drift of free lines, tried until the ink fits on the page
SLOPE_LINES = 9.0  # lines of a letter over which their slope changes
_SHOWN = 40  # characters of a line that is cut
_TOLERANCE = 0.5  # points that ink may leave the page without counting as cut off


@dataclass(frozen=True, slots=True)
class Page:
    """The ink of a page, y downwards."""

    strokes: Strokes
    stroke_word: Integers  # (strokes,) number of the word on the page
    stroke_letter: Integers  # (strokes,)
    width: float
    height: float
    baseline: Floats  # (lines,) at the left end of each line
    word_x: Floats  # (words,) where each word begins
    word_end: Floats  # (words,)
    word_y: Floats  # (words,) the baseline where each word begins
    layout: Layout
    cut_line: int | None  # the first line with ink outside the page
    ink: Ink | None = None  # None is plain ink
    sheet: Sheet | None = None  # None is transparent

    @property
    def cut_text(self) -> str:
        """Return the beginning of the first line with ink outside the page."""
        return "" if self.cut_line is None else self.layout.text[self.cut_line].replace(STRUCK, "").strip()[:_SHOWN]

    def visible_strokes(self) -> npt.NDArray[np.bool_]:
        s = self.strokes
        if not len(s.length):
            return np.zeros(0, bool)

        def touching(low: Floats, high: Floats, limit: float) -> npt.NDArray[np.bool_]:
            return (np.maximum.reduceat(high, s.start) > 0) & (np.minimum.reduceat(low, s.start) < limit)

        across = touching(s.x - s.radius, s.x + s.radius, self.width)
        return across & touching(s.y - s.radius, s.y + s.radius, self.height)


def baselines(parameters: Parameters, lines: int, noise: KeyedNoise, shaper: Shaper) -> Floats:
    """Return the baseline of every line, empty ones included.

    The first is one pitch below the top; with a margin, the tall letters of the first line begin at the margin.
    """
    size, spacing, change = parameters.handwriting_size, parameters.line_spacing or 0.0, noise.uniform("line", lines)
    if parameters.is_letter:  # lines are kept clear of each other, so the variance adds only
        change = 0.5 * (1 + change)
    pitch = size * spacing * (1 + parameters.line_spacing_variance * change)
    # No variance, and a first line at 0 would be hidden.
    pitch[:1] = size * (max(spacing, 1.0) if parameters.margin is None else reach(shaper).above)
    return np.cumsum(pitch)


class Lines(NamedTuple):
    """How the lines of a page differ from ruled ones; lengths in cap heights."""

    margin: Floats  # (lines,) from the left edge to the ink
    slope: Floats  # (lines,) rise over run
    wander: float  # amplitude of the drift of the baseline
    # Returns how far down each point goes, from x, y, line and word of the points, so that lines stay apart. With it
    # the ink is kept on the page, and lines become straighter where it does not fit.
    dodge: Callable[[Floats, Floats, Integers, Integers], Floats] | None = None


def straight_lines(parameters: Parameters, shaper: Shaper, lines: int, noise: KeyedNoise) -> Lines:
    wander = shaper.writer.wander
    margin = shaper.nib + 0.5 * (1 + noise.uniform("margin", lines)) * MARGIN_WANDER
    return Lines(margin, wander * LINE_SLOPE * _slopes(parameters, lines, noise), wander * BASELINE_WANDER)


def compose(
    parameters: Parameters, layout: Layout, path: PenPath, shaper: Shaper, noise: KeyedNoise, baseline: Floats,
    lines: Lines,
) -> Page:  # fmt: skip
    size, slope = parameters.handwriting_size, lines.slope
    point_line = np.repeat(layout.line[path.word], path.strokes.length)
    x, radius = path.strokes.x * size, path.strokes.radius * size
    place = _placement(parameters, layout, lines.margin, (x, radius, point_line))
    drift = noise.drift("wander", path.strokes.x / WANDER_LENGTH + point_line * 97.0)
    x = place(x, point_line)
    lift = lines.wander * size * drift + slope[point_line] * x
    for share in (1.0,) if lines.dodge is None else _SHARES:
        y = baseline[point_line] - path.strokes.y * size - share * lift
        if lines.dodge is not None:
            y = y + lines.dodge(x / size, y / size, point_line, np.repeat(path.word, path.strokes.length)) * size
        ink = _box(x, y, radius)
        drop = _drop(parameters, shaper, ink, is_free=lines.dodge is not None)
        width, height = _sides(parameters, shaper, float(baseline[-1]) + drop, ink._replace(bottom=ink.bottom + drop))
        dx, dy = _shift(parameters, width, height, ink, drop)
        outside = np.maximum(np.maximum(radius - x - dx, x + radius + dx - width),
                             np.maximum(radius - y - dy, y + radius + dy - height)) > _TOLERANCE  # fmt: skip
        if not outside.any():
            break
    cut_line = int(point_line[outside].min()) if outside.any() else None
    word_x, word_end = place(path.begin * size, layout.line), place(path.end * size, layout.line)
    word_y = baseline[layout.line] - share * slope[layout.line] * word_x
    return Page(
        replace(path.strokes, x=x + dx, y=y + dy, radius=radius), path.word, path.letter, width, height,
        baseline + dy, word_x + dx, word_end + dx, word_y + dy, layout, cut_line,
    )  # fmt: skip


def _placement(
    parameters: Parameters, layout: Layout, margin: Floats, ink: tuple[Floats, Floats, Integers]
) -> Callable[[Floats, Integers], Floats]:
    """Return a function that maps x and line to x on the page; it squeezes long lines to the right margin."""
    x, radius, line = ink
    size, lines = parameters.handwriting_size, layout.lines
    first, last = np.full(lines, np.inf), np.full(lines, -np.inf)
    np.minimum.at(first, line, x - radius)
    np.maximum.at(last, line, x)
    thickest = float(radius.max()) if len(radius) else 0.0  # squeezing does not make the ink thinner
    inked = np.isfinite(first)
    first, last = np.where(inked, first, 0.0), np.where(inked, last, 0.0)
    indent = np.zeros(lines)
    indent[layout.line[layout.starts_line]] = layout.x[layout.starts_line] * size
    left = margin * size + indent
    squeeze = np.ones(lines)
    if parameters.width is not None:
        room = parameters.text_width - left - thickest
        span = np.maximum(last - first, 1e-9)
        squeeze = np.where(room > 0, np.minimum(1.0, room / span), 1.0)
    return lambda x, line: left[line] + (x - first[line]) * squeeze[line]


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float


def _box(x: Floats, y: Floats, radius: Floats) -> _Box:
    if not len(x):
        return _Box(0.0, 0.0, 0.0, 0.0)
    sides = (x - radius).min(), (y - radius).min(), (x + radius).max(), (y + radius).max()
    return _Box(*map(float, sides))


def _slopes(parameters: Parameters, lines: int, noise: KeyedNoise) -> Floats:
    """Return the slope of each line; on a page of a letter one follows the line above, or long lines would meet."""
    if parameters.is_letter:
        return noise.drift("slopes", np.arange(lines) / SLOPE_LINES)
    return noise.gaussian("slope", lines)


def _drop(parameters: Parameters, shaper: Shaper, ink: _Box, *, is_free: bool) -> float:
    """Return how far the text moves down so that no ink is above the margin, or above a page of automatic height.

    Free lines have no fixed place: they move down, or up if negative, so that all of their ink is on the page.
    """
    height, edges = parameters.height, parameters.edges
    if height is None and parameters.margin is None:
        return max(0.0, shaper.nib * parameters.handwriting_size - ink.top)
    if is_free and height is not None:
        room = height - edges.top - edges.bottom
        above, below = max(-ink.top, 0.0), max(ink.bottom - room, 0.0)
        return min(above, max(room - ink.bottom, 0.0)) - min(below, max(ink.top, 0.0))
    return 0.0 if parameters.margin is None else max(0.0, -ink.top)


def _sides(parameters: Parameters, shaper: Shaper, last_baseline: float, ink: _Box) -> tuple[float, float]:
    """Return width and height of the page; automatic ones fit the text."""
    size, edges = parameters.handwriting_size, parameters.edges
    nib = shaper.nib * size
    width, height = parameters.width, parameters.height
    if width is None:
        width = _round_up("width", ink.right + nib + edges.left + edges.right, parameters.kind)
    if height is None:
        below = size * max((parameters.line_spacing or 0.0) / 2, shaper.measures.descender)
        below = max(last_baseline + below, ink.bottom + nib)
        height = _round_up("height", below + edges.top + edges.bottom, parameters.kind)
    return width, height


def _round_up(name: str, length: float, kind: Format) -> float:
    """Round an automatic length up to pixels (PNG) or hundredths of a point; raise InvalidParameters if too long."""
    grain = 1 if kind == "png" else 100
    rounded = max(1, math.ceil(length * grain - 1e-6)) / grain
    longest, limit = LONGEST[kind]
    if rounded > longest:
        raise InvalidParameters([Problem(name, f"{name} auto exceeds {limit}")])
    return rounded


def _shift(parameters: Parameters, width: float, height: float, ink: _Box, drop: float) -> tuple[float, float]:
    """Return how far the ink moves right and down; `min_padding` centres it."""
    edges, padding = parameters.edges, parameters.min_padding
    dx = edges.left if padding is None else max(padding, (width - (ink.right - ink.left)) / 2) - ink.left
    if parameters.height is None or (padding is None and parameters.align == "top"):
        return dx, edges.top + drop
    centred = (height - (ink.bottom - ink.top) + (edges.top - edges.bottom)) / 2
    return dx, max(edges.top, centred) - ink.top
