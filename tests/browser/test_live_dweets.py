"""LiveDweets in JupyterLab: it draws while dweets come, stops, and leaves no thread."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import RunCells
from tests.browser.lab_page import keep_picture

_SETUP = """
import threading
import pandas as pd
import toolkit
if "gateway" not in globals():
    gateway = toolkit.Gateway.demo()
    tk = toolkit.connect(gateway)
    weather = pd.read_csv("data/seattle_weather_daily_2012_2015.csv", parse_dates=["date"], index_col="date")
"""
_LIVE = """
live = toolkit.LiveDweets(tk, "roof", ["temp_max", "temp_min"], time="date")
live
"""
_THREADS = """
print("threads", sum(thread.name.startswith("live-dweets") for thread in threading.enumerate()))
"""
# Counts how often the plot's own content changed.
_COUNT_DRAWINGS = """plot => {
  window.drawings = 0;
  new MutationObserver(() => { window.drawings += 1; window.lastDrawing = performance.now(); })
    .observe(plot, {childList: true, subtree: true});
}"""


def test_live_dweets_are_drawn_while_they_come(run_cells: RunCells) -> None:
    page = run_cells(_SETUP, _LIVE, "playback = tk.dweets.replay('roof', weather, speed=86400 * 20)")
    page.locator(".widget-html").filter(has=page.locator("svg[role=img]")).evaluate(_COUNT_DRAWINGS)
    page.wait_for_function("window.drawings > 15")
    expect(page.get_by_text(re.compile(r"^[\d,]+ dweets$"))).to_be_visible()
    keep_picture(page, "live")
    pause = page.get_by_role("button", name="Pause")
    pause.click()
    # Ten drawings fail to come; what was on its way when it was pressed still does.
    page.wait_for_function("performance.now() - window.lastDrawing > 800")
    drawings = page.evaluate("window.drawings")
    pause.focus()
    page.keyboard.press("Space")
    page.wait_for_function("before => window.drawings > before + 5", arg=drawings)
    page.get_by_label("Show the last", exact=True).select_option("100")
    page.get_by_role("button", name="Stop").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Stopped after")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()


def test_running_the_cell_again_leaves_one_pair_of_threads(run_cells: RunCells) -> None:
    page = run_cells(_SETUP, _LIVE, _THREADS)
    expect(page.get_by_text("threads 2")).to_be_visible()
    for _ in range(3):
        page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    expect(page.get_by_text("threads 2")).to_be_visible()
