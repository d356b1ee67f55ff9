"""One hand: the characters, the shaping of a run of text, the strokes of the glyphs, and the file of the hand."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import uharfbuzz as hb

from toolkit.handwriting.catalogue import HANDS_DIR
from toolkit.handwriting.ink.ribbons import Strokes
from toolkit.keyed_noise import Integers

PACKS_DIR = HANDS_DIR / "packs"
_PACK_UNITS = 1024  # one cap height in the integer coordinates of a pack


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
    def __init__(self, measures: Measures, font: bytes, strokes: Strokes, strokes_of_glyph: Integers) -> None:
        self.measures = measures
        self._strokes = strokes  # of all glyphs, one after another, in cap heights, y upwards
        self._glyph_stroke = np.concatenate([[0], np.cumsum(strokes_of_glyph)])
        self._stroke_point = np.concatenate([[0], np.cumsum(strokes.length)])
        face = hb.Face(font)
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
        s = self._strokes
        return Strokes(s.x[p0:p1], s.y[p0:p1], s.radius[p0:p1], s.length[s0:s1], s.flags[s0:s1])


@cache
def load_hand(name: str) -> Hand:
    with np.load(PACKS_DIR / f"{name}.npz") as stored:
        # The sums overflow 16 bits exactly as the stored differences did, so the coordinates are right.
        whole = np.cumsum(np.cumsum(stored["points"], axis=1, dtype=np.int16), axis=1, dtype=np.int16)
        x, y, radius = whole / _PACK_UNITS
        strokes = Strokes(x, y, radius, stored["length"].astype(np.int64), stored["flags"])
        measures = Measures(**json.loads(stored["measures"].tobytes()))
        return Hand(measures, stored["font"].tobytes(), strokes, stored["glyph_strokes"].astype(np.int64))


def write_pack(path: Path, measures: Measures, font: bytes, glyphs: list[Strokes]) -> None:
    """Write the file of a hand; coordinates are second differences of integers, which compress well."""
    strokes = Strokes.concatenate(glyphs)
    whole = np.rint(np.stack([strokes.x, strokes.y, strokes.radius]) * _PACK_UNITS).astype(np.int16)
    np.savez_compressed(
        path,
        measures=np.frombuffer(json.dumps(asdict(measures)).encode(), np.uint8),
        font=np.frombuffer(font, np.uint8),
        points=np.diff(np.diff(whole, prepend=np.int16(0)), prepend=np.int16(0)),
        length=strokes.length.astype(np.uint16),
        flags=strokes.flags,
        glyph_strokes=np.array([len(glyph.length) for glyph in glyphs], np.uint8),
    )
