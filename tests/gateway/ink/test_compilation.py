"""The compilation of a hand: the same bytes every time, and strokes with the counters and parts of the outline."""

from __future__ import annotations

import io
from typing import Any

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from data.tools.hands import shaping_font
from data.tools.hands.outline import GlyphPicture


@pytest.fixture(scope="module")
def tracing() -> Any:
    from data.tools.hands import tracing  # here, since it imports scipy and scikit-image

    return tracing


def disc(radius: float, x: float = 0.0, y: float = 0.0) -> Path:
    return Affine2D().scale(radius).translate(x, y).transform_path(Path.unit_circle())


def ring(outer: float, inner: float, x: float = 0.0) -> Path:
    """Return a ring in cap heights; the hole turns the other way round."""
    hole = disc(inner, x)
    return Path.make_compound_path(disc(outer, x), Path(hole.vertices[::-1], hole.codes))


def bar(left: float, right: float) -> Path:
    return Path([(left, 0), (right, 0), (right, 1), (left, 1), (left, 0)], closed=True)


def test_a_small_eye_or_gap_is_traced_open(tracing) -> None:
    for path, from_skeleton, expected in (
        # A hole of 0.003 square cap heights, as in the e of Ferris and Kingsley.
        (ring(0.12, 0.032), (0, 1), (1, 1)),
        (Path.make_compound_path(bar(0.0, 0.1), bar(0.108, 0.208)), (0, 1), (0, 2)),
    ):
        picture, made = GlyphPicture(path), tracing.trace_outline(path)
        assert tracing.features_of(tracing.draw_ink(tracing.glyph_strokes(picture), picture)) == from_skeleton
        assert tracing.features_of(tracing.draw_ink(made, picture)) == tracing.features_of(picture.ink) == expected
        assert not tracing.is_outline(made)


def test_form_without_strokes_stays_an_outline(tracing) -> None:
    thin_walled = ring(0.05, 0.034)  # the wider eye breaks through this wall
    picture, made = GlyphPicture(thin_walled), tracing.trace_outline(thin_walled)
    assert tracing.is_outline(made)
    assert tracing.features_of(tracing.draw_ink(made, picture)) == tracing.features_of(picture.ink) == (1, 1)


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
    cut = shaping_font.drop_outlines(shaping_font.subset_font(font.getvalue(), {32}, []))
    assert TTFont(io.BytesIO(cut), recalcTimestamp=False)["head"].modified == 3_000_000_000
