"""The lines of a natural page: the left margin drifts, lines rise or fall together, a trend runs down the page."""

from __future__ import annotations

import numpy as np

from toolkit.handwriting.ink.motion import BASELINE_WANDER
from toolkit.handwriting.ink.natural.habits import series
from toolkit.handwriting.ink.natural.penman import Penman
from toolkit.handwriting.ink.page import Lines
from toolkit.keyed_noise import KeyedNoise

MARGIN_DRIFT = 0.4  # cap heights, standard deviation
STEEPEST, SLOPE_DRIFT = 0.0175, 0.004
WANDER = 1.6  # times that of the wire's pages


def drifting_lines(penman: Penman, lines: int, noise: KeyedNoise) -> Lines:
    habits, shaper = penman.habits, penman.shaper
    trend = (np.arange(lines) + 0.5) / max(lines, 8) - 0.5
    margin = habits.margin + habits.margin_trend * trend + MARGIN_DRIFT * series(noise, "natural margin", lines, 0.3)
    slope = habits.line_slope * (1 + trend) + SLOPE_DRIFT * series(noise, "natural slope", lines)
    slope = np.minimum(np.maximum(slope, -STEEPEST), STEEPEST)
    wander = shaper.writer.wander * BASELINE_WANDER * WANDER
    return Lines(shaper.nib + np.maximum(margin, 0.0), slope, wander)
