"""Run notebooks in a real lab and keep pictures of their widgets: ``python -m tests.notebook_pictures [NAME ...]``.

Each notebook (all, or those whose names begin with a NAME) runs from top to bottom in `toolkit lab`, in Chromium, and
is saved. A screenshot of each widget with its controls becomes the ``image/png`` of its output, so that a reader sees
the widget where none can run, as on a code hosting site. Then the notebooks are stripped, ready to be committed.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import nbformat
from nbformat import NotebookNode
from PIL import Image, ImageChops
from playwright.sync_api import Locator, Page, sync_playwright

from tests import strip_notebooks
from tests.browser.lab_page import (
    CHROMIUM,
    CHROMIUM_FLAGS,
    EXPOSED,
    RunningLab,
    open_notebook,
    run_opened,
    running_lab,
    save,
)

#: Wide enough for controls beside a chart, and read without zooming on a page of 900 pixels.
_WINDOW = {"width": 1040, "height": 800}
_MARGIN = 8
_MOST_BYTES = 2_000_000

_SETTLED = """() => !document.querySelector('.toolkit-busy')
  && [...document.images].every(image => image.complete)"""


def chromium_program() -> str:
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise click.ClickException("Chromium is not installed. On Debian: apt-get install chromium")
    return program


def widgets_of(notebook: NotebookNode) -> Iterator[tuple[int, int, NotebookNode]]:
    """Yield the outputs that are widgets, with the number of their code cell and their place in it."""
    code_cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    for number, cell in enumerate(code_cells):
        for place, output in enumerate(cell.outputs):
            if strip_notebooks.WIDGET_VIEW in output.get("data", {}):
                yield number, place, output


def screenshot(part: Locator) -> bytes:
    page = part.page
    box = part.bounding_box()
    height = int(box["height"]) + 300 if box else 0
    page.set_viewport_size({**_WINDOW, "height": max(height, _WINDOW["height"])})
    part.scroll_into_view_if_needed()
    page.mouse.move(0, 0)
    page.wait_for_function(_SETTLED)
    picture = part.screenshot(animations="disabled")
    page.set_viewport_size(_WINDOW)
    return picture


def small_png(picture: bytes) -> bytes:
    """Return the picture without its empty edges, in at most 256 colours."""
    with Image.open(io.BytesIO(picture)) as opened:
        image = opened.convert("RGB")
    inked = ImageChops.difference(image, Image.new("RGB", image.size, image.getpixel((0, 0)))).getbbox()
    if inked:
        left, upper, right, lower = inked
        edges = max(left - _MARGIN, 0), max(upper - _MARGIN, 0), right + _MARGIN, lower + _MARGIN
        image = image.crop((*edges[:2], min(edges[2], image.width), min(edges[3], image.height)))
    file = io.BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def with_pictures(page: Page, lab: RunningLab, path: str) -> str:
    """Run a notebook in the lab, and return it stripped, with a picture of each widget."""
    open_notebook(page, lab, path, "doc/tree")  # without a side bar
    if errors := run_opened(page):
        raise click.ClickException(f"{path}: {errors[0]}")
    page.wait_for_load_state("networkidle")
    page.wait_for_function(_SETTLED)
    save(page)
    notebook = nbformat.read(lab.folder / path, as_version=4)
    for number, place, output in widgets_of(notebook):
        part = page.locator(".jp-CodeCell").nth(number).locator(".jp-OutputArea-output").nth(place)
        if part.is_visible():  # a closed widget is not
            output.data["image/png"] = base64.b64encode(small_png(screenshot(part))).decode("ascii")
    return strip_notebooks.stripped(nbformat.writes(notebook))


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Run the notebooks whose names begin with one of NAMES, or all, and store pictures of their widgets."""
    paths = [path for path in sorted(strip_notebooks.NOTEBOOKS.glob("*.ipynb")) if path.name.startswith(names or "")]
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder), *EXPOSED) as lab,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium_program(), args=CHROMIUM_FLAGS) as browser,
    ):
        for path in paths:
            with browser.new_page(viewport=_WINDOW, reduced_motion="reduce") as page:
                text = with_pictures(page, lab, f"notebooks/{path.name}")
            if len(text) > _MOST_BYTES:
                raise click.ClickException(f"{path.name} would have {len(text):,} bytes; {_MOST_BYTES:,} are allowed")
            path.write_text(text, "utf-8")
            click.echo(f"{path.name}: {len(text):,} bytes")
    strip_notebooks.main()


if __name__ == "__main__":
    sys.exit(main())
