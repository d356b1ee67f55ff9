"""HistoryExplorer in JupyterLab: every control by mouse and by keyboard. Its look is in ``test_widget_family``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab_page import RunningLab, clear_outputs, open_notebook, run_opened
from tests.browser.widget_page import ask_kernel, layout_faults, point, settled_box

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


# What widgets say goes to a second thread of the kernel: of each control all but the first (ipykernel 7.4).
_AS_IN_ANOTHER_JUPYTERLAB = """async () => {
  const app = window.jupyterapp, kernel = app.shell.currentWidget.context.sessionContext.session.kernel;
  app.serviceManager.kernels.commsOverSubshells = 'perCommTarget';
  while (!(await kernel.requestListSubshell({}).done).content.subshell_id.length);
}"""


@pytest.fixture(scope="module")
def explorer_page(lab: RunningLab, page_of_module: Page) -> Page:
    open_notebook(page_of_module, lab, lab.write_notebook("explorer.ipynb", (_SETUP, _EXPLORER)))
    return page_of_module


@pytest.fixture
def explorer(explorer_page: Page) -> Iterator[Page]:
    clear_outputs(explorer_page)
    assert run_opened(explorer_page) == []
    expect_status(explorer_page, "2,121 rows from 2012-01-01 00:00 to 2015-12-31 00:00 · 2 gaps")
    yield explorer_page
    explorer_page.set_viewport_size({"width": 1200, "height": 900})
    explorer_page.evaluate("window.jupyterapp.serviceManager.kernels.commsOverSubshells = 'disabled'")


def expect_status(page: Page, text: str) -> None:
    page.locator("[role=status], [role=alert]").filter(has_text=text).wait_for()


def chosen_range(page: Page) -> tuple[str, str]:
    start, end = (page.get_by_label(label, exact=True).input_value() for label in ("From", "To"))
    return start, end


def over_chart(page: Page, across: float) -> tuple[float, float]:
    return point(page.locator(".toolkit-chart .u-over").first, across)


def test_every_control_by_mouse(explorer: Page) -> None:
    page = explorer
    page.get_by_label("seattle", exact=True).click()
    expect_status(page, "700 rows")
    page.get_by_label("wind", exact=True).click()
    page.get_by_label("weather", exact=True).click()
    expect(page.locator(".toolkit-chart-heading")).to_have_text(["temp_max", "wind", "weather"])
    page.get_by_label("Resample", exact=True).select_option("1 month")
    expect_status(page, "23 rows")
    expect_status(page, "no mean of weather")
    page.get_by_label("Show the", exact=True).select_option("max")
    page.get_by_role("cell", name="9.5", exact=True).wait_for()
    page.get_by_label("Resample", exact=True).select_option("as it came")
    page.get_by_title("Choose all that are listed under Things").click()
    expect_status(page, "2 gaps")
    page.get_by_label("Gaps", exact=True).click()
    expect_status(page, "0 gaps")
    page.get_by_label("Outliers", exact=True).click()
    expect_status(page, "0 outliers")
    page.get_by_label("Time axis", exact=True).select_option("created")
    expect_status(page, "from 2026-01-01 ")
    page.get_by_role("button", name="Reload").click()
    expect_status(page, "rows from 2026-01-01 ")


def test_zoom_and_range_controls_agree(explorer: Page) -> None:
    page = explorer
    page.mouse.move(*over_chart(page, 0.3))
    expect(page.locator(".toolkit-chart-tip")).to_contain_text("seattle")
    page.mouse.down()
    page.mouse.move(*over_chart(page, 0.6), steps=4)
    page.mouse.up()
    expect(page.get_by_label("From", exact=True)).to_have_value(re.compile(r"^2013-0\d-\d\d \d\d:\d\d$"))
    expect(page.get_by_label("To", exact=True)).to_have_value(re.compile(r"^2014-0\d-\d\d \d\d:\d\d$"))
    assert ask_kernel(page, "str(explorer.chart.visible_range[0])[:16]") == repr(chosen_range(page)[0])
    page.mouse.dblclick(*over_chart(page, 0.5))
    expect_status(page, "2,121 rows")
    assert chosen_range(page) == ("", "")
    page.get_by_label("From", exact=True).fill("2015")
    page.keyboard.press("Enter")
    expect_status(page, "365 rows")
    expect(page.get_by_role("button", name="All", exact=True)).to_be_enabled()
    page.locator(".toolkit-chart-plots").focus()
    page.keyboard.press("Home")
    expect_status(page, "2,121 rows")


def test_downloads_match_what_is_shown(explorer: Page) -> None:
    page = explorer
    page.get_by_label("From", exact=True).fill("2015")
    page.keyboard.press("Enter")
    expect_status(page, "365 rows")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    rows = download.value.path().read_text("utf-8").splitlines()
    assert (download.value.suggested_filename, len(rows)) == ("history.csv", 366)
    assert rows[1] == "2015-01-01,seattle,5.6"
    with page.expect_download() as drawn:
        page.get_by_role("button", name="SVG", exact=True).click()
    assert "<svg" in drawn.value.path().read_text("utf-8")
    page.get_by_role("button", name="Save on the server").click()
    expect_status(page, "Wrote 365 rows to history.csv")
    page.get_by_role("button", name="Save on the server").click()
    expect_status(page, "Press Replace it to write over it.")
    page.get_by_role("button", name="Copy code").click()
    expect(page.locator("pre.toolkit-code")).to_contain_text("tk.dweets.history(['seattle', 'tacoma'], since=")
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('.loc[')")


@pytest.mark.long
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
    page.get_by_role("cell", name="wind", exact=True).wait_for()
    typed("From", "2013-04")
    typed("To", "2013-08")
    expect_status(page, "113 rows from 2013-04-01 00:00 to 2013-08-31 00:00 · 1 gap")
    typed("beyond spacing x", "50")
    expect_status(page, "0 gaps")
    typed("beyond spread x", "3")
    expect_status(page, "outliers")
    pressed("Outliers", "Space")
    expect_status(page, "0 outliers")
    pressed("Resample", "Space", "End", "ArrowUp", "Enter")
    expect(page.get_by_label("Resample", exact=True)).to_be_focused()
    expect_status(page, "5 rows")
    pressed("Show the", "l")
    expect(page.get_by_label("Show the", exact=True)).to_have_value("last")
    typed("From", "last summer")
    expect_status(page, "Cannot read these times: write 2013, 2013-07 or 2013-07-04 12:00.")
    typed("From", "")
    typed("To", "")
    pressed("Resample", "Home")
    expect_status(page, "1,421 rows")
    typed("File", "typed.parquet")
    page.get_by_role("button", name="Save on the server").focus()
    page.keyboard.press("Enter")
    expect_status(page, "rows to typed.parquet")
    typed("Stored day", "2026-01-02")
    expect_status(page, "No dweets of seattle on 2026-01-02 (UTC).")
    typed("Stored day", "2026-01-01")
    page.get_by_role("button", name="Reload").focus()
    page.keyboard.press("Space")
    expect_status(page, "rows from")


def test_changes_while_the_kernel_is_busy_run_next(explorer: Page) -> None:
    page = explorer

    def turned(label: str, text: str) -> None:
        field = page.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Enter")

    page.evaluate(_AS_IN_ANOTHER_JUPYTERLAB)
    turned("From", "2013-04")
    expect_status(page, "rows from 2013-04-01 00:00")
    ask_kernel(page, "explorer.observe(lambda change: __import__('time').sleep(0.5), 'frame')")
    page.get_by_label("Time axis", exact=True).select_option("created")
    turned("From", "last summer")
    expect_status(page, "Cannot read these times")
    assert "Cannot read these times" in ask_kernel(page, "explorer.status.value"), "and nothing came after it"


def test_rows_fit_the_page_and_are_sorted_and_filtered(explorer: Page) -> None:
    page = explorer
    page.get_by_role("button", name="Rows", exact=True).click()
    page.get_by_text("1–50 of 2,121").wait_for()
    widget = page.locator(".toolkit-widget")
    for width in (700, 1280, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        # The page lays itself out some frames after its window changed: wait for that, not for a time.
        page.wait_for_function("""() => {
            const plot = document.querySelector(".toolkit-chart .uplot"), room = plot.parentElement.clientWidth;
            return Math.abs(plot.getBoundingClientRect().width - room) < 1 && room > 200;
        }""")
        assert layout_faults(widget) == [], width
        if width >= 1280:
            assert settled_box(widget)[3] <= 680
    page.get_by_label("Filter", exact=True).fill("temp_max > 34")
    page.keyboard.press("Enter")
    page.get_by_text("1–7 of 7").wait_for()
    page.get_by_label("Sort by", exact=True).select_option("temp_max")
    page.locator("button[title='The greatest first']").click()
    expect(page.locator("[aria-label=Rows] tbody tr").first).to_contain_text("35.6")
