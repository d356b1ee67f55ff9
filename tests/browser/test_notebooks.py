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

from tests.browser.lab_page import (
    RunningLab,
    is_changed,
    is_trusted,
    keep_picture,
    open_notebook,
    run_opened,
    save,
    show_lab,
    shut_down_kernels,
)
from tests.browser.widget_page import ask_kernel
from tests.conftest import ROOT
from tests.mail_server import eventually

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


_RUN_WIDGETS_AGAIN = """async () => {
  const app = window.jupyterapp, notebook = app.shell.currentWidget.content;
  const cells = notebook.widgets.filter(cell => cell.node.querySelector('.toolkit-widget'));
  for (const cell of cells) {
    notebook.activeCellIndex = notebook.widgets.indexOf(cell);
    notebook.deselectAll();
    await app.commands.execute('notebook:run-cell');
  }
}"""

# What a kernel would leave behind. The thread of zmq comes with the first large message, such as a picture, and stays.
_THREADS = """sorted(thread.name for thread in __import__('threading').enumerate()
    if type(thread).__module__ != 'zmq.utils.garbage')"""
_CHILDREN = "len(__import__('psutil').Process().children(recursive=True))"


def files_of(lab: RunningLab) -> set[Path]:
    return {path for path in lab.folder.rglob("*") if ".ipynb_checkpoints" not in path.parts}


def traces(page: Page) -> Counter[str]:
    """Return what the kernel of the open notebook has running: its threads by name, and how many processes."""
    return Counter(ast.literal_eval(ask_kernel(page, _THREADS))) + Counter(children=int(ask_kernel(page, _CHILDREN)))


def assert_no_error_line(page: Page) -> None:
    """Each output of the open notebook shows something, and none says that a widget is missing."""
    page.locator(".jp-OutputArea-output").first.wait_for()
    for output in page.locator(".jp-OutputArea-output").all():
        output.wait_for()
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
    page.locator(".toolkit-widget").first.wait_for()
    keep_picture(page, path.stem)
    files = files_of(lab)
    page.evaluate(_RUN_WIDGETS_AGAIN)
    eventually(lambda: not traces(page) - once, said="a second run leaves what the first did not")
    eventually(lambda: files_of(lab) == files, said="a second run leaves other files than the first")
    save(page)
    shut_down_kernels(page)
    open_notebook(page, lab, name)
    assert_no_error_line(page)
    expect(page.locator(".toolkit-widget")).to_have_count(0)
    assert (is_trusted(page), is_changed(page)) == (True, False)


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
