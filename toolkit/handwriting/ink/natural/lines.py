"""The lines of a natural page: the left margin drifts, lines rise or fall together, slopes change down the page."""

from __future__ import annotations

import numpy as np

from toolkit.handwriting.ink.motion import BASELINE_WANDER
from toolkit.handwriting.ink.natural.penman import Penman
from toolkit.handwriting.ink.page import Lines
from toolkit.keyed_noise import Floats, Integers, KeyedNoise

MARGIN_STEP, MARGIN_UNEVEN = 0.25, 0.1  # cap heights: mean shift of the margin per line, and standard deviation
STEEPEST, SLOPE_DRIFT = 0.0175, 0.004  # largest slope of a line, and standard deviation of its drift
WANDER_FACTOR = 1.6  # on the baseline drift of pages that are not natural
_TREND_LINES = 16  # the trend of the slope ends after this number of lines
_COLUMN, _MOST_COLUMNS = 0.25, 256  # two lines are compared in columns: width in cap heights, largest number
_CLEAR, _FARTHEST = 0.1, 0.16  # cap heights: distance wanted between two lines, and how far a word moves down for it


def drifting_lines(penman: Penman, lines: int, noise: KeyedNoise) -> Lines:
    habits, shaper = penman.habits, penman.shaper
    trend = np.minimum(np.arange(lines) / _TREND_LINES, 1.0) - 0.5
    # Every line begins a little to one side of the line above; at a limit of the margin, the direction changes.
    step = MARGIN_STEP + MARGIN_UNEVEN * noise.gaussian("natural margin", lines)
    turn = 4 * habits.margin
    margin = turn * np.abs((noise.number("natural margin") + np.cumsum(step) / turn) % 1 - 0.5)
    slope = habits.line_slope * (1 + trend) + SLOPE_DRIFT * noise.series("natural slope", lines)
    slope = np.minimum(np.maximum(slope, -STEEPEST), STEEPEST)
    wander = shaper.writer.wander * BASELINE_WANDER * WANDER_FACTOR
    return Lines(shaper.nib + margin, slope, wander, dodge)


def dodge(x: Floats, y: Floats, line: Integers, word: Integers) -> Floats:
    """Return how far each point moves down, so that the ascenders of a word do not meet ink of the line above."""
    if not len(x):
        return x
    count, columns = int(line.max()) + 1, int(min(max(x.max() / _COLUMN, 0.0), _MOST_COLUMNS - 1)) + 1
    column = np.clip((x / _COLUMN).astype(np.int64), 0, columns - 1)
    lowest = np.full((count + 1, columns), -np.inf)  # of the line above: line 0 has none
    np.maximum.at(lowest, (line + 1, column), y)
    lowest[:, 1:] = np.maximum(lowest[:, 1:], lowest[:, :-1])
    need = np.zeros(int(word.max()) + 1)
    np.maximum.at(need, word, lowest[line, column] + _CLEAR - y)
    return np.minimum(need, _FARTHEST)[word]
