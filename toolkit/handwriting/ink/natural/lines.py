"""The lines of a natural page: the left margin drifts, lines rise or fall together, a trend runs down the page."""

from __future__ import annotations

import numpy as np

from toolkit.handwriting.ink.motion import BASELINE_WANDER
from toolkit.handwriting.ink.natural.habits import series
from toolkit.handwriting.ink.natural.penman import Penman
from toolkit.handwriting.ink.page import Lines
from toolkit.keyed_noise import Floats, Integers, KeyedNoise

MARGIN_STEP, MARGIN_UNEVEN = 0.25, 0.1  # cap heights from one line to the next, and their standard deviation
STEEPEST, SLOPE_DRIFT = 0.0175, 0.004
WANDER = 1.6  # times that of the wire's pages
_TREND_LINES = 16  # in which the slope goes from one end of its trend to the other
_COLUMN, _MOST_COLUMNS = 0.25, 256  # width in cap heights, and number, of columns in which two lines are compared
_CLEAR, _FARTHEST = 0.1, 0.16  # white that is wanted between two lines, and how far a word goes for it


def drifting_lines(penman: Penman, lines: int, noise: KeyedNoise) -> Lines:
    habits, shaper = penman.habits, penman.shaper
    trend = np.minimum(np.arange(lines) / _TREND_LINES, 1.0) - 0.5
    # Every line begins a little beside the one above it, until the margin is too narrow or too wide and comes back.
    step = MARGIN_STEP + MARGIN_UNEVEN * noise.gaussian("natural margin", lines)
    turn = 4 * habits.margin
    margin = turn * np.abs((noise.number("natural margin") + np.cumsum(step) / turn) % 1 - 0.5)
    slope = habits.line_slope * (1 + trend) + SLOPE_DRIFT * series(noise, "natural slope", lines)
    slope = np.minimum(np.maximum(slope, -STEEPEST), STEEPEST)
    wander = shaper.writer.wander * BASELINE_WANDER * WANDER
    return Lines(shaper.nib + margin, slope, wander, dodge)


def dodge(x: Floats, y: Floats, line: Integers, word: Integers) -> Floats:
    """Let words go down where their ascenders would meet ink of the line above; return how far each point goes."""
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
