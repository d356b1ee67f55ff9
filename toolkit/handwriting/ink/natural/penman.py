"""Choose a form for each letter of a page, and put the strokes into the order in which a pen writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from string import ascii_lowercase, digits
from typing import NamedTuple

import numpy as np

from toolkit.handwriting.ink.natural.forms import forms_of
from toolkit.handwriting.ink.natural.habits import habits_of
from toolkit.handwriting.ink.natural.joins import Meeting, blend, meet
from toolkit.handwriting.ink.natural.legibility import Alphabet
from toolkit.handwriting.ink.natural.letters import BAR, Letterform, band_sides, letterform_of
from toolkit.handwriting.ink.natural.parts import POINT_DISTANCE, parts_of, strokes_of
from toolkit.handwriting.ink.ribbons import ENDS_IN_INK, OUTLINE_FLAG, STARTS_IN_INK, Strokes
from toolkit.handwriting.ink.shaping import MOTION_ALLOWANCE, PUNCTUATION_GAP, ShapedWord, Shaper
from toolkit.keyed_noise import Floats, Integers, KeyedNoise, unit

MAX_FORMS = 5  # of one letter by one writer
_FORM_WEIGHTS = (4.0, 3.0, 2.0, 1.5, 1.0)  # relative frequencies of the forms of a letter, most frequent first
_MIN_ASCENDER = 1.2  # in x-heights; if the h of a script is lower, the script has capitals instead of small letters
_LETTERS_AFTER_LIFT = frozenset("acdgoq")  # the pen is often lifted before these letters
_JOINED_PAIRS = frozenset(["in", "an", "er", "th", "ou", "ss", "en", "on", "ar", "ea", "ee", "le", "ll", "he", "ti"])
_RARE_JOIN_FACTOR = 0.6  # on the rate at which all other pairs are joined
_SHARED_BARS = {"tt": 0.8, "th": 0.3}  # probability that one bar crosses both letters


class ChosenLetter(NamedTuple):
    """A letter of the page, with the form that was chosen for it."""

    form: Letterform
    x: float  # of the origin of the letter in the word
    y: float
    meeting: Meeting  # with the letter before; the cuts are made only if `joins`
    joins: bool
    bar: str  # "" for a normal bar, "left" or "right" for an extended bar, "none" if the next letter has the bar
    spacing: float  # from the origin of the letter to the next origin, or to the end of the word


class Piece(NamedTuple):
    """Consecutive points of the pool of all points; a piece that is not `new` continues the stroke before."""

    begin: int
    points: int
    letter: int
    word: int
    new: bool
    flags: int
    delayed: int


@dataclass(frozen=True, slots=True)
class Draft:
    """The strokes of a page before motion; points are relative to the origin of the word, in cap heights."""

    strokes: Strokes
    word: Integers  # (strokes,)
    delayed: Integers  # (strokes,)
    letter: Integers  # (points,)
    choices: list[ChosenLetter]
    letter_word: Integers  # (letters,)
    advance: Floats  # (words,)


class Penman:
    """Knows the letter forms of one writer; is cached, because finding the forms takes longer than writing a page."""

    def __init__(self, shaper: Shaper) -> None:
        self.shaper = shaper
        self.joined = shaper.measures.joined
        self.habits = habits_of(shaper.hands[0].measures.name, shaper.writer.name)
        self.taste = KeyedNoise("taste", shaper.hands[0].measures.name, shaper.writer.name)
        x_height = self._height_of("x")
        self.x_height = min(max(x_height, 0.35), 0.8)
        self.writes_capitals = self._height_of("h") < _MIN_ASCENDER * x_height
        self.alphabet = Alphabet(
            {letter: self._letter_strokes(letter) for letter in ascii_lowercase + digits}, shaper.nib, self.x_height
        )
        self.forms = lru_cache(8192)(self._forms)
        self.meet = lru_cache(32768)(self._meet)

    def _letter_strokes(self, character: str) -> Strokes:
        [(number, glyph, _)] = self.shaper.word(character).glyphs
        return self.shaper.letter(number, glyph)

    def _height_of(self, character: str) -> float:
        return float(self._letter_strokes(character).y.max(initial=0.0))

    def _forms(self, number: int, glyph: int, character: str) -> tuple[Letterform, ...]:
        """Return the forms of a letter that this writer uses; the form of the font is first."""
        strokes = self.shaper.letter(number, glyph)
        flags = strokes.flags.tolist()
        if any(flag & OUTLINE_FLAG for flag in flags) or not flags:
            return (Letterform(character, strokes, (0,) * len(flags), False, False, *band_sides(strokes)),)
        found = []
        written = character.upper() if self.writes_capitals and len(character.upper()) == 1 else character
        legible = partial(self.alphabet.legible, character, strokes)
        for parts in forms_of(written, parts_of(strokes), self.x_height, self.joined and number == 0, legible):
            kept = [*flags, 0][: len(parts)] if len(parts) >= len(flags) else [0] * len(parts)
            form = strokes_of(parts, kept)
            self._apply_proportions(form, written)
            found.append(letterform_of(written, parts_of(form), kept, self.joined))
        order = np.argsort(self.taste.hashes(f"forms {character}", len(found))[1:]) + 1
        return (found[0], *(found[n] for n in order[: MAX_FORMS - 1]))

    def _apply_proportions(self, strokes: Strokes, character: str) -> None:
        if character.isdigit():
            strokes.y[:] *= self.habits.figure
            strokes.x[:] *= self.habits.figure
        elif character.islower():
            above, below = np.maximum(strokes.y - self.x_height, 0.0), np.minimum(strokes.y, 0.0)
            strokes.y[:] += (self.habits.ascender - 1) * above + (self.habits.descender - 1) * below

    def _meet(self, first: Letterform, second: Letterform, dx: float, dy: float) -> Meeting:
        both_letters = first.character.isalpha() and second.character.isalpha()
        least = PUNCTUATION_GAP + 2.2 * self.shaper.nib + MOTION_ALLOWANCE * self.shaper.writer.shake
        return meet(first, second, dx, dy, self.joined, 0.0 if both_letters else least)

    def draft(self, words: list[ShapedWord], noise: KeyedNoise) -> Draft:
        choices, letter_word, advance = self._choose(words, noise)
        pool, offset = _point_pool(choices)
        pieces = list(_pieces(choices, letter_word, offset))
        count = np.array([piece.points for piece in pieces], np.int64)
        begin = np.array([piece.begin for piece in pieces], np.int64)
        source = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
        x, y, radius = (pool[source, column] for column in range(3))
        letter = np.repeat(np.array([piece.letter for piece in pieces], np.int64), count)
        new = np.array([piece.new for piece in pieces], bool)
        first = np.nonzero(new)[0]
        last = np.append(first[1:], len(pieces)) - 1
        flags = np.array([piece.flags for piece in pieces], np.int64)
        flags = (flags[first] & ~ENDS_IN_INK) | (flags[last] & ENDS_IN_INK) if len(first) else flags
        length = np.add.reduceat(count, first) if len(first) else count
        strokes = Strokes(x, y, radius, length, flags.astype(np.uint8))
        _blend(strokes, (np.cumsum(count) - count)[~new])
        word = np.array([piece.word for piece in pieces], np.int64)[first]
        delayed = np.array([piece.delayed for piece in pieces], np.int64)[first]
        return Draft(strokes, word, delayed, letter, choices, letter_word, advance)

    def _choose(self, words: list[ShapedWord], noise: KeyedNoise) -> tuple[list[ChosenLetter], Integers, Floats]:
        count = sum(len(word.glyphs) for word in words)
        chance = iter(unit(noise.hashes("form", count)).tolist())
        pen = iter(unit(noise.hashes("join", count)).tolist())
        last: dict[str, int] = {}
        choices: list[ChosenLetter] = []
        letter_word, advance = [], []
        for number, word in enumerate(words):
            begin, shift, run = len(choices), 0.0, 0
            origin = word.origin_x.tolist()
            ends = [*origin[1:], word.advance]
            for n, (hand, glyph, character) in enumerate(word.glyphs):
                forms = self.forms(hand, glyph, character)
                place = (n == 0) + 2 * (n == len(word.glyphs) - 1)
                form = forms[_pick_form(len(forms), last, character, place, next(chance))]
                y, draw, joins, meeting = float(word.origin_y[n]), next(pen), False, Meeting(0.0, False)
                if n:
                    before = choices[-1]
                    meeting = self.meet(before.form, form, round(origin[n] - origin[n - 1], 6), round(y - before.y, 6))
                    shift += meeting.kern
                    run += 1
                    joins = meeting.joins and self._keeps_pen_down(before.form.character + form.character, run, draw)
                    run = run if joins or not self.joined else 0
                    shift += meeting.wider if joins else 0.0
                choices.append(ChosenLetter(form, origin[n] + shift, y, meeting, joins, "", ends[n] - origin[n]))
            _share_bars(choices, begin, noise.hashes(f"bars {number}", 1)[0] if "t" in word.text else 0)
            letter_word += [number] * (len(choices) - begin)
            advance.append(word.advance + shift)
        return choices, np.array(letter_word, np.int64), np.array(advance, np.float64)

    def _keeps_pen_down(self, pair: str, run: int, draw: float) -> bool:
        if self.joined:
            if run < 3:
                return draw < 0.85
            likely = 0.55 if pair[-1] in _LETTERS_AFTER_LIFT else 0.2
            return run < self.habits.longest_run and draw > likely
        if pair.isupper():
            return False
        rate = self.habits.join_rate * (1.0 if pair in _JOINED_PAIRS else _RARE_JOIN_FACTOR)
        return draw < rate


def _pick_form(count: int, last: dict[str, int], character: str, place: int, chance: float) -> int:
    """Return the number of a form that differs from the last; weights differ for first and last letters of a word."""
    if count == 1:
        return 0
    before = last.get(character, -1)
    weights = [0.0 if n == before else _FORM_WEIGHTS[(n + place) % count] for n in range(count)]
    left = chance * sum(weights)
    chosen = 0
    for n, weight in enumerate(weights):
        if weight:
            chosen = n
            left -= weight
            if left < 0:
                break
    last[character] = chosen
    return chosen


def _share_bars(choices: list[ChosenLetter], begin: int, chance: int) -> None:
    """Choose the pairs tt and th with one bar across both letters."""
    for n in range(begin, len(choices) - 1):
        pair = choices[n].form.character + choices[n + 1].form.character
        chance = int(chance) * 25214903917 % (1 << 48)
        if pair not in _SHARED_BARS or chance / (1 << 48) > _SHARED_BARS[pair] or BAR not in choices[n].form.delayed:
            continue
        if pair == "th":
            choices[n] = choices[n]._replace(bar="right")
        elif BAR in choices[n + 1].form.delayed and not choices[n].bar:
            choices[n], choices[n + 1] = choices[n]._replace(bar="none"), choices[n + 1]._replace(bar="left")


def _point_pool(choices: list[ChosenLetter]) -> tuple[Floats, list[int]]:
    """Return the points of all letters and joins, relative to the word, and the index of each letter's first point."""
    parts, offset, at = [np.zeros((0, 3))], [], 0
    for choice in choices:
        offset.append(at)
        strokes = choice.form.strokes
        parts.append(np.stack([strokes.x + choice.x, strokes.y + choice.y, strokes.radius], axis=1))
        at += len(strokes.x)
        if choice.joins and len(choice.meeting.between):
            parts.append(choice.meeting.between + np.array([choice.x, choice.y, 0.0]))
            at += len(choice.meeting.between)
    return np.concatenate(parts), offset


def _pieces(choices: list[ChosenLetter], letter_word: Integers, offset: list[int]) -> Iterator[Piece]:
    """Yield the pieces of strokes in writing order: a word, then its bars, dots and accents."""
    late: list[Piece] = []
    words = letter_word.tolist()
    for n, choice in enumerate(choices):
        if n and words[n] != words[n - 1]:
            yield from late
            late = []
        at, form = offset[n], choice.form
        following = choices[n + 1] if n + 1 < len(choices) and words[n + 1] == words[n] else None
        if choice.joins and len(choice.meeting.between):
            yield Piece(at + len(form.strokes.x), len(choice.meeting.between), n, words[n], False, 0, 0)
        flags, at_once = form.strokes.flags.tolist(), form.at_once
        for k, length in enumerate(form.strokes.length.tolist()):
            if k < at_once:
                yield _cut_for_joins(choice, following, Piece(at, length, n, words[n], True, flags[k], 0), k)
            elif form.delayed[k] != BAR or choice.bar != "none":
                late.append(Piece(at, length, n, words[n], True, flags[k], form.delayed[k]))
            at += length
    yield from late


def _cut_for_joins(choice: ChosenLetter, following: ChosenLetter | None, piece: Piece, stroke: int) -> Piece:
    """Cut the first and the last stroke of a letter for the joins."""
    begin, end, flags, new = piece.begin, piece.begin + piece.points, piece.flags, True
    if stroke == 0 and choice.joins:
        begin, flags, new = begin + choice.meeting.cut_head, flags & ~STARTS_IN_INK, False
    if stroke == choice.form.at_once - 1 and following is not None:
        if following.joins:
            end, flags = end - following.meeting.cut_tail, flags & ~ENDS_IN_INK
        elif following.meeting.touches:
            flags |= ENDS_IN_INK
    return piece._replace(begin=begin, points=max(end - begin, 1), new=new, flags=flags)


def _blend(strokes: Strokes, join: Integers) -> None:
    """Bend both strokes of every join towards each other; `join` has the index of the first point after each join."""
    if not len(join):
        return
    stroke = strokes.stroke_of_point
    for values in (strokes.x, strokes.y, strokes.radius):
        step = values[join] - values[join - 1]
        for k in range(10):
            for at, sign in ((join - 1 - k, 1.0), (join + k, -1.0)):
                inside = (at >= 0) & (at < len(stroke))
                inside[inside] = stroke[at[inside]] == stroke[join[inside]]
                values[at[inside]] += sign * blend(np.full(int(inside.sum()), k * POINT_DISTANCE), step[inside])
    near = np.unique(np.concatenate([join + k for k in range(-4, 4)]))
    first, last = strokes.ends()
    near = near[(near > 0) & (near < len(stroke) - 1)]
    near = near[~(first | last)[near]]
    for _ in range(3):
        for values in (strokes.x, strokes.y, strokes.radius):
            values[near] = 0.5 * values[near] + 0.25 * (values[near - 1] + values[near + 1])
