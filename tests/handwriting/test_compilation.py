"""The compilation of a hand: the same font gives the same bytes."""

from __future__ import annotations

import io

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont

from toolkit.handwriting.hands import shaping_font


def test_a_shaping_font_does_not_depend_on_the_day():
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "space"])
    builder.setupCharacterMap({32: "space"})
    builder.setupGlyf({name: TTGlyphPen(None).glyph() for name in (".notdef", "space")})
    builder.setupHorizontalMetrics({".notdef": (500, 0), "space": (300, 0)})
    builder.setupHorizontalHeader()
    builder.setupPost()
    builder.font["head"].modified = 3_000_000_000
    builder.font.recalcTimestamp = False
    font = io.BytesIO()
    builder.save(font)
    cut = shaping_font.without_outlines(shaping_font.subsetted(font.getvalue(), {32}, []))
    assert TTFont(io.BytesIO(cut), recalcTimestamp=False)["head"].modified == 3_000_000_000
