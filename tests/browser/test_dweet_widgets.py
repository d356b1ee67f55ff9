"""HistoryExplorer in JupyterLab: every control by mouse and by keyboard. How it looks is in ``test_widget_family``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.lab_page import RunningLab, keep_picture, run_all, shut_down_kernels
from tests.browser.widget_page import ask_kernel, drag

_SETUP = """
import pandas as pd
import toolkit
if "gateway" not in globals():
    gateway = toolkit.Gateway.demo()
    tk = toolkit.connect(gateway)
    weather = pd.read_csv("data/seattle_weather_daily_2012_2015.csv", parse_dates=["date"], index_col="date")
    tk.dweets.post_frame("seattle", weather.drop(weather.index[480:520]), progress=False)
    tk.dweets.post_frame("tacoma", weather.head(700), progress=False)
"""
_EXPLORER = """
explorer = toolkit.HistoryExplorer(
    tk, things=["seattle", "tacoma"], day="2026-01-01", time="date", fields=["temp_max"]
)
explorer
"""
_FOCUSED = """() => {
  const focused = document.activeElement;
  const label = focused.labels?.[0]?.textContent || focused.getAttribute('aria-label') || focused.textContent;
  const slider = focused.closest('.widget-slider')?.querySelector('.widget-label')?.textContent;
  return (slider || label).trim();
}"""


# What widgets say goes to a second thread of the kernel: of each control all but the first (ipykernel 7.4).
_AS_IN_ANOTHER_JUPYTERLAB = """async () => {
  const app = window.jupyterapp, kernel = app.shell.currentWidget.context.sessionContext.session.kernel;
  app.serviceManager.kernels.commsOverSubshells = 'perCommTarget';
  while (!(await kernel.requestListSubshell({}).done).content.subshell_id.length);
}"""


@pytest.fixture(scope="module")
def explorer_page(lab: RunningLab, chromium: BrowserContext, foreign_requests: list[str]) -> Iterator[Page]:
    """A notebook with an explorer, for all tests of it: a kernel takes seconds to start."""
    page = chromium.new_page()
    assert run_all(page, lab, lab.write_notebook("explorer.ipynb", (_SETUP, _EXPLORER))) == []
    yield page
    shut_down_kernels(page)
    page.close()
    assert foreign_requests == []


@pytest.fixture
def explorer(explorer_page: Page) -> Iterator[Page]:
    """A page with a new explorer of two things."""
    before = explorer_page.locator(".toolkit-widget").element_handle()
    explorer_page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    explorer_page.wait_for_function("before => !before.isConnected", arg=before)
    expect_status(explorer_page, "2,121 rows from 2012-01-01 00:00 to 2015-12-31 00:00 · 2 gaps")
    yield explorer_page
    explorer_page.set_viewport_size({"width": 1200, "height": 900})
    explorer_page.evaluate("window.jupyterapp.serviceManager.kernels.commsOverSubshells = 'disabled'")


def expect_status(page: Page, text: str) -> None:
    expect(page.locator("[role=status], [role=alert]").filter(has_text=text)).to_be_visible()


def slider_ends(page: Page) -> Locator:
    return page.locator(".widget-slider .noUi-handle")


def test_every_control_by_mouse(explorer: Page) -> None:
    page = explorer
    page.get_by_label("seattle", exact=True).click()
    expect_status(page, "700 rows")
    page.get_by_label("wind", exact=True).click()
    page.get_by_label("temp_min", exact=True).click()
    page.get_by_label("temp_max", exact=True).click()
    expect(page.locator("figure, .widget-html").filter(has_text="━ wind")).to_be_visible()
    page.get_by_label("Resample", exact=True).select_option("1 month")
    expect_status(page, "23 rows")
    page.get_by_label("Show the", exact=True).select_option("max")
    expect(page.get_by_role("cell", name="9.5", exact=True)).to_be_visible()
    page.get_by_label("Resample", exact=True).select_option("as it came")
    page.get_by_label("seattle", exact=True).click()
    expect_status(page, "2 gaps")
    page.get_by_label("Mark gaps", exact=True).click()
    expect_status(page, "0 gaps")
    page.get_by_label("Mark outliers", exact=True).click()
    expect_status(page, "0 outliers")
    drag(slider_ends(page).first, page.locator(".widget-slider .noUi-base"), 0.5)
    expect(page.get_by_label("From", exact=True)).to_have_value(re.compile(r"^201[34]-\d\d-\d\d$"))
    page.get_by_label("Time axis", exact=True).select_option("created")
    expect_status(page, "from 2026-01-01 ")
    page.get_by_role("button", name="Export").click()
    expect_status(page, "to history.csv")
    page.get_by_role("button", name="Reload").click()
    expect_status(page, "rows from 2026-01-01 ")


def test_every_control_is_reached_with_tab(explorer: Page) -> None:
    page = explorer
    page.get_by_label("seattle", exact=True).focus()
    reached = [page.evaluate(_FOCUSED)]
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(_FOCUSED))
    assert reached[:22] == [
        "seattle", "tacoma", "precipitation", "temp_max", "temp_min", "wind", "Time axis", "Resample", "Show the",
        "Mark gaps", "beyond spacing x", "Mark outliers", "beyond spread x", "Stored day", "Reload",
        "From", "To", "Range", "Range", "Statistics", "File", "Export",
    ]  # fmt: skip


def test_every_control_by_keyboard(explorer: Page) -> None:
    page = explorer

    def typed(label: str, text: str) -> None:
        field = page.get_by_label(label, exact=True)
        field.focus()
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
        page.keyboard.type(text)
        page.keyboard.press("Enter")

    def pressed(label: str, *keys: str) -> None:
        page.get_by_label(label, exact=True).focus()
        for key in keys:
            page.keyboard.press(key)

    pressed("tacoma", "Space")
    expect_status(page, "1,421 rows")
    pressed("wind", "Space")
    expect(page.get_by_role("cell", name="wind", exact=True)).to_be_visible()
    typed("From", "2013-04")
    typed("To", "2013-08")
    expect_status(page, "113 rows from 2013-04-01 00:00 to 2013-08-31 00:00 · 1 gap")
    typed("beyond spacing x", "50")
    expect_status(page, "0 gaps")
    typed("beyond spread x", "3")
    expect_status(page, "outliers")
    pressed("Mark outliers", "Space")
    expect_status(page, "0 outliers")
    pressed("Resample", "Space", "End", "ArrowUp", "Enter")
    expect(page.get_by_label("Resample", exact=True)).to_be_focused()
    expect_status(page, "5 rows")
    pressed("Show the", "l")
    expect(page.get_by_label("Show the", exact=True)).to_have_value("last")
    typed("From", "last summer")
    expect_status(page, "Cannot read these times: write 2013, 2013-07 or 2013-07-04 12:00.")
    keep_picture(page, "explorer-complains")
    typed("From", "")
    typed("To", "")
    pressed("Resample", "Home")
    expect_status(page, "1,421 rows")
    slider_ends(page).last.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    expect(page.get_by_label("To", exact=True)).to_have_value(re.compile(r"^2015-12-0\d$"))
    typed("File", "typed.parquet")
    page.get_by_role("button", name="Export").focus()
    page.keyboard.press("Enter")
    expect_status(page, "rows to typed.parquet")
    typed("Stored day", "2026-01-02")
    expect_status(page, "Nothing here")
    typed("Stored day", "2026-01-01")
    page.get_by_role("button", name="Reload").focus()
    page.keyboard.press("Space")
    expect_status(page, "rows from")


def test_what_is_turned_while_the_kernel_works_comes_next(explorer: Page) -> None:
    page = explorer

    def turned(label: str, text: str) -> None:
        field = page.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Enter")

    page.evaluate(_AS_IN_ANOTHER_JUPYTERLAB)
    turned("From", "2013-04")
    expect_status(page, "rows from 2013-04-01 00:00")
    ask_kernel(page, "explorer.observe(lambda change: __import__('time').sleep(0.5), 'frame')")
    page.get_by_label("Show the", exact=True).select_option("last")
    turned("From", "last summer")
    expect_status(page, "Cannot read these times")
    assert "Cannot read these times" in ask_kernel(page, "explorer.status.value"), "and nothing came after it"


def test_the_plot_fits_a_narrow_page_and_keeps_the_size_of_its_letters(explorer: Page) -> None:
    page = explorer
    page.set_viewport_size({"width": 800, "height": 900})
    # The page lays itself out some frames after its window changed: wait for that, not for a time.
    page.wait_for_function("""() => {
        const width = document.querySelector("svg[role=img]").getBoundingClientRect().width;
        return 240 <= width && width < 500;
    }""")
    expect(page.locator("svg[role=img] text").first).to_have_css("font-size", "12px")
