"""How far apart the lines of a hand must be so that they do not touch."""

from __future__ import annotations

from functools import lru_cache
from string import ascii_letters, digits
from typing import NamedTuple

from toolkit.handwriting.ink.motion import BASELINE_WANDER, WORD_BASELINE
from toolkit.handwriting.ink.shaping import ShapedWord, Shaper

LEAST = 1.5  # the default of the service
_CHARACTERS = ascii_letters + digits + ".,;:!?'\"()&-/"


class Reach(NamedTuple):
    """In cap heights from the baseline, the ink included."""

    above: float
    below: float


@lru_cache(256)
def reach(shaper: Shaper) -> Reach:
    """Return how far letters, digits and common punctuation reach."""
    words = [shaper.word(character) for character in _CHARACTERS]
    return Reach(max(_top(word) for word in words) + shaper.nib, max(_depth(word) for word in words) + shaper.nib)


@lru_cache(256)
def clear_line_spacing(shaper: Shaper) -> float:
    above, below = reach(shaper)
    return max(LEAST, above + below + unrest(shaper))


def unrest(shaper: Shaper) -> float:
    """Return how much nearer two lines may come by the motion of the hand."""
    writer = shaper.writer
    return 2 * BASELINE_WANDER * writer.wander + 4 * WORD_BASELINE * writer.shake


def _top(word: ShapedWord) -> float:
    return float((word.strokes.y + word.origin_y[word.letter]).max()) if len(word.letter) else 0.0


def _depth(word: ShapedWord) -> float:
    return -float((word.strokes.y + word.origin_y[word.letter]).min()) if len(word.letter) else 0.0
