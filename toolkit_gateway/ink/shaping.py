"""Shape words: choose hands for characters, kern, keep punctuation away from letters, mark touching stroke ends."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from cachetools import LRUCache, cached

from toolkit_gateway.ink.catalogue import Writer, habits_of
from toolkit_gateway.ink.hand import FaceFit, PlacedGlyph, curly_quotes, fallback_chain, load_hand, spellings
from toolkit_gateway.ink.random_streams import Floats, Integers
from toolkit_gateway.ink.ribbons import ENDS_IN_INK, OUTLINE_FLAG, STARTS_IN_INK, Mask, Strokes, every_nth

# Lengths in cap heights.
PUNCTUATION_GAP = 0.06  # smallest distance of other ink from punctuation
MOTION_ALLOWANCE = 0.06  # times the writer's shake, added to PUNCTUATION_GAP for the motion of the hand
MARK_GAP = 0.08  # between a letter and a combining mark
WORD_GAP = 0.46  # smallest distance between the ink of two words
THICKEST_NIB = 0.045  # of a script: bolder scripts are written with this pen
_MAX_SHIFT = 0.6  # by which punctuation may move a letter
_TOUCH_RANGE = 0.075  # a stroke end nearer than this to another letter touches it
_CACHED_POINTS = 500_000  # of the shaped words of all hands: about 20 MB; a larger word is not kept
_WORD_OVERHEAD = 60  # cost of a cached word in addition to its points, in points
_KEPT_STROKES = 13  # longest strokes of a glyph, kept in any text: letters have no more, some emoji have a hundred
_COMPARED_POINTS = 256  # most points of a letter that are compared with the next letter

# Canonical combining classes of Unicode.
_CEDILLA_CLASS, _FIRST_CLASS_ABOVE = 202, 224  # of marks attached below, as a cedilla; of marks above the letter

_XY: TypeAlias = tuple[Floats, Floats]
_WordGlyph: TypeAlias = tuple[int, PlacedGlyph, int, str]  # number of the hand, glyph, index in the word, character


class WordGlyph(NamedTuple):
    """A glyph of a shaped word: a character, a ligature, or a part of a character, as a connector."""

    hand: int  # number of the hand
    glyph: int
    character: str  # in a ligature the first
    is_whole: bool  # whether it draws this character completely and no other; only then another form may replace it


@dataclass(frozen=True, slots=True)
class ShapedWord:
    """One word; the strokes of each letter are relative to the origin of the letter, in cap heights, y upwards."""

    text: str
    width: float  # advance of the whole word
    origin_x: Floats  # (letters,) the position of each letter in the word
    origin_y: Floats  # (letters,)
    letter_advance: Floats  # (letters,)
    strokes: Strokes  # the radius is relative to the mean nib of the hand
    letter_of_stroke: Integers  # (strokes,) number of the letter
    letter_of_point: Integers  # (points,) number of the letter
    breaks: tuple[tuple[int, float], ...]  # where the word may be cut: number of characters before, width before
    glyphs: tuple[WordGlyph, ...]  # (letters,)
    blank: str  # the white space before the word


class Shaper:
    """Shapes words for one script and writer; in a long text, letters keep only one point in `every`.

    Natural writing joins letters itself, and needs no marks of stroke ends that touch other letters.
    """

    def __init__(self, script: str, writer: Writer, every: int = 1, natural: bool = False) -> None:
        self.hand = load_hand(script)
        self._chain = fallback_chain(script)  # the hands after the first are loaded when a text needs them
        self.writer = writer
        self._every, self._natural = every, natural
        self.measures = self.hand.measures
        self.habits = habits_of(script, writer.name)
        self.nib = min(self.measures.nib, THICKEST_NIB) * writer.nib
        self.space = min(max(self.measures.space, 0.42), 0.85) * writer.width
        self.punctuation_gap = PUNCTUATION_GAP + 2.2 * self.nib + MOTION_ALLOWANCE * writer.shake
        self._points_of = lru_cache(4096)(self._count_points)
        self.min_word_gap = lru_cache(16384)(self._min_word_gap)

    @cached(LRUCache(_CACHED_POINTS, lambda word: len(word.strokes.x) + _WORD_OVERHEAD))
    def word(self, text: str, blank: str = "") -> ShapedWord:
        """Return a word; `blank` is the white space before it."""
        placed: list[_WordGlyph] = []
        for number, run, indices in self._runs_by_hand(text):
            shaped = load_hand(self._chain[number]).shape(run)
            placed += [(number, glyph, indices[glyph.cluster], run[glyph.cluster]) for glyph in shaped]
        letters = [self.letter(number, glyph.glyph_id) for number, glyph, _, _ in placed]
        fits = [self._fit(number) for number, _, _, _ in placed]
        stretch = np.array([self.writer.width * (fit.width if fit else 1.0) for fit in fits])
        advances = stretch * [glyph.advance for _, glyph, _, _ in placed]
        shift = stretch * [glyph.dx + glyph.dy * self.writer.slant for _, glyph, _, _ in placed]
        rise = np.array([glyph.dy for _, glyph, _, _ in placed])
        characters = [character for _, _, _, character in placed]
        self._place_marks(letters, placed, advances, shift, rise)
        extra = self._extra_space(letters, characters, advances, shift)
        origin = np.cumsum(advances) - advances + np.cumsum(extra) if placed else np.zeros(0)
        strokes = Strokes.concatenate(letters)
        letter_of_stroke = np.repeat(np.arange(len(letters)), [len(letter.length) for letter in letters])
        word = ShapedWord(
            text, float((advances + extra).sum()), origin + shift, rise, advances, strokes,
            letter_of_stroke, np.repeat(letter_of_stroke, strokes.length),
            _word_breaks(text, [index for _, _, index, _ in placed], origin),
            tuple(WordGlyph(number, at.glyph_id, character, at.is_whole) for number, at, _, character in placed), blank,
        )  # fmt: skip
        if not self._natural:
            _mark_touching_ends(word)
        return word

    def _place_marks(
        self, letters: list[Strokes], placed: list[_WordGlyph], advances: Floats, shift: Floats, rise: Floats
    ) -> None:
        """Move combining marks, in place, above or below the ink of their letter and of the marks before them."""
        slant, gap = self.writer.slant + (self.measures.slant or 0.0), MARK_GAP + 2 * self.nib
        pen, base, before = 0.0, Strokes.empty(), -1  # `base` is all ink of one letter, in the word
        for n, (ink, (_, _, index, character)) in enumerate(zip(letters, placed, strict=True)):
            kind = unicodedata.combining(character)
            if kind and len(base.x) and len(ink.x):
                if kind < _FIRST_CLASS_ABOVE:
                    rise[n] = base.y.min() - ink.y.max() - (0.0 if kind == _CEDILLA_CLASS else gap)
                else:
                    rise[n] = base.y.max() - ink.y.min() + gap
                # In slanted writing, a mark above is farther to the right than the middle of the letter.
                lean = slant * (_middle(ink.y) + rise[n] - _middle(base.y))
                advances[n], shift[n] = 0.0, _middle(base.x) + lean - _middle(ink.x) - pen
            moved = replace(ink, x=ink.x + pen + shift[n], y=ink.y + rise[n])
            base = Strokes.concatenate([base, moved]) if kind or index == before else moved
            pen, before = pen + advances[n], index

    def letter(self, number: int, glyph: int) -> Strokes:
        """Return a glyph of hand `number` with the writer's width and slant; the radius is relative to the hand's nib.

        One point in `every` is kept; strokes and contours with fewer than twice `every` points are dropped, except the
        longest `_KEPT_STROKES` of a glyph.
        """
        hand, fit, every = load_hand(self._chain[number]), self._fit(number), self._every
        strokes = hand.glyph(glyph)
        if every > 1 and len(strokes.length):
            keep = strokes.length >= 2 * every
            keep[np.argsort(-strokes.length, kind="stable")[:_KEPT_STROKES]] = True
            points, length = every_nth(strokes.length, every)
            strokes = Strokes(strokes.x[points], strokes.y[points], strokes.radius[points], length, strokes.flags)
            strokes = strokes.select(keep)
        if fit:
            strokes = fit.apply(strokes)
        x = (strokes.x + strokes.y * self.writer.slant) * self.writer.width
        return replace(strokes, x=x, radius=strokes.radius / hand.measures.nib)

    def _fit(self, number: int) -> FaceFit | None:
        return FaceFit.of(load_hand(self._chain[number]).measures, self.measures)

    def estimate_points(self, text: str) -> int:
        """Estimate the number of points of the strokes of `text`."""
        return sum(count * self._points_of(character) for character, count in Counter(text).items())

    def _count_points(self, character: str) -> int:
        found = self._find_hands(character) or ()
        shaped = ((load_hand(self._chain[number]), written) for number, written in found)
        return sum(len(hand.glyph(glyph.glyph_id).x) for hand, written in shaped for glyph in hand.shape(written))

    def missing(self, text: str) -> tuple[str, ...]:
        """Return the characters that no hand of the fallback chain can write, each once, in the order of the text."""
        return tuple(c for c in dict.fromkeys(text) if c not in " \t\n" and self._find_hands(c) is None)

    def _find_hands(self, character: str) -> list[tuple[int, str]] | None:
        """Return the characters to write for `character`, each with the number of its hand; None if there are none."""
        for spelling in spellings(character):
            numbers = [
                next((n for n, name in enumerate(self._chain) if c in load_hand(name).characters), -1) for c in spelling
            ]
            if -1 not in numbers:
                return list(zip(numbers, spelling, strict=True))
        return None

    def _runs_by_hand(self, text: str) -> list[tuple[int, str, list[int]]]:
        """Cut a word into runs of one hand: (number of the hand, characters to shape, their indices in the word)."""
        runs: list[tuple[int, str, list[int]]] = []
        for index, character in enumerate(curly_quotes(text)):
            for number, written in self._find_hands(character) or ():
                if runs and runs[-1][0] == number:
                    runs[-1] = (number, runs[-1][1] + written, [*runs[-1][2], index])
                else:
                    runs.append((number, written, [index]))
        return runs

    def _extra_space(self, letters: list[Strokes], characters: list[str], advances: Floats, shift: Floats) -> Floats:
        """Return the space to add before each letter (with all that follow) so that punctuation touches nothing."""
        extra = np.zeros(len(letters))
        origin = np.cumsum(advances) - advances + shift
        for i in range(1, len(letters)):
            if not (_is_punctuation(characters[i - 1]) or _is_punctuation(characters[i])):
                continue
            # The two letters before are compared, because in some scripts the joining stroke is a separate glyph.
            for before in range(max(i - 2, 0), i):
                offset = origin[i] - origin[before] + extra[before + 1 : i].sum()
                before_points, points = ((letters[n].x, letters[n].y) for n in (before, i))
                needed = _needed_shift(before_points, points, offset, self.punctuation_gap)
                extra[i] = max(extra[i], min(needed, _MAX_SHIFT))
        return extra

    def _min_word_gap(self, before: str, after: str) -> float:
        """Return the smallest gap between two words that keeps their ink `WORD_GAP` apart; at most 1.2."""
        left, right = self.word(before), self.word(after)
        if not len(left.letter_of_stroke) or not len(right.letter_of_stroke):
            return 0.0
        tail = left.letter_of_point >= left.letter_of_point[-1] - 1
        head = right.letter_of_point <= right.letter_of_point[0] + 1
        spacing = WORD_GAP + 2 * self.nib
        return min(_needed_shift(_points(left, tail), _points(right, head), left.width, spacing), 1.2)


def _points(word: ShapedWord, chosen: Mask) -> _XY:
    return word.strokes.x[chosen] + word.origin_x[word.letter_of_point[chosen]], word.strokes.y[chosen]


def _middle(values: Floats) -> float:
    return float(values.min() + values.max()) / 2


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] not in "LMN"


def _needed_shift(left: _XY, right: _XY, offset: float, spacing: float) -> float:
    """Return how far `right`, which begins at `offset`, must move right (if below 0: may move left) for `spacing`."""
    (left_x, left_y), (right_x, right_y) = _thinned(left), _thinned(right)
    dy = left_y[:, None] - right_y
    reach = spacing * spacing - dy * dy
    close = reach > 0
    if not close.any():
        return -offset
    across = left_x[:, None] - right_x - offset + np.sqrt(np.where(close, reach, 0.0))
    return float(across[close].max())


def _thinned(points: _XY) -> _XY:
    x, y = points
    every = max(2, -(-len(x) // _COMPARED_POINTS))
    return x[::every], y[::every]


def _word_breaks(text: str, indices: list[int], origin: Floats) -> tuple[tuple[int, float], ...]:
    """Return the index of the first character of each cluster after the first, and the width of the word before it."""
    return tuple(
        (index, float(origin[n]))
        for n, (before, index) in enumerate(pairwise(indices), 1)
        if index > before and not unicodedata.combining(text[index])
    )


def _mark_touching_ends(word: ShapedWord) -> None:
    """Set the flags of stroke ends inside the ink of a neighbouring letter, where the pen is not lifted."""
    letters = len(word.origin_x)
    strokes = word.strokes
    x, y = strokes.x + word.origin_x[word.letter_of_point], strokes.y + word.origin_y[word.letter_of_point]
    point = np.searchsorted(word.letter_of_point, np.arange(letters + 1)).tolist()
    stroke = np.searchsorted(word.letter_of_stroke, np.arange(letters + 1)).tolist()
    start = strokes.start
    last = start + strokes.length - 1
    for n in range(letters):
        own = slice(stroke[n], stroke[n + 1])
        neighbours = np.r_[point[max(n - 1, 0)] : point[n], point[n + 1] : point[min(n + 2, letters)]]
        if own.start == own.stop or not len(neighbours):
            continue
        for end, flag in ((start[own], STARTS_IN_INK), (last[own], ENDS_IN_INK)):
            distance = (x[end, None] - x[neighbours]) ** 2 + (y[end, None] - y[neighbours]) ** 2
            touching = (distance.min(axis=1) < _TOUCH_RANGE * _TOUCH_RANGE) & ((strokes.flags[own] & OUTLINE_FLAG) == 0)
            strokes.flags[own] |= np.where(touching, np.uint8(flag), np.uint8(0))
