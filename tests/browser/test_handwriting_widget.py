"""HandwritingExplorer in JupyterLab in Chromium. Its look is in ``test_widget_family``."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab_page import RunningLab, clear_outputs, open_notebook, run_opened
from tests.browser.widget_page import click, focus_first, settled_box, tab_to

_EXPLORER = """
import toolkit
tk = toolkit.connect()
explorer = toolkit.HandwritingExplorer(tk, text="Dear Ada,\\nthe engine works.")
explorer
"""


@pytest.fixture(scope="module")
def explorer_page(lab: RunningLab, page_of_module: Page) -> Page:
    open_notebook(page_of_module, lab, lab.write_notebook("handwriting.ipynb", (_EXPLORER,)))
    return page_of_module


@pytest.fixture
def explorer(explorer_page: Page) -> Page:
    page = explorer_page
    page.set_viewport_size({"width": 1200, "height": 1000})
    clear_outputs(page)
    assert run_opened(page) == []
    page.get_by_alt_text("Dear Ada").wait_for()
    return page


def button(page: Page, text: str):
    # Not by its role's name: that begins with the icon.
    return page.locator("button.widget-button, button.widget-toggle-button", has_text=re.compile(f"^{text}$"))


def slider(page: Page, label: str):
    return page.locator(".widget-slider", has=page.get_by_text(label, exact=True)).locator(".noUi-handle")


_TWO_PAGES = "Dear Ada,\n" * 40 + "Yours, Charles"


def downloaded(page: Page, press: Callable[[], None]) -> tuple[str, bytes]:
    with page.expect_download() as download:
        press()
    with open(download.value.path(), "rb") as file:
        return download.value.suggested_filename, file.read(5)


def test_a_letter_is_composed_by_mouse(explorer: Page) -> None:
    explorer.get_by_placeholder("Write something").fill(_TWO_PAGES)
    explorer.keyboard.press("Tab")
    explorer.get_by_text("page 1 of 2").wait_for()
    first = explorer.get_by_alt_text("Dear Ada").get_attribute("src")
    click(explorer.locator("button[title='The next page']"))
    explorer.get_by_text("page 2 of 2").wait_for()
    expect(explorer.get_by_alt_text("Dear Ada")).not_to_have_attribute("src", str(first))
    click(button(explorer, "Compare"))
    explorer.get_by_alt_text("The earlier writing").wait_for()
    click(button(explorer, "All hands"))
    cards = explorer.locator(".toolkit-wall-card")
    expect(cards).to_have_count(120)
    cards.nth(20).scroll_into_view_if_needed()
    cards.nth(20).locator("img").wait_for()
    click(cards.nth(20))
    title = cards.nth(20).locator("b").inner_text()
    both = explorer.locator(".toolkit-sheets figure")
    expect(both.locator("figcaption")).to_have_text(["Molly", title])
    sizes = [settled_box(picture)[2:] for picture in both.locator("img").all()]
    assert sizes[0] == sizes[1], "at one scale"
    assert downloaded(explorer, lambda: click(button(explorer, "Download"))) == (f"{title.lower()}.pdf", b"%PDF-")


def test_a_letter_is_composed_by_keyboard(explorer: Page) -> None:
    widget, keys = explorer.locator(".toolkit-widget"), explorer.keyboard
    focus_first(widget)
    for _ in range(3):  # the title, all hands, the wall
        keys.press("Tab")
    keys.press("Tab")
    keys.press("ControlOrMeta+a")
    keys.insert_text(_TWO_PAGES)
    tab_to(widget, "Compare")
    explorer.get_by_text("page 1 of 2").wait_for()
    keys.press("Enter")
    explorer.get_by_alt_text("The earlier writing").wait_for()
    keys.press("Shift+Tab")
    keys.press("Shift+Tab")
    keys.press("Enter")
    explorer.get_by_text("page 2 of 2").wait_for()
    focus_first(widget)
    for _ in range(2):
        keys.press("Tab")
    for key in ("Home", "ArrowRight", "Enter"):
        keys.press(key)
    expect(explorer.locator(".toolkit-sheets figcaption")).to_have_text(["Molly", "Alcott"])
    tab_to(widget, "Download")
    assert downloaded(explorer, lambda: keys.press("Enter")) == ("alcott.pdf", b"%PDF-")


def test_every_kind_of_file_is_downloaded(explorer: Page) -> None:
    click(button(explorer, "Page"))
    explorer.get_by_label("Page", exact=True).select_option("one picture, as large as below")
    button(explorer, "SVG").wait_for()  # a letter has two kinds only
    files = {
        "PNG": ("molly.png", b"\x89PNG\r"),
        "PDF": ("molly.pdf", b"%PDF-"),
        "SVG": ("molly.svg", b"<svg "),
        "Animation": ("molly-animation.svg", b"<svg "),
    }
    for kind, file in files.items():
        click(button(explorer, kind))
        assert downloaded(explorer, lambda: click(button(explorer, "Download"))) == file


def test_widget_fits_and_page_has_true_size(explorer: Page) -> None:
    explorer.set_viewport_size({"width": 1280, "height": 900})
    for section in ("Writing", "Page", "Ink"):
        button(explorer, section).click()
        expect(button(explorer, section)).to_have_class(re.compile("mod-active"))
        assert settled_box(explorer.locator(".toolkit-widget"))[3] <= 800, section
    desk = explorer.locator(".toolkit-desk")
    picture, room = settled_box(explorer.get_by_alt_text("Dear Ada")), settled_box(desk)
    assert room[1] <= picture[1] < picture[1] + picture[3] <= room[1] + room[3], "the whole page is seen"
    click(button(explorer, "Whole page"))
    expect(button(explorer, "Whole page")).not_to_have_class(re.compile("mod-active"))
    explorer.wait_for_function("document.querySelector('.toolkit-sheet').width > 500")  # the kernel has answered
    assert [round(side) for side in settled_box(explorer.get_by_alt_text("Dear Ada"))[2:]] == [596, 842]
    desk.focus()
    desk.press("End")
    explorer.wait_for_function("document.querySelector('.toolkit-desk').scrollTop > 0")


def test_sliders_and_typed_text_change_the_picture(explorer: Page) -> None:
    handle, picture = slider(explorer, "Line spacing"), explorer.get_by_alt_text("Dear Ada")
    for _ in range(3):
        before = picture.get_attribute("src")
        handle.press("ArrowRight")
        expect(picture).not_to_have_attribute("src", str(before))
    explorer.get_by_text("line_spacing=1.85").wait_for()
    button(explorer, "Ink").press("Enter")
    for field, typed, said in (
        ("Ink", "navy", "handwriting_color='navy'"),
        ("Ink", "(1, 0.5, 0, 0.2)", "handwriting_color='(1, 0.5, 0, 0.2)'"),
        ("Hand", "Perry", "'Perry', handwriting_color="),
    ):
        control = explorer.get_by_label(field, exact=True).first
        control.wait_for()
        control.press("ControlOrMeta+a")
        control.press_sequentially(typed)
        control.press("Enter")
        explorer.get_by_text(said).wait_for()
    button(explorer, "Writing").press("Enter")
    readout = explorer.locator(".widget-slider", has_text="Size, px").locator(".widget-readout")
    for control, typed, said in (
        (explorer.get_by_label("Seed"), "9007199254740991", "random_seed=9007199254740991"),
        (readout, "33", "handwriting_size=33"),
    ):
        control.wait_for()
        control.press("ControlOrMeta+a")
        control.press_sequentially(typed)
        control.press("Enter")
        explorer.get_by_text(said).wait_for()
    seed = explorer.get_by_label("Seed")
    assert seed.evaluate("field => field.scrollWidth <= field.clientWidth"), "a long seed is seen whole"


def test_a_mistake_shows_a_sentence_not_a_traceback(explorer: Page) -> None:
    explorer.get_by_placeholder("Write something").fill("नमस्ते")
    alert = explorer.get_by_role("alert")
    alert.filter(has_text="cannot write: 'न' 'म'").wait_for()
    explorer.locator(".toolkit-wrong textarea").wait_for()
    expect(explorer.locator(".toolkit-earlier .toolkit-sheets")).to_have_css("opacity", "0.3")
    expect(explorer.locator(".jp-OutputArea-output[data-mime-type*='stderr']")).to_have_count(0)
    explorer.get_by_placeholder("Write something").fill("Good morning")
    explorer.get_by_alt_text("Good morning").wait_for()
    expect(alert).to_have_count(0)
    expect(explorer.locator(".toolkit-wrong, .toolkit-earlier")).to_have_count(0)
