"""Natural writing: letters, strokes and gaps vary as in real handwriting, and stay in place."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from tests.gateway.ink.test_writing import white_between
from tests.written_pages import handwriting, write_page, written
from toolkit_gateway.ink.catalogue import catalogue, writer_of
from toolkit_gateway.ink.natural.penman import Penman
from toolkit_gateway.ink.parameters import Parameters
from toolkit_gateway.ink.random_streams import RandomStreams
from toolkit_gateway.ink.ribbons import DOT_FLAG
from toolkit_gateway.ink.shaping import Shaper

CONSTRUCTED = "etasnodgyflhk1479"  # and r, which Evangeline has as an outline


def natural_page(title, text, seed=7, **parameters):
    full = {"width": 1200.0, "height": None, "natural": True, **parameters}
    return write_page(Parameters(handwriting(title), "png", text, 40.0, random_seed=seed, **full))


def ink_of(page, word):
    return page.strokes.select(page.word_of_stroke == word)


@pytest.fixture(scope="module")
def penman():
    return Penman(Shaper("winters", writer_of("winters", 0, natural=True)))


def test_every_hand_has_several_forms_of_usual_letters():
    for script in (row.script for row in catalogue().values() if row.writer == 0):
        penman = Penman(Shaper(script, writer_of(script, 0, natural=True)))
        counts = []
        for character in CONSTRUCTED:
            [(hand, glyph, _)] = penman.shaper.word(character).glyphs
            counts.append(len(penman.forms(hand, glyph, character)))
        # Joined hands borrow no small letters, whose ends would not fit; nor does a hand of capitals.
        borrows = not penman.joined and not penman.writes_capitals
        assert np.mean(counts) > (2.4 if borrows else 1.6), script
        assert not borrows or sum(count < 2 for count in counts) <= 4, script


def test_a_letter_never_has_the_form_it_had_last(penman):
    words = [penman.shaper.word(word) for word in ("letter", "tattoo", "been", "seen", "add", "summer", "1477", "9914")]
    last = {}
    for choice in penman.choose(words, RandomStreams("5")):
        [(hand, glyph, _)] = penman.shaper.word(choice.form.character).glyphs
        if len(penman.forms(hand, glyph, choice.form.character)) > 1:
            assert choice.form is not last.get(choice.form.character)
        last[choice.form.character] = choice.form


def test_the_strokes_of_a_repeated_word_vary():
    for title in ("Molly", "Winters", "Prudence"):
        page = natural_page(title, "weather " * 20)
        assert len({int((page.word_of_stroke == word).sum()) for word in range(20)}) > 1


def test_words_do_not_touch_in_any_hand():
    """Also where a descender goes back under the word before: "the jazz"."""
    for hand in (h for h in catalogue().values() if h.writer == 0):
        assert gaps_of(natural_page(hand.title, "the jazz for your jury", seed=3)).min() > 0, hand.title


def test_dots_and_bars_come_after_their_word():
    page = natural_page("Prudence", "tin title")
    for word, late in ((0, 2), (1, 2)):
        ink = ink_of(page, word)
        flat = np.maximum.reduceat(ink.y, ink.start) - np.minimum.reduceat(ink.y, ink.start) < 14
        assert flat[-late:].all()
        assert not flat[0]
    assert ink_of(page, 0).flags[-1] & DOT_FLAG or ink_of(page, 0).flags[-2] & DOT_FLAG


def test_joined_letters_are_one_smooth_line():
    page = natural_page("Molly", "running " * 6)
    ink = page.strokes
    wide = np.maximum.reduceat(ink.x, ink.start) - np.minimum.reduceat(ink.x, ink.start)
    begin = ink.start[wide.argmax()]
    at = slice(begin, begin + ink.length[wide.argmax()])
    steps = np.hypot(np.diff(ink.x[at]), np.diff(ink.y[at])) / 40
    assert wide.max() / 40 > 1.5
    assert steps.max() < 0.12


def gaps_of(page):
    """Return the white between the words of each line, in cap heights."""
    same_line = [n for n, (line, following) in enumerate(pairwise(page.layout.line)) if line == following]
    return np.array([white_between(ink_of(page, n), ink_of(page, n + 1)) for n in same_line]) / 40


def test_gaps_vary_and_none_is_far_from_the_usual_gap():
    white = gaps_of(natural_page("Marlon", "one more word " * 40))
    assert white.min() > 0.1
    assert white.mean() > np.median(white)
    white = gaps_of(natural_page("Winters", "minimum " * 120))
    assert white.min() / np.median(white) > 0.55
    assert white.max() / np.median(white) < 2.1


@pytest.mark.parametrize("title", ["Cedar", "Linden", "Winters"])
def test_a_shared_bar_crosses_both_letters(title):
    page = natural_page(title, "letter kettle little cottage settle " * 4)
    for word, shaped in enumerate(page.layout.words):
        ink, at = ink_of(page, word), shaped.text.index("tt")
        first_letter = page.letter_of_stroke[page.word_of_stroke == word].min()
        letter = page.letter_of_stroke[page.word_of_stroke == word] - first_letter
        both = ink.select((letter == at) | (letter == at + 1))
        strokes = [both.stroke_of_point == n for n in range(len(both.length))]
        left = min(both.x[one].min() for one in strokes if np.ptp(both.x[one]) > 2 * np.ptp(both.y[one]))
        assert left < np.median(ink.select(letter == at).x) + 2


def test_joins_and_dots_of_difficult_letters():
    def forms_of(script, letter):
        penman = Penman(Shaper(script, writer_of(script, 0, natural=True)))
        [(hand, glyph, _)] = penman.shaper.word(letter).glyphs
        return penman, penman.forms(hand, glyph, letter)

    assert not any(form.has_entry for form in forms_of("bailey", "n")[1]), "no join arrives at the foot of a stem"
    (penman, before), (_, after) = forms_of("bailey", "o"), forms_of("bailey", "r")
    cuts = [penman.meet(form, follower, 0.5, 0.0).cut_tail for follower in after for form in before]
    assert max(cuts) <= 1, "the bowl of an o stays closed"
    serifs = forms_of("larkin", "i")[1]
    assert all(sum(late > 0 for late in form.delayed) == 1 for form in serifs), "the serif of an i is no dot"


def test_dots_keep_clear_of_the_letters_of_their_word():
    page = natural_page("Bailey", "with liked twice miles little " * 8)
    near = []
    for word in range(len(page.layout.words)):
        ink = ink_of(page, word)
        [dot] = np.nonzero(ink.flags & DOT_FLAG)[0][-1:]
        of_dot = ink.stroke_of_point == dot
        rest = ink.select(np.arange(len(ink.length)) != dot)
        apart = np.hypot(rest.x[:, None] - ink.x[of_dot], rest.y[:, None] - ink.y[of_dot])
        near.append(apart.min() / 40 < 0.08)
    assert np.mean(near) < 0.1


def edges_of(page):
    """Return where the ink of each line begins and ends, in cap heights."""
    lines = [np.nonzero(page.layout.line == n)[0] for n in range(page.layout.line_count)]
    ink = [np.concatenate([ink_of(page, word).x for word in words]) for words in lines]
    return np.array([[x.min() for x in ink], [x.max() for x in ink]]) / 40


def test_the_margin_drifts_and_starts_over_with_a_paragraph():
    page = natural_page("Winters", "\n".join(["First" + " minimum" * 80] * 6))
    left, _ = edges_of(page)
    begins = [n for n, text in enumerate(page.layout.line_texts) if text.startswith("First")]
    paragraphs = np.array([left[n : n + 12] for n in begins])
    assert np.abs(np.diff(paragraphs)).max() < 0.9
    assert 0.2 < paragraphs.std() < 0.5
    assert np.ptp(paragraphs[:, 0]) < 0.5
    assert paragraphs[:, -4:].mean() > paragraphs[:, 0].mean()


@pytest.mark.parametrize("title", ["Molly", "Cassidy"])
def test_lines_end_at_different_places_and_within_the_margin(title):
    page = natural_page(title, "the river and the old house we saw by the water " * 18)
    ends = np.delete(edges_of(page)[1], -1)
    assert ends.max() < 30
    assert ((np.abs(ends[:, None] - ends) < 0.08).sum(axis=1).max() - 1) / len(ends) < 0.2
    assert np.ptp(ends) > 1.5


def test_no_word_begins_above_the_full_stop_before_it():
    page = natural_page("Linden", "fast. The last, Two. Yet " * 12)
    for word in range(47):
        if page.layout.line[word] == page.layout.line[word + 1] and page.layout.words[word].text[-1] in ".,":
            begins = ink_of(page, word + 1)
            assert begins.x[begins.y < page.word_y[word + 1]].min() - ink_of(page, word).x.max() > 0.3 * 40


def test_tabs_make_columns():
    page = natural_page("Winters", "name\ttown\nMargaret Hollis\tRome\nAda\tPrague\n\n\tfar", width=None)
    left = {page.layout.words[n].text: float(ink_of(page, n).x.min()) / 40 for n in range(len(page.layout.words))}
    assert np.ptp([left["town"], left["Rome"], left["Prague"]]) < 0.8
    assert left["town"] - left["name"] > 6
    assert 1 < left["far"] - left["name"] < 4


@pytest.mark.parametrize("title", ["Molly", "Winters", "Flint"])
def test_ink_stays_on_a_page_that_holds_the_lines(title):
    for seed in range(1, 6):
        page = natural_page(title, "The first line\ngoes up or down\nand the last", seed, width=600.0, height=230.0)
        assert page.cut_line is None
        assert (page.strokes.y - page.strokes.radius).min() > -0.5
        assert (page.strokes.x + page.strokes.radius).max() < 600.5


def test_unusual_texts_are_written():
    for text in ("x", ".", "...", "t", "\n\nü\n", "한국어", "😀", "a\u2060b", "ß", "x" * 200):
        for title in ("Molly", "Flint"):
            strokes = natural_page(title, text, width=300.0).strokes
            assert np.isfinite([strokes.x, strokes.y, strokes.radius]).all()
            assert (strokes.length > 0).all()


def test_a_replay_pauses_between_words_and_slows_down_in_curves():
    data = written(handwriting("Molly"), "so long", "replay", natural=True).data.decode()
    begin, lasts = (
        [float(value) for value in re.findall(rf"animation-{name}:([\d.]+)s", data)] for name in ("delay", "duration")
    )
    page = write_page(Parameters(handwriting("Molly"), "replay", "so long", random_seed=7, natural=True))
    pause = np.array(begin[1:]) - np.array(begin[:-1]) - np.array(lasts[:-1])
    between_words = np.diff(page.word_of_stroke) > 0
    assert pause.min() > -0.02
    assert pause[between_words].min() > pause[~between_words].max()
    curves = re.findall(r"linear\(0,([^)]+)\)", data)
    assert any(np.std(np.diff([0.0, *map(float, curve.split(","))])) > 0.02 for curve in curves)
