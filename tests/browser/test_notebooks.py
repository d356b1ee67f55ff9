"""Notebooks run top to bottom in JupyterLab in a real Chromium, and ask nothing of another machine.

With ``--long`` all of them. nbval runs and compares each one, and the widgets of the others are in
``test_widget_family.py`` too.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import RunCells
from tests.browser.lab_page import (
    RunningLab,
    is_changed,
    is_trusted,
    keep_picture,
    open_notebook,
    run_again,
    run_all,
    run_opened,
    run_widgets_again,
    save,
    set_theme,
    show_lab,
    shut_down_kernels,
    traces,
)
from tests.conftest import ROOT
from tests.mail_server import eventually

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

_SLIDER = """
import ipywidgets
slider = ipywidgets.IntSlider(description="points", value=3)
said = ipywidgets.Label("nothing yet")
slider.observe(lambda change: setattr(said, "value", f"now {change.new}"), "value")
ipywidgets.VBox([slider, said])
"""

_POST = """
import toolkit
tk = toolkit.connect()
tk.dweets.post("browser-kitchen", {"celsius": 21.5})
print("latest", tk.dweets.latest("browser-kitchen")["celsius"].iloc[0])
"""


def files_of(lab: RunningLab) -> set[Path]:
    return {path for path in lab.folder.rglob("*") if ".ipynb_checkpoints" not in path.parts}


def left_since(once: dict[str, str], again: dict[str, str]) -> Counter[str]:
    """Return the threads and processes that are there again and were not there once."""
    before, after = (
        Counter(ast.literal_eval(found["threads"])) + Counter(children=int(found["children"]))
        for found in (once, again)
    )
    return after - before


def assert_no_error_line(page: Page) -> None:
    """Each output of the open notebook shows something, and none says that a widget is missing."""
    expect(page.locator(".jp-OutputArea-output").first).to_be_visible()
    for output in page.locator(".jp-OutputArea-output").all():
        expect(output).to_be_visible()
        expect(output).not_to_have_text(re.compile("^(Loading|Error displaying) widget"))


@pytest.mark.timeout(420)  # notebook 6 computes for half a minute where nothing else runs
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.long] if path.stem[0] != "1" else []) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_a_notebook_runs_twice_and_its_widgets_are_saved(path: Path, lab: RunningLab, page: Page) -> None:
    name = path.relative_to(ROOT).as_posix()
    open_notebook(page, lab, name)
    assert_no_error_line(page)
    assert not is_trusted(page)
    assert run_opened(page) == []
    once = traces(page)
    expect(page.locator(".toolkit-widget").first).to_be_visible()
    keep_picture(page, path.stem)
    files = files_of(lab)
    run_widgets_again(page)
    eventually(lambda: not left_since(once, traces(page)), said="a second run leaves what the first did not")
    eventually(lambda: files_of(lab) == files, said="a second run leaves other files than the first")
    save(page)
    shut_down_kernels(page)
    open_notebook(page, lab, name)
    assert_no_error_line(page)
    expect(page.locator(".toolkit-widget")).to_have_count(0)
    assert (is_trusted(page), is_changed(page)) == (True, False)


def test_a_kernel_talks_to_the_gateway_of_the_lab(run_cells: RunCells) -> None:
    page = run_cells(_POST, "print('embedded', tk.gateway)")
    expect(page.get_by_text("latest 21.5")).to_be_visible()
    expect(page.get_by_text("embedded None")).to_be_visible()


def test_a_widget_answers_the_keyboard(run_cells: RunCells) -> None:
    page = run_cells(_SLIDER)
    handle = page.locator(".widget-slider .noUi-handle")
    handle.focus()
    handle.press("ArrowRight")
    expect(page.get_by_text("now 4")).to_be_visible()
    set_theme(page, dark=True)
    picture = keep_picture(page, "slider-dark")
    assert picture.stat().st_size > 10_000
    set_theme(page, dark=False)


def defaults_of(page: Page, plugin: str) -> dict[str, Any]:
    settings = page.evaluate("async name => (await fetch(`/lab/api/settings/${name}`)).json()", plugin)
    return {name: field.get("default") for name, field in settings["schema"]["properties"].items()}


def test_lab_asks_nothing_and_keeps_message_order(lab: RunningLab, page: Page) -> None:
    show_lab(page, lab)
    news = defaults_of(page, "@jupyterlab/apputils-extension:notification")
    assert (news["fetchNews"], news["checkForUpdates"]) == ("false", False)
    # Else whoever presses End looks at an empty page.
    assert defaults_of(page, "@jupyterlab/notebook-extension:tracker")["scrollPastEnd"] is False
    # Else the kernel hears a click in one thread and the choice that was made before it in another, in any order.
    assert defaults_of(page, "@jupyterlab/apputils-extension:kernels-settings")["commsOverSubshells"] == "disabled"
    page.wait_for_function("window.jupyterapp?.serviceManager.kernels.commsOverSubshells === 'disabled'")


def test_leftover_errors_and_threads_are_detected(lab: RunningLab, page: Page) -> None:
    thread = "import threading; threading.Thread(target=threading.Event().wait, name='left', daemon=True).start()"
    path = lab.write_notebook("broken.ipynb", (thread, "1 / 0"))
    assert run_all(page, lab, path) == ["ZeroDivisionError: division by zero"]
    assert traces(page)["threads"].count("'left'") == 1
    run_again(page)
    assert traces(page)["threads"].count("'left'") == 2


def test_a_request_to_another_host_is_detected(lab: RunningLab, page: Page, foreign_requests: list[str]) -> None:
    show_lab(page, lab)
    with page.expect_request("http://elsewhere.example/x"):
        page.evaluate("fetch('http://elsewhere.example/x').catch(() => null)")
    assert foreign_requests == ["http://elsewhere.example/x"]
    foreign_requests.clear()
