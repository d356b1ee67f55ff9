"""Put the path of the pen on a page: baselines, left margin, squeezing of long lines, automatic size, padding.

The lengths of a page are in points (a pixel is a point), and y points downwards from the top of the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.errors import InvalidParameters, Problem
from toolkit.handwriting.ink.layout import STRUCK_MARK, Layout
from toolkit.handwriting.ink.line_distance import ink_reach
from toolkit.handwriting.ink.motion import BASELINE_SLOPE, BASELINE_WANDER, MARGIN_WANDER, WANDER_LENGTH, PenPath
from toolkit.handwriting.ink.paper import Sheet
from toolkit.handwriting.ink.pen import InkFlow
from toolkit.handwriting.ink.ribbons import Strokes
from toolkit.handwriting.ink.shaping import Shaper
from toolkit.handwriting.parameters import MAX_DISTANCE, Parameters
from toolkit.handwriting.wire import Format
from toolkit.keyed_noise import Floats, Integers, KeyedNoise

_DRIFT_SHARES = (1.0, 0.5, 0.2, 0.0)  # factors on slope and drift of free lines, tried until the ink fits on the page
SLOPE_DRIFT_LINES = 9.0  # the slope of lines changes over this many lines of a letter
_MAX_CUT_TEXT = 40  # characters
_CUT_TOLERANCE = 0.5  # ink may leave the page by this many points without being reported as cut off


@dataclass(frozen=True, slots=True)
class Page:
    """The ink of a page, y downwards."""

    strokes: Strokes
    stroke_word: Integers  # (strokes,) number of the word on the page
    stroke_letter: Integers  # (strokes,)
    width: float
    height: float
    baseline: Floats  # (lines,) at the left end of each line
    word_x: Floats  # (words,) start of each word
    word_end: Floats  # (words,)
    word_y: Floats  # (words,) the baseline at the start of each word
    layout: Layout
    cut_line: int | None  # the first line with ink outside the page
    ink: InkFlow | None = None  # None is plain ink
    sheet: Sheet | None = None  # None is transparent

    @property
    def cut_text(self) -> str:
        """Return the beginning of the first line with ink outside the page."""
        text = "" if self.cut_line is None else self.layout.text[self.cut_line]
        return text.replace(STRUCK_MARK, "").strip()[:_MAX_CUT_TEXT]

    def visible_strokes(self) -> npt.NDArray[np.bool_]:
        s = self.strokes
        if not len(s.length):
            return np.zeros(0, bool)

        def touching(low: Floats, high: Floats, limit: float) -> npt.NDArray[np.bool_]:
            return (np.maximum.reduceat(high, s.start) > 0) & (np.minimum.reduceat(low, s.start) < limit)

        across = touching(s.x - s.radius, s.x + s.radius, self.width)
        return across & touching(s.y - s.radius, s.y + s.radius, self.height)


def baselines(parameters: Parameters, lines: int, noise: KeyedNoise, shaper: Shaper) -> Floats:
    """Return the y of every baseline, also of empty lines.

    The first baseline is one line spacing below the top; with a margin, tall letters of the first line touch it.
    """
    size, spacing, change = parameters.handwriting_size, parameters.line_spacing or 0.0, noise.uniform("line", lines)
    if parameters.is_letter:  # the lines of a letter must not meet, so the variance only adds space
        change = 0.5 * (1 + change)
    pitch = size * spacing * (1 + parameters.line_spacing_variance * change)
    # The first line does not vary, and with a spacing of 0 it would be above the page.
    pitch[:1] = size * (max(spacing, 1.0) if parameters.margin is None else ink_reach(shaper).above)
    return np.cumsum(pitch)


class Lines(NamedTuple):
    """How the lines of a page differ from ruled lines; lengths in cap heights."""

    margin: Floats  # (lines,) from the left edge to the ink
    slope: Floats  # (lines,) rise over run
    wander: float  # amplitude of the drift of the baseline
    # For free lines: maps x, y, line and word of points to the distance by which each point moves down, so that lines
    # do not meet. All ink of free lines is kept on the page; lines become straighter if they do not fit.
    dodge: Callable[[Floats, Floats, Integers, Integers], Floats] | None = None


def straight_lines(parameters: Parameters, shaper: Shaper, lines: int, noise: KeyedNoise) -> Lines:
    wander = shaper.writer.wander
    margin = shaper.nib + 0.5 * (1 + noise.uniform("margin", lines)) * MARGIN_WANDER
    return Lines(margin, wander * BASELINE_SLOPE * _slopes(parameters, lines, noise), wander * BASELINE_WANDER)


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
    for share in (1.0,) if lines.dodge is None else _DRIFT_SHARES:
        y = baseline[point_line] - path.strokes.y * size - share * lift
        if lines.dodge is not None:
            y = y + lines.dodge(x / size, y / size, point_line, np.repeat(path.word, path.strokes.length)) * size
        ink = _box(x, y, radius)
        drop = _text_drop(parameters, shaper, ink, is_free=lines.dodge is not None)
        width, height = _size(parameters, shaper, float(baseline[-1]) + drop, ink._replace(bottom=ink.bottom + drop))
        dx, dy = _ink_shift(parameters, width, height, ink, drop)
        outside = np.maximum(np.maximum(radius - x - dx, x + radius + dx - width),
                             np.maximum(radius - y - dy, y + radius + dy - height)) > _CUT_TOLERANCE  # fmt: skip
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
    """Return a function that maps x and line number to x on the page; long lines are squeezed to the right margin."""
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
    """Return the slope of each line; in a letter, slopes change slowly from line to line, or long lines would meet."""
    if parameters.is_letter:
        return noise.drift("slopes", np.arange(lines) / SLOPE_DRIFT_LINES)
    return noise.gaussian("slope", lines)


def _text_drop(parameters: Parameters, shaper: Shaper, ink: _Box, *, is_free: bool) -> float:
    """Return how far the text moves down so that no ink is above the margin, or above a page of automatic height.

    Free lines move down (or up, if negative) so that all ink is on the page.
    """
    height, edges = parameters.height, parameters.edges
    if height is None and parameters.margin is None:
        return max(0.0, shaper.nib * parameters.handwriting_size - ink.top)
    if is_free and height is not None:
        room = height - edges.top - edges.bottom
        above, below = max(-ink.top, 0.0), max(ink.bottom - room, 0.0)
        return min(above, max(room - ink.bottom, 0.0)) - min(below, max(ink.top, 0.0))
    return 0.0 if parameters.margin is None else max(0.0, -ink.top)


def _size(parameters: Parameters, shaper: Shaper, last_baseline: float, ink: _Box) -> tuple[float, float]:
    """Return width and height of the page; an automatic width or height fits the text."""
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
    """Round a length up to pixels (PNG) or hundredths of a point; raise InvalidParameters if it is too long."""
    grain = 1 if kind == "png" else 100
    rounded = max(1, math.ceil(length * grain - 1e-6)) / grain
    longest, limit = MAX_DISTANCE[kind]
    if rounded > longest:
        raise InvalidParameters([Problem(name, f"{name} auto exceeds {limit}")])
    return rounded


def _ink_shift(parameters: Parameters, width: float, height: float, ink: _Box, drop: float) -> tuple[float, float]:
    """Return how far the ink moves right and down; `min_padding` centres it."""
    edges, padding = parameters.edges, parameters.min_padding
    dx = edges.left if padding is None else max(padding, (width - (ink.right - ink.left)) / 2) - ink.left
    if parameters.height is None or (padding is None and parameters.align == "top"):
        return dx, edges.top + drop
    centred = (height - (ink.bottom - ink.top) + (edges.top - edges.bottom)) / 2
    return dx, max(edges.top, centred) - ink.top
