"""HandwritingExplorer in JupyterLab in Chromium. Its look is in ``test_widget_family``."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab_page import RunningLab, run_again, run_all
from tests.browser.widget_page import click, settled_box

_EXPLORER = """
import toolkit
tk = toolkit.connect()
explorer = toolkit.HandwritingExplorer(tk, text="Dear Ada,\\nthe engine works.")
explorer
"""


@pytest.fixture(scope="module")
def explorer_page(lab: RunningLab, page_of_module: Page) -> Page:
    assert run_all(page_of_module, lab, lab.write_notebook("handwriting.ipynb", (_EXPLORER,))) == []
    return page_of_module


@pytest.fixture
def explorer(explorer_page: Page) -> Page:
    page = explorer_page
    page.set_viewport_size({"width": 1200, "height": 1000})
    page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    expect(page.locator(".jp-OutputArea-output")).to_have_count(0)
    run_again(page)
    expect(page.get_by_alt_text("Dear Ada")).to_be_visible()
    return page


def button(page: Page, text: str):
    # Not by its role's name: that begins with the icon.
    return page.locator("button.widget-button, button.widget-toggle-button", has_text=re.compile(f"^{text}$"))


def slider(page: Page, label: str):
    return page.locator(".widget-slider", has=page.get_by_text(label, exact=True)).locator(".noUi-handle")


def test_a_slider_moves_the_picture_at_once(explorer: Page) -> None:
    handle, picture = slider(explorer, "Line spacing"), explorer.get_by_alt_text("Dear Ada")
    for _ in range(3):
        before = picture.get_attribute("src")
        handle.press("ArrowRight")
        expect(picture).not_to_have_attribute("src", str(before))
    expect(explorer.get_by_text("line_spacing=1.65")).to_be_visible()


def test_every_control_by_keyboard(explorer: Page) -> None:
    explorer.get_by_placeholder("Write something").fill("Dear Charles,")
    expect(explorer.get_by_alt_text("Dear Charles,")).to_be_visible()
    again = button(explorer, "Again")
    again.focus()
    again.press("Enter")
    expect(explorer.get_by_text("random_seed=1)")).to_have_count(0)
    button(explorer, "PDF").press("Enter")
    expect(explorer.get_by_text("tk.handwriting.pdf(")).to_be_visible()
    button(explorer, "Compare").press("Enter")
    expect(explorer.get_by_alt_text("The earlier picture")).to_be_visible()
    button(explorer, "Stop comparing").press("Enter")
    expect(explorer.get_by_alt_text("The earlier picture")).to_have_count(0)


def test_hands_are_chosen_from_pictures(explorer: Page) -> None:
    cards = explorer.locator("button[title^='Write with']")
    before = cards.last.inner_text()
    explorer.get_by_label("Sorted").select_option("by neatness")
    expect(cards.last).not_to_have_text(before)
    title = cards.last.inner_text()
    click(explorer.locator(".toolkit-hand img").last)  # the picture, not only the title
    expect(explorer.get_by_alt_text(f"(in the hand of {title})")).to_be_visible()
    expect(explorer.get_by_text(f"'{title}', random_seed=")).to_be_visible()


def test_every_kind_of_file_is_downloaded(explorer: Page) -> None:
    files = {
        "PNG": ("molly.png", b"\x89PNG\r"),
        "PDF": ("molly.pdf", b"%PDF-"),
        "SVG": ("molly.svg", b"<svg "),
        "Animation": ("molly-animation.svg", b"<svg "),
    }
    for kind, (name, beginning) in files.items():
        button(explorer, kind).click()
        with explorer.expect_download() as download:
            explorer.get_by_role("link", name=f"Download {name}", exact=False).click()
        assert download.value.suggested_filename == name
        with open(download.value.path(), "rb") as file:
            assert file.read(5) == beginning


def test_widget_fits_and_page_has_true_size(explorer: Page) -> None:
    explorer.set_viewport_size({"width": 1280, "height": 800})
    for section in ("Writing", "Page", "Ink"):
        button(explorer, section).click()
        expect(button(explorer, section)).to_have_class(re.compile("mod-active"))
        assert settled_box(explorer.locator(".toolkit-widget"))[3] <= 680, section
    button(explorer, "Page").click()
    explorer.get_by_text("Height as the text needs").click()
    readout = explorer.locator(".widget-slider", has_text="Height, px").locator(".widget-readout")
    readout.press("ControlOrMeta+a")
    readout.press_sequentially("840")
    readout.press("Enter")
    expect(explorer.get_by_text("height=840")).to_be_visible()
    picture = explorer.get_by_alt_text("Dear Ada")
    assert settled_box(picture)[2:] == (504, 840)
    assert settled_box(explorer.locator(".toolkit-widget"))[3] <= 680
    desk = explorer.locator(".toolkit-desk")
    desk.focus()
    desk.press("End")
    explorer.wait_for_function("document.querySelector('.toolkit-desk').scrollTop > 0")


def test_enter_applies_the_typed_text(explorer: Page) -> None:
    button(explorer, "Ink").press("Enter")
    for field, typed, said in (
        ("Ink", "navy", "handwriting_color='navy'"),
        ("Ink", "(1, 0.5, 0, 0.2)", "handwriting_color='(1, 0.5, 0, 0.2)'"),
        ("Hand", "Perry", "'Perry', handwriting_color="),
    ):
        control = explorer.get_by_label(field, exact=True).first
        expect(control).to_be_visible()
        control.press("ControlOrMeta+a")
        control.press_sequentially(typed)
        control.press("Enter")
        expect(explorer.get_by_text(said)).to_be_visible()
    button(explorer, "Writing").press("Enter")
    readout = explorer.locator(".widget-slider", has_text="Size, px").locator(".widget-readout")
    for control, typed, said in (
        (explorer.get_by_label("Seed"), "9007199254740991", "random_seed=9007199254740991"),
        (readout, "33", "handwriting_size=33"),
    ):
        expect(control).to_be_visible()
        control.press("ControlOrMeta+a")
        control.press_sequentially(typed)
        control.press("Enter")
        expect(explorer.get_by_text(said)).to_be_visible()
    seed = explorer.get_by_label("Seed")
    assert seed.evaluate("field => field.scrollWidth <= field.clientWidth"), "a long seed is seen whole"


def test_a_mistake_shows_a_sentence_not_a_traceback(explorer: Page) -> None:
    explorer.get_by_placeholder("Write something").fill("नमस्ते")
    alert = explorer.get_by_role("alert")
    expect(alert).to_contain_text("characters this handwriting cannot write")
    expect(explorer.get_by_role("link", name="Download")).to_have_count(0)
    expect(explorer.locator(".jp-OutputArea-output[data-mime-type*='stderr']")).to_have_count(0)
    explorer.get_by_placeholder("Write something").fill("Good morning")
    expect(explorer.get_by_alt_text("Good morning")).to_be_visible()
    expect(alert).to_have_count(0)
    expect(explorer.get_by_role("link", name="Download molly.png")).to_be_visible()
