"""Lines, words, edges and sizes mean exactly what the documentation of the parameters says."""

from __future__ import annotations

import unicodedata
from itertools import product

import numpy as np
import pytest

from tests.written_pages import LETTER, handwriting, ink_box, ink_left, written
from toolkit.errors import InvalidParameters

SIZE = 20.0


def gaps(page):
    """Nominal gap after every word but the last of its line, in cap heights."""
    end = page.layout.x + np.array([word.width for word in page.layout.words])
    same = page.layout.line[1:] == page.layout.line[:-1]
    return (page.layout.x[1:] - end[:-1])[same]


def test_every_pitch_is_exact_and_the_first_line_is_visible(page_of):
    for spacing in (0.0, 0.5, 1.0, 1.5, 2.25, 5.0):
        page = page_of("one\n\nthree\nfour", line_spacing=spacing, height=600.0)
        assert page.baseline == pytest.approx(SIZE * (max(spacing, 1.0) + spacing * np.arange(4)))


def test_line_variance_stays_within_its_bounds(page_of):
    page = page_of("\n".join("abc" for _ in range(200)), line_spacing_variance=0.5, height=None)
    assert page.baseline[0] == SIZE * 1.5
    share = np.diff(page.baseline) / (SIZE * 1.5) - 1
    assert np.abs(share).max() <= 0.5
    assert share.std() == pytest.approx(0.5 / np.sqrt(3), rel=0.15)  # uniform


def test_word_gaps_are_exact_or_uniform_with_variance(page_of, winters):
    text = "\n".join(["now on no one can see a man run on"] * 20)
    exact = gaps(page_of(text, width=None))
    assert np.ptp(exact) < 1e-9
    varied = gaps(page_of(text, width=None, word_spacing_variance=0.3)) / exact[0] - 1
    assert np.abs(varied).max() <= 0.3 + 1e-9
    assert varied.std() == pytest.approx(0.3 / np.sqrt(3), rel=0.15)


def test_variance_never_reflows_the_text(page_of):
    plain = page_of(LETTER, width=300.0)
    varied = page_of(LETTER, width=300.0, word_spacing_variance=1.0, line_spacing_variance=1.0, seed=99)
    assert plain.layout.line_texts == varied.layout.line_texts


def test_lines_break_between_words_and_drop_the_blank_there(page_of):
    page = page_of(LETTER, width=300.0)
    assert " ".join(" ".join(page.layout.line_texts).split()) == " ".join(LETTER.split())
    assert page.layout.line_count > LETTER.count("\n") + 1


def test_a_word_wider_than_the_page_breaks_at_characters(page_of):
    page = page_of("a " + "Wonderfully" * 12 + " b", width=120.0, height=None)
    assert "".join(page.layout.line_texts).replace(" ", "") == "a" + "Wonderfully" * 12 + "b"
    assert page.layout.line_count > 8
    assert page.cut_line is None


def test_page_narrower_than_a_letter_has_one_per_line(page_of):
    assert page_of("Wow", width=2.0, height=None).layout.line_texts == ["W", "o", "w"]


def test_every_kind_of_newline_is_one_line_break(page_of):
    for newline in ("\r\n", "\r", "\n"):
        assert page_of(f"one{newline}two{newline}{newline}four").layout.line_texts == ["one", "two", "", "four"]


def test_leading_spaces_indent_and_runs_of_spaces_are_kept(page_of):
    flush, indented = page_of("word"), page_of("    word")
    shift = ink_left(indented) - ink_left(flush)
    page = page_of("a b")
    space = float(gaps(page)[0])
    assert shift == pytest.approx(4 * space * SIZE, abs=0.01)
    assert gaps(page_of("no   on")) == pytest.approx(3 * space)


def test_word_after_too_much_indentation_wraps(page_of):
    for blank in ("\t" * 12, " " * 60):
        page = page_of(blank + "far away", width=200.0)
        assert page.layout.line_texts[0] == ""
        assert page.cut_line is None
        assert 0 < float(page.strokes.x.min()) < 20


def test_tabs_advance_to_multiples_of_four_spaces(page_of):
    space = float(gaps(page_of("no on"))[0])
    page = page_of("\ta\tno\twonderful\tb", width=None)
    stops = page.layout.x / (4 * space)
    assert stops == pytest.approx(np.rint(stops))
    assert np.all(np.diff(stops) >= 1)


def test_no_break_space_does_not_break(page_of):
    page = page_of("aaaa bbbb\u00a0cccc", width=150.0)
    assert page.layout.line_texts == ["aaaa", "bbbb\u00a0cccc"]


def test_ink_of_each_line_starts_at_the_left_edge(page_of):
    page = page_of(LETTER.replace("    ", ""), height=None)
    left = [ink_left(page, line) for line in sorted(set(page.layout.line))]
    assert min(left) >= 0
    assert max(left) <= 0.1 * SIZE + 2.0


def test_ink_never_leaves_the_right_edge(page_of):
    page = page_of(LETTER, width=280.0, height=None, word_spacing_variance=1.0)
    assert ink_box(page)[2] <= 280.0 + 1e-6


def test_handwriting_size_is_the_height_of_a_capital(page_of):
    for title, size in product(("Winters", "Molly", "Beekman", "Ramona"), (8.0, 20.0, 90.0)):
        page = page_of("H", hand=handwriting(title), handwriting_size=size, width=None, height=None)
        _, top, _, bottom = ink_box(page)
        assert bottom - top == pytest.approx(size, rel=0.12)


def test_height_auto_leaves_room_below_the_last_line(page_of):
    page = page_of("one\ntwo", height=None)
    assert page.height == np.ceil(SIZE * 3 + SIZE * 0.75)
    deep = page_of("gypsy", height=None, line_spacing=0.1)
    assert deep.height >= ink_box(deep)[3]
    assert deep.cut_line is None
    for kind, decimals in (("png", 0), ("pdf", 2)):  # whole pixels or hundredths
        height = page_of("gypsy", height=None, handwriting_size=17.3, kind=kind).height
        assert height == pytest.approx(round(height, decimals), abs=1e-9)


def test_auto_height_above_the_maximum_is_refused(winters):
    with pytest.raises(InvalidParameters, match="height auto exceeds 9000px") as refused:
        written(winters, "a\n" * 400, "png", height=None)
    assert [problem.field for problem in refused.value.problems] == ["height"]
    with pytest.raises(InvalidParameters, match="height auto exceeds 100in"):
        written(winters, "a\n" * 400, "pdf", height=None)


def test_width_auto_does_not_wrap_and_fits_the_widest_line(page_of):
    page = page_of(LETTER, width=None, height=None)
    assert page.layout.line_count == LETTER.count("\n") + 1
    right = ink_box(page)[2]
    assert right < page.width < right + 4


def test_page_that_is_too_low_is_cut_and_reported(winters):
    done = written(winters, LETTER, "png", height=60.0)
    assert done.overflow
    assert (done.width, done.height) == (504.0, 60.0)
    assert done.lines > 3
    assert not written(winters, "short", "png").overflow


@pytest.mark.parametrize("padding", [0.0, 40.0])
def test_min_padding_centres_the_ink(page_of, padding):
    page = page_of("Hello you\nthere", min_padding=padding)
    left, top, right, bottom = ink_box(page)
    assert left == pytest.approx(page.width - right, abs=0.5)
    assert top == pytest.approx(page.height - bottom, abs=0.5)
    assert min(left, top) >= padding


def test_min_padding_narrows_lines_and_widens_an_auto_page(page_of):
    padded, plain = page_of(LETTER, min_padding=60.0, height=None), page_of(LETTER, height=None)
    assert padded.layout.line_count >= plain.layout.line_count
    left, _, right, _ = ink_box(padded)
    assert left >= 60 - 1e-6
    assert right <= 504 - 60 + 1e-6
    one, bare = page_of("one", min_padding=30.0, height=None), page_of("one", height=None)
    assert one.height == pytest.approx(bare.height + 60, abs=1)


def test_missing_characters_are_listed_once_in_order(winters):
    with pytest.raises(InvalidParameters) as refused:
        written(winters, "a\u05d0b\u0e01\u05d0 \u4e2d", "png")
    assert refused.value.problems[0].missing_characters == ("\u05d0", "\u0e01", "\u4e2d")


def test_missing_characters_are_replaced_or_skipped(winters):
    flag = "\N{REGIONAL INDICATOR SYMBOL LETTER G}\N{REGIONAL INDICATOR SYMBOL LETTER B}"
    for missing, text in (("replace", "a ? b ?\n?"), ("skip", "a  b \n")):
        done = written(winters, f"a \u05d0 b {flag}\r\n\u4e2d", "png", missing=missing)
        assert done.data == written(winters, text, "png").data
        assert done.missing == f"\u05d0{flag}\u4e2d"
        assert written(winters, "abc", "png", missing=missing).missing == ""


def test_fallback_hands_write_other_scripts_and_emoji(winters, molly):
    scripts = ["Здравствуйте, Сэм!", "Γειά σου Ελένη", "tiếng Việt", "안녕하세요", "😀🎉❤️👍🏽"]
    signs = ["“so” — ‘no’… e\u0301", "soft\u00adhyphen", "em\u2003space"]
    for hand, text in product((winters, molly), scripts + signs):
        assert written(hand, text, "png").ink_share > 0.001, text


def test_compatibility_characters_are_normalised(page_of, molly):
    for text, same in (("ﬁne ﬂow", "fine flow"), ("\u200emark\u200f", "mark"), ("１２", "12"), ("℃", "°C")):
        assert np.array_equal(page_of(text, molly).strokes.x, page_of(same, molly).strokes.x)


@pytest.mark.parametrize("title", ["Molly", "Winters", "Beekman", "Prudence"])
def test_marks_are_above_or_below_their_letter(page_of, title):
    for text, natural in product(("q\u0323", "\u1e25", "n\u0308", "\u1e3f"), (False, True)):  # no hand has these
        page = page_of(text, handwriting(title), handwriting_size=100.0, natural=natural)
        word = unicodedata.normalize("NFD", text)
        is_mark = page.letter_of_stroke == page.letter_of_stroke.max()
        letter, mark = page.strokes.select(~is_mark), page.strokes.select(is_mark)
        assert letter.x.min() - 5 < mark.x.mean() < letter.x.max() + 5
        assert mark.y.min() > letter.y.max() if word[1] == "\u0323" else mark.y.max() < letter.y.min()
    marked, plain = (page_of(text, handwriting(title), natural=True).layout.words[0] for text in ("q\u0323o", "qo"))
    assert marked.width == pytest.approx(plain.width, abs=0.06), "marks use no space"


def test_white_space_is_an_empty_page(winters):
    for text in ("   ", "\n\n", "\t", "\u200b"):
        done = written(winters, text, "png", height=None)
        assert (done.ink_share, done.overflow) == (0, False)


@pytest.mark.parametrize(
    "parameters",
    [
        {"handwriting_size": 9000.0},
        {"handwriting_size": 9000.0, "line_spacing": 0.0},
        {"handwriting_size": 0.01, "width": 9000.0},
        {"width": 1.0, "height": 1.0},
        {"width": None, "height": 1.0, "handwriting_size": 5.0},
        {"min_padding": 180.0, "line_spacing": 5.0, "line_spacing_variance": 1.0},
    ],
)
def test_extreme_pages_are_drawn_or_refused(winters, parameters):
    for text, kind in (("M" * 900, "png"), ("word " * 200, "pdf")):
        try:
            assert 0 <= written(winters, text, kind, **parameters).ink_share <= 1
        except InvalidParameters as refused:
            if str(refused) != "width auto exceeds 9000px":
                raise
