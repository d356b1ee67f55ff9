"""The motion of the hand: converts the layout to the path of the pen.

Within a letter and within a word, all variation is smooth noise, because a hand drifts and does not jitter. In joined
scripts letters bend, but only whole words move, so that letters stay joined.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from toolkit_gateway.ink.layout import Layout
from toolkit_gateway.ink.random_streams import Floats, Integers, RandomStreams
from toolkit_gateway.ink.ribbons import OUTLINE_FLAG, Strokes
from toolkit_gateway.ink.shaping import ShapedWord, Shaper

# Amplitudes and lattice widths of noise, in cap heights; sizes as shares, angles as slopes (rise over run).
BASELINE_SLOPE = 0.0035  # standard deviation
BASELINE_WANDER, WANDER_LENGTH = 0.05, 7.0
WORD_BASELINE, WORD_SIZE, WORD_TILT = 0.022, 0.012, 0.0087
WORD_BEND, WORD_LATTICE = 0.030, 0.8
LETTER_SIZE, LETTER_BASELINE, LETTER_SLANT, LETTER_TURN = 0.026, 0.018, 0.021, 0.012
LETTER_STRETCH, LETTER_SHIFT = 0.020, 0.012
LETTER_BEND, LETTER_LATTICE = 0.020, 0.62
JOIN_LENGTH = 0.28  # from each end of a joined letter; over it the bend grows from nothing


class PenPath(NamedTuple):
    """The path of the pen, in cap heights from the left end of each baseline, y upwards."""

    strokes: Strokes  # the radius is relative to the nib, 1 on average; `apply_pen` converts it to cap heights
    word_of_stroke: Integers  # (strokes,) number of the word on the page
    letter_of_stroke: Integers  # (strokes,) number of the letter on the page
    begin: Floats  # (words,) x of the start of each word
    end: Floats  # (words,) x of the end of each word


class _Letters:
    """The letters of a page, one after another."""

    def __init__(self, words: list[ShapedWord]) -> None:
        self.strokes = Strokes.concatenate(word.strokes for word in words)
        self.origin_x, self.origin_y, self.advance, letter_of_stroke = (
            np.concatenate([getattr(word, name) for word in words])
            for name in ("origin_x", "origin_y", "letter_advance", "letter_of_stroke")
        )
        self.word_of_stroke = np.repeat(np.arange(len(words)), [len(word.letter_of_stroke) for word in words])
        first_letter = np.cumsum([0, *(len(word.origin_x) for word in words)])
        self.letter_of_stroke = letter_of_stroke + first_letter[self.word_of_stroke]
        self.letter_of_point = np.repeat(self.letter_of_stroke, self.strokes.length)


def pen_path(layout: Layout, shaper: Shaper, noise: RandomStreams) -> PenPath:
    if not layout.words:
        return PenPath(Strokes.empty(), layout.line, layout.line, layout.x, layout.x)
    letters, shake = _Letters(layout.words), shaper.writer.shake
    move = _move_joined_letters if shaper.measures.joined else _move_single_letters
    x, y, size = move(letters, shake, noise)
    x, y = _move_words(np.repeat(letters.word_of_stroke, letters.strokes.length), x, y, shake, noise, layout)
    moved = replace(letters.strokes, x=x, y=y, radius=letters.strokes.radius * size)
    end = layout.x + [word.width for word in layout.words]
    rounded = round_corners(moved, shaper.writer.smoothing_passes)
    return PenPath(rounded, letters.word_of_stroke, letters.letter_of_stroke, layout.x, end)


def _move_joined_letters(letters: _Letters, shake: float, noise: RandomStreams) -> tuple[Floats, Floats, Floats]:
    """Bend every letter, but not the ends at which letters join; return x, y and relative size of each point."""
    x, y, letter = letters.strokes.x, letters.strokes.y, letters.letter_of_point
    dx, dy = noise.field("letter field", letter, x / LETTER_LATTICE, y / LETTER_LATTICE)
    edge = np.minimum(np.maximum(np.minimum(x, letters.advance[letter] - x) / JOIN_LENGTH, 0.0), 1.0)
    window = 1.5 * shake * LETTER_BEND * edge * edge * (3 - 2 * edge)
    return x + dx * window + letters.origin_x[letter], y + dy * window + letters.origin_y[letter], np.ones(len(x))


def _move_single_letters(letters: _Letters, shake: float, noise: RandomStreams) -> tuple[Floats, Floats, Floats]:
    """Bend, scale, slant, turn and shift every letter; size, baseline and slant drift from letter to letter."""
    count = len(letters.origin_x)
    index = np.arange(count, dtype=np.float64)
    size = 1 + shake * LETTER_SIZE * noise.drift("letter size", index / 2.3)
    stretch = size * (1 + shake * LETTER_STRETCH * noise.gaussian("letter stretch", count))
    rise = letters.origin_y + shake * LETTER_BASELINE * noise.drift("letter baseline", index / 2.0)
    slant = shake * LETTER_SLANT * noise.drift("letter slant", index / 2.6)
    turn = shake * LETTER_TURN * noise.gaussian("letter turn", count)
    left = letters.origin_x + shake * LETTER_SHIFT * noise.gaussian("letter shift", count)
    x, y, letter = letters.strokes.x, letters.strokes.y, letters.letter_of_point
    dx, dy = noise.field("letter field", letter, x / LETTER_LATTICE, y / LETTER_LATTICE)
    y = y * size[letter] + dy * (shake * LETTER_BEND)
    x = x * stretch[letter] + dx * (shake * LETTER_BEND) + y * slant[letter]
    return x - y * turn[letter] + left[letter], y + x * turn[letter] + rise[letter], size[letter]


def _move_words(
    word: Integers, x: Floats, y: Floats, shake: float, noise: RandomStreams, layout: Layout
) -> tuple[Floats, Floats]:
    """Change size, baseline and tilt of every word, and bend it as a whole; `word` has the word of each point."""
    count = len(layout.words)
    size = 1 + shake * WORD_SIZE * noise.gaussian("word size", count)
    rise = shake * WORD_BASELINE * noise.gaussian("word baseline", count)
    tilt = shake * WORD_TILT * noise.gaussian("word tilt", count)
    dx, dy = noise.field("word field", word, x / WORD_LATTICE, y / WORD_LATTICE)
    moved_x = x * size[word] + dx * (shake * WORD_BEND)
    moved_y = y * size[word] + dy * (shake * WORD_BEND) + x * tilt[word] + rise[word]
    return moved_x + layout.x[word], moved_y


def round_corners(strokes: Strokes, rounds: int, weight: Floats | None = None) -> Strokes:
    """Smooth the corners in place, `rounds` times, as a fast hand does; the ends of strokes do not move.

    With `weight`, from 0 to 1 for each point, a point is smoothed by this share.
    """
    first, last = strokes.ends()
    is_contour = np.repeat((strokes.flags & OUTLINE_FLAG) > 0, strokes.length)
    inner = np.nonzero(~(first | last | is_contour) & (True if weight is None else weight > 0))[0]
    share = 0.5 if weight is None else 0.5 * weight[inner]
    for _ in range(rounds):
        for values in (strokes.x, strokes.y):
            values[inner] += share * (0.5 * (values[inner - 1] + values[inner + 1]) - values[inner])
    return strokes
