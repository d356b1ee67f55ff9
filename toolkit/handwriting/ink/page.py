"""From the writer's trace to a page: baselines, left edge, squeezing of full lines, automatic size, padding.

Lengths are points from here on (a pixel is a point), y points down from the top of the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from toolkit.handwriting.ink.layout import Layout
from toolkit.handwriting.ink.motion import BASELINE_WANDER, LINE_SLOPE, MARGIN_WANDER, WANDER_LENGTH, Trace
from toolkit.handwriting.ink.ribbons import Strokes
from toolkit.handwriting.ink.shaping import Shaper
from toolkit.handwriting.parameters import LONGEST, Format, Parameters
from toolkit.handwriting.wire import InvalidParameters, Problem
from toolkit.keyed_noise import Floats, Integers, KeyedNoise


@dataclass(frozen=True, slots=True)
class Page:
    """Ink at its place.

    Attributes
    ----------
    strokes : Strokes
        In points, y downwards, radius in points.
    stroke_word, stroke_letter : integers of shape (strokes,)
        Word and letter of each stroke, counted through the page.
    width, height : float
        Size of the page.
    baseline : floats of shape (lines,)
        Baseline of each line at its left end.
    word_x, word_end, word_y : floats of shape (words,)
        Where each word begins and ends, and its baseline there.
    layout : Layout
        The words.
    overflow : bool
        Whether some ink lies outside the page.
    """

    strokes: Strokes
    stroke_word: Integers
    stroke_letter: Integers
    width: float
    height: float
    baseline: Floats
    word_x: Floats
    word_end: Floats
    word_y: Floats
    layout: Layout
    overflow: bool

    def seen(self) -> npt.NDArray[np.bool_]:
        """Return which strokes touch the page, shape (strokes,)."""
        s = self.strokes
        if not len(s.length):
            return np.zeros(0, bool)

        def touching(low: Floats, high: Floats, limit: float) -> npt.NDArray[np.bool_]:
            return (np.maximum.reduceat(high, s.start) > 0) & (np.minimum.reduceat(low, s.start) < limit)

        across = touching(s.x - s.radius, s.x + s.radius, self.width)
        return across & touching(s.y - s.radius, s.y + s.radius, self.height)


@dataclass(frozen=True, slots=True)
class _Edges:
    """How a line is moved to its place: page x = left + (x - ink) * squeeze."""

    left: Floats
    ink: Floats
    squeeze: Floats

    def place(self, x: Floats, line: Integers) -> Floats:
        return self.left[line] + (x - self.ink[line]) * self.squeeze[line]


def baselines(parameters: Parameters, lines: int, noise: KeyedNoise) -> Floats:
    """Return the baseline of every line: the first one pitch below the top, empty lines count."""
    size, spacing = parameters.handwriting_size, parameters.line_spacing
    pitch = size * spacing * (1 + parameters.line_spacing_variance * noise.uniform("line", lines))
    pitch[:1] = size * max(spacing, 1.0)  # the variance acts between lines; a first line at 0 would be hidden
    return np.cumsum(pitch)


def wrap_width(parameters: Parameters, shaper: Shaper) -> float | None:
    """Return the room for a line in cap heights, or None when lines are not wrapped."""
    if parameters.width is None:
        return None
    room = parameters.width - 2 * (parameters.min_padding or 0.0)
    return room / parameters.handwriting_size - 2 * shaper.nib


def compose(
    parameters: Parameters, layout: Layout, trace: Trace, shaper: Shaper, noise: KeyedNoise,
    baseline: Floats,
) -> Page:  # fmt: skip
    """Return the page of `layout`, whose ink is `trace` (radius in cap heights)."""
    size = parameters.handwriting_size
    writer = shaper.writer
    line = layout.line[trace.word]
    point_line = np.repeat(line, trace.strokes.length)
    x, radius = trace.strokes.x * size, trace.strokes.radius * size
    edges = _edges(parameters, layout, shaper, noise, (x, radius, point_line))
    slope = writer.wander * LINE_SLOPE * noise.gaussian("slope", layout.lines)
    drift = noise.drift("wander", trace.strokes.x / WANDER_LENGTH + point_line * 97.0)
    placed = edges.place(x, point_line)
    lift = writer.wander * BASELINE_WANDER * size * drift + slope[point_line] * placed
    y = baseline[point_line] - trace.strokes.y * size - lift
    advance = np.array([word.advance for word in layout.words])
    word_x = edges.place(layout.x * size, layout.line)
    word_end = edges.place((layout.x + advance) * size, layout.line)
    page = Page(
        Strokes(placed, y, radius, trace.strokes.length, trace.strokes.flags), trace.word, trace.letter, 0.0, 0.0,
        baseline, word_x, word_end, baseline[layout.line] - slope[layout.line] * word_x, layout, False,
    )  # fmt: skip
    return _padded(_sized(page, parameters, shaper), parameters)


def _edges(
    parameters: Parameters, layout: Layout, shaper: Shaper, noise: KeyedNoise,
    ink: tuple[Floats, Floats, Integers],
) -> _Edges:  # fmt: skip
    """Ink begins at the writer's left margin; a line that would run past the right edge is squeezed."""
    x, radius, line = ink
    size, lines = parameters.handwriting_size, layout.lines
    first, last = np.full(lines, np.inf), np.full(lines, -np.inf)
    np.minimum.at(first, line, x - radius)
    np.maximum.at(last, line, x)
    thickest = float(radius.max()) if len(radius) else 0.0  # squeezing moves the pen, it does not thin the ink
    inked = np.isfinite(first)
    first, last = np.where(inked, first, 0.0), np.where(inked, last, 0.0)
    indent = np.zeros(lines)
    indent[layout.line[layout.starts_line]] = layout.x[layout.starts_line] * size
    nib = shaper.nib * size
    left = nib + 0.5 * (1 + noise.uniform("margin", lines)) * MARGIN_WANDER * size + indent
    squeeze = np.ones(lines)
    if parameters.width is not None:
        room = parameters.width - 2 * (parameters.min_padding or 0.0) - left - thickest
        span = np.maximum(last - first, 1e-9)
        squeeze = np.where(room > 0, np.minimum(1.0, room / span), 1.0)
    return _Edges(left, first, squeeze)


def _ink(page: Page) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the ink."""
    s = page.strokes
    if not len(s.x):
        return 0.0, 0.0, 0.0, 0.0
    return (
        float((s.x - s.radius).min()), float((s.y - s.radius).min()),
        float((s.x + s.radius).max()), float((s.y + s.radius).max()),
    )  # fmt: skip


def _sized(page: Page, parameters: Parameters, shaper: Shaper) -> Page:
    """Give the page its width and height, from the text where they are automatic."""
    size, padding = parameters.handwriting_size, parameters.min_padding or 0.0
    _, _, right, bottom = _ink(page)
    nib = shaper.nib * size
    below = size * max(parameters.line_spacing / 2, shaper.measures.descender)
    natural = max(float(page.baseline[-1]) + below, bottom + nib)
    width, height = parameters.width, parameters.height
    if width is None:
        width = _fitting("width", right + nib + 2 * padding, parameters.kind)
    if height is None:
        height = _fitting("height", natural + 2 * padding, parameters.kind)
    return replace(page, width=width, height=height)


def _fitting(name: str, length: float, kind: Format) -> float:
    """Round an automatic length up: whole pixels for a PNG, hundredths of a point otherwise."""
    grain = 1 if kind == "png" else 100
    rounded = max(1, math.ceil(length * grain - 1e-6)) / grain
    longest, limit = LONGEST[kind]
    if rounded > longest:
        raise InvalidParameters([Problem(name, f"{name} auto exceeds {limit}")])
    return rounded


def _padded(page: Page, parameters: Parameters) -> Page:
    """Centre the ink when a padding is asked for; note whether it fits."""
    left, top, right, bottom = _ink(page)
    dx = dy = 0.0
    if parameters.min_padding is not None:
        padding = parameters.min_padding
        dx = max(padding, (page.width - (right - left)) / 2) - left
        dy = padding if parameters.height is None else max(padding, (page.height - (bottom - top)) / 2) - top
    tolerance = 0.5
    outside = (
        left + dx < -tolerance or top + dy < -tolerance
        or right + dx > page.width + tolerance or bottom + dy > page.height + tolerance
    )  # fmt: skip
    return _moved(replace(page, overflow=page.overflow or outside), dx, dy)


def _moved(page: Page, dx: float, dy: float) -> Page:
    if not dx and not dy:
        return page
    s = page.strokes
    return replace(
        page, strokes=replace(s, x=s.x + dx, y=s.y + dy), baseline=page.baseline + dy,
        word_x=page.word_x + dx, word_end=page.word_end + dx, word_y=page.word_y + dy,
    )  # fmt: skip
