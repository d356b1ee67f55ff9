"""The lines of a page: how far apart they are, where they begin, and how they rise, fall and drift.

Lengths are in cap heights, except the baselines of a page, which are in points.
"""

from functools import lru_cache
from string import ascii_letters, ascii_lowercase, digits
from typing import NamedTuple

import numpy as np

from toolkit.handwriting.ink.layout import Layout
from toolkit.handwriting.ink.motion import BASELINE_SLOPE, BASELINE_WANDER, MARGIN_WANDER, WORD_BASELINE, WORD_TILT
from toolkit.handwriting.ink.paper import STOCKS
from toolkit.handwriting.ink.shaping import Shaper
from toolkit.handwriting.parameters import Parameters
from toolkit.keyed_noise import Floats, Integers, KeyedNoise

MIN_LINE_SPACING = 1.5  # the default of the service
SLOPE_DRIFT_LINES = 9.0  # the slope of lines changes over this many lines of a letter
GUIDED_SLOPE, GUIDED_WANDER = 0.12, 0.45  # factors of ruled paper on the slope and the drift of lines
# Of natural writing.
MARGIN_STEP, MARGIN_UNEVEN = 0.25, 0.1  # mean shift of the margin per line, and standard deviation
STEEPEST, SLOPE_DRIFT = 0.0175, 0.004  # largest slope of a line, and standard deviation of its drift
WANDER_FACTOR = 1.6  # on the baseline drift of pages that are not natural
_TREND_LINES = 16  # the trend of the slope ends after this number of lines
_DODGE_COLUMN, _MOST_COLUMNS = 0.25, 256  # lines are compared in columns: width, largest number
_CLEAR, _FARTHEST = 0.1, 0.16  # distance wanted between two lines, and how far a word moves down for it
# Of the search for the line spacing of a letter.
_COLUMN_WIDTH = 0.15  # two lines are compared in columns of this width
_LONG_WORD_LENGTH = 6.0
_NEAR_COLUMNS = 5  # the motion of the hand may move ink sideways by this many columns


class InkReach(NamedTuple):
    """How far ink reaches above and below the baseline."""

    above: float
    below: float


class Lines(NamedTuple):
    """Where the lines of a page are, and how they differ from ruled lines."""

    baseline: Floats  # (lines,) y at the left end of each line, also of empty lines, in points
    margin: Floats  # (lines,) from the left edge to the ink
    slope: Floats  # (lines,) rise over run
    wander: float  # amplitude of the drift of the baseline
    dodges: bool  # whether words move down to avoid ink of the line above


def lines_of(parameters: Parameters, shaper: Shaper, count: int, noise: KeyedNoise) -> Lines:
    margin, slope = (_drifting if parameters.natural else _straight)(parameters, shaper, count, noise)
    wander = shaper.writer.wander * BASELINE_WANDER * (WANDER_FACTOR if parameters.natural else 1.0)
    stock = STOCKS.get(parameters.paper)
    is_guided = stock is not None and bool(stock.rules)
    if is_guided:
        slope, wander = GUIDED_SLOPE * slope, GUIDED_WANDER * wander
    baseline = place_baselines(parameters, shaper, count, noise)
    return Lines(baseline, margin, slope, wander, dodges=parameters.natural and not is_guided)


def place_baselines(parameters: Parameters, shaper: Shaper, count: int, noise: KeyedNoise) -> Floats:
    """Return the y of every baseline, also of empty lines.

    The first baseline is one line spacing below the top; with a margin, tall letters of the first line touch it.
    """
    size, spacing, change = parameters.handwriting_size, parameters.line_spacing or 0.0, noise.uniform("line", count)
    if parameters.is_letter:  # the lines of a letter must not meet, so the variance only adds space
        change = 0.5 * (1 + change)
    pitch = size * spacing * (1 + parameters.line_spacing_variance * change)
    # The first line does not vary, and with a spacing of 0 it would be above the page.
    pitch[:1] = size * (max(spacing, 1.0) if parameters.margin is None else ink_reach(shaper).above)
    return np.cumsum(pitch)


def _straight(parameters: Parameters, shaper: Shaper, count: int, noise: KeyedNoise) -> tuple[Floats, Floats]:
    """Return margin and slope of every line; in a letter, slopes change slowly, or long lines would meet."""
    margin = shaper.nib + 0.5 * (1 + noise.uniform("margin", count)) * MARGIN_WANDER
    drift = noise.drift("slopes", np.arange(count) / SLOPE_DRIFT_LINES)
    slope = drift if parameters.is_letter else noise.gaussian("slope", count)
    return margin, shaper.writer.wander * BASELINE_SLOPE * slope


def _drifting(parameters: Parameters, shaper: Shaper, count: int, noise: KeyedNoise) -> tuple[Floats, Floats]:
    """Return margin and slope of every line of natural writing."""
    habits = shaper.habits
    trend = np.minimum(np.arange(count) / _TREND_LINES, 1.0) - 0.5
    # Every line begins a little to one side of the line above; at a limit of the margin, the direction changes.
    step = MARGIN_STEP + MARGIN_UNEVEN * noise.gaussian("natural margin", count)
    turn = 4 * habits.margin
    margin = turn * np.abs((noise.number("natural margin") + np.cumsum(step) / turn) % 1 - 0.5)
    slope = habits.line_slope * (1 + trend) + SLOPE_DRIFT * noise.series("natural slope", count)
    return shaper.nib + margin, np.minimum(np.maximum(slope, -STEEPEST), STEEPEST)


def dodge(x: Floats, y: Floats, line: Integers, word: Integers) -> Floats:
    """Return how far each point moves down, so that the ascenders of a word do not meet ink of the line above."""
    count, columns = int(line.max(initial=0)) + 1, int(min(x.max(initial=0.0) / _DODGE_COLUMN, _MOST_COLUMNS - 1)) + 1
    column = np.clip((x / _DODGE_COLUMN).astype(np.int64), 0, columns - 1)
    lowest = np.full((count + 1, columns), -np.inf)  # of the line above: line 0 has none
    np.maximum.at(lowest, (line + 1, column), y)
    lowest[:, 1:] = np.maximum(lowest[:, 1:], lowest[:, :-1])
    need = np.zeros(int(word.max(initial=0)) + 1)
    np.maximum.at(need, word, lowest[line, column] + _CLEAR - y)
    return np.minimum(need, _FARTHEST)[word]


@lru_cache(256)
def ink_reach(shaper: Shaper, characters: str = ascii_letters + digits + ".,;:!?'\"()&-/") -> InkReach:
    words = [shaper.word(character) for character in characters]
    y = np.concatenate([word.strokes.y + word.origin_y[word.point_letter] for word in words])
    return InkReach(float(y.max()) + shaper.nib, shaper.nib - float(y.min()))


def clear_line_spacing(shaper: Shaper, layout: Layout) -> float:
    """Return a line spacing at which small letters never meet, and other letters do not meet in this layout."""
    small = sum(ink_reach(shaper, ascii_lowercase))
    return max(MIN_LINE_SPACING, max(small, _deepest_overlap(layout) + 2 * shaper.nib) + motion_reserve(shaper))


def motion_reserve(shaper: Shaper) -> float:
    """Return by how much the motion of the hand may bring two lines together (three standard deviations)."""
    writer = shaper.writer
    words = (WORD_BASELINE + WORD_TILT * _LONG_WORD_LENGTH) * writer.shake
    return 3 * float(np.hypot(BASELINE_WANDER * writer.wander, words))


def _deepest_overlap(layout: Layout) -> float:
    """Return the largest sum, in one column, of the depth of a line and the height of the next, without the nib."""
    words = zip(layout.x, layout.words, strict=True)
    x = [start + word.origin_x[word.point_letter] + word.strokes.x for start, word in words]
    y = np.concatenate([word.origin_y[word.point_letter] + word.strokes.y for word in layout.words])
    if not len(y):
        return 0.0
    column = np.maximum((np.concatenate(x) / _COLUMN_WIDTH).astype(np.int64) + _NEAR_COLUMNS, 0)
    line = np.repeat(layout.line, [len(word.point_letter) for word in layout.words])
    wide = int(column.max()) + 2 * _NEAR_COLUMNS
    # Only cells with ink are stored: an array of all lines and columns takes gigabytes if one line is very long.
    cells, at = np.unique(line * wide + column, return_inverse=True)
    top, bottom = np.full(len(cells), -np.inf), np.full(len(cells), np.inf)
    np.maximum.at(top, at, y)
    np.minimum.at(bottom, at, y)
    is_right_of_margin = cells % wide >= _NEAR_COLUMNS
    closest = 0.0
    for aside in range(-_NEAR_COLUMNS, _NEAR_COLUMNS + 1):
        below = np.minimum(np.searchsorted(cells, cells + wide + aside), len(cells) - 1)
        meet = is_right_of_margin & (cells[below] == cells + wide + aside)
        closest = max(closest, float((top[below] - bottom)[meet].max(initial=0.0)))
    return closest
