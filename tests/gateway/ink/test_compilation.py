"""The compilation of a hand: the same bytes every time, and strokes with the counters and parts of the outline."""

from __future__ import annotations

import io

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from data.tools.hands import shaping_font
from data.tools.hands.outline import GlyphPicture
from data.tools.hands.strokes import glyph_strokes
from data.tools.hands.tracing import GlyphFeatures, draw_ink, features_of, is_outline, trace_outline


def disc(radius: float, x: float = 0.0, y: float = 0.0) -> Path:
    return Affine2D().scale(radius).translate(x, y).transform_path(Path.unit_circle())


def ring(outer: float, inner: float, x: float = 0.0) -> Path:
    """Return a ring in cap heights; the hole turns the other way round."""
    hole = disc(inner, x)
    return Path.make_compound_path(disc(outer, x), Path(hole.vertices[::-1], hole.codes))


def bar(left: float, right: float) -> Path:
    return Path([(left, 0), (right, 0), (right, 1), (left, 1), (left, 0)], closed=True)


def ink_of(path: Path) -> np.ndarray:
    return GlyphPicture(path).ink


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (disc(0.2), GlyphFeatures(0, 1)),
        (ring(0.2, 0.1), GlyphFeatures(1, 1)),
        (Path.make_compound_path(ring(0.2, 0.1), ring(0.2, 0.1, x=1)), GlyphFeatures(2, 2)),
        (ring(0.2, 0.012), GlyphFeatures(0, 1)),  # 0.0005 square cap heights: an accident
        (Path.make_compound_path(disc(0.2), disc(0.012, x=1)), GlyphFeatures(0, 1)),
    ],
)
def test_form_counts_counters_and_parts(path, expected):
    assert features_of(ink_of(path)) == expected


def test_form_counts_ink_up_to_the_border():
    ink = np.ones((40, 40), bool)
    ink[10:20, 10:20] = False
    assert features_of(ink) == GlyphFeatures(1, 1)
    assert features_of(~ink) == GlyphFeatures(0, 1)


def test_parts_that_touch_at_a_corner_are_one():
    ink = np.zeros((40, 40), bool)
    ink[:20, :20] = ink[20:, 20:] = True
    assert features_of(ink) == GlyphFeatures(0, 1)


@pytest.mark.parametrize(
    ("path", "from_skeleton", "expected"),
    [
        # A hole of 0.003 square cap heights, as in the e of Ferris and Kingsley.
        (ring(0.12, 0.032), GlyphFeatures(0, 1), GlyphFeatures(1, 1)),
        (Path.make_compound_path(bar(0.0, 0.1), bar(0.108, 0.208)), GlyphFeatures(0, 1), GlyphFeatures(0, 2)),
    ],
)
def test_a_small_eye_or_gap_is_traced_open(path, from_skeleton, expected):
    picture = GlyphPicture(path)
    assert features_of(draw_ink(glyph_strokes(picture), picture)) == from_skeleton
    made = trace_outline(path)
    assert features_of(draw_ink(made, picture)) == features_of(picture.ink) == expected
    assert not is_outline(made)


def test_form_without_strokes_stays_an_outline():
    thin_walled = ring(0.05, 0.034)  # the wider eye breaks through this wall
    made = trace_outline(thin_walled)
    assert is_outline(made)
    picture = GlyphPicture(thin_walled)
    assert features_of(draw_ink(made, picture)) == features_of(picture.ink) == GlyphFeatures(1, 1)


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
