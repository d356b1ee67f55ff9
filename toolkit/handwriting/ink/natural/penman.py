"""Choose a form for each letter of a page, and put the strokes into the order in which a pen writes them."""

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import accumulate
from string import ascii_lowercase, digits
from typing import NamedTuple

import numpy as np

from toolkit.handwriting.ink.natural.forms import Alphabet, forms_of
from toolkit.handwriting.ink.natural.letters import BAR, Letterform, Meeting, letterform_of, meet, unjoined_form
from toolkit.handwriting.ink.natural.parts import POINT_DISTANCE, Part, parts_of
from toolkit.handwriting.ink.ribbons import ENDS_IN_INK, OUTLINE_FLAG, STARTS_IN_INK, Strokes
from toolkit.handwriting.ink.shaping import ShapedWord, Shaper
from toolkit.keyed_noise import Integers, KeyedNoise, unit

MAX_FORMS = 5  # of one letter by one writer
BLEND_LENGTH = 0.3  # cap heights from a join, over which both strokes bend towards each other
_FORM_WEIGHTS = (4.0, 3.0, 2.0, 1.5, 1.0)  # relative frequencies of the forms of a letter, most frequent first
_MIN_ASCENDER = 1.2  # in x-heights; if the h of a script is lower, the script has capitals instead of small letters
_LETTERS_AFTER_LIFT = frozenset("acdgoq")  # the pen is often lifted before these letters
_JOINED_PAIRS = frozenset(["in", "an", "er", "th", "ou", "ss", "en", "on", "ar", "ea", "ee", "le", "ll", "he", "ti"])
_RARE_JOIN_FACTOR = 0.6  # on the rate at which all other pairs are joined
_FEW_LETTERS = 24  # more letters than a cap height holds
_SHARED_BARS = {"tt": 0.8, "th": 0.3}  # probability that one bar crosses both letters


class ChosenLetter(NamedTuple):
    """A letter of the page, with the form that was chosen for it."""

    form: Letterform
    word: int
    x: float  # of the origin of the letter in the word
    y: float
    meeting: Meeting  # with the letter before; the cuts are made only if `joins`
    joins: bool
    bar: str  # "" for a normal bar, "left" or "right" for an extended bar, "none" if the next letter has the bar
    spacing: float  # from the origin of the letter to the next origin, or to the end of the word


class _Piece(NamedTuple):
    """Consecutive points; a piece that is not `new` continues the stroke before."""

    points: Part  # relative to the word
    letter: int
    new: bool
    flags: int
    delayed: int


class Draft:
    """The strokes of a page before motion; points are relative to the origin of the word, in cap heights."""

    def __init__(self, choices: list[ChosenLetter], word_width: list[float]) -> None:
        self.choices = choices
        pieces = list(_pieces(choices))
        letter, new, flags, delayed = (
            np.array([piece[column] for piece in pieces], dtype)
            for column, dtype in enumerate((np.int64, bool, np.int64, np.int64), 1)
        )
        count = np.array([len(piece.points) for piece in pieces], np.int64)
        first, last = np.nonzero(new)[0], np.nonzero(np.roll(new, -1))[0]  # piece of each stroke
        flags = (flags[first] & ~ENDS_IN_INK) | (flags[last] & ENDS_IN_INK)
        x, y, radius = np.concatenate([np.zeros((0, 3)), *(piece.points for piece in pieces)]).T.copy()
        self.strokes = Strokes(x, y, radius, np.add.reduceat(count, first), flags.astype(np.uint8))
        _blend(self.strokes, (np.cumsum(count) - count)[~new])
        self.word_width = np.array(word_width, np.float64)  # (words,)
        self.letter_word = np.array([choice.word for choice in choices], np.int64)  # (letters,)
        self.stroke_word = self.letter_word[letter[first]]  # (strokes,)
        self.delayed = delayed[first]  # (strokes,)
        self.point_letter = np.repeat(letter, count)  # (points,)
        self._by_letter = np.argsort(self.point_letter, kind="stable")

    def points_near(self, letter: int) -> Integers:
        """Return the points of the other letters of the word, up to a few letters away."""
        between = [letter - _FEW_LETTERS, letter + _FEW_LETTERS + 1]
        first, last = np.searchsorted(self.point_letter, between, sorter=self._by_letter)
        near: Integers = self._by_letter[first:last]
        of = self.point_letter[near]
        others: Integers = near[(self.letter_word[of] == self.letter_word[letter]) & (of != letter)]
        return others


class Penman:
    """Knows the letter forms of one writer; is cached, because finding the forms takes longer than writing a page."""

    def __init__(self, shaper: Shaper) -> None:
        self.shaper = shaper
        self.joined = shaper.measures.joined
        self.habits = shaper.habits
        self.taste = KeyedNoise("taste", shaper.measures.name, shaper.writer.name)
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
        parts, flags = parts_of(strokes), strokes.flags.tolist()
        if any(flag & OUTLINE_FLAG for flag in flags) or not flags:
            return (unjoined_form(character, parts, flags),)
        found = []
        written = character.upper() if self.writes_capitals and len(character.upper()) == 1 else character
        legible = partial(self.alphabet.legible, character, strokes)
        for form in forms_of(written, parts, self.x_height, self.joined and number == 0, legible):
            kept = [*flags, 0][: len(form)] if len(form) >= len(flags) else [0] * len(form)
            found.append(letterform_of(written, [self._proportioned(p, written) for p in form], kept, self.joined))
        order = np.argsort(self.taste.hashes(f"forms {character}", len(found))[1:]) + 1
        return (found[0], *(found[n] for n in order[: MAX_FORMS - 1]))

    def _proportioned(self, part: Part, character: str) -> Part:
        if character.isdigit():
            return part * [self.habits.figure, self.habits.figure, 1.0]
        if character.islower():
            y = part[:, 1]
            above, below = np.maximum(y - self.x_height, 0.0), np.minimum(y, 0.0)
            y = y + ((self.habits.ascender - 1) * above + (self.habits.descender - 1) * below)
            return np.column_stack([part[:, 0], y, part[:, 2]])
        return part

    def _meet(self, first: Letterform, second: Letterform, dx: float, dy: float) -> Meeting:
        both_letters = first.character.isalpha() and second.character.isalpha()
        return meet(first, second, dx, dy, self.joined, 0.0 if both_letters else self.shaper.punctuation_gap)

    def draft(self, words: list[ShapedWord], noise: KeyedNoise) -> Draft:
        """Choose a form for each letter of a page."""
        count = sum(len(word.glyphs) for word in words)
        chance = iter(unit(noise.hashes("form", count)).tolist())
        pen = iter(unit(noise.hashes("join", count)).tolist())
        last: dict[str, int] = {}
        choices: list[ChosenLetter] = []
        advance = []
        for number, word in enumerate(words):
            begin, shift, run = len(choices), 0.0, 0
            origin = word.origin_x.tolist()
            ends = [*origin[1:], word.width]
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
                x, spacing = origin[n] + shift, ends[n] - origin[n]
                choices.append(ChosenLetter(form, number, x, y, meeting, joins, "", spacing))
            _share_bars(choices, begin, noise.hashes(f"bars {number}", 1)[0] if "t" in word.text else 0)
            advance.append(word.width + shift)
        return Draft(choices, advance)

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
    up_to = list(accumulate(weights))
    last[character] = bisect_right(up_to, chance * up_to[-1])
    return last[character]


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


def _pieces(choices: list[ChosenLetter]) -> Iterator[_Piece]:
    """Yield the pieces of strokes in writing order: a word, then its bars, dots and accents."""
    late: list[_Piece] = []
    for n, choice in enumerate(choices):
        if n and choices[n - 1].word != choice.word:
            yield from late
            late = []
        form, origin = choice.form, np.array([choice.x, choice.y, 0.0])
        following = choices[n + 1] if n + 1 < len(choices) and choices[n + 1].word == choice.word else None
        if choice.joins and len(choice.meeting.between):
            yield _Piece(choice.meeting.between + origin, n, False, 0, 0)
        for k, (part, flags, delayed) in enumerate(zip(form.parts, form.flags, form.delayed, strict=True)):
            piece = _Piece(part + origin, n, True, flags, delayed)
            if not delayed:
                yield _cut_for_joins(choice, following, piece, k)
            elif delayed != BAR or choice.bar != "none":
                late.append(piece)
    yield from late


def _cut_for_joins(choice: ChosenLetter, following: ChosenLetter | None, piece: _Piece, stroke: int) -> _Piece:
    """Cut the first and the last stroke of a letter for the joins."""
    begin, end, flags, new = 0, len(piece.points), piece.flags, True
    if stroke == 0 and choice.joins:
        begin, flags, new = choice.meeting.cut_head, flags & ~STARTS_IN_INK, False
    if stroke == choice.form.undelayed_count - 1 and following is not None:
        if following.joins:
            end, flags = end - following.meeting.cut_tail, flags & ~ENDS_IN_INK
        elif following.meeting.touches:
            flags |= ENDS_IN_INK
    return piece._replace(points=piece.points[begin : max(end, begin + 1)], new=new, flags=flags)


def _blend(strokes: Strokes, join: Integers) -> None:
    """Bend both strokes of every join towards each other; `join` has the index of the first point after each join."""
    stroke = strokes.stroke_of_point
    for values in (strokes.x, strokes.y, strokes.radius):
        step = values[join] - values[join - 1]
        for k in range(10):
            share = max(1 - k * POINT_DISTANCE / BLEND_LENGTH, 0.0)
            for at, sign in ((join - 1 - k, 1.0), (join + k, -1.0)):
                inside = (at >= 0) & (at < len(stroke))
                inside[inside] = stroke[at[inside]] == stroke[join[inside]]
                values[at[inside]] += sign * (0.5 * step[inside] * share * share * (3 - 2 * share))
    near = np.unique(np.concatenate([join + k for k in range(-4, 4)]))
    first, last = strokes.ends()
    near = near[(near > 0) & (near < len(stroke) - 1)]
    near = near[~(first | last)[near]]
    for _ in range(3):
        for values in (strokes.x, strokes.y, strokes.radius):
            values[near] = 0.5 * values[near] + 0.25 * (values[near - 1] + values[near + 1])
