"""A saved notebook that is opened again shows its widgets or pictures of them, and never an error."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image, ImageColor
from playwright.sync_api import Locator, Page, expect

from tests.browser.lab_page import (
    RunningLab,
    end_trust,
    is_changed,
    is_trusted,
    keep_picture,
    load_notebook,
    open_notebook,
    restart_kernel,
    run_opened,
    save,
    shut_down_kernels,
)
from tests.browser.widget_page import click, point
from toolkit.charts.look import PALETTE

_SETUP = """
import ipywidgets
import pandas as pd
import toolkit
from tqdm.auto import tqdm
gateway = toolkit.Gateway.demo()
tk = toolkit.connect(gateway)
days = pd.date_range("2025-01-01", periods=30, tz="UTC")
frame = pd.DataFrame({"celsius": range(30)}, index=days)
tk.dweets.post_frame("roof", frame, progress=False)
device = "6c1f2a0e-5b9d-4c77-8a31-0d2e9b4f6a55"
tk.rewards.start_session(device)
reward = tk.rewards.moment(device, "run", test=True)
"""
_LIVE = """
live = toolkit.LiveDweets(tk, "roof")
live
"""
_ARRIVE = """
arrived = tk.dweets.post_frame("roof", frame, progress=False), live.wait(30)
"""
_CELLS = (
    _SETUP,
    'toolkit.HistoryExplorer(tk, things=["roof"])',
    _LIVE,
    _ARRIVE,
    'frame.dweets.chart(unit="°C")',
    'toolkit.HandwritingExplorer(tk, text="Dear Ada,")',
    "toolkit.RewardsExplorer(tk.rewards, configuration=tk.operator.reward_configuration())",
    "toolkit.IdentityWalkthrough(tk)",
    "tk.rewards.page(reward)",
    'ipywidgets.IntSlider(description="a slider", value=3)',
    "for number in tqdm(range(40)): pass",
    "for number in tqdm(range(40), leave=False): pass",
    "view = ipywidgets.IntText()._repr_mimebundle_(); del view['text/plain']; display(view, raw=True)",
)
_WIDGETS = 5  # of ours
_PICTURES = _WIDGETS + 2  # and a chart, and the page of a reward
_CHARTS = 3
_NO_WIDGET = re.compile("^(Loading|Error displaying) widget")


def outputs(page: Page) -> Locator:
    return page.locator(".jp-OutputArea-output")


def assert_saved(page: Page, *, trusted: bool) -> None:
    """Without a kernel, charts are charts if they may be, and every other widget of ours is a picture.

    Another widget is what it said last; one that had been closed is nothing.
    """
    expect(outputs(page).locator(".toolkit-chart")).to_have_count(_CHARTS if trusted else 0)
    expect(outputs(page).locator("img")).to_have_count(_PICTURES - _CHARTS if trusted else _PICTURES)
    for picture in outputs(page).locator("img").all():
        picture.wait_for()
    for words in (re.compile("^a slider 3$"), re.compile("^100% 40/40 "), "A widget. Run the cell to use it."):
        outputs(page).get_by_text(words).wait_for()
    expect(outputs(page)).to_have_count(_PICTURES + 4)
    outputs(page).last.wait_for()
    expect(outputs(page).nth(-2)).to_be_hidden()
    expect(outputs(page).filter(has_text=_NO_WIDGET)).to_have_count(0)


def assert_widgets(page: Page) -> None:
    """All are there to be used, and one can."""
    expect(page.locator(".toolkit-widget")).to_have_count(_WIDGETS)
    expect(page.locator(".toolkit-chart")).to_have_count(3)
    click(page.get_by_role("button", name="1 Start"))
    page.get_by_text("Start: a TargetUrl").wait_for()
    click(page.get_by_role("button", name="Begin again"))
    page.get_by_text("Choose a phone and start.").wait_for()
    expect(outputs(page).filter(has_text=_NO_WIDGET)).to_have_count(0)


def use_saved_charts(page: Page) -> None:
    """Point and zoom in the chart, filter the rows of the explorer."""
    chart = page.locator(".toolkit-saved", has=page.locator(".toolkit-chart")).last
    page.mouse.move(*point(chart.locator(".u-over"), 0.5))
    expect(chart.locator(".toolkit-chart-tip")).to_contain_text(re.compile(r"2025-01-\d\d.*celsius.* °C"))
    chart.locator(".toolkit-chart-plots").focus()
    page.keyboard.press("+")
    expect(chart.get_by_role("button", name="All", exact=True)).to_be_enabled()
    explorer = page.locator(".toolkit-saved", has_text="Filter")
    explorer.get_by_label("Filter").fill("celsius > 26")
    expect(explorer.get_by_role("status")).to_have_text("1–3 of 3")


def saved_picture(notebook: Path, words: str) -> Image.Image:
    cells = json.loads(notebook.read_bytes())["cells"]
    (data,) = [out["data"] for cell in cells for out in cell["outputs"] if words in str(out["data"].get("text/plain"))]
    return Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")


def is_line_drawn(picture: Image.Image) -> bool:
    return ImageColor.getrgb(PALETTE[0]) in {found for _, found in picture.getcolors(maxcolors=1 << 20) or ()}


def is_icon_drawn(page: Page, picture: Image.Image) -> bool:
    reload = page.get_by_role("button", name="Reload")
    output, box = outputs(page).filter(has=reload).bounding_box(), reload.locator(".fa").bounding_box()
    left, top = output["x"], output["y"]
    corners = box["x"] - left, box["y"] - top, box["x"] - left + box["width"], box["y"] - top + box["height"]
    return len(picture.crop([round(side) for side in corners]).getcolors()) > 2


def assert_pictures(page: Page, notebook: Path) -> None:
    """The saved pictures are those of the widgets on the page, with what had come until then."""
    widgets = page.locator(".toolkit-widget").element_handles()
    save(page)
    assert all(widget.evaluate("one => one.isConnected") for widget in widgets), "none is drawn again"
    pictures = {name: saved_picture(notebook, name) for name in ("LiveDweets", "HistoryExplorer")}
    for name in ("LiveDweets", "HistoryExplorer"):
        assert is_line_drawn(pictures[name]), "not the picture from before anything had come"
    assert is_icon_drawn(page, pictures["HistoryExplorer"])
    heights = [round(widget.bounding_box()["height"]) for widget in widgets[:2]]
    assert [pictures[name].height for name in ("HistoryExplorer", "LiveDweets")] == pytest.approx(heights, abs=30)
    assert notebook.stat().st_size < 2_000_000


def assert_reopened(page: Page, lab: RunningLab, path: str, interface: str, *, trusted: bool) -> None:
    open_notebook(page, lab, path, interface)
    assert_saved(page, trusted=trusted)
    if trusted:
        use_saved_charts(page)
    assert (is_trusted(page), is_changed(page)) == (trusted, False)
    keep_picture(page, f"saved-{'trusted' if trusted else 'untrusted'}-{interface[:3]}")


def test_saved_widgets_are_shown_without_a_kernel(lab: RunningLab, page: Page) -> None:
    path = lab.write_notebook("saved.ipynb", _CELLS)
    # Notebook 7 gets another page: the page that all tests share still shows JupyterLab afterwards.
    with closing(page.context.new_page()) as notebook_7:
        load_notebook(notebook_7, lab, path, "notebooks")
        assert run_opened(notebook_7) == []
        assert_widgets(notebook_7)
        assert_pictures(notebook_7, lab.folder / path)
    open_notebook(page, lab, path)  # its kernel still has the widgets
    assert_widgets(page)
    restart_kernel(page)
    expect(page.locator(".toolkit-widget.jupyter-widgets-disconnected")).to_have_count(_WIDGETS)
    expect(page.get_by_text("Listening to roof")).to_be_hidden()
    words = page.locator(".toolkit-widget").first.evaluate("one => getComputedStyle(one, '::before').content")
    assert "Run its cell again" in words
    open_notebook(page, lab, path)
    assert_saved(page, trusted=True)
    save(page)  # what the widgets said last is kept
    shut_down_kernels(page)
    from_elsewhere = "from-elsewhere.ipynb"
    shutil.copy(lab.folder / path, lab.folder / from_elsewhere)
    end_trust(lab.folder / from_elsewhere)
    assert_reopened(page, lab, from_elsewhere, "lab/tree", trusted=False)
    with closing(page.context.new_page()) as notebook_7:
        assert_reopened(notebook_7, lab, path, "notebooks", trusted=True)
