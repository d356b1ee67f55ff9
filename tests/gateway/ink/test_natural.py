"""Natural writing: letters, strokes and gaps vary as in real handwriting, and stay in place."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from tests.gateway.ink.test_writing import white_between
from tests.written_pages import handwriting, write_page, written
from toolkit_gateway.ink.catalogue import catalogue, writer_of
from toolkit_gateway.ink.hand import load_hand
from toolkit_gateway.ink.natural.parts import parts_of
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
            [glyph] = penman.shaper.word(character).glyphs
            counts.append(len(penman.forms(glyph)))
        # Joined hands borrow no small letters, whose ends would not fit; nor does a hand of capitals.
        borrows = not penman.joined and not penman.writes_capitals
        assert np.mean(counts) > (2.4 if borrows else 1.6), script
        assert not borrows or sum(count < 2 for count in counts) <= 4, script


def test_a_letter_never_has_the_form_it_had_last(penman):
    words = [penman.shaper.word(word) for word in ("letter", "tattoo", "been", "seen", "add", "summer", "1477", "9914")]
    last = {}
    for choice in penman.choose(words, RandomStreams("5")):
        [glyph] = penman.shaper.word(choice.form.character).glyphs
        if len(penman.forms(glyph)) > 1:
            assert choice.form is not last.get(choice.form.character)
        last[choice.form.character] = choice.form


def length_of(parts):
    return sum(np.hypot(*np.diff(part[:, :2], axis=0).T).sum() for part in parts)


def ligatures_and_parts(hand, text):
    """Return the numbers of the glyphs of which one draws several characters, or several one."""
    clusters = [glyph.cluster for glyph in hand.shape(text)]
    characters = np.diff([*dict.fromkeys(clusters), len(text)])
    if len(clusters) == len(text) and (characters == 1).all():
        return []
    sizes = dict(zip(dict.fromkeys(clusters), characters, strict=True))
    return [n for n, cluster in enumerate(clusters) if sizes[cluster] > 1 or clusters.count(cluster) > 1]


def test_ligatures_lose_no_letter_and_capitals_are_written_once():
    pairs = ["ff", "fi", "fl", "ft", "tt", "st", "ti", "ei", "sh", "ch", "Ap", "Al", "Ch", "Ed", "Ja", "Ka", "Yo"]
    scripts = {row.script for row in catalogue().values()}
    unusual = {script: {pair: ligatures_and_parts(load_hand(script), pair) for pair in pairs} for script in scripts}
    checked = set()
    for row in catalogue().values():
        special = {pair: glyphs for pair, glyphs in unusual[row.script].items() if glyphs}
        if not special:
            continue
        penman = Penman(Shaper(row.script, writer_of(row.script, row.writer, natural=True)))
        for pair, glyphs in special.items():
            word = penman.shaper.word(pair)
            for n in glyphs:
                in_font = length_of(parts_of(word.strokes.select(word.letter_of_stroke == n)))
                lengths = [length_of(form.parts) for form in penman.forms(word.glyphs[n])]
                # The pen also goes back along strokes, as in the K of Prudence.
                assert 0.9 * in_font < min(lengths) <= max(lengths) < 1.5 * in_font, (row.title, pair)
                checked.add(row.script)
    assert len(checked) >= 10


def gap_between(left, right, dx):
    """Return the narrowest white between two letters, without their bars, dots and accents."""
    (left_x, left_y, _), (right_x, right_y, _) = (
        np.concatenate(form.parts[: form.last + 1]).T for form in (left, right)
    )
    height = np.arange(-0.85, 1.3, 0.1)[:, None]
    ends = np.where(np.abs(left_y - height) < 0.05, left_x, -np.inf).max(axis=1)
    begins = np.where(np.abs(right_y - height) < 0.05, right_x, np.inf).min(axis=1)
    return float((begins - ends).min()) + dx


@pytest.mark.parametrize("writers", [1, pytest.param(4, marks=pytest.mark.long)])
def test_no_letter_runs_into_its_neighbour(writers):
    text = "If it spring train until little lot Oxley"
    for row in (row for row in catalogue().values() if row.writer < writers):
        penman = Penman(Shaper(row.script, writer_of(row.script, row.writer, natural=True)))
        if penman.joined:
            continue
        words = [penman.shaper.word(word) for word in text.split()]
        own = {}
        for hand, glyph, character, _ in {glyph for word in words for glyph in word.glyphs}:
            strokes = penman.shaper.letter(hand, glyph)
            own[hand, glyph] = penman.form_of(strokes, character)
        letters = [(own[at[:2]], x) for word in words for at, x in zip(word.glyphs, word.origin_x, strict=True)]
        choices = penman.choose(words, RandomStreams("3"))
        for (left, right), ((own_left, at), (own_right, after)) in zip(
            pairwise(choices), pairwise(letters), strict=True
        ):
            if left.word != right.word:
                continue
            pair = f"{left.form.character}{right.form.character} in {row.title}"
            usual = gap_between(own_left, own_right, after - at)
            assert gap_between(left.form, right.form, right.x - left.x) > 0.85 * min(usual, 0.24) - 0.02, pair
            if right.joins and left.form.character in "iu":  # from the top, i and n would make an m
                leaves = left.form.parts[left.form.last][-1 - right.junction.cut_tail]
                assert leaves[1] < penman.x_height / 2, pair


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
        [glyph] = penman.shaper.word(letter).glyphs
        return penman, penman.forms(glyph)

    assert not any(form.has_entry for form in forms_of("bailey", "n")[1]), "no join arrives at the foot of a stem"
    (penman, before), (_, after) = forms_of("bailey", "o"), forms_of("bailey", "r")
    cuts = [penman.meet(form, follower, 0.5, 0.0).cut_tail for follower in after for form in before]
    assert max(cuts) <= 1, "the bowl of an o stays closed"
    (penman, [capital]), (_, [letter]) = forms_of("molly", "I"), forms_of("molly", "s")
    assert penman.meet(capital, letter, 0.9, 0.0).kern < -0.1, "a letter that is not joined stands near its capital"
    (penman, [two, *_]), (_, [seven, *_]) = forms_of("ramona", "2"), forms_of("ramona", "7")
    assert penman.meet(two, seven, 0.9, 0.0).kern < -0.1, "figures stand as near as letters"
    (penman, [f, *_]), (_, [e, *_]) = forms_of("mirov", "f"), forms_of("mirov", "e")
    assert penman.meet(f, e, 0.5, 0.0).kern < -0.05, "the bar of an f keeps no letter away"
    (penman, [c, *_]), (_, [o, *_]) = forms_of("larkin", "c"), forms_of("larkin", "o")
    assert penman.meet(c, o, 0.3, 0.0).kern > 0.02, "a c that is not joined does not touch the next letter"
    (penman, [e, *_]), (_, [stop, *_]) = forms_of("winters", "e"), forms_of("winters", ".")
    assert penman.meet(e, stop, 0.9, 0.0).kern < -0.1, "a stop stands near its word"
    serifs = forms_of("larkin", "i")[1]
    assert all(sum(late > 0 for late in form.delayed) == 1 for form in serifs), "the serif of an i is no dot"


def test_a_letter_that_reads_as_another_is_not_written():
    for script, letters in (
        ("larkin", "umfwxk4"),
        ("squire", "befnrsDI7"),
        ("mathilde", "bopr"),
        ("prudence", ("If", "Zo", "re")),  # forms that the font has only inside words
        ("winters", "a"),
        ("clover", "a"),
        ("nell", "r"),
        ("cassidy", "h"),
        ("bailey", "nrsS"),
        ("perry", "hrbt4"),
        ("harper", "c"),
        ("kingsley", "a47"),
        ("evangeline", "fv4"),
        ("molly", "s"),
    ):
        penman = Penman(Shaper(script, writer_of(script, 0, natural=True)))
        for letter in letters:
            glyph, *_ = penman.shaper.word(letter).glyphs
            of_font = penman.shaper.letter(glyph.hand, glyph.glyph)
            own = penman.form_of(of_font, letter[0])
            lengths = [sum(map(len, form.parts)) for form in penman.forms(glyph)]
            assert sum(map(len, own.parts)) not in lengths, (script, letter)


def test_marks_and_ascenders_are_large_enough_to_read():
    for script in ("cassidy", "draper", "kingsley", "evangeline", "tilak", "linden"):
        penman = Penman(Shaper(script, writer_of(script, 0, natural=True)))

        def tops(character, penman=penman):
            [glyph] = penman.shaper.word(character).glyphs
            return [np.concatenate(form.parts)[:, 1] for form in penman.forms(glyph)]

        assert np.ptp(tops(",")[0]) > 0.2, script
        assert min(y.max() for y in tops("h")) > 1.35 * penman.x_height, script
        assert min(y.max() for letter in "OSUCZ0123456789" for y in tops(letter)) > 0.85, script
        assert max(y.max() for mark in "‘’“”" for y in tops(mark)) < 1.01, script


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
