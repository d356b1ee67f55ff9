"""Choose a form for each letter of a page, and put the strokes into the order in which a pen writes them."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple
from unicodedata import combining

import numpy as np

from toolkit_gateway.ink.catalogue import WRITERS
from toolkit_gateway.ink.natural.joins import (
    BAR,
    Junction,
    Letterform,
    bands_of,
    letterform_of,
    meet,
    optical_kern,
    punctuation_kern,
    unjoined_form,
)
from toolkit_gateway.ink.natural.parts import Part, parts_of
from toolkit_gateway.ink.random_streams import Integers, RandomStreams, unit
from toolkit_gateway.ink.ribbons import ENDS_IN_INK, OUTLINE_FLAG, POINT_DISTANCE, STARTS_IN_INK, Strokes
from toolkit_gateway.ink.shaping import ShapedWord, Shaper, WordGlyph

WRITER_NAMES = [writer.name for writer in WRITERS]
BLEND_LENGTH = 0.3  # cap heights from a join, over which both pieces bend towards each other
_FORM_WEIGHTS = (4.0, 3.0, 2.0, 1.5, 1.0)  # relative frequencies of the forms of a letter, most frequent first
_MIN_ASCENDER = 1.2  # in x-heights; if the h of a script is lower, the script has capitals instead of small letters
_COMMON_LETTERS = "etaoinshrdlu"
_LETTERS_AFTER_LIFT = frozenset("acdgoq")  # the pen is often lifted before these letters
_NEAR_LETTERS = 24  # letters on each side that may be near: more than fit into a cap height
_LOW_MARKS = frozenset(",.;")
_LARGEST_DOT = 0.06  # cap heights
_MIN_CAPITAL = 0.86  # cap heights; lower capitals, which would look like small letters, and figures are enlarged to it
_QUOTE_RISE = 0.45  # cap heights above the x-height that quotation marks reach
_MIN_ASCENDER_RISE = 0.55  # x-heights, by which b, d, h, k and l rise at least above the x-height
#: Smallest height of marks that would look like a stop or a speck: in cap heights, and in x-heights.
_MARK_SIZES = {",": (0.22, 0.42), ";": (0.22, 0.42)} | dict.fromkeys("‘’“”", (0.19, 0.28))
_APART = Junction(0.0, False)
_SHARED_BARS = {"tt": 0.8, "th": 0.3}  # probability that one bar crosses both letters


class ChosenLetter(NamedTuple):
    """A letter of the page, with the form that was chosen for it."""

    form: Letterform
    word: int  # number of the word in the text
    x: float  # of the origin of the letter in the word
    y: float
    junction: Junction  # with the letter before; strokes are cut and joined only if `joins`
    joins: bool  # whether the pen is not lifted between the letter before and this letter
    bar: str  # "" for a normal bar, "left" or "right" for an extended bar, "none" if the next letter has the bar
    spacing: float  # in the font, from the origin of the letter to the next origin or the end of the word


class _Piece(NamedTuple):
    """Consecutive points of a stroke."""

    points: Part  # relative to the letter
    letter: int  # number of the letter on the page
    is_new: bool  # whether a stroke begins here; otherwise the piece continues the stroke before
    flags: int
    delayed: int  # 0 (not delayed), `BAR` or `MARK`


class Draft:
    """The strokes of a page before motion; points are relative to the origin of the word, in cap heights."""

    def __init__(self, choices: list[ChosenLetter], first_word: int) -> None:
        self.choices = choices
        pieces = list(_pieces(choices))
        letter, new, flags, delayed = (
            np.array([piece[column] for piece in pieces], dtype)
            for column, dtype in enumerate((np.int64, bool, np.int64, np.int64), 1)
        )
        count = np.array([len(piece.points) for piece in pieces], np.int64)
        first, last = np.nonzero(new)[0], np.nonzero(np.roll(new, -1))[0]  # pieces of each stroke
        flags = (flags[first] & ~ENDS_IN_INK) | (flags[last] & ENDS_IN_INK)
        x, y, radius = np.concatenate([np.zeros((0, 3)), *(piece.points for piece in pieces)]).T.copy()
        letter_of_point = np.repeat(letter, count)
        x += np.array([choice.x for choice in choices])[letter_of_point]
        y += np.array([choice.y for choice in choices])[letter_of_point]
        self.strokes = Strokes(x, y, radius, np.add.reduceat(count, first), flags.astype(np.uint8))
        _blend(self.strokes, (np.cumsum(count) - count)[~new])
        self.word_of_letter = np.array([choice.word - first_word for choice in choices], np.int64)  # (letters,)
        self.word_of_stroke = self.word_of_letter[letter[first]]  # (strokes,)
        self.delayed = delayed[first]  # (strokes,)
        self.letter_of_point = letter_of_point  # (points,)
        self._by_letter = np.argsort(self.letter_of_point, kind="stable")

    def points_near(self, letter: int) -> Integers:
        """Return the indices of the points of other letters of the word, up to `_NEAR_LETTERS` away."""
        between = [letter - _NEAR_LETTERS, letter + _NEAR_LETTERS + 1]
        first, last = np.searchsorted(self.letter_of_point, between, sorter=self._by_letter)
        near: Integers = self._by_letter[first:last]
        owner = self.letter_of_point[near]
        others: Integers = near[(self.word_of_letter[owner] == self.word_of_letter[letter]) & (owner != letter)]
        return others


class Penman:
    """The letter forms of one writer; the renderer caches it with its forms and joins."""

    def __init__(self, shaper: Shaper) -> None:
        self.shaper = shaper
        self.joined = shaper.measures.joined
        self.slant = shaper.writer.slant + (shaper.measures.slant or 0.0)
        self.habits = shaper.habits
        number = WRITER_NAMES.index(shaper.writer.name)
        chosen = shaper.hand.allographs
        self._numbers, self._clear_joins = chosen.forms[number], chosen.joins[number]
        x_height = self._height_of("x")
        self.x_height = min(max(x_height, 0.35), 0.8)
        self.letter_width = float(np.mean([shaper.word(letter).width for letter in _COMMON_LETTERS]))
        self.writes_capitals = self._height_of("h") < _MIN_ASCENDER * x_height
        self.forms = lru_cache(8192)(self._forms)
        self.meet = lru_cache(32768)(self._meet)

    def _height_of(self, character: str) -> float:
        [glyph] = self.shaper.word(character).glyphs
        return float(self.shaper.letter(glyph.hand, glyph.glyph).y.max(initial=0.0))

    def _forms(self, glyph: WordGlyph) -> tuple[Letterform, ...]:
        """Return the forms of a letter that this writer uses, most usual first."""
        usual = self.form_of(self.shaper.letter(glyph.hand, glyph.glyph), glyph.character)
        numbers = self._numbers.get(glyph.glyph, ()) if glyph.hand == 0 else ()
        others = {n: self.form_of(self.shaper.letter(0, n), glyph.character) for n in numbers if n != glyph.glyph}
        return tuple(replace(others[n], usual=usual) if n in others else usual for n in numbers) or (usual,)

    def form_of(self, strokes: Strokes, character: str) -> Letterform:
        parts, flags = parts_of(strokes), strokes.flags.tolist()
        if any(flag & OUTLINE_FLAG for flag in flags) or not flags or combining(character):
            return unjoined_form(character, parts, flags)
        written = character.upper() if self.writes_capitals and len(character.upper()) == 1 else character
        return letterform_of(written, self._scaled(parts, character), flags, self.joined, self.slant)

    def _scaled(self, parts: list[Part], character: str) -> list[Part]:
        """Scale a character by the habits of the writer, and what would be too small to be told from another."""
        habits, top = self.habits, max(float(part[:, 1].max()) for part in parts)
        if character.isdecimal():  # not a superscript
            bottom = min(float(part[:, 1].min()) for part in parts)
            size = max(habits.digit_size, _MIN_CAPITAL / max(top - bottom, _MIN_CAPITAL / 1.7))
            width = float(np.sqrt(size))  # figures grow less in width, or they would be too wide for their place
            return [(part - [0.0, bottom, 0.0]) * [width, size, 1.0] for part in parts]
        if character in _MARK_SIZES:
            least, in_x_heights = _MARK_SIZES[character]
            least, drop = max(least, in_x_heights * self.x_height), 0.0
            if character not in _LOW_MARKS:
                drop = top - min(self.x_height + _QUOTE_RISE, 1.0)
            return [_lengthened(part - [self.slant * drop, drop, 0.0], least) for part in parts]
        if character.isupper() and not self.writes_capitals:
            return [part * [1.0, max(_MIN_CAPITAL / max(top, _MIN_CAPITAL / 1.4), 1.0), 1.0] for part in parts]
        if not character.islower() or self.writes_capitals:
            return parts
        rise, ascender = top - self.x_height, habits.ascender
        if character in "bdhkl" and rise > 0.1:
            ascender = max(ascender, min((_MIN_ASCENDER_RISE * self.x_height) / rise, 1.6))
        scaled = []
        for part in parts:
            above, below = np.maximum(part[:, 1] - self.x_height, 0.0), np.minimum(part[:, 1], 0.0)
            y = part[:, 1] + ((ascender - 1) * above + (habits.descender - 1) * below)
            scaled.append(np.column_stack([part[:, 0], y, part[:, 2]]))
        return scaled

    def _meet(self, first: Letterform, second: Letterform, dx: float, dy: float) -> Junction:
        if combining(first.character) or combining(second.character):
            return _APART
        if first.character.isalnum() and second.character.isalnum():
            kern = optical_kern(first, second, dx, self.x_height, self.letter_width, self.joined)
        else:
            kern = punctuation_kern(first, second, dx, self.shaper.punctuation_gap, self.slant)
        junction = meet(first, second, dx, dy, self.joined, kern)
        if first.character.islower() and second.character in _LOW_MARKS:
            # Below the end of an r, a comma would look like the lower half of a colon.
            end = first.body_right[bands_of(np.arange(0.05, self.x_height, 0.1))].max()
            junction = junction._replace(kern=max(junction.kern, float(end - second.left.min() - dx)))
        return junction

    def choose(self, words: list[ShapedWord], noise: RandomStreams) -> list[ChosenLetter]:
        """Choose a form for each letter of a text, and whether it is joined to the letter before."""
        count = sum(len(word.glyphs) for word in words)
        form_chance, join_chance, bar_chance = (
            unit(noise.hashes(name, count)).tolist() for name in ("form", "join", "bar")
        )
        last_forms: dict[str, int] = {}
        choices: list[ChosenLetter] = []
        for number, word in enumerate(words):
            begin, shift, run, form_before = len(choices), 0.0, 0, 0
            origin, rise = word.origin_x.tolist(), word.origin_y.tolist()
            ends = [*origin[1:], word.width]
            for n, glyph in enumerate(word.glyphs):
                forms = self.forms(glyph)
                position = (n == 0) + 2 * (n == len(word.glyphs) - 1)
                at = _pick_form(len(forms), last_forms, glyph.character, position, form_chance[len(choices)])
                form, joins, junction = forms[at], False, _APART
                if n:
                    before = choices[-1].form
                    dx, dy = origin[n] - origin[n - 1], rise[n] - rise[n - 1]
                    junction = self.meet(before, form, round(dx, 6), round(dy, 6))
                    shift += junction.kern
                    run += 1
                    if junction.joins:
                        # Joins were judged for whole letters only, not for ligatures.
                        numbers = f"{form_before}{at}" if glyph.is_whole and word.glyphs[n - 1].is_whole else ""
                        pair = f"{before.character}{form.character}{numbers}"
                        joins = self._keeps_pen_down(pair, run, join_chance[len(choices)])
                    if joins:
                        shift += junction.wider
                    elif self.joined:
                        run = 0
                x, form_before = origin[n] + shift, at
                choices.append(ChosenLetter(form, number, x, rise[n], junction, joins, "", ends[n] - origin[n]))
            if any(pair in word.text for pair in _SHARED_BARS):
                _share_bars(choices, begin, word.glyphs, bar_chance)
        return choices

    def _keeps_pen_down(self, pair: str, run: int, chance: float) -> bool:  # `run`: letters since a lift
        if self.joined:
            if run < 3:
                return chance < 0.85
            lift_rate = 0.55 if pair[1] in _LETTERS_AFTER_LIFT else 0.2
            return run < self.habits.longest_run and chance > lift_rate
        return pair in self._clear_joins and chance < self.habits.join_rate


def _lengthened(part: Part, least: float) -> Part:
    """Enlarge a stroke from its top to the height `least`; a dot, as that of a semicolon, stays."""
    height = float(np.ptp(part[:, 1]))
    if height < _LARGEST_DOT or height >= least:
        return part
    top = part[part[:, 1].argmax()] * [1.0, 1.0, 0.0]
    return np.asarray(top + (part - top) * [least / height, least / height, 1.0])


def _pick_form(count: int, last_forms: dict[str, int], character: str, position: int, chance: float) -> int:
    """Choose another form than the last one, and store it; first and last letters of a word prefer others."""
    if count == 1:
        return 0
    up_to = _cumulative_weights(count, position, last_forms.get(character, -1))
    last_forms[character] = bisect_right(up_to, chance * up_to[-1])
    return last_forms[character]


@cache
def _cumulative_weights(count: int, position: int, before: int) -> list[float]:
    return list(accumulate(0.0 if n == before else _FORM_WEIGHTS[(n + position) % count] for n in range(count)))


def _share_bars(choices: list[ChosenLetter], begin: int, glyphs: Sequence[WordGlyph], chances: Sequence[float]) -> None:
    """Choose the pairs tt and th with one bar across both letters; the word begins with letter `begin` of the page."""
    for n, both in enumerate(pairwise(glyphs), begin):
        pair = "".join(glyph.character for glyph in both if glyph.is_whole)
        if chances[n] > _SHARED_BARS.get(pair, 0.0) or BAR not in choices[n].form.delayed:
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
        form = choice.form
        following = choices[n + 1] if n + 1 < len(choices) and choices[n + 1].word == choice.word else None
        if choice.joins and len(choice.junction.between):
            yield _Piece(choice.junction.between, n, False, 0, 0)
        for k, (part, flags, delayed) in enumerate(zip(form.parts, form.flags, form.delayed, strict=True)):
            if not delayed:
                yield _cut_for_joins(choice, following, n, k)
            elif delayed != BAR or choice.bar != "none":
                late.append(_Piece(part, n, True, flags, delayed))
    yield from late


def _cut_for_joins(choice: ChosenLetter, following: ChosenLetter | None, letter: int, stroke: int) -> _Piece:
    """Cut stroke number `stroke` of a letter for the joins, if it is the first, or the last that is not delayed."""
    points = choice.form.parts[stroke]
    begin, end, flags, is_new = 0, len(points), choice.form.flags[stroke], True
    if stroke == 0 and choice.joins:
        begin, flags, is_new = choice.junction.cut_head, flags & ~STARTS_IN_INK, False
    if stroke == choice.form.last and following is not None:
        if following.joins:
            end, flags = end - following.junction.cut_tail, flags & ~ENDS_IN_INK
        elif following.junction.touches:
            flags |= ENDS_IN_INK
    return _Piece(points[begin : max(end, begin + 1)], letter, is_new, flags, 0)


def _blend(strokes: Strokes, join: Integers) -> None:
    """Bend both pieces at every join towards each other; `join` has the index of the first point after each join."""
    stroke = strokes.stroke_of_point
    for values in (strokes.x, strokes.y, strokes.radius):
        gap = values[join] - values[join - 1]
        for k in range(10):  # up to `BLEND_LENGTH` from the join
            share = max(1 - k * POINT_DISTANCE / BLEND_LENGTH, 0.0)
            for at, sign in ((join - 1 - k, 1.0), (join + k, -1.0)):
                inside = (at >= 0) & (at < len(stroke))
                inside[inside] = stroke[at[inside]] == stroke[join[inside]]
                values[at[inside]] += sign * (0.5 * gap[inside] * share * share * (3 - 2 * share))
    near = np.unique(np.concatenate([join + k for k in range(-4, 4)]))
    first, last = strokes.ends()
    near = near[(near > 0) & (near < len(stroke) - 1)]
    near = near[~(first | last)[near]]
    for _ in range(3):
        for values in (strokes.x, strokes.y, strokes.radius):
            values[near] = 0.5 * values[near] + 0.25 * (values[near - 1] + values[near + 1])
