"""A JupyterLab and pages of it in a real Chromium, as a person would have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Locator, Page, Request, WebSocket, expect

from tests.conftest import ROOT

ARTEFACTS = ROOT / "tests" / "artefacts"

#: The first that is installed. The shell draws the same pages with a third less work, as it has no windows.
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

#: No sandbox: in a container the tests run as root. No host but this machine has a name.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

#: So that a page has `window.jupyterapp`, in JupyterLab and in Notebook 7.
EXPOSED = (
    "--LabApp.expose_app_in_browser=True",
    "--JupyterNotebookApp.expose_app_in_browser=True",
    "--LanguageServerManager.autodetect=False",
)

_OPENING_SECONDS = 180.0
_OPENED = """async ({path, seconds}) => {
  const app = window.jupyterapp;
  const opened = (async () => {
    await app.restored;
    let panel;
    while ((panel = app.shell.currentWidget)?.context?.path !== path)
      await new Promise(resolve => requestAnimationFrame(resolve));
    await panel.context.ready;
    await panel.context.sessionContext.ready;
    await panel.revealed;
    await panel.context.sessionContext.session.kernel.info;
  })();
  await Promise.race([opened, new Promise((_, reject) =>
    setTimeout(() => reject(new Error(`opening took more than ${seconds} s: ${path}`)), 1000 * seconds))]);
}"""

# Clicking "Run" right after the page looks ready is often lost, so the application's own command is awaited.
_RUN_ALL = """async seconds => {
  const app = window.jupyterapp, panel = app.shell.currentWidget;
  await Promise.race([app.commands.execute('notebook:run-all-cells'), new Promise((_, reject) =>
    setTimeout(() => reject(new Error(`running took more than ${seconds} s`)), 1000 * seconds))]);
  return panel.content.widgets
    .filter(cell => cell.model.type === 'code')
    .flatMap(cell => cell.model.outputs.toJSON())
    .filter(output => output.output_type === 'error')
    .map(output => `${output.ename}: ${output.evalue}`);
}"""

# As a person does who closes a notebook and opens another, or the same again: the lab itself stays.
_OPEN = """async path => {
  const app = window.jupyterapp;
  await app.restored;
  [...app.shell.widgets('main')].forEach(widget => widget.dispose());
  await app.commands.execute('docmanager:open', {path});
}"""

# Nothing lies over it, such as a question that a test which failed left open.
_IS_READY = "() => Boolean(window.jupyterapp) && !document.querySelector('.jp-Dialog')"

_TRUSTED = """() => window.jupyterapp.shell.currentWidget.content.widgets
  .filter(cell => cell.model.type === 'code').every(cell => cell.model.trusted)"""

_SHUT_DOWN = "async () => { await window.jupyterapp?.serviceManager.sessions.shutdownAll(); }"

_HEIGHT = """() => Math.max(...[...document.querySelectorAll('.jp-Notebook, .jp-WindowedPanel-outer')]
  .map(panel => panel.scrollHeight), 0)"""

_TO_THE_TOP = """() => new Promise(resolve => {
  document.querySelectorAll('.jp-Notebook, .jp-WindowedPanel-outer').forEach(panel => { panel.scrollTop = 0; });
  requestAnimationFrame(() => requestAnimationFrame(resolve));
})"""


@dataclass
class RunningLab:
    """A `toolkit lab` with a folder of its own.

    Parameters
    ----------
    url
        Its address, ``http://127.0.0.1:PORT``.
    token
        What a page must know to get in.
    folder
        What it shows: ``notebooks`` and ``data``, copies of the checkout's.
    jupyter_data
        Where it keeps which notebooks are trusted.
    """

    url: str
    token: str
    folder: Path
    jupyter_data: Path

    def page_of(self, path: str, interface: str = "lab/tree") -> str:
        """Return the address of a notebook, in a workspace without any other document; ``notebooks`` is Notebook 7."""
        return f"{self.url}/{interface}/{path}?reset&token={self.token}"

    def write_notebook(self, name: str, cells: tuple[str, ...]) -> str:
        notebook = {
            "cells": [
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "id": f"cell-{number}",
                    "metadata": {},
                    "outputs": [],
                    "source": source,
                }
                for number, source in enumerate(cells)
            ],
            "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        (self.folder / name).write_text(json.dumps(notebook), "utf-8")
        return name


@contextmanager
def running_lab(folder: Path, *jupyter_options: str) -> Iterator[RunningLab]:
    """Run `toolkit lab` with all of its state below `folder`; at the end it must stop by itself."""
    _write_settings(folder)
    command = [sys.executable, "-m", "toolkit", "lab", "--no-browser", "--port=0", "--lab-port=0"]
    command += [f"--data={folder / 'gateway'}", f"--folder={folder / 'lab'}"]
    command += ["--", *jupyter_options]
    with (folder / "lab.log").open("w") as log:
        process = subprocess.Popen(command, env=_environment(folder), stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        try:
            said = [process.stdout.readline() for _ in range(3)]
            assert said[1].startswith("lab at http"), (folder / "lab.log").read_text("utf-8")
            address = urlsplit(said[1].removeprefix("lab at ").strip())
            token = address.query.removeprefix("token=")
            yield RunningLab(f"http://{address.netloc}", token, folder / "lab", folder / "jupyter")
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)
            process.stdout.close()
    assert process.returncode == 0, (folder / "lab.log").read_text("utf-8")


def _environment(folder: Path) -> dict[str, str]:
    names = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "jupyter",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    return os.environ | {name: str(folder / below) for name, below in names.items()}


def _write_settings(folder: Path) -> None:
    # Without windowing every cell is in the page, so that a test finds it and a picture shows it.
    tracker = folder / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    tracker.parent.mkdir(parents=True)
    tracker.write_text(json.dumps({"windowingMode": "none"}), "utf-8")
    # The animated logo lies over everything, at the start and while the theme changes.
    page = folder / "config" / "labconfig" / "page_config.json"
    page.parent.mkdir(parents=True)
    page.write_text(json.dumps({"disabledExtensions": {"@jupyterlab/apputils-extension:splash": True}}), "utf-8")


def watch_foreign_requests(context: BrowserContext) -> list[str]:
    """Return a list to which every request of the browser to another machine is added."""
    foreign: list[str] = []

    def note(message: Request | WebSocket) -> None:
        address = urlsplit(message.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname != "127.0.0.1":
            foreign.append(message.url)

    context.on("request", note)
    context.on("page", lambda page: page.on("websocket", note))
    return foreign


def open_notebook(page: Page, lab: RunningLab, path: str, interface: str = "lab/tree") -> None:
    """Open a notebook, in JupyterLab or in Notebook 7 (``notebooks``), and wait until its kernel has started.

    A page that shows this JupyterLab already keeps it, and closes the notebook that was open: loading takes seconds.
    """
    if interface == "lab/tree" and shows_lab(page, lab):
        page.evaluate(_OPEN, path)
        page.evaluate(_OPENED, {"path": path, "seconds": _OPENING_SECONDS})
    else:
        load_notebook(page, lab, path, interface)


def shows_lab(page: Page, lab: RunningLab) -> bool:
    shown: bool = page.url.startswith(f"{lab.url}/lab") and page.evaluate(_IS_READY)
    return shown


def show_lab(page: Page, lab: RunningLab) -> None:
    if not shows_lab(page, lab):
        page.goto(lab.page_of(""))
        page.wait_for_function("window.jupyterapp")


def load_notebook(page: Page, lab: RunningLab, path: str, interface: str = "lab/tree") -> None:
    """Reload the page with this notebook, as a person does; a running kernel keeps running."""
    page.goto(lab.page_of(path, interface))
    page.wait_for_function("window.jupyterapp")
    page.evaluate(_OPENED, {"path": path, "seconds": _OPENING_SECONDS})


def path_of_notebook(page: Page) -> str:
    path: str = page.evaluate("window.jupyterapp.shell.currentWidget.context.path")
    return path


def run_opened(page: Page, seconds: float = 180.0) -> list[str]:
    """Run the open notebook top to bottom, and return the errors in its outputs."""
    errors: list[str] = page.evaluate(_RUN_ALL, seconds)
    return errors


def run_all(page: Page, lab: RunningLab, path: str) -> list[str]:
    open_notebook(page, lab, path)
    return run_opened(page)


def clear_outputs(page: Page) -> None:
    page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    expect(page.locator(".jp-OutputArea-output")).to_have_count(0)


def save(page: Page) -> None:
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")


def is_changed(page: Page) -> bool:
    """Return whether the open notebook differs from its file, as far as JupyterLab knows."""
    changed: bool = page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty")
    return changed


def is_trusted(page: Page) -> bool:
    """Return whether all cells of the open notebook may show whatever they like."""
    trusted: bool = page.evaluate(_TRUSTED)
    return trusted


def end_trust(path: Path) -> None:
    """Change the file of a notebook from outside, as when it comes from somebody else."""
    notebook = json.loads(path.read_bytes())
    assert "widgets" not in notebook["metadata"], "no state of widgets, which may be large, is saved"
    notebook["metadata"]["changed"] = True
    path.write_text(json.dumps(notebook), "utf-8")


def restart_kernel(page: Page) -> None:
    """Restart the kernel of the open notebook, without the question whether one is sure."""
    page.evaluate("window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()")


def shut_down_kernels(page: Page) -> None:
    page.evaluate(_SHUT_DOWN)


def set_theme(page: Page, dark: bool) -> None:
    theme = "JupyterLab Dark" if dark else "JupyterLab Light"
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=str(not dark).lower())


def keep_picture(page: Page, name: str, of: Locator | None = None) -> Path:
    """Save a picture of the page, the whole notebook on it, or `of` a part, as ``tests/artefacts/NAME.png``."""
    size = page.viewport_size or {"width": 1200, "height": 900}
    box = of and of.bounding_box()
    # Around a part there is room for the menu and the toolbar, so that it is seen whole; drawing all takes longer.
    needed = round(box["height"]) + 300 if box else page.evaluate(_HEIGHT) + 200
    page.set_viewport_size({"width": size["width"], "height": min(max(needed, size["height"]), 8000)})
    if not of:
        page.evaluate(_TO_THE_TOP)
    picture = ARTEFACTS / f"{name}.png"
    picture.parent.mkdir(exist_ok=True)
    (of or page).screenshot(path=picture)
    page.set_viewport_size(size)
    return picture
