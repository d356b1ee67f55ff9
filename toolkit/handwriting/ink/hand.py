"""One hand: the characters, the shaping of a run of text, the strokes of the glyphs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import uharfbuzz as hb

from toolkit.handwriting.catalogue import HANDS_DIR
from toolkit.handwriting.ink.ribbons import Strokes

PACKS_DIR = HANDS_DIR / "packs"
PACK_UNITS = 1024  # one cap height in the integer coordinates of a pack


@dataclass(frozen=True, slots=True)
class Measures:
    """Measurements of one hand; lengths in cap heights."""

    name: str
    units_per_cap: float  # font units in one cap height (top of the drawn H)
    space: float  # advance of the space
    descender: float  # depth below the baseline of the lowest of ``gjpqy``
    nib: float  # mean half width of the strokes of the letters
    joined: bool  # whether letters are joined: then only whole words may move
    x_height: float | None  # None for a hand without small letters
    slant: float | None  # run over rise of the stems: above 0 they lean to the right; None for emoji


@dataclass(frozen=True, slots=True)
class PlacedGlyph:
    """A glyph with the position from HarfBuzz, in cap heights; `cluster` is the index of its first character."""

    glyph: int
    cluster: int
    advance: float
    dx: float
    dy: float


class Hand:
    """The strokes of all glyphs are integers, one glyph after another: floats take four times the memory."""

    def __init__(self, stored: Mapping[str, np.ndarray]) -> None:
        self.measures = Measures(**json.loads(stored["measures"].tobytes()))
        # Second differences are stored; the sums overflow 16 bits exactly as they did, so the coordinates are right.
        self._points = np.cumsum(np.cumsum(stored["points"], axis=1, dtype=np.int16), axis=1, dtype=np.int16)
        self._length, self._flags = stored["length"].astype(np.int64), stored["flags"]
        self._glyph_stroke = np.concatenate([[0], np.cumsum(stored["glyph_strokes"].astype(np.int64))])
        self._stroke_point = np.concatenate([[0], np.cumsum(self._length)])
        face = hb.Face(stored["font"].tobytes())
        self._font = hb.Font(face)
        self._characters = frozenset(face.unicodes)

    def has_character(self, character: str) -> bool:
        return ord(character) in self._characters

    def shape(self, text: str) -> list[PlacedGlyph]:
        """Return the glyphs of a run of text, left to right, with kerning and contextual forms."""
        buffer = hb.Buffer()
        buffer.add_str(text)
        buffer.guess_segment_properties()
        hb.shape(self._font, buffer)
        k = 1.0 / self.measures.units_per_cap
        return [
            PlacedGlyph(info.codepoint, info.cluster, at.x_advance * k, at.x_offset * k, at.y_offset * k)
            for info, at in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True)
        ]

    def glyph(self, number: int) -> Strokes:
        s0, s1 = self._glyph_stroke[number : number + 2]
        p0, p1 = self._stroke_point[s0], self._stroke_point[s1]
        x, y, radius = self._points[:, p0:p1] / PACK_UNITS
        return Strokes(x, y, radius, self._length[s0:s1], self._flags[s0:s1])


@cache
def load_hand(name: str) -> Hand:
    with np.load(PACKS_DIR / f"{name}.npz") as stored:
        return Hand(stored)
