"""The line spacing at which the ink of two lines of a hand does not meet."""

from __future__ import annotations

from functools import lru_cache
from string import ascii_letters, ascii_lowercase, digits
from typing import NamedTuple

import numpy as np

from toolkit.handwriting.ink.layout import Layout
from toolkit.handwriting.ink.motion import BASELINE_WANDER, WORD_BASELINE, WORD_TILT
from toolkit.handwriting.ink.shaping import Shaper

MIN_LINE_SPACING = 1.5  # the default of the service
_COLUMN_WIDTH = 0.15  # cap heights; two lines are compared in columns of this width
_LONG_WORD_LENGTH = 6.0  # cap heights
_NEAR_COLUMNS = 5  # the motion of the hand may move ink sideways by this many columns


class InkReach(NamedTuple):
    """How far ink reaches above and below the baseline, in cap heights."""

    above: float
    below: float


@lru_cache(256)
def ink_reach(shaper: Shaper, characters: str = ascii_letters + digits + ".,;:!?'\"()&-/") -> InkReach:
    words = [shaper.word(character) for character in characters]
    y = np.concatenate([word.strokes.y + word.origin_y[word.letter] for word in words])
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
    if not layout.words:
        return 0.0
    x = [at + word.origin_x[word.letter] + word.strokes.x for at, word in zip(layout.x, layout.words, strict=True)]
    y = np.concatenate([word.origin_y[word.letter] + word.strokes.y for word in layout.words])
    if not len(y):
        return 0.0
    column = np.maximum((np.concatenate(x) / _COLUMN_WIDTH).astype(np.int64) + _NEAR_COLUMNS, 0)
    line = np.repeat(layout.line, [len(word.letter) for word in layout.words])
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
