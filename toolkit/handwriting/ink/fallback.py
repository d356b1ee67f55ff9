"""Replacements for characters that a hand lacks: similar characters, or fitted glyphs of a fallback hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from toolkit.handwriting.ink.hand import Measures
from toolkit.handwriting.ink.ribbons import Strokes

SIMILAR_CHARACTER = {
    "\u00a0": " ", "\u202f": " ", "\u2007": " ", "\u2009": " ", "\u2010": "-", "\u2011": "-", "\u2012": "-",
    "\u2013": "-", "\u2014": "-", "\u2015": "\u2014", "\u2212": "-", "\u2018": "'", "\u2019": "'", "\u201b": "'",
    "\u2032": "'", "\u201c": '"', "\u201d": '"', "\u2033": '"', "\u2044": "/", "\u00ad": "", "\u2022": "\u00b7",
}  # fmt: skip
INVISIBLE_CHARACTERS = frozenset(
    ["\u200b", "\u200c", "\u200d", "\u2060", "\ufe0e", "\ufe0f", "\ufeff", *map(chr, range(0x1F3FB, 0x1F400))]
)
SMALLEST, LARGEST = 0.6, 1.3  # limits of the factor on letters of a fallback hand
_CURLY_QUOTES = {"'": ("‘", "’"), '"': ("“", "”")}
_CHARACTERS_BEFORE_OPENING = "([{<-–—/‘“"


def curly_quotes(word: str) -> str:
    """Replace the straight quotes of a word by curly quotes: opening at the beginning and after a bracket or dash."""
    written = ""
    for place, character in enumerate(word):
        opening, closing = _CURLY_QUOTES.get(character, (character, character))
        is_year = character == "'" and word[place + 1 : place + 2].isdigit()  # '98
        written += opening if (not written or written[-1] in _CHARACTERS_BEFORE_OPENING) and not is_year else closing
    return written


@dataclass(frozen=True, slots=True)
class FaceFit:
    """Changes the glyphs of a fallback hand (`face`) to fit the hand of the text; the capitals are equally high."""

    x_height: float  # of the face, in cap heights
    wanted: float  # the x-height of the hand of the text, in cap heights
    width: float  # factor
    slant: float  # added to the slant of the face

    @classmethod
    def of(cls, face: Measures, hand: Measures) -> FaceFit | None:
        """Return the fit of a face to the hand of the text, or None for the hand itself and for emoji."""
        if face.name == hand.name or face.slant is None or hand.slant is None or hand.x_height is None:
            return None
        # A Hangul syllable is drawn to stand beside letters of two thirds of a cap height.
        x_height = face.x_height or 2 / 3
        factor = float(min(max(hand.x_height / x_height, SMALLEST), LARGEST))
        wanted = min(x_height * factor, 0.9)
        if face.x_height is None:
            return cls(1.0, factor**0.5, factor**0.5, hand.slant - face.slant)
        return cls(x_height, wanted, factor**0.5, hand.slant - face.slant)

    def apply(self, glyph: Strokes) -> Strokes:
        """Move the x-height of a glyph to `wanted`: scale the part below the x-height, and fit the part above."""
        small = np.minimum(glyph.y, self.x_height) * (self.wanted / self.x_height)
        above = np.maximum(glyph.y - self.x_height, 0.0)
        if self.x_height < 1:
            above *= (1 - self.wanted) / (1 - self.x_height)
        y = small + above
        return replace(glyph, x=glyph.x * self.width + y * self.slant, y=y)
