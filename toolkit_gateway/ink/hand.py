"""Hands: which characters a hand has, the shaping of a run of text, the strokes of the glyphs.

A character that a hand lacks is replaced by a glyph of a fallback hand, fitted to the hand, or by an equivalent.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import msgspec
import numpy as np
import uharfbuzz as hb

from toolkit_gateway.ink.catalogue import HANDS_DIR
from toolkit_gateway.ink.ribbons import Strokes

PACKS_DIR = HANDS_DIR / "packs"
PACK_UNITS = 1024  # one cap height in the integer coordinates of a pack
_SIMILAR_CHARACTER = {"\u2011": "-", "\u2012": "-", "\u2015": "\u2014", "\u201b": "'"}  # not as in Unicode
_VARIATIONS = frozenset(["\ufe0e", "\ufe0f", *map(chr, range(0x1F3FB, 0x1F400))])  # of emoji: style and skin colour
_COMPANION = {  # the first fallback of a script: a hand that looks like the script and has more letters
    "bailey": "adelaide", "evangeline": "adelaide", "mathilde": "adelaide", "molly": "adelaide", "prudence": "adelaide",
    "squire": "adelaide",
    "harper": "mirov", "kingsley": "mirov", "larkin": "mirov", "linden": "mirov", "perry": "mirov",
}  # fmt: skip
_SHARED_FALLBACK = ("beekman", "cedar", "primrose", "haneul", "emoji")
#: A letter that reads as another letter in the font has a second glyph, for natural writing: its code is the first and
#: that of the letter. A form that the letter has only inside words has one too: the second and the number of its glyph.
REDRAWN, REDRAWN_GLYPH = 0xE000, 0xE080
MIN_SCALE, MAX_SCALE = 0.6, 1.3  # limits of the factor on the x-height of a fallback hand
_CURLY_QUOTES = {"'": ("‘", "’"), '"': ("“", "”")}
_CHARACTERS_BEFORE_OPENING = "([{<-–—/‘“"  # a straight quote after one of these opens a quotation


@dataclass(frozen=True, slots=True)
class Measures:
    """Measurements of one hand; lengths in cap heights."""

    name: str
    units_per_cap: float  # font units in one cap height (top of the drawn H)
    space: float  # advance of the space character
    descender: float  # depth below the baseline of the lowest of ``gjpqy``
    nib: float  # mean half width of the strokes of the letters
    joined: bool  # whether letters are joined: then only whole words move, and letters bend
    x_height: float | None  # None for a hand without small letters
    slant: float | None  # run over rise of the stems: above 0 they lean to the right; None for emoji


@dataclass(frozen=True, slots=True)
class PlacedGlyph:
    """A glyph with advance and offset from HarfBuzz, in cap heights; `cluster` is the index of its first character."""

    glyph_id: int
    cluster: int
    advance: float
    dx: float
    dy: float
    is_whole: bool  # whether it draws one character completely: it is no ligature and no part of a character


class Allographs(msgspec.Struct, frozen=True):
    """The forms in which the writers of a hand write its letters, chosen when the hand was compiled."""

    #: For each writer the forms of each letter, most usual first: "" is the letter of this hand, "=" this letter as it
    #: was redrawn, "-" and the name of an edit is this letter changed, any other name is the letter of another hand.
    forms: tuple[dict[str, tuple[str, ...]], ...] = ({}, {}, {}, {})
    #: For each writer of a print hand the pairs that stay legible if joined: two letters, the numbers of their forms.
    joins: tuple[frozenset[str], ...] = (frozenset(),) * 4


class Hand:
    """One hand. Coordinates of strokes stay integers, as in the file, because floats take four times the memory."""

    def __init__(self, stored: Mapping[str, np.ndarray]) -> None:
        self.measures = Measures(**json.loads(stored["measures"].tobytes()))
        # Only hands with handwritings of their own have allographs; the others only lend letters.
        chosen = stored["allographs"].tobytes() if "allographs" in stored else b"{}"
        self.allographs = msgspec.json.decode(chosen, type=Allographs)
        # The pack has second differences. Some overflow 16 bits; their sums overflow back to the right coordinates.
        self._points = np.cumsum(np.cumsum(stored["points"], axis=1, dtype=np.int16), axis=1, dtype=np.int16)
        self._length, self._flags = stored["length"].astype(np.int64), stored["flags"]
        self._glyph_stroke = np.concatenate([[0], np.cumsum(stored["glyph_strokes"].astype(np.int64))])
        self._stroke_point = np.concatenate([[0], np.cumsum(self._length)])
        face = hb.Face(stored["font"].tobytes())
        self._font = hb.Font(face)
        codes = frozenset(face.unicodes)
        self.redrawn = frozenset(chr(code) for code in codes if REDRAWN <= code < REDRAWN_GLYPH + face.glyph_count)
        self.characters = frozenset(map(chr, codes)) - self.redrawn

    def shape(self, text: str) -> list[PlacedGlyph]:
        """Return the glyphs of a run of text, left to right, with kerning and contextual forms."""
        buffer = hb.Buffer()
        buffer.add_str(text)
        buffer.cluster_level = hb.BufferClusterLevel.MONOTONE_CHARACTERS  # one cluster for each combining mark
        buffer.guess_segment_properties()
        hb.shape(self._font, buffer)
        k = 1.0 / self.measures.units_per_cap
        glyphs = Counter(info.cluster for info in buffer.glyph_infos)
        return [
            PlacedGlyph(
                info.codepoint, info.cluster, at.x_advance * k, at.x_offset * k, at.y_offset * k,
                glyphs[info.cluster] == 1 and (info.cluster + 1 in glyphs or info.cluster + 1 == len(text)),
            )
            for info, at in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True)
        ]  # fmt: skip

    def glyph(self, number: int) -> Strokes:
        s0, s1 = self._glyph_stroke[number : number + 2]
        p0, p1 = self._stroke_point[s0], self._stroke_point[s1]
        x, y, radius = self._points[:, p0:p1] / PACK_UNITS
        return Strokes(x, y, radius, self._length[s0:s1], self._flags[s0:s1])


@cache
def load_hand(name: str) -> Hand:
    with np.load(PACKS_DIR / f"{name}.npz") as stored:
        return Hand(stored)


def fallback_chain(script: str) -> tuple[str, ...]:
    """Return the names of the hands to try for each character: the script, its companion, the shared fallback hands."""
    return tuple(dict.fromkeys((script, _COMPANION.get(script, script), *_SHARED_FALLBACK)))


def spellings(character: str) -> tuple[str, ...]:
    """Return how `character` may be written: as itself or as an equivalent; "" if it is invisible."""
    if character in _VARIATIONS or unicodedata.category(character) == "Cf":  # format characters, which are invisible
        return ("",)
    return character, _SIMILAR_CHARACTER.get(character) or unicodedata.normalize("NFKD", character)


def curly_quotes(word: str) -> str:
    """Replace straight quotes by curly quotes: opening at the beginning and after a bracket, dash, slash or quote."""
    written = ""
    for index, character in enumerate(word):
        opening, closing = _CURLY_QUOTES.get(character, (character, character))
        is_year = character == "'" and word[index + 1 : index + 2].isdigit()  # in '98, the quote is an apostrophe
        written += opening if (not written or written[-1] in _CHARACTERS_BEFORE_OPENING) and not is_year else closing
    return written


@dataclass(frozen=True, slots=True)
class FaceFit:
    """Changes the glyphs of a fallback hand (`face`) to fit the hand of the text; capitals keep their height."""

    x_height: float  # of `face` before the change, in cap heights
    target: float  # the x-height of the fitted face, nearly that of the hand of the text
    width: float  # factor on the width of a glyph
    slant: float  # added to the slant of the face

    @classmethod
    def of(cls, face: Measures, hand: Measures) -> FaceFit | None:
        """Return the fit of a face to the hand of the text, or None for the hand itself and for emoji."""
        if face.name == hand.name or face.slant is None or hand.slant is None or hand.x_height is None:
            return None
        # A hand of Hangul has no x-height; its syllables suit letters with an x-height of two thirds of a cap height.
        x_height = face.x_height or 2 / 3
        factor = float(min(max(hand.x_height / x_height, MIN_SCALE), MAX_SCALE))
        if face.x_height is None:
            return cls(1.0, factor**0.5, factor**0.5, hand.slant - face.slant)
        return cls(x_height, x_height * factor, factor**0.5, hand.slant - face.slant)

    def apply(self, glyph: Strokes) -> Strokes:
        """Move the x-height of a glyph to `target`: scale the part below, fit the part above into the cap height."""
        small = np.minimum(glyph.y, self.x_height) * (self.target / self.x_height)
        above = np.maximum(glyph.y - self.x_height, 0.0)
        if self.x_height < 1:
            above *= (1 - self.target) / (1 - self.x_height)
        y = small + above
        return replace(glyph, x=glyph.x * self.width + y * self.slant, y=y)
