"""Choose the allographs of every writer, and the joins to avoid: ``python -m data.tools.hands.allographs``.

An allograph is another form of a letter: that of another hand, fitted to this hand, or the hand's own with a small
change. What is chosen goes into the packs, so that no page waits for it. `compile` runs this after it wrote packs.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Container, Iterable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
import uharfbuzz as hb
from tqdm.auto import tqdm

from data.tools.hands.borrow import borrow
from data.tools.hands.edits import EDITS
from data.tools.hands.legibility import Alphabet
from data.tools.hands.pack import write_pack
from data.tools.hands.sources import FontSource, sources
from toolkit_gateway.ink.catalogue import WRITERS, writer_of
from toolkit_gateway.ink.hand import PACKS_DIR, Allographs, Hand, load_hand
from toolkit_gateway.ink.natural.parts import parts_of
from toolkit_gateway.ink.natural.penman import ChosenLetter, Draft, Penman
from toolkit_gateway.ink.random_streams import Floats
from toolkit_gateway.ink.ribbons import OUTLINE_FLAG, Strokes
from toolkit_gateway.ink.shaping import Shaper

#: For each writer and each glyph of a letter the glyphs of its forms.
Forms: TypeAlias = tuple[dict[int, tuple[int, ...]], ...]

GROUPS = string.ascii_lowercase, string.digits, string.ascii_uppercase  # letters are compared within their group
CAPITAL_HANDS = frozenset(["flint"])  # have capitals instead of small letters, and lend nothing
MAX_BORROWED, MAX_FORMS = 2, 4  # of a letter: forms from other hands; all forms, with the hand's own
_FIRST_FROM_OTHERS = frozenset("rksfgt47")  # letters of which all writers but the first prefer a borrowed form
_JOINED_PAIRS = (  # in print hands, no other pairs are joined
    "th", "he", "in", "er", "an", "re", "en", "at", "ou", "ed", "or", "es", "ar", "te", "ti", "ll", "le", "ss", "ea",
    "oo", "me", "ne", "un", "ai", "ce", "ur",
)  # fmt: skip
_LEAST_LEAD = -0.03  # in similarity; below it, a letter of the hand reads as another, and is not written
_MAX_MORE_ALIKE, _ALIKE = 0.02, 0.8  # a join may make a pair so much more similar to one letter, or if it is not above
#: Changes of each letter, and by how much they change its counters; an a with an open bowl would be a u.
_CHANGES = {
    "d": ("-close loop",), "f": ("-raise bar", "-lower bar", "-close loop"),
    "g": ("-open bowl", "-open tail", "-looped tail"), "h": ("-close loop", "-retrace stem"),
    "j": ("-straight tail", "-open tail", "-looped tail"), "k": ("-close loop", "-retrace stem"), "l": ("-close loop",),
    "m": ("-retrace stem",), "n": ("-retrace stem",), "o": ("-open bowl",), "p": ("-retrace stem",),
    "q": ("-straight tail",), "r": ("-retrace stem",), "t": ("-raise bar", "-lower bar"),
    "y": ("-straight tail", "-open tail", "-looped tail"), "0": ("-open bowl",), "9": ("-open bowl",),
}  # fmt: skip
_COUNTERS_ADDED = {
    "-open bowl": -1, "-straight tail": -1, "-open tail": -1, "-close loop": -1, "-looped tail": 1
}  # fmt: skip


def main() -> None:
    written = [source for source in sources() if source.titles]
    chosen = {source.name: choose(source, written) for source in tqdm(written, desc="forms")}
    for name, (added, forms) in chosen.items():
        _store(name, added, Allographs(forms))
    load_hand.cache_clear()
    for name in tqdm([source.name for source in written if not source.joined], desc="joins"):
        added, forms = chosen[name]
        writers = (Shaper(name, writer_of(name, number, natural=True)) for number in range(len(WRITERS)))
        _store(name, added, Allographs(forms, tuple(_clear_joins(Penman(writer)) for writer in writers)))


def choose(source: FontSource, others: Iterable[FontSource]) -> tuple[list[Strokes], Forms]:
    """Return the glyphs to add to a hand, and for each writer the forms of its glyphs."""
    script = source.name
    # The first writer changes neither slant nor width, as the pack needs it.
    penman = Penman(Shaper(script, writer_of(script, 0, natural=True)))
    kept_from = {other.name for other in others if other.joined != source.joined} | CAPITAL_HANDS | {script}
    lenders = [other for other in others if other.name not in kept_from]
    borrowed, changed, illegible = _legible_forms(penman, lenders, source.redrawn)
    dropped = {letter for letter in illegible.union(source.unclear) - source.redrawn.keys() if borrowed.get(letter)}
    drawn = Drawn(penman)
    forms = tuple(
        drawn.forms_of(_forms_of_writer(script, number, borrowed, changed, dropped)) for number in range(len(WRITERS))
    )
    return drawn.added, forms


class Drawn:
    """The glyphs that are added to a hand: one for each form of each glyph of a letter."""

    def __init__(self, penman: Penman) -> None:
        self._penman, self._hand = penman, penman.shaper.hand
        self._base = _base_of(self._hand.measures.name)
        self._variants = _variants(self._hand)
        self.added: list[Strokes] = []
        self._number: dict[tuple[int, str], int | None] = {}

    def forms_of(self, names_of: dict[str, tuple[str, ...]]) -> dict[int, tuple[int, ...]]:
        """Return the forms of each glyph, for the names of the forms of each letter."""
        forms: dict[int, tuple[int, ...]] = {glyph: (redrawn,) for glyph, redrawn in self._base.redrawn.items()}
        for letter, names in names_of.items():
            for glyph in self._variants.get(letter, ()):
                numbers = [self._number_of(glyph, letter, name) for name in names]
                forms[glyph] = tuple(number for number in numbers if number is not None) or (glyph,)
        return forms

    def _number_of(self, glyph: int, letter: str, name: str) -> int | None:
        """Return the number of the glyph that draws this form of a glyph; None if the form does not fit."""
        own = self._base.own(glyph, letter)
        if name == "":
            return own
        if (own, name) not in self._number:
            drawn = self._penman.shaper.letter(0, own)
            if name.startswith("-"):
                strokes = _edited(drawn, name, self._penman.x_height)
            else:
                strokes = borrow(self._hand, drawn, letter, load_hand(name))
            self._number[own, name] = None if strokes is None else len(self._base.glyphs) + len(self.added)
            if strokes is not None:
                self.added.append(replace(strokes, radius=strokes.radius * self._hand.measures.nib))
        return self._number[own, name]


def _variants(hand: Hand) -> dict[str, list[int]]:
    """Return the glyphs with which a hand draws each letter, alone or between other letters."""
    small, digits, capitals = GROUPS
    texts = [*"".join(GROUPS), *product(small, small, small[::3]), *product(capitals + digits, small, "aeo")]
    texts += product(capitals + digits, repeat=2)
    variants: dict[str, set[int]] = {}
    for text in map("".join, texts):
        for glyph in hand.shape(text):
            if glyph.is_whole and len(hand.glyph(glyph.glyph_id).x):
                variants.setdefault(text[glyph.cluster], set()).add(glyph.glyph_id)
    return {letter: sorted(glyphs) for letter, glyphs in variants.items()}


class _Base(NamedTuple):
    """What a pack has before this command."""

    font: bytes
    glyphs: list[Strokes]  # of the font, and those that are redrawn
    redrawn: dict[int, int]  # the number of the redrawn glyph for that of the font

    def own(self, glyph: int, letter: str) -> int:
        """Return the number of a glyph of a letter, or that of the redrawn glyph."""
        usual = hb.Font(hb.Face(self.font)).get_nominal_glyph(ord(letter))
        return self.redrawn.get(glyph) or self.redrawn.get(usual or 0, glyph)


@cache
def _base_of(script: str) -> _Base:
    with np.load(PACKS_DIR / f"{script}.npz") as stored:
        font, redrawn = stored["font"].tobytes(), stored["redrawn"].tolist()
    hand, count = load_hand(script), hb.Face(font).glyph_count
    glyphs = [hand.glyph(n) for n in range(count + len(redrawn))]
    return _Base(font, glyphs, {glyph: count + n for n, glyph in enumerate(redrawn)})


def _store(script: str, added: list[Strokes], allographs: Allographs) -> None:
    base = _base_of(script)
    write_pack(load_hand(script).measures, base.font, base.glyphs + added, list(base.redrawn), allographs)


def _legible_forms(
    penman: Penman, lenders: list[FontSource], redrawn: Container[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]], set[str]]:
    """Return for each letter the hands with a legible form for it, and the legible changes; and the illegible letters.

    A letter of the hand is illegible if it is clearly less similar to this letter of all hands than to another letter.
    """
    borrowed: dict[str, list[str]] = {}
    changed: dict[str, list[str]] = {}
    illegible: set[str] = set()
    for group in GROUPS:
        own = {letter: strokes for letter in group if (strokes := _drawn(penman, letter)) is not None}
        if not own:
            continue
        alphabet = Alphabet(own, penman.shaper.nib, penman.x_height)
        offers = {letter: _offers(penman, letter, own[letter], lenders) for letter in own}
        shades = {letter: alphabet.shades_of([strokes for _, strokes in offers[letter]]) for letter in own}
        usual = np.stack([_mean(np.vstack([alphabet.shades[n], shades[c]])) for n, c in enumerate(own)])
        illegible |= {letter for letter, lead in alphabet.leads(usual).items() if lead < _LEAST_LEAD}
        for letter, drawn in own.items():
            readable = alphabet.reads_as(letter, shades[letter], usual)
            borrowed[letter] = [donor for (donor, _), good in zip(offers[letter], readable, strict=True) if good]
            tried = _changes(letter, drawn, penman, redrawn)
            counters = np.array([_COUNTERS_ADDED.get(name, 0) for name, _ in tried], np.int64)
            forms = [form for _, form in tried]
            legible = alphabet.keeps_form(letter, drawn, forms, counters)
            # If a loop is not closed, or more than the loop, an l may look like a b.
            parts, _ = alphabet.pictures_of([drawn, *forms])
            changed[letter] = [
                name
                for (name, _), good, count in zip(tried, legible, parts[1:], strict=True)
                if good and (name != "-close loop" or count == parts[0] + 1)
            ]
    return borrowed, changed, illegible


def _drawn(penman: Penman, letter: str) -> Strokes | None:
    """Return a letter of the hand itself, as redrawn; None if another hand writes it or it has an outline."""
    glyphs = penman.shaper.word(letter).glyphs
    if len(glyphs) != 1 or glyphs[0].hand != 0:
        return None
    base = _base_of(penman.shaper.measures.name)
    strokes = penman.shaper.letter(0, base.own(glyphs[0].glyph, letter))
    return strokes if len(strokes.x) and not (strokes.flags & OUTLINE_FLAG).any() else None


def _offers(penman: Penman, letter: str, own: Strokes, lenders: list[FontSource]) -> list[tuple[str, Strokes]]:
    """Return the letter of each other hand in which it is clear, fitted to this hand.

    The small letters of joined hands are not exchanged: their first and last strokes fit the letters of their own hand.
    A hand that writes capitals instead of small letters takes no small letters.
    """
    if letter.islower() and (penman.joined or penman.writes_capitals):
        return []
    clear = [lender.name for lender in lenders if letter not in {*lender.unclear, *lender.redrawn, *lender.kept}]
    offers = [(lender, borrow(penman.shaper.hand, own, letter, load_hand(lender))) for lender in clear]
    return [(lender, strokes) for lender, strokes in offers if strokes is not None and len(strokes.length)]


def _changes(letter: str, drawn: Strokes, penman: Penman, redrawn: Container[str]) -> list[tuple[str, Strokes]]:
    # A looped tail does not suit joined hands; a redrawn stem and branch begin and end where joins need it.
    unfit = {"-looped tail"} if penman.joined else set()
    unfit |= {"-retrace stem"} if letter in redrawn else set()
    names = [name for name in _CHANGES.get(letter, ()) if name not in unfit]
    edited = [(name, _edited(drawn, name, penman.x_height)) for name in names]
    return [(name, strokes) for name, strokes in edited if strokes is not None]


def _edited(own: Strokes, name: str, x_height: float) -> Strokes | None:
    """Return a letter with the change of this name; None if its strokes do not allow the change."""
    parts = EDITS[name[1:]](parts_of(own), x_height)
    if parts is None:
        return None
    x, y, radius = np.concatenate(parts).T
    # In a form with fewer strokes, it is unknown which stroke had which flags.
    flags = [*own.flags.tolist(), 0][: len(parts)] if len(parts) >= len(own.length) else [0] * len(parts)
    return Strokes(x, y, radius, np.array([len(part) for part in parts], np.int64), np.array(flags, np.uint8))


def _mean(shades: Floats) -> Floats:
    mean: Floats = shades.mean(axis=0)
    mean /= np.sqrt((mean * mean).sum())
    return mean


def _forms_of_writer(
    script: str, number: int, borrowed: dict[str, list[str]], changed: dict[str, list[str]], dropped: set[str]
) -> dict[str, tuple[str, ...]]:
    """Return the names of the forms of each letter: "" is that of the hand itself, unless it is dropped.

    "-" and the name of an edit is this letter changed, any other name is the letter of another hand; every writer
    borrows from other hands first.
    """

    def turn(lender: str) -> str:
        return hashlib.sha256(f"{script} {number} {lender}".encode()).hexdigest()

    forms = {}
    for letter in borrowed:
        taken = sorted(borrowed[letter], key=turn)[:MAX_BORROWED]
        own = [] if letter in dropped else [""]
        drawn = [*own, *taken] if number == 0 or letter not in _FIRST_FROM_OTHERS else [*taken, *own]
        forms[letter] = tuple([*drawn, *([] if letter in dropped else changed[letter])][:MAX_FORMS])
    return forms


def _clear_joins(penman: Penman) -> frozenset[str]:
    """Return the joins that make no pair look like something else: two letters, and the numbers of their forms."""
    drawn = {letter: strokes for letter in string.ascii_lowercase if (strokes := _drawn(penman, letter)) is not None}
    alphabet = Alphabet(drawn, penman.shaper.nib, penman.x_height)
    clear = set()
    for pair in _JOINED_PAIRS:
        both_ways = _both_ways(penman, pair) if drawn.keys() >= set(pair) else {}
        pictures = [strokes for two in both_ways.values() for strokes in two]
        if not pictures:
            continue
        parts, shades = alphabet.pictures_of(pictures)
        parts, alike = parts.reshape(-1, 2), (shades @ alphabet.shades.T).max(axis=1).reshape(-1, 2)
        has_counter = parts[:, 1] < parts[:, 0] - 1
        is_letter = alike[:, 1] > np.maximum(alike[:, 0] + _MAX_MORE_ALIKE, _ALIKE)
        clear |= {name for name, is_bad in zip(both_ways, has_counter | is_letter, strict=True) if not is_bad}
    return frozenset(clear)


def _both_ways(penman: Penman, pair: str) -> dict[str, tuple[Strokes, Strokes]]:
    """Return a pair of letters apart and joined, for all forms of both that can be joined, with the name of each."""
    word = penman.shaper.word(pair)
    if [glyph.is_whole for glyph in word.glyphs] != [True, True]:
        return {}
    first, second = (penman.forms(glyph) for glyph in word.glyphs)
    dx, dy = float(word.origin_x[1] - word.origin_x[0]), float(word.origin_y[1] - word.origin_y[0])
    drawn = {}
    for (m, left), (n, right) in product(enumerate(first), enumerate(second)):
        junction = penman.meet(left, right, round(dx, 6), round(dy, 6))
        if junction.joins:
            x = dx + junction.kern + junction.wider
            begin = ChosenLetter(left, 0, 0.0, 0.0, junction, False, "", dx)
            apart, joined = (ChosenLetter(right, 0, x, dy, junction, joins, "", 0.0) for joins in (False, True))
            name = f"{left.character}{right.character}{m}{n}"
            drawn[name] = Draft([begin, apart], 0).strokes, Draft([begin, joined], 0).strokes
    return drawn


if __name__ == "__main__":
    main()
