"""How far apart the lines of a hand must be so that their ink does not meet."""

from __future__ import annotations

from functools import lru_cache
from string import ascii_letters, ascii_lowercase, digits
from typing import NamedTuple

import numpy as np

from toolkit.handwriting.ink.layout import Layout
from toolkit.handwriting.ink.motion import BASELINE_WANDER, WORD_BASELINE, WORD_TILT
from toolkit.handwriting.ink.shaping import Shaper

LEAST = 1.5  # the default of the service
_COLUMN = 0.15  # cap heights; the ink of two lines is compared column by column
_LONG_WORD = 6.0  # cap heights
_NEAR = 5  # columns by which the motion of the hand may move ink to the side


class Reach(NamedTuple):
    """In cap heights from the baseline."""

    above: float
    below: float


@lru_cache(256)
def reach(shaper: Shaper, characters: str = ascii_letters + digits + ".,;:!?'\"()&-/") -> Reach:
    """Return how far the ink of these characters reaches."""
    words = [shaper.word(character) for character in characters]
    y = np.concatenate([word.strokes.y + word.origin_y[word.letter] for word in words])
    return Reach(float(y.max()) + shaper.nib, shaper.nib - float(y.min()))


def clear_line_spacing(shaper: Shaper, layout: Layout) -> float:
    """Return a line spacing at which small letters never meet, nor any other letters that are above each other."""
    small = sum(reach(shaper, ascii_lowercase))
    return max(LEAST, max(small, _closest(layout) + 2 * shaper.nib) + unrest(shaper))


def unrest(shaper: Shaper) -> float:
    """Return how much nearer the motion of the hand may bring two lines: three standard deviations."""
    writer = shaper.writer
    words = (WORD_BASELINE + WORD_TILT * _LONG_WORD) * writer.shake
    return 3 * float(np.hypot(BASELINE_WANDER * writer.wander, words))


def _closest(layout: Layout) -> float:
    """Return the greatest depth of a line plus the height of the next one in the same column, without the pen."""
    if not layout.words:
        return 0.0
    x = [at + word.origin_x[word.letter] + word.strokes.x for at, word in zip(layout.x, layout.words, strict=True)]
    y = np.concatenate([word.origin_y[word.letter] + word.strokes.y for word in layout.words])
    if not len(y):
        return 0.0
    column = np.maximum((np.concatenate(x) / _COLUMN).astype(np.int64) + _NEAR, 0)
    line = np.repeat(layout.line, [len(word.letter) for word in layout.words])
    wide = int(column.max()) + 2 * _NEAR
    # Only cells with ink: an array of all lines and columns takes gigabytes if one line is long and the others short.
    cells, at = np.unique(line * wide + column, return_inverse=True)
    top, bottom = np.full(len(cells), -np.inf), np.full(len(cells), np.inf)
    np.maximum.at(top, at, y)
    np.minimum.at(bottom, at, y)
    is_right_of_margin = cells % wide >= _NEAR
    closest = 0.0
    for aside in range(-_NEAR, _NEAR + 1):
        below = np.minimum(np.searchsorted(cells, cells + wide + aside), len(cells) - 1)
        meet = is_right_of_margin & (cells[below] == cells + wide + aside)
        closest = max(closest, float((top[below] - bottom)[meet].max(initial=0.0)))
    return closest
