"""The lines of a page: how far apart they are, where they begin, and how they rise, fall and drift.

Lengths are in cap heights, except the baselines of a page, which are in points.
"""

from functools import lru_cache
from string import ascii_letters, ascii_lowercase, digits
from typing import NamedTuple

import numpy as np

from toolkit_gateway.ink.layout import Layout
from toolkit_gateway.ink.motion import BASELINE_SLOPE, BASELINE_WANDER, WORD_BASELINE, WORD_TILT
from toolkit_gateway.ink.parameters import Parameters
from toolkit_gateway.ink.random_streams import Floats, Integers, RandomStreams
from toolkit_gateway.ink.shaping import Shaper
from toolkit_gateway.ink.sheet import STOCKS

MIN_LINE_SPACING = 1.5  # the default of the service
SLOPE_DRIFT_LINES = 9.0  # in a letter, the slope drifts over this many lines
GUIDED_SLOPE, GUIDED_WANDER = 0.12, 0.45  # factors on the slope and the drift of lines, on paper with rules
# -- natural writing --------------------------------------------------------------------------------------
MAX_SLOPE, SLOPE_DRIFT = 0.0175, 0.004  # largest slope of a line; standard deviation of slopes from their trend
WANDER_FACTOR = 1.6  # on BASELINE_WANDER, which is for writing that is not natural
_TREND_LINES = 16  # over this many lines, the slope grows from half of the writer's slope to one and a half
_DODGE_COLUMN, _MAX_COLUMNS = 0.25, 256  # lines are compared in columns: their width, and their largest number
_CLEARANCE, _MAX_DODGE = 0.1, 0.16  # distance wanted between two lines, and how far a word may move down for it
# -- line spacing of a letter -------------------------------------------------------------------------------
_COLUMN_WIDTH = 0.15  # two lines are compared in columns of this width
_LONG_WORD_LENGTH = 6.0
_NEAR_COLUMNS = 5  # the motion of the hand may move ink sideways by this many columns


class Lines(NamedTuple):
    """Where the lines of a page are, and how they differ from ruled lines."""

    baseline: Floats  # (lines,) y at the left end of each line, also of empty lines, in points
    slope: Floats  # (lines,) rise over run
    wander: float  # amplitude of the drift of the baseline
    dodges: bool  # whether words move down to avoid ink of the line above


def lines_of(parameters: Parameters, shaper: Shaper, count: int, noise: RandomStreams) -> Lines:
    slope = (_natural_slopes if parameters.natural else _plain_slopes)(parameters, shaper, count, noise)
    wander = shaper.writer.wander * BASELINE_WANDER * (WANDER_FACTOR if parameters.natural else 1.0)
    stock = STOCKS.get(parameters.paper)
    is_guided = stock is not None and bool(stock.rules)
    if is_guided:
        slope, wander = GUIDED_SLOPE * slope, GUIDED_WANDER * wander
    baseline = place_baselines(parameters, shaper, count, noise)
    return Lines(baseline, slope, wander, dodges=parameters.natural and not is_guided)


def place_baselines(parameters: Parameters, shaper: Shaper, count: int, noise: RandomStreams) -> Floats:
    """Return the y of every baseline, also of empty lines.

    The first baseline is a line spacing (at least a cap height) below the top. If the page has a margin, the tallest
    letters of the first line touch the margin.
    """
    size, spacing, change = parameters.handwriting_size, parameters.line_spacing or 0.0, noise.uniform("line", count)
    if parameters.is_multipage:  # the lines of a letter must not meet, so the variance only adds space
        change = 0.5 * (1 + change)
    pitch = size * spacing * (1 + parameters.line_spacing_variance * change)
    # The first line does not vary, and is not above the page even with a spacing of 0.
    pitch[:1] = size * (max(spacing, 1.0) if parameters.margin is None else ink_reach(shaper)[0])
    return np.cumsum(pitch)


def _plain_slopes(parameters: Parameters, shaper: Shaper, count: int, noise: RandomStreams) -> Floats:
    """Return the slopes of lines (not natural); in a letter they change slowly, or long lines would meet."""
    drift = noise.drift("slopes", np.arange(count) / SLOPE_DRIFT_LINES)
    slope = drift if parameters.is_multipage else noise.gaussian("slope", count)
    return shaper.writer.wander * BASELINE_SLOPE * slope


def _natural_slopes(parameters: Parameters, shaper: Shaper, count: int, noise: RandomStreams) -> Floats:
    trend = np.minimum(np.arange(count) / _TREND_LINES, 1.0) - 0.5
    slope = shaper.habits.line_slope * (1 + trend) + SLOPE_DRIFT * noise.series("natural slope", count)
    return np.minimum(np.maximum(slope, -MAX_SLOPE), MAX_SLOPE)


def dodge(x: Floats, y: Floats, line: Integers, word: Integers) -> Floats:
    """Return how far each point moves down, so that ascenders do not meet ink of the line above, if possible."""
    count, columns = int(line.max(initial=0)) + 1, int(min(x.max(initial=0.0) / _DODGE_COLUMN, _MAX_COLUMNS - 1)) + 1
    column = np.clip((x / _DODGE_COLUMN).astype(np.int64), 0, columns - 1)
    lowest = np.full((count + 1, columns), -np.inf)  # of the line above: line 0 has none
    np.maximum.at(lowest, (line + 1, column), y)
    lowest[:, 1:] = np.maximum(lowest[:, 1:], lowest[:, :-1])
    need = np.zeros(int(word.max(initial=0)) + 1)
    np.maximum.at(need, word, lowest[line, column] + _CLEARANCE - y)
    return np.minimum(need, _MAX_DODGE)[word]


@lru_cache(256)
def ink_reach(shaper: Shaper, characters: str = ascii_letters + digits + ".,;:!?'\"()&-/") -> tuple[float, float]:
    """Return how far the ink of the characters reaches above and below the baseline."""
    words = [shaper.word(character) for character in characters]
    y = np.concatenate([word.strokes.y + word.origin_y[word.letter_of_point] for word in words])
    return float(y.max()) + shaper.nib, shaper.nib - float(y.min())


def clear_line_spacing(shaper: Shaper, layout: Layout) -> float:
    """Return a line spacing at which a to z meet in no text, and all other characters do not meet in this layout."""
    small = sum(ink_reach(shaper, ascii_lowercase))
    return max(MIN_LINE_SPACING, max(small, _deepest_overlap(layout) + 2 * shaper.nib) + motion_reserve(shaper))


def motion_reserve(shaper: Shaper) -> float:
    """Return by how much the motion of the hand may bring two lines closer (three standard deviations)."""
    writer = shaper.writer
    words = (WORD_BASELINE + WORD_TILT * _LONG_WORD_LENGTH) * writer.shake
    return 3 * float(np.hypot(BASELINE_WANDER * writer.wander, words))


def _deepest_overlap(layout: Layout) -> float:
    """Return the line spacing at which ink of two neighbouring lines would just touch, without the width of the nib."""
    x = [start + w.origin_x[w.letter_of_point] + w.strokes.x for start, w in zip(layout.x, layout.words, strict=True)]
    y = np.concatenate([word.origin_y[word.letter_of_point] + word.strokes.y for word in layout.words])
    if not len(y):
        return 0.0
    column = np.maximum((np.concatenate(x) / _COLUMN_WIDTH).astype(np.int64) + _NEAR_COLUMNS, 0)
    line = np.repeat(layout.line, [len(word.letter_of_point) for word in layout.words])
    columns = int(column.max()) + 2 * _NEAR_COLUMNS
    # Only cells with ink are stored: an array of all lines and columns takes gigabytes if one line is very long.
    cell_of_point = line * columns + column
    run = np.flatnonzero(np.diff(cell_of_point, prepend=-1))  # first point of each run of points in one cell
    cells, cell_of_run = np.unique(cell_of_point[run], return_inverse=True)
    top, bottom = np.full(len(cells), -np.inf), np.full(len(cells), np.inf)
    np.maximum.at(top, cell_of_run, np.maximum.reduceat(y, run))
    np.minimum.at(bottom, cell_of_run, np.minimum.reduceat(y, run))
    is_right_of_margin = cells % columns >= _NEAR_COLUMNS
    deepest = 0.0
    for sideways in range(-_NEAR_COLUMNS, _NEAR_COLUMNS + 1):
        below = np.minimum(np.searchsorted(cells, cells + columns + sideways), len(cells) - 1)
        meet = is_right_of_margin & (cells[below] == cells + columns + sideways)
        deepest = max(deepest, float((top[below] - bottom)[meet].max(initial=0.0)))
    return deepest
