"""A notebook that was saved and is opened again shows its widgets, or pictures of them, and never an error."""

from __future__ import annotations

import json

from playwright.sync_api import Locator, Page, expect

from tests.browser.lab_page import (
    RunningLab,
    is_changed,
    is_trusted,
    keep_picture,
    open_notebook,
    restart_kernel,
    run_all,
    save,
    shut_down_kernels,
)
from tests.browser.widget_page import click

_SETUP = """
import ipywidgets
import pandas as pd
import toolkit
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
tk.dweets.post_frame("roof", frame, progress=False)
live.wait(30)
live
"""
_CELLS = (
    _SETUP,
    'toolkit.HistoryExplorer(tk, things=["roof"])',
    _LIVE,
    'toolkit.HandwritingExplorer(tk, text="Dear Ada,")',
    "toolkit.RewardsExplorer(tk, configuration=tk.operator.reward_configuration())",
    "toolkit.IdentityWalkthrough(tk)",
    "tk.rewards.page(reward)",
    'ipywidgets.IntSlider(description="a slider")',
)
_PICTURES = 5


def outputs(page: Page) -> Locator:
    return page.locator(".jp-OutputArea-output")


def assert_pictures(page: Page) -> None:
    """Every widget of ours has a picture, the page of a reward its words, another widget a line of text."""
    expect(outputs(page).locator("img")).to_have_count(_PICTURES)
    for picture in outputs(page).locator("img").all():
        expect(picture).to_be_visible()
    expect(outputs(page).get_by_text("[TEST] A cold drink on us")).to_be_visible()
    expect(outputs(page).get_by_text("IntSlider(value=0")).to_be_visible()
    expect(outputs(page)).to_have_count(_PICTURES + 2)
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)


def assert_widgets(page: Page) -> None:
    """All are there to be used, and one can."""
    expect(page.locator(".toolkit-widget")).to_have_count(_PICTURES)
    click(page.get_by_role("button", name="1 Start"))
    expect(page.get_by_text("Start: a TargetUrl")).to_be_visible()
    click(page.get_by_role("button", name="Begin again"))
    expect(page.get_by_text("Choose a phone and start.")).to_be_visible()


def end_trust(lab: RunningLab, path: str) -> None:
    """Change the file from outside, as when it comes from somebody else."""
    notebook = json.loads((lab.folder / path).read_bytes())
    assert "widgets" not in notebook["metadata"], "no state of widgets, which may be large, is saved"
    notebook["metadata"]["changed"] = True
    (lab.folder / path).write_text(json.dumps(notebook), "utf-8")


def test_saved_widgets_are_pictures_once_their_kernel_is_gone(lab: RunningLab, page: Page) -> None:
    path = lab.write_notebook("saved.ipynb", _CELLS)
    assert run_all(page, lab, path) == []
    assert_widgets(page)
    save(page)
    open_notebook(page, lab, path)  # as when a page is reloaded: its kernel still has the widgets
    assert_widgets(page)
    restart_kernel(page)
    open_notebook(page, lab, path)
    assert_pictures(page)
    shut_down_kernels(page)
    open_notebook(page, lab, path)
    assert_pictures(page)
    assert is_trusted(page)
    assert not is_changed(page)
    keep_picture(page, "saved-trusted")
    save(page)
    end_trust(lab, path)
    open_notebook(page, lab, path)
    assert_pictures(page)
    assert not is_trusted(page)
    assert not is_changed(page)
    keep_picture(page, "saved-untrusted")
