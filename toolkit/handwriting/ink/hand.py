"""One compiled hand: which characters it writes, how it shapes a run of text, and the strokes of its glyphs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import uharfbuzz as hb

from toolkit.handwriting.hands.pack import PACKS, read_pack
from toolkit.handwriting.ink.ribbons import Strokes


@dataclass(frozen=True, slots=True)
class Placed:
    """One glyph as HarfBuzz placed it: advance and offset in cap heights, first character of its cluster."""

    glyph: int
    cluster: int
    advance: float
    dx: float
    dy: float


class Hand:
    def __init__(self, name: str) -> None:
        pack = read_pack(PACKS / f"{name}.npz")
        self.measures = pack.measures
        self._strokes = pack.strokes
        self._glyph_stroke = np.concatenate([[0], np.cumsum(pack.glyph_strokes)])
        self._stroke_point = np.concatenate([[0], np.cumsum(pack.strokes.length)])
        face = hb.Face(pack.font)
        self._font = hb.Font(face)
        self._characters = frozenset(face.unicodes)

    def writes(self, character: str) -> bool:
        return ord(character) in self._characters

    def shape(self, text: str) -> list[Placed]:
        """Return the glyphs of a run of text, left to right, with kerning and contextual forms."""
        buffer = hb.Buffer()
        buffer.add_str(text)
        buffer.guess_segment_properties()
        hb.shape(self._font, buffer)
        k = 1.0 / self.measures.units_per_cap
        return [
            Placed(info.codepoint, info.cluster, at.x_advance * k, at.x_offset * k, at.y_offset * k)
            for info, at in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True)
        ]

    def glyph(self, number: int) -> Strokes:
        """Return the strokes of glyph `number` in cap heights, y upwards; a space has none."""
        s0, s1 = self._glyph_stroke[number : number + 2]
        p0, p1 = self._stroke_point[s0], self._stroke_point[s1]
        s = self._strokes
        return Strokes(s.x[p0:p1], s.y[p0:p1], s.radius[p0:p1], s.length[s0:s1], s.flags[s0:s1])


@cache
def open_hand(name: str) -> Hand:
    return Hand(name)
