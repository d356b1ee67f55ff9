"""Put the path of the pen on a page: baselines, left margin, automatic size, padding.

The lengths of a page are in points (a pixel is a point); y is measured downwards from the top of the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from toolkit.errors import InvalidParameters, Problem
from toolkit.handwriting.wire import FileKind
from toolkit_gateway.ink.baselines import Lines, dodge
from toolkit_gateway.ink.layout import Layout
from toolkit_gateway.ink.motion import WANDER_LENGTH, PenPath
from toolkit_gateway.ink.parameters import LENGTH_LIMITS, Parameters
from toolkit_gateway.ink.pen import InkFlow
from toolkit_gateway.ink.random_streams import Floats, Integers, RandomStreams
from toolkit_gateway.ink.ribbons import Mask, Strokes
from toolkit_gateway.ink.shaping import Shaper
from toolkit_gateway.ink.sheet import Sheet

# Factors on slope and drift of natural lines, tried until the ink fits on the page.
_DRIFT_SHARES = (1.0, 0.5, 0.2, 0.0)
_MAX_CUT_TEXT = 40  # characters
_NARROWEST = 0.95  # scale of a line that is wider than the page
_CUT_TOLERANCE = 0.5  # points; ink that leaves the page by less is not reported as cut off


@dataclass(frozen=True, slots=True)
class Page:
    """The ink of a page, y downwards."""

    strokes: Strokes
    word_of_stroke: Integers  # (strokes,) number of the word on the page
    letter_of_stroke: Integers  # (strokes,) number of the letter on the page
    width: float
    height: float
    baseline: Floats  # (lines,) y at the left end of each line
    word_x: Floats  # (words,) x of the start of each word
    word_end: Floats  # (words,) x of the end of each word
    word_y: Floats  # (words,) y of the baseline at the start of each word
    layout: Layout
    cut_line: int | None  # number of the first line with ink outside the page
    ink: InkFlow | None = None  # None for plain ink
    sheet: Sheet | None = None  # None for a transparent page

    @property
    def cut_text(self) -> str:
        """Return the beginning of the first line with ink outside the page, or an empty string."""
        text = "" if self.cut_line is None else self.layout.line_texts[self.cut_line]
        return text.strip()[:_MAX_CUT_TEXT]

    @property
    def ink_share(self) -> float:
        """Return the share of the page that ink covers, from the length and the width of the strokes."""
        # Where strokes cross, the area counts twice, but it is small.
        s = self.strokes
        inside = (s.x > 0) & (s.x < self.width) & (s.y > 0) & (s.y < self.height)
        area = float((s.steps()[:-1] * (s.radius[1:] + s.radius[:-1]))[inside[1:]].sum())
        return min(1.0, area / (self.width * self.height))

    def scaled(self, factor: float) -> Page:
        """Return the page with its size and its strokes multiplied by `factor`, to draw it."""
        s = self.strokes
        strokes = replace(s, x=s.x * factor, y=s.y * factor, radius=s.radius * factor)
        return replace(self, strokes=strokes, width=self.width * factor, height=self.height * factor)

    def visible(self) -> Page:
        """Return the page with only the strokes that have ink on it."""
        s = self.strokes

        def touching(low: Floats, high: Floats, limit: float) -> Mask:
            return (np.maximum.reduceat(high, s.start) > 0) & (np.minimum.reduceat(low, s.start) < limit)

        across = touching(s.x - s.radius, s.x + s.radius, self.width)
        return self.select(across & touching(s.y - s.radius, s.y + s.radius, self.height))

    def select(self, keep: Mask) -> Page:
        """Return the page with only the strokes for which `keep` is true."""
        if keep.all():
            return self
        return replace(
            self, strokes=self.strokes.select(keep), word_of_stroke=self.word_of_stroke[keep],
            letter_of_stroke=self.letter_of_stroke[keep],
            ink=None if self.ink is None else self.ink.select(np.repeat(keep, self.strokes.length)),
        )  # fmt: skip


def compose(
    parameters: Parameters, layout: Layout, path: PenPath, shaper: Shaper, noise: RandomStreams, lines: Lines
) -> Page:
    """Put the path of the pen on a page; lines of natural writing become straighter if their ink does not fit."""
    size, baseline = parameters.handwriting_size, lines.baseline
    word = np.repeat(path.word_of_stroke, path.strokes.length)
    line = layout.line[word]
    x, radius = path.strokes.x * size, path.strokes.radius * size
    shift, scale = _line_placement(parameters, layout, (x, radius, line))
    drift = noise.drift("wander", path.strokes.x / WANDER_LENGTH + line * 97.0)  # 97: lines drift separately
    x = x * scale[line] + shift[line]
    lift = lines.wander * size * drift + lines.slope[line] * x
    for share in _DRIFT_SHARES if parameters.natural else (1.0,):
        y = baseline[line] - path.strokes.y * size - share * lift
        if lines.dodges:
            y = y + dodge(x / size, y / size, line, word) * size
        width, height, dx, dy = _fit_page(parameters, shaper, float(baseline[-1]), (x, y, radius))
        outside = np.maximum(np.maximum(radius - x - dx, x + radius + dx - width),
                             np.maximum(radius - y - dy, y + radius + dy - height)) > _CUT_TOLERANCE  # fmt: skip
        if not outside.any():
            break
    word_x, word_end = (ends * size * scale[layout.line] + shift[layout.line] for ends in (path.begin, path.end))
    word_y = baseline[layout.line] - share * lines.slope[layout.line] * word_x
    return Page(
        replace(path.strokes, x=x + dx, y=y + dy, radius=radius), path.word_of_stroke, path.letter_of_stroke, width,
        height, baseline + dy, word_x + dx, word_end + dx, word_y + dy, layout,
        cut_line=int(line[outside].min()) if outside.any() else None,
    )  # fmt: skip


def _line_placement(
    parameters: Parameters, layout: Layout, ink: tuple[Floats, Floats, Integers]
) -> tuple[Floats, Floats]:
    """Return by how much each line moves right, and its scale, so that its ink ends before the right margin.

    A line is narrowed only if it is wider than the page, and by at most a twentieth: plain lines are broken by the
    widths of the font, and their words can be a little wider.
    """
    x, radius, line = ink
    first, last = np.full(layout.line_count, np.inf), np.full(layout.line_count, -np.inf)
    np.minimum.at(first, line, x - radius)
    np.maximum.at(last, line, x + radius)
    first, last = np.nan_to_num(first, posinf=0.0), np.nan_to_num(last, neginf=0.0)
    start: Floats = layout.start * parameters.handwriting_size
    scale: Floats = np.ones(layout.line_count)
    pen = 2 * float(radius.max(initial=0.0))  # the width of the pen is not scaled
    if parameters.width is not None:
        scale = np.clip((parameters.text_width - pen) / np.maximum(last - first - pen, 1e-9), _NARROWEST, 1.0)
        start = np.maximum(np.minimum(start, parameters.text_width - (last - first)), 0.0)
    return start - first * scale + pen / 2 * (1 - scale), scale


def _fit_page(
    parameters: Parameters, shaper: Shaper, last_baseline: float, ink: tuple[Floats, Floats, Floats]
) -> tuple[float, float, float, float]:
    """Return width and height of the page, and how far the text moves right and down.

    An automatic width or height fits the text. The text moves down if its ink is above the top margin, or above a page
    of automatic height. On a page of fixed height, natural writing moves up or down to have its ink between the margins
    at top and bottom. `min_padding` centres the ink, `align="middle"` only vertically.
    """
    x, y, radius = ink
    sides = ((x - radius).min(), (y - radius).min(), (x + radius).max(), (y + radius).max()) if len(x) else [0.0] * 4
    left, top, right, bottom = map(float, sides)
    size, margin, padding = parameters.handwriting_size, parameters.effective_margin, parameters.min_padding
    width, height, nib, drop = parameters.width, parameters.height, shaper.nib * size, 0.0
    if height is None and parameters.margin is None:
        drop = max(0.0, nib - top)
    elif height is not None and parameters.natural:
        room = height - margin.top - margin.bottom
        above, below = max(-top, 0.0), max(bottom - room, 0.0)
        drop = min(above, max(room - bottom, 0.0)) - min(below, max(top, 0.0))
    elif parameters.margin is not None:
        drop = max(0.0, -top)
    if width is None:
        width = _round_up("width", right + nib + margin.left + margin.right, parameters.kind)
    dx = margin.left if padding is None else max(padding, (width - (right - left)) / 2) - left
    if height is None:
        below = last_baseline + drop + size * max((parameters.line_spacing or 0.0) / 2, shaper.measures.descender)
        lowest = max(below, bottom + drop + nib)
        return width, _round_up("height", lowest + margin.top + margin.bottom, parameters.kind), dx, margin.top + drop
    if padding is None and parameters.align == "top":
        return width, height, dx, margin.top + drop
    centred = (height - (bottom - top) + (margin.top - margin.bottom)) / 2
    return width, height, dx, max(margin.top, centred) - top


def _round_up(name: str, length: float, kind: FileKind) -> float:
    """Round a length up to pixels (PNG) or hundredths of a point; raise InvalidParameters if it is too long."""
    units = 1 if kind == "png" else 100
    rounded = max(1, math.ceil(length * units - 1e-6)) / units
    maximum, limit_text = LENGTH_LIMITS[kind]
    if rounded > maximum:
        raise InvalidParameters([Problem(name, f"{name} auto exceeds {limit_text}")])
    return rounded
