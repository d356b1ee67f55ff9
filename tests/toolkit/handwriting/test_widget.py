"""HandwritingExplorer without a browser: controls, picture, figures and code."""

from __future__ import annotations

import base64
import io
import re
from html import unescape

import ipywidgets
import pytest
from PIL import Image

import toolkit
from toolkit import HandwritingExplorer
from toolkit.errors import MalformedRequest
from toolkit.handwriting.client.style import PageStyle, Style


@pytest.fixture(scope="module")
def made(hands: toolkit.Connection) -> tuple[HandwritingExplorer, dict[ipywidgets.Widget, object]]:
    """An explorer of one plain picture, which is fast to render, and the values of its controls."""
    made = HandwritingExplorer(hands, text="Hello")
    look = made.look
    look.page.value, look.pen.value, look.paper.value, look.natural.value = "", "plain", "none", False
    look.line_spacing.value, look.inks.value, made.kind.value = 1.5, "", "png"
    controls = [*vars(look).values(), made.text, made.kind, made.picker.name]
    values = {each: each.value for each in controls if isinstance(each, ipywidgets.ValueWidget)}
    return made, values


@pytest.fixture
def explorer(made: tuple[HandwritingExplorer, dict[ipywidgets.Widget, object]]) -> HandwritingExplorer:
    """That explorer as it was made: each takes long."""
    explorer, values = made
    explorer.drop_button.click()
    for control, value in values.items():
        control.value = value
    assert explorer.error is None
    return explorer


@pytest.fixture
def letter(hands: toolkit.Connection) -> HandwritingExplorer:
    """Of a letter of two pages."""
    return HandwritingExplorer(hands, text="Dear Ada,\n" * 40 + "Yours, Charles")


def test_every_control_is_a_parameter(explorer: HandwritingExplorer) -> None:
    for control, value, said in [
        ("size", 40, "handwriting_size=40"),
        ("width", 304, "width=304"),
        ("padding", 10, "min_padding=10"),
        ("line_spacing", 3.0, "line_spacing=3.0"),
        ("line_variance", 0.5, "line_spacing_variance=0.5"),
        ("word_variance", 0.5, "word_spacing_variance=0.5"),
        ("colour", "#1b3a8a", "handwriting_color='#1b3a8a'"),
        ("inks", "(1, 0.5, 0, 0.2)", "handwriting_color='(1, 0.5, 0, 0.2)'"),
        ("seed", 7, "random_seed=7"),
        ("pen", "felt", "pen='felt'"),
        ("paper", "ruled", "paper='ruled'"),
    ]:
        before = explorer.result
        getattr(explorer.look, control).value = value
        assert said in explorer.code
        # A variance of lines or words changes nothing where there is one of them.
        assert (explorer.result == before) == control.endswith("variance")
        assert said in unescape(explorer.code_line.value)
        assert explorer.error is None


def test_all_parameters_have_a_control(explorer: HandwritingExplorer) -> None:
    look = explorer.look
    look.height_auto.value = False
    numbers = look.size, look.width, look.height, look.margin, look.padding, look.line_spacing
    for control in (*numbers, look.line_variance, look.word_variance):
        control.value += control.step
    look.colour.value = "#010203"
    look.pen.value, look.natural.value, look.paper.value, look.align.value = "felt", True, "ruled", "middle"
    look.missing.value = "skip"
    assert set(look.style) == set(PageStyle.__annotations__)
    look.page.value, look.natural.value = "A6", False
    assert set(look.style) == {*Style.__annotations__, "page", "random_seed"} - {"min_padding"}


def test_it_begins_with_a_letter_on_paper(letter: HandwritingExplorer, hands: toolkit.Connection) -> None:
    assert "pen='fountain', paper='blank'" in letter.code
    assert letter.place.value == "page 1 of 2"
    for kind in ("pdf", "png"):
        letter.kind.value = kind
        assert eval(letter.code, {"tk": hands}).data == letter.file.data
    assert [name for _, name in letter.kind.options] == ["pdf", "png"]


def test_pages_are_turned_also_of_two_hands(letter: HandwritingExplorer) -> None:
    first = letter.result
    letter.keep_button.click()
    letter.picker.handwriting = "Perry"
    assert (letter.kept, letter.result.handwriting) == (first, "Perry")
    captions = re.findall("<figcaption>(.*?)</figcaption>", letter.paper.value)
    assert captions == ["Molly", "Perry"]
    letter.next_button.click()
    assert (letter.place.value, letter.next_button.disabled) == ("page 2 of 2", True)
    assert letter.kept.handwriting == "Molly" != letter.result.handwriting
    assert letter.kept != first
    letter.text.value = "Dear Ada"
    assert (letter.page_number, letter.result.pages) == (1, 1)
    letter.drop_button.click()
    assert letter.kept is None
    assert letter.paper.value.count("<img ") == 1


def test_page_and_picture_have_their_own_defaults(letter: HandwritingExplorer) -> None:
    look = letter.look
    look.page.value = ""
    assert (look.size.value, look.margin.value, letter.kind.value) == (20, 0, "pdf")
    assert "natural=True" in letter.code
    look.size.value, look.page.value = 30, "A5"
    assert (look.size.value, look.margin.value) == (30, 57)
    assert letter.code.startswith("tk.handwriting.letter(")
    assert "natural" not in letter.code


def test_generated_code_reproduces_the_view(explorer: HandwritingExplorer, hands: toolkit.Connection) -> None:
    explorer.text.value = 'It\'s "quoted"\nand \\ on two lines'
    explorer.look.size.value = 33
    explorer.look.line_variance.value = explorer.look.word_variance.value = 0.1
    explorer.look.height_auto.value = False
    for kind in ("png", "pdf", "svg", "animation"):
        explorer.kind.value = kind
        assert f"tk.handwriting.{kind}(" in explorer.code
        assert eval(explorer.code, {"tk": hands}).data == explorer.file.data == file_offered(explorer)


def test_seed_is_kept_until_it_is_renewed(explorer: HandwritingExplorer) -> None:
    look = explorer.look
    look.size.value = 30
    assert look.seed.value == 1
    look.reroll_button.click()
    assert explorer.result.seed == look.seed.value != 1


def test_hand_is_chosen_by_title_or_from_the_wall(explorer: HandwritingExplorer) -> None:
    picker, wall = explorer.picker, explorer.picker.wall
    picker.name.value = "Perry"
    assert (explorer.result.handwriting, wall.chosen) == ("Perry", "Perry")
    wall.set_state({"chosen": "Molly"})
    assert (explorer.result.handwriting, picker.name.value) == ("Molly", "Molly")
    assert len(wall.hands) == 120
    assert "neatness 1471" in picker.ratings.value
    assert [hand["title"] for hand in wall.hands] == sorted(hand["title"] for hand in wall.hands)
    assert "neatness 1471" in next(hand["tip"] for hand in wall.hands if hand["title"] == "Molly")


def test_the_wall_gets_pictures_of_what_is_seen(explorer: HandwritingExplorer) -> None:
    wall, sent = explorer.picker.wall, []
    wall.send = lambda answer, buffers: sent.append((answer["title"], answer["problem"], bytes(buffers[0][:4])))
    shown = {
        "The quick brown fox": "The quick",
        "\nCounterclockwise turns": "Counterclockwise",
        "क": "Counterclockwise",
    }
    for text, snippet in shown.items():
        explorer.text.value = text
        assert wall.snippet == snippet, "whole words, and only what the chosen hand can write"
    for title, wanted, snippet in ("Tilak", "Hi", "Hi"), ("Molly", "an earlier one", "Hi"), ("Molly", "क", "क"):
        wall.snippet = snippet
        asked = {"method": "custom", "content": {"titles": [title], "snippet": wanted}}
        wall.comm.handle_msg({"content": {"data": asked}, "buffers": []})
    found = [(title, bool(problem), picture) for title, problem, picture in sent]
    assert found == [("Tilak", False, b"\x89PNG"), ("Molly", True, b"")]


def test_padding_excludes_margin_and_align(explorer: HandwritingExplorer) -> None:
    look = explorer.look
    look.padding.value = 10
    assert (look.margin.disabled, look.align.disabled, look.padding.disabled) == (True, True, False)
    look.padding.value, look.align.value = 0, "middle"
    assert (look.margin.disabled, look.align.disabled, look.padding.disabled) == (False, False, True)
    look.align.value = "top"
    assert not look.padding.disabled
    assert explorer.error is None


def test_an_animation_is_played_in_place_of_the_picture(explorer: HandwritingExplorer) -> None:
    explorer.kind.value = "animation"
    assert 'src="data:image/svg+xml;' in explorer.paper.value
    explorer.kind.value = "svg"
    assert 'src="data:image/png;' in explorer.paper.value
    explorer.look.inks.value = "ivory"
    assert explorer.look.colour.disabled
    assert "background:#2b2b2b" in explorer.paper.value  # light ink is seen on dark paper only


def test_error_is_a_sentence_and_the_picture_is_dimmed(explorer: HandwritingExplorer) -> None:
    fields = (explorer.text, explorer.look.inks, explorer.picker.name)
    for control, wrong, said in (
        (explorer.text, "", "Text is required"),
        (explorer.text, "क", "cannot write"),
        (explorer.look.inks, "blue-ish", "must be valid RGB or CMYK"),
        (explorer.picker.name, "Moly", "nearest titles are Molly"),
    ):
        before, right = explorer.result, control.value
        control.value = wrong
        assert said in explorer.status.value
        assert "render" not in explorer.status.value, "no endpoint"
        assert explorer.result == before
        assert sum("toolkit-wrong" in classes(field) for field in fields) == 1
        assert "toolkit-earlier" in classes(explorer.paper)
        explorer.keep_button.click()
        assert "This is the earlier writing" in explorer.status.value
        assert "toolkit-earlier" in classes(explorer.paper)
        control.value = right
        assert explorer.error is None
        assert not any("toolkit-wrong" in classes(field) for field in fields)
        assert "toolkit-earlier" not in classes(explorer.paper)


def classes(widget: ipywidgets.DOMWidget) -> list[str]:
    return widget.get_state("_dom_classes")["_dom_classes"]


def file_offered(explorer: HandwritingExplorer) -> bytes | None:
    """Return the file that the browser is told to download; None if there is an error instead."""
    sent: list[bytes] = []
    explorer.browser.send = lambda _message, buffers: sent.extend(buffers)
    explorer.download_button.click()
    assert bool(sent) != ("alert" in explorer.status.value)
    return sent[0] if sent else None


def test_a_failed_rendering_is_no_download(explorer: HandwritingExplorer) -> None:
    for kind in ("png", "pdf", "svg", "animation"):
        explorer.text.value, explorer.kind.value = "Hello", kind
        before = explorer.file.data
        assert file_offered(explorer) == before
        explorer.text.value = "क"
        assert file_offered(explorer) is None
        assert "cannot write: 'क'" in unescape(explorer.status.value)
        assert f"tk.handwriting.{kind}(&#x27;Hello&#x27;" in explorer.code_line.value  # of the picture that stays
        with pytest.raises(MalformedRequest, match="cannot write"):
            _ = explorer.file
    explorer.text.value = "Fine"
    assert file_offered(explorer) == explorer.file.data != before


def test_missing_gateway_is_reported() -> None:
    with toolkit.connect("http://127.0.0.1:9") as tk:
        explorer = HandwritingExplorer(tk)
    assert "Trying again may help" in explorer.status.value
    assert repr(explorer) == "<HandwritingExplorer: nothing to show>"
    assert explorer.picture().startswith(b"\x89PNG")


def test_a_saved_notebook_shows_a_picture(explorer: HandwritingExplorer) -> None:
    shown = explorer._repr_mimebundle_()
    assert shown["text/plain"] == f"<HandwritingExplorer: {repr(explorer.result)[1:-1]}>"
    explorer.keep_button.click()
    explorer.look.size.value = 40
    with Image.open(io.BytesIO(base64.b64decode(explorer._repr_mimebundle_()["image/png"]))) as image:
        assert image.width > 2 * 504


def test_the_text_is_never_html(hands: toolkit.Connection) -> None:
    explorer = HandwritingExplorer(hands, text="<b onclick='x'>\"&")
    explorer.keep_button.click()
    for part in (explorer.paper, explorer.code_line):
        assert "<b onclick" not in part.value
