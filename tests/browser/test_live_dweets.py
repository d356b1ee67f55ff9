"""LiveDweets in JupyterLab: it draws dweets as they arrive, and stops. Leftover threads: ``test_notebooks``."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.lab_page import RunningLab, keep_picture, load_notebook, path_of_notebook, run_all, save
from tests.browser.widget_page import ask_kernel
from tests.mail_server import eventually

_SETUP = """
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
# Creates a file when the widget has stopped.
_NOTE_STOP = """
import pathlib, threading, time

def note_stop(name):
    def wait():
        while live.running: time.sleep(0.1)
        pathlib.Path(name).touch()
    threading.Thread(target=wait, daemon=True).start()
"""
# Counts how often the chart was painted: what it says of itself changes with its data.
_COUNT_PAINTS = """chart => {
  window.paints = 0;
  new MutationObserver(() => { window.paints += 1; window.lastPaint = performance.now(); })
    .observe(chart, {attributes: true, attributeFilter: ["aria-label"]});
}"""


def test_live_dweets_from_first_dweet_to_closed_notebook(lab: RunningLab, page: Page) -> None:
    replay = "playback = tk.dweets.replay('roof', weather, speed=86400 * 20)"
    assert run_all(page, lab, lab.write_notebook("live.ipynb", (_SETUP, _LIVE, _NOTE_STOP, replay))) == []
    page.locator(".toolkit-widget .toolkit-chart-plots").evaluate(_COUNT_PAINTS)
    page.wait_for_function("window.paints > 15")
    page.get_by_text(re.compile(r"^[\d,]+ dweets$")).wait_for()
    keep_picture(page, "live")
    pause = page.get_by_role("button", name="Pause")
    pause.click()
    # Ten paints fail to come; what was on its way when it was pressed still does.
    page.wait_for_function("performance.now() - window.lastPaint > 1000")
    paints = page.evaluate("window.paints")
    pause.focus()
    page.keyboard.press("Space")
    page.wait_for_function("before => window.paints > before + 5", arg=paints)
    page.get_by_label("Show the last", exact=True).select_option("100")
    save(page)
    load_notebook(page, lab, path_of_notebook(page))  # its kernel goes on
    page.locator(".toolkit-widget .toolkit-chart-plots").evaluate(_COUNT_PAINTS)
    page.wait_for_function("window.paints > 5")
    expect(page.get_by_label("Show the last", exact=True)).to_have_value("100")
    page.get_by_role("button", name="Stop").focus()
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="Stopped after").wait_for()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="Listening to roof.").wait_for()
    stopped = lab.folder / "stopped"
    ask_kernel(page, f"note_stop('{stopped}')")
    save(page)
    page.evaluate("window.jupyterapp.commands.execute('application:close')")
    eventually(stopped.exists)
