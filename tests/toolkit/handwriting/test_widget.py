"""HandwritingExplorer without a browser: controls, picture, figures and code."""

from __future__ import annotations

import base64
import io
import re
from html import unescape

import pytest
from PIL import Image

import toolkit
from toolkit import HandwritingExplorer
from toolkit.errors import MalformedRequest
from toolkit.handwriting.client.style import PageStyle


@pytest.fixture
def explorer(hands: toolkit.Connection) -> HandwritingExplorer:
    return HandwritingExplorer(hands, text="Hello")


@pytest.mark.parametrize(
    ("control", "value", "said"),
    [
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
    ],
)
def test_every_control_is_a_parameter(explorer: HandwritingExplorer, control: str, value: object, said: str) -> None:
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
    assert set(look.style) == set(PageStyle.__annotations__)


def test_variances_of_real_people_are_green(explorer: HandwritingExplorer) -> None:
    slider = explorer.look.line_variance
    slider.value = 0.1
    assert slider.style.handle_color == "#7cb342"
    slider.value = 0.5
    assert slider.style.handle_color is None
    slider.value = 0


def test_generated_code_reproduces_the_view(explorer: HandwritingExplorer, hands: toolkit.Connection) -> None:
    explorer.text.value = 'It\'s "quoted"\nand \\ on two lines'
    explorer.look.size.value = 33
    explorer.look.line_variance.value = explorer.look.word_variance.value = 0.1
    explorer.look.height_auto.value = False
    for kind in ("png", "pdf", "svg", "animation"):
        explorer.kind.value = kind
        assert f"tk.handwriting.{kind}(" in explorer.code
        assert eval(explorer.code, {"tk": hands}).data == explorer.file.data == file_offered(explorer)


def test_seed_is_kept_or_renewed(explorer: HandwritingExplorer) -> None:
    look = explorer.look
    look.size.value = 30
    assert look.seed.value == 1
    look.reroll_button.click()
    assert explorer.result.seed == (rolled := look.seed.value) != 1
    look.seed_locked.value = False
    look.size.value = 31
    assert look.seed.value != rolled


def test_hand_is_chosen_by_title_id_or_picture(explorer: HandwritingExplorer) -> None:
    explorer.picker.name.value = "Perry"
    assert explorer.result.handwriting == "Perry"
    titles = [card.description for card in explorer.picker.cards]
    assert "Perry" in titles
    explorer.picker.next_button.click()
    explorer.picker.cards[0].click()
    assert explorer.result.handwriting == explorer.picker.cards[0].description not in titles
    explorer.picker.order.value = "by neatness"
    assert explorer.picker.back_button.disabled
    for _ in range(30):
        explorer.picker.next_button.click()
    assert explorer.picker.next_button.disabled
    assert explorer.picker.page_label.value == "page 20 of 20"


def test_a_card_shows_whole_words_and_a_rating(explorer: HandwritingExplorer) -> None:
    picker = explorer.picker
    shown = {}
    # The pictures of the hands have 14 characters at most, but all of a long first word.
    for text in ("The quick brown fox", "The quick", "Counterclockwise turns", "Counterclockwise", "Counterclockwi"):
        explorer.text.value = text
        shown[text] = [picture.value for picture in picker.pictures]
    assert shown["The quick brown fox"] == shown["The quick"]
    assert shown["Counterclockwise turns"] == shown["Counterclockwise"] != shown["Counterclockwi"]
    molly = [card.description for card in picker.cards].index("Molly")
    assert "neatness 1471" in picker.pictures[molly].value
    assert "cursivity 1601" in picker.cards[molly].tooltip
    assert "cursivity 1601" in picker.ratings.value
    picker.order.value = "by cursivity"
    assert all("cursivity " in picture.value for picture in picker.pictures)


def test_one_section_of_controls_is_open(explorer: HandwritingExplorer) -> None:
    look = explorer.look
    examples = {"Writing": look.seed, "Page": look.padding, "Ink": look.pen}
    for section in examples:
        look.section.value = section
        assert [name for name, control in examples.items() if control.layout.display != "none"] == [section]


def test_padding_excludes_margin_and_align(explorer: HandwritingExplorer) -> None:
    look = explorer.look
    look.padding.value = 10
    assert (look.margin.disabled, look.align.disabled, look.padding.disabled) == (True, True, False)
    look.padding.value, look.align.value = 0, "middle"
    assert (look.margin.disabled, look.align.disabled, look.padding.disabled) == (False, False, True)
    look.align.value = "top"
    assert not look.padding.disabled
    assert explorer.error is None


def test_the_page_is_shown_at_true_scale(explorer: HandwritingExplorer) -> None:
    width, height = explorer.result.image().size
    assert f'width="{width}" height="{height}"' in explorer.paper.value
    assert "background:white" in explorer.paper.value
    explorer.look.inks.value = "ivory"
    assert "handwriting_color='ivory'" in explorer.code
    assert explorer.look.colour.disabled
    assert "background:#2b2b2b" in explorer.paper.value  # light ink is seen on dark paper only


def test_an_animation_is_played_in_place_of_the_picture(explorer: HandwritingExplorer) -> None:
    explorer.kind.value = "animation"
    assert 'src="data:image/svg+xml;' in explorer.paper.value
    assert 'download="molly-animation.svg"' in explorer.link.value
    explorer.kind.value = "svg"
    assert 'src="data:image/png;' in explorer.paper.value
    assert 'download="molly.svg"' in explorer.link.value


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda e: e.text.set_trait("value", ""), "Text is required"),
        (lambda e: e.text.set_trait("value", "क"), "cannot write"),
        (lambda e: e.look.inks.set_trait("value", "blue-ish"), "must be valid RGB or CMYK"),
        (lambda e: e.picker.name.set_trait("value", "Moly"), "nearest titles are Molly"),
    ],
)
def test_error_is_a_sentence_and_the_picture_stays(explorer: HandwritingExplorer, wrong, said: str) -> None:
    before = explorer.result
    wrong(explorer)
    assert said in explorer.status.value
    assert explorer.result == before
    explorer.text.value, explorer.look.inks.value, explorer.picker.name.value = "Fine", "", "Molly"
    assert explorer.error is None
    assert explorer.result != before


def file_offered(explorer: HandwritingExplorer) -> bytes | None:
    link = re.search(r'href="data:[^,]+,([^"]+)"', explorer.link.value)
    return base64.b64decode(link[1]) if link and explorer.link.layout.visibility != "hidden" else None


@pytest.mark.parametrize("kind", ["png", "pdf", "svg", "animation"])
def test_a_failed_rendering_removes_the_link(explorer: HandwritingExplorer, kind: str) -> None:
    explorer.kind.value = kind
    before = explorer.file.data
    assert file_offered(explorer) == before
    explorer.text.value = "क"
    for other in ("svg", "png", "pdf", kind):  # nor is another kind of file offered
        assert explorer.link.value == ""
        assert "cannot write" in explorer.status.value
        explorer.kind.value = other
    assert f"tk.handwriting.{kind}(&#x27;Hello&#x27;" in explorer.code_line.value  # of the picture that stays
    with pytest.raises(MalformedRequest, match="cannot write"):
        _ = explorer.file
    explorer.text.value = "Fine"
    assert file_offered(explorer) == explorer.file.data != before


def test_no_file_is_offered_while_it_is_replaced(explorer: HandwritingExplorer) -> None:
    offered = []
    explorer.observe(lambda _: offered.append(file_offered(explorer)), "result")
    explorer.text.value = "Fine"
    assert offered == [None]
    assert file_offered(explorer) == explorer.file.data


def test_paging_through_hands_keeps_link_and_picture(explorer: HandwritingExplorer) -> None:
    explorer.picker.next_button.click()
    assert file_offered(explorer) == explorer.file.data
    explorer.text.value = "क"
    explorer.picker.next_button.click()
    assert explorer.link.value == ""
    assert "The picture shows earlier settings" in explorer.status.value


def test_compared_pictures_keep_their_code(explorer: HandwritingExplorer) -> None:
    explorer.text.value = "क"
    explorer.keep_button.click()
    assert explorer.paper.value.count("&#x27;Hello&#x27;") == 2
    assert "क" not in explorer.paper.value


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
    assert explorer.paper.value.count("<img ") == 2
    explorer.drop_button.click()
    assert explorer.paper.value.count("<img ") == 1


def test_the_text_is_never_html(hands: toolkit.Connection) -> None:
    explorer = HandwritingExplorer(hands, text="<b onclick='x'>\"&")
    explorer.keep_button.click()
    for part in (explorer.paper, explorer.code_line, explorer.link):
        assert "<b onclick" not in part.value
