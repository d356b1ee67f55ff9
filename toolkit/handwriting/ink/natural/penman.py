"""Choose the forms of the letters of a page, and put their strokes into the order in which a pen writes them."""

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
from toolkit.handwriting.ink.natural.letters import BAR, Letterform, prepared, sides
from toolkit.handwriting.ink.natural.parts import STEP, parts_of, strokes_of
from toolkit.handwriting.ink.ribbons import ENDS_IN_INK, OUTLINE, STARTS_IN_INK, Strokes
from toolkit.handwriting.ink.shaping import MOTION_ALLOWANCE, PUNCTUATION_GAP, ShapedWord, Shaper
from toolkit.keyed_noise import Floats, Integers, KeyedNoise, unit

MOST_FORMS = 5  # of a letter that one writer uses
_WEIGHTS = (4.0, 3.0, 2.0, 1.5, 1.0)  # of the forms of a letter, from the usual one to the rare one
_ASCENDER = 1.2  # times the x-height; a lower h is a capital
_LIFTED_BEFORE = frozenset("acdgoq")
_OFTEN_JOINED = frozenset(["in", "an", "er", "th", "ou", "ss", "en", "on", "ar", "ea", "ee", "le", "ll", "he", "ti"])
_SELDOM = 0.6  # how often the other pairs are joined, relative to these
_SHARED_BAR = {"tt": 0.8, "th": 0.3}


class Choice(NamedTuple):
    """A letter of the page."""

    form: Letterform
    x: float  # its origin in the word
    y: float
    meeting: Meeting  # with the letter before; only if it joins are the cuts made
    joins: bool
    bar: str  # "" for its own bar, "none" if the next letter's bar serves, "left" or "right" if it is extended
    spacing: float  # from its origin to that of the next letter, or to the end of the word


class Piece(NamedTuple):
    """Consecutive points of the pool of all letters; a piece that is not `new` continues the stroke."""

    begin: int
    points: int
    letter: int
    word: int
    new: bool
    flags: int
    delayed: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A page before motion; points are relative to the origin of their word, in cap heights."""

    strokes: Strokes
    word: Integers  # (strokes,)
    delayed: Integers  # (strokes,)
    letter: Integers  # (points,)
    choices: list[Choice]
    letter_word: Integers  # (letters,)
    advance: Floats  # (words,)


class Penman:
    """Knows the forms of one writer; kept between pages, for finding them takes longer than writing a page."""

    def __init__(self, shaper: Shaper) -> None:
        self.shaper = shaper
        self.joined = shaper.measures.joined
        self.habits = habits_of(shaper.hands[0].measures.name, shaper.writer.name)
        self.taste = KeyedNoise("taste", shaper.hands[0].measures.name, shaper.writer.name)
        x_height = self._top("x")
        self.x_height = min(max(x_height, 0.35), 0.8)
        self.writes_capitals = self._top("h") < _ASCENDER * x_height  # instead of small letters
        self.alphabet = Alphabet(
            {letter: self._letter(letter) for letter in ascii_lowercase + digits}, shaper.nib, self.x_height
        )
        self.forms = lru_cache(8192)(self._forms)
        self.meet = lru_cache(32768)(self._meet)

    def _letter(self, character: str) -> Strokes:
        [(number, glyph, _)] = self.shaper.word(character).glyphs
        return self.shaper.letter(number, glyph)

    def _top(self, character: str) -> float:
        return float(self._letter(character).y.max(initial=0.0))

    def _forms(self, number: int, glyph: int, character: str) -> tuple[Letterform, ...]:
        """Return the forms of a letter that this writer uses, the usual one first."""
        strokes = self.shaper.letter(number, glyph)
        flags = strokes.flags.tolist()
        if any(flag & OUTLINE for flag in flags) or not flags:
            return (Letterform(character, strokes, (0,) * len(flags), False, False, *sides(strokes)),)
        found = []
        written = character.upper() if self.writes_capitals and len(character.upper()) == 1 else character
        legible = partial(self.alphabet.legible, character, strokes)
        for parts in forms_of(written, parts_of(strokes), self.x_height, self.joined and number == 0, legible):
            kept = [*flags, 0][: len(parts)] if len(parts) >= len(flags) else [0] * len(parts)
            form = strokes_of(parts, kept)
            self._proportion(form, written)
            found.append(prepared(written, parts_of(form), kept, self.joined))
        order = np.argsort(self.taste.hashes(f"forms {character}", len(found))[1:]) + 1
        return (found[0], *(found[n] for n in order[: MOST_FORMS - 1]))

    def _proportion(self, strokes: Strokes, character: str) -> None:
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
        pool, offset = _pool(choices)
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

    def _choose(self, words: list[ShapedWord], noise: KeyedNoise) -> tuple[list[Choice], Integers, Floats]:
        count = sum(len(word.glyphs) for word in words)
        chance = iter(unit(noise.hashes("form", count)).tolist())
        pen = iter(unit(noise.hashes("join", count)).tolist())
        last: dict[str, int] = {}
        choices: list[Choice] = []
        letter_word, advance = [], []
        for number, word in enumerate(words):
            begin, shift, run = len(choices), 0.0, 0
            origin = word.origin_x.tolist()
            ends = [*origin[1:], word.advance]
            for n, (hand, glyph, character) in enumerate(word.glyphs):
                forms = self.forms(hand, glyph, character)
                place = (n == 0) + 2 * (n == len(word.glyphs) - 1)
                form = forms[_pick(len(forms), last, character, place, next(chance))]
                y, draw, joins, meeting = float(word.origin_y[n]), next(pen), False, Meeting(0.0, False)
                if n:
                    before = choices[-1]
                    meeting = self.meet(before.form, form, round(origin[n] - origin[n - 1], 6), round(y - before.y, 6))
                    shift += meeting.kern
                    run += 1
                    joins = meeting.joins and self._keeps_pen_down(before.form.character + form.character, run, draw)
                    run = run if joins or not self.joined else 0
                    shift += meeting.wider if joins else 0.0
                choices.append(Choice(form, origin[n] + shift, y, meeting, joins, "", ends[n] - origin[n]))
            _share_bars(choices, begin, noise.hashes(f"bars {number}", 1)[0] if "t" in word.text else 0)
            letter_word += [number] * (len(choices) - begin)
            advance.append(word.advance + shift)
        return choices, np.array(letter_word, np.int64), np.array(advance, np.float64)

    def _keeps_pen_down(self, pair: str, run: int, draw: float) -> bool:
        if self.joined:
            if run < 3:
                return draw < 0.85
            likely = 0.55 if pair[-1] in _LIFTED_BEFORE else 0.2
            return run < self.habits.longest_run and draw > likely
        if pair.isupper():
            return False
        rate = self.habits.join_rate * (1.0 if pair in _OFTEN_JOINED else _SELDOM)
        return draw < rate


def _pick(count: int, last: dict[str, int], character: str, place: int, chance: float) -> int:
    """Return the number of a form that is not the last one; first and last letters of a word have other favourites."""
    if count == 1:
        return 0
    before = last.get(character, -1)
    weights = [0.0 if n == before else _WEIGHTS[(n + place) % count] for n in range(count)]
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


def _share_bars(choices: list[Choice], begin: int, chance: int) -> None:
    """Let one bar serve tt, or reach over the h after t."""
    for n in range(begin, len(choices) - 1):
        pair = choices[n].form.character + choices[n + 1].form.character
        chance = int(chance) * 25214903917 % (1 << 48)
        if pair not in _SHARED_BAR or chance / (1 << 48) > _SHARED_BAR[pair] or BAR not in choices[n].form.delayed:
            continue
        if pair == "th":
            choices[n] = choices[n]._replace(bar="right")
        elif BAR in choices[n + 1].form.delayed and not choices[n].bar:
            choices[n], choices[n + 1] = choices[n]._replace(bar="none"), choices[n + 1]._replace(bar="left")


def _pool(choices: list[Choice]) -> tuple[Floats, list[int]]:
    """Return the points of all letters and joins, relative to their words, and where those of each letter begin."""
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


def _pieces(choices: list[Choice], letter_word: Integers, offset: list[int]) -> Iterator[Piece]:
    """Yield what the pen draws, in the order of writing: a word, then its bars, dots and accents."""
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
                yield _at_once(choice, following, Piece(at, length, n, words[n], True, flags[k], 0), k)
            elif form.delayed[k] != BAR or choice.bar != "none":
                late.append(Piece(at, length, n, words[n], True, flags[k], form.delayed[k]))
            at += length
    yield from late


def _at_once(choice: Choice, following: Choice | None, piece: Piece, stroke: int) -> Piece:
    """Cut the first and the last stroke of a letter as its joins need it."""
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
    """Bend both strokes of every join towards each other; `join` holds the first point after each."""
    if not len(join):
        return
    stroke = strokes.stroke_of_point
    for values in (strokes.x, strokes.y, strokes.radius):
        step = values[join] - values[join - 1]
        for k in range(10):
            for at, sign in ((join - 1 - k, 1.0), (join + k, -1.0)):
                inside = (at >= 0) & (at < len(stroke))
                inside[inside] = stroke[at[inside]] == stroke[join[inside]]
                values[at[inside]] += sign * blend(np.full(int(inside.sum()), k * STEP), step[inside])
    near = np.unique(np.concatenate([join + k for k in range(-4, 4)]))
    first, last = strokes.ends()
    near = near[(near > 0) & (near < len(stroke) - 1)]
    near = near[~(first | last)[near]]
    for _ in range(3):
        for values in (strokes.x, strokes.y, strokes.radius):
            values[near] = 0.5 * values[near] + 0.25 * (values[near - 1] + values[near + 1])
