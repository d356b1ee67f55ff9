"""The writing: no two letters alike, one writing per seed, and no unwanted contact."""

from __future__ import annotations

import numpy as np
import pytest

from tests.written_pages import LETTER, handwriting, write_page, written
from toolkit_gateway.ink.catalogue import WRITERS, catalogue
from toolkit_gateway.ink.hand import load_hand
from toolkit_gateway.ink.parameters import CMYK, RGB, Parameters
from toolkit_gateway.ink.ribbons import DOT_FLAG
from toolkit_gateway.ink.shaping import Shaper


@pytest.mark.parametrize("title", ["Winters", "Molly"])
def test_no_two_of_the_first_200_e_have_the_same_outline(title, page_of):
    page = page_of("see the tree " * 60, hand=handwriting(title), width=1200.0, height=None)
    forms = set()
    letters = "".join(word.text for word in page.layout.words)
    places = [n for n, letter in enumerate(letters) if letter == "e"][:200]
    for place in places:
        form = page.strokes.select(page.letter_of_stroke == place)
        forms.add((np.round(form.x - form.x[0], 2).tobytes(), np.round(form.y - form.y[0], 2).tobytes()))
    assert len(places) == len(forms) == 200


@pytest.mark.parametrize("natural", [False, True])
def test_the_writing_does_not_depend_on_colour_or_format(page_of, natural):
    plain, svg, pdf = (
        page_of(LETTER, kind=kind, handwriting_color=colour, natural=natural).strokes
        for kind, colour in (("png", RGB(0, 0, 0)), ("svg", RGB(0, 0, 0)), ("pdf", CMYK(1, 0.5, 0, 0.2)))
    )
    for other in (svg, pdf):
        assert np.array_equal([plain.x, plain.y, plain.radius], [other.x, other.y, other.radius])


def test_later_text_does_not_change_earlier_writing(winters):
    pages = [write_page(Parameters(winters, "png", text, random_seed=7)) for text in ("Dear you,", "Dear you,\nmore")]
    short, long = (page.strokes for page in pages)
    count = len(short.x)
    assert np.allclose(short.x, long.x[:count])
    assert np.allclose(short.y, long.y[:count])


def test_two_writers_and_two_seeds_write_differently(winters):
    other = handwriting("Foster")
    assert other.script == winters.script
    data = {written(hand, LETTER, "png", seed=seed).data for hand in (winters, other) for seed in (1, 2)}
    assert len(data) == 4


PUNCTUATED = "so, week! book. no? yes) it; ok: Anna, far. Rob!"


@pytest.mark.parametrize("writer", [0, *(pytest.param(writer, marks=pytest.mark.long) for writer in (1, 2, 3))])
def test_punctuation_touches_no_letter(writer):
    """Measured on the drawn ink of every script, after the hand has moved."""
    for hand in (h for h in catalogue().values() if h.writer == writer):
        page = write_page(Parameters(hand, "png", PUNCTUATED, width=None, height=None, random_seed=3))
        for number, word in enumerate(page.layout.words):
            in_word = page.word_of_stroke == number
            last = page.letter_of_stroke == page.letter_of_stroke[in_word].max()
            mark, letters = page.strokes.select(in_word & last), page.strokes.select(in_word & ~last)
            assert white_between(mark, letters) > 0, f"{hand.title}: {word.text}"


def white_between(a, b):
    """Width of the white between two sets of strokes, in points; negative where their ink overlaps."""
    apart = np.hypot(a.x[:, None] - b.x, a.y[:, None] - b.y)
    return float((apart - a.radius[:, None] - b.radius).min())


def test_words_stay_apart_where_a_capital_swings_back():
    shaper = Shaper("molly", WRITERS[0])
    assert shaper.min_word_gap("on", "Sunday") > shaper.min_word_gap("on", "monday")


def test_the_dots_of_beekman_stand_over_their_letter():
    hand = load_hand("beekman")
    for letter in "äëïöüÿ":
        [at] = hand.shape(letter)
        strokes = hand.glyph(at.glyph_id)
        dot = np.repeat((strokes.flags & DOT_FLAG) > 0, strokes.length)
        assert dot.any()
        middle = (strokes.x[~dot].min() + strokes.x[~dot].max()) / 2
        assert strokes.x[dot].mean() == pytest.approx(middle, abs=0.2)
