"""Repairs of the fonts: dots, quotes, dashes, bearings, digits, signs, ambiguous letters, fallback faces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from data.tools.hands.sources import sources
from toolkit_gateway.ink.catalogue import WRITERS
from toolkit_gateway.ink.hand import FaceFit, Hand, load_hand
from toolkit_gateway.ink.ribbons import DOT_FLAG, Strokes
from toolkit_gateway.ink.shaping import Shaper

SCRIPTS = [source.name for source in sources() if source.titles]
SIGNS = "√∞₂⅓≈≠≤≥±×÷°µπ∑∫←→✓✗☐☆♪⇒∈∩∪∠"


def glyph(script: str, character: str, before: str = "") -> Strokes:
    hand = load_hand(script)
    return hand.glyph(hand.shape(before + character)[-1].glyph_id)


def width(script: str, character: str) -> float:
    return float(np.ptp(glyph(script, character).x))


def shaper(script: str) -> Shaper:
    return Shaper(script, WRITERS[0])


def top(script: str, letter: str) -> float:
    return float(shaper(script).word(letter).strokes.y.max())


def bearings(hand: Hand, character: str) -> tuple[float, float]:
    placed = hand.shape(character)[0]
    s = hand.glyph(placed.glyph_id)
    return float((s.x - s.radius).min()), placed.advance - float((s.x + s.radius).max())


def same(one: Strokes, other: Strokes) -> bool:
    return len(one.x) == len(other.x) and np.allclose(one.x - one.x.min(), other.x - other.x.min(), atol=0.01)


def test_evangeline_dots_its_letters():
    for letter in "ij":
        strokes = glyph("evangeline", letter)
        assert np.count_nonzero(strokes.flags & DOT_FLAG) == 1
        assert strokes.y.max() > 1.4 * top("evangeline", "x")


def test_no_quote_is_reversed():
    assert [script for script in SCRIPTS if max(bulge(glyph(script, quote)) for quote in "‘“") > 0.005] == []
    assert [script for script in SCRIPTS if min(bulge(glyph(script, quote)) for quote in "’”") < -0.005] == []


def bulge(quote: Strokes) -> float:
    """Return how far the first mark bulges to the right of the straight line between its ends."""
    x, y = (values[: quote.length[0]] for values in (quote.x, quote.y))
    return float((x - x[0] - (x[-1] - x[0]) * (y - y[0]) / (y[-1] - y[0])).mean())


def test_straight_quotes_are_written_as_curly_ones():
    hand = shaper("winters")
    for straight, curly in (('"it\'s"', "“it’s”"), ("('a')", "(‘a’)"), ("'98", "’98"), ("\"'b'\"", "“‘b’”")):
        written, wanted = hand.word(straight), hand.word(curly)
        assert written.text == straight
        assert np.array_equal(written.strokes.x, wanted.strokes.x)


def test_dashes_keep_their_lengths():
    widths = {script: [width(script, dash) for dash in "-–—"] for script in SCRIPTS}
    assert [s for s, (hyphen, en, em) in widths.items() if hyphen > 0.46 or en < 1.3 * hyphen or em < 1.35 * en] == []


def test_commas_and_stops_stand_near_their_word():
    stops = [(script, c) for script in SCRIPTS for c in ",.;:" if max(bearings(load_hand(script), c)) > 0.13]
    assert stops == []
    assert [(script, c) for script in SCRIPTS for c in "‘’“”" if sum(bearings(load_hand(script), c)) > 0.21] == []


def test_digits_are_as_high_as_capitals():
    for script in SCRIPTS:
        heights = [np.ptp(glyph(script, digit).y) for digit in "0123456789"]
        assert 0.79 < np.mean(heights) + 2 * load_hand(script).measures.nib < 1.01, script


def test_ambiguous_letters_are_replaced():
    assert same(glyph("beekman", "n", before="a"), glyph("beekman", "n"))
    assert same(glyph("ramona", "s", before="k"), glyph("ramona", "s"))
    assert glyph("squire", "l").y.max() > 1.5 * glyph("squire", "e").y.max()
    foot = glyph("cassidy", "k").y < 0.15  # the leg of a k points away from the stem, that of an h does not
    assert np.ptp(glyph("cassidy", "k").x[foot]) > 0.4


def test_usual_signs_are_written_in_every_hand():
    assert {script: missing for script in SCRIPTS if (missing := shaper(script).missing(SIGNS))} == {}


def test_fallback_faces_have_the_x_height_and_slant_of_the_hand():
    for script in ("squire", "evangeline", "linden", "draper"):
        assert [top(script, letter) for letter in "жнα"] == pytest.approx([top(script, "x")] * 3, rel=0.25)
    for script in ("bailey", "draper"):
        hand = load_hand(script).measures
        for face in (load_hand(name).measures for name in ("adelaide", "beekman", "haneul")):
            y = np.linspace(0.0, 0.6, 9)
            stem = replace(Strokes.empty(), x=y * face.slant, y=y)
            fitted = FaceFit.of(face, hand).apply(stem)
            assert np.polyfit(fitted.y, fitted.x, 1)[0] == pytest.approx(hand.slant, abs=0.06)
