"""Make the pictures of the gallery that no tutorial holds: ``python -m tests.gallery_pictures [NAME ...]``.

Each is a picture of what the lines of its entry in docs/gallery.toml give: a figure, a rendering, letters, the output
of commands; and, seen in Chromium, a page of a gateway or a widget in a real lab.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import shlex
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import ipywidgets
import matplotlib
import pandas as pd
import pypdfium2
from matplotlib import pyplot
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, Page, sync_playwright

import toolkit
from tests.browser.lab_page import CHROMIUM_FLAGS, EXPOSED, open_notebook, run_opened, running_lab
from tests.commands import called
from tests.conftest import ROOT
from tests.notebook_pictures import chromium_program, screenshot, small_png

ENTRIES: dict[str, dict[str, str]] = tomllib.loads((ROOT / "docs" / "gallery.toml").read_text("utf-8"))
FOLDER = ROOT / "docs" / "_static" / "gallery"
MOST_BYTES = 60_000
_MOST_WIDTH = 1000
_START = "import pandas as pd\nimport toolkit\n\ngateway = toolkit.Gateway.demo()\ntk = toolkit.connect(gateway)\n"


@contextlib.contextmanager
def in_empty_folder(folder: Path) -> Iterator[None]:
    """Work in a folder that has nothing but the data of the project."""
    (folder / "data").symlink_to(ROOT / "data")
    with contextlib.chdir(folder):
        yield


def result_of(entry: dict[str, str], gateway: toolkit.Gateway, tk: toolkit.Connection) -> Any:
    """Run the code of an entry; return its figure, the value of its last expression, or what its commands print."""
    if entry["code"].startswith("toolkit "):
        return "".join(
            f"$ {line}\n{called(*shlex.split(line)[1:], TOOLKIT_URL=gateway.base_url).output}"
            for line in entry["code"].strip().splitlines()
        )
    names: dict[str, Any] = {"pd": pd, "toolkit": toolkit, "gateway": gateway, "tk": tk}
    exec(entry.get("given", ""), names)
    *statements, last = ast.parse(entry["code"]).body
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", toolkit.errors.DataWarning)  # faulty data is what some entries show
        is_value = isinstance(last, ast.Expr)
        exec(compile(ast.Module(statements if is_value else [*statements, last], []), "gallery", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "gallery", "eval"), names) if is_value else None
    if "playback" in names:
        names["playback"].wait()
    return pyplot.gcf() if pyplot.get_fignums() else value


def picture_of(result: Any) -> bytes:
    """Return a result that needs no browser as a PNG."""
    if isinstance(result, matplotlib.figure.Figure):
        file = io.BytesIO()
        result.savefig(file, dpi=130, bbox_inches="tight", facecolor="white")
        return _shrunk(file.getvalue())
    if isinstance(result, pd.DataFrame):  # the list of the letters of a mail merge
        pages = [pypdfium2.PdfDocument(path)[0].render(scale=1.5).to_pil() for path in result["path"]]
        return _shrunk(_bytes_of(_side_by_side(pages)))
    if isinstance(result, str):
        return _shrunk(_bytes_of(_terminal(result)))
    shown: dict[str, str] = result._repr_mimebundle_()  # noqa: SLF001 - as Jupyter does
    return _shrunk(base64.b64decode(shown["image/png"]))


def _bytes_of(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _shrunk(picture: bytes) -> bytes:
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.thumbnail((_MOST_WIDTH, 4 * _MOST_WIDTH), Image.Resampling.LANCZOS)
    for colours in (256, 64, 16, 8):
        file = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
        if file.tell() <= MOST_BYTES:
            break
    return file.getvalue()


def _side_by_side(pages: list[Image.Image]) -> Image.Image:
    gap = 16
    sheet = Image.new("RGB", (sum(page.width + gap for page in pages) + gap, pages[0].height + 2 * gap), "#d5d5d8")
    for number, page in enumerate(pages):
        sheet.paste(page, (gap + number * (page.width + gap), gap))
    return sheet


def _terminal(text: str) -> Image.Image:
    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
    plain, bold = (ImageFont.truetype(fonts / f"DejaVuSansMono{kind}.ttf", 17) for kind in ("", "-Bold"))
    lines = [line[start : start + 92] for line in text.splitlines() for start in range(0, len(line), 92)]
    image = Image.new("RGB", (980, 26 * len(lines) + 36), "#16181d")
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        is_command = line.startswith("$ ")
        draw.text((20, 18 + 26 * number), line, "#ffffff" if is_command else "#a9c7b0", bold if is_command else plain)
    return image


def widget_picture(entry: dict[str, str], browser: Browser) -> bytes:
    """Return the picture of the widget that the code gives, in a lab."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder), *EXPOSED) as lab,
        browser.new_page(viewport={"width": 1040, "height": 800}, reduced_motion="reduce") as page,
    ):
        open_notebook(page, lab, lab.write_notebook("gallery.ipynb", (_START, entry["code"])), "doc/tree")
        if errors := run_opened(page):
            raise click.ClickException(errors[0])
        page.wait_for_load_state("networkidle")
        output = page.locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-output").last
        return _shrunk(small_png(screenshot(output)))


def writing_steps(page: Page, svg: str, count: int) -> Iterator[int]:
    """Show an animated writing at `count` moments from its beginning to its end; the last tenth shows all of it."""
    page.set_content(f'<body style="margin:0"><div style="padding:24px 60px;background:#f7f3ea">{svg}</div></body>')
    last = max(page.evaluate("document.getAnimations().map(one => one.effect.getComputedTiming().endTime)"))
    for step in range(count):
        moment = last * min(step / (count * 0.9), 1) + 0.01
        page.evaluate(
            "time => document.getAnimations().forEach(one => { one.pause(); one.currentTime = time; })", moment
        )
        yield step


def animation_picture(svg: str, browser: Browser) -> bytes:
    with browser.new_page(viewport={"width": 280, "height": 140}, device_scale_factor=2) as page:
        paper = page.locator("div")
        shots = [Image.open(io.BytesIO(paper.screenshot())) for _ in writing_steps(page, svg, 30)]
    first, *rest = [picture.convert("RGB").quantize(16, dither=Image.Dither.NONE) for picture in shots]
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=rest, duration=[120] * len(rest) + [1500], loop=0)
    return file.getvalue()


def page_picture(address: str, browser: Browser) -> bytes:
    with browser.new_page(viewport={"width": 900, "height": 640}) as page:
        page.goto(address)
        page.wait_for_timeout(1_500)  # the stream of the follow page never ends
        return _shrunk(small_png(page.screenshot()))


def browser_picture(name: str) -> bytes:
    """Return the picture of a widget, an animation or a page; the gateway has a real clock, as the browser has."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_program(), args=CHROMIUM_FLAGS)
        if name == "animation":
            with toolkit.Gateway() as gateway, toolkit.connect(gateway) as tk:
                return animation_picture(result_of(ENTRIES[name], gateway, tk).data.decode(), browser)
        if ENTRIES[name]["code"].rstrip().endswith(("gateway.base_url", '/follow/kitchen"')):
            with toolkit.Gateway() as gateway, toolkit.connect(gateway) as tk:
                return page_picture(result_of(ENTRIES[name], gateway, tk), browser)
        return widget_picture(ENTRIES[name], browser)


def needs_browser(result: Any) -> bool:
    is_moving = getattr(result, "kind", "") == "replay"
    return is_moving or isinstance(result, ipywidgets.Widget) or (isinstance(result, str) and result.startswith("http"))


def make(name: str) -> bytes:
    with (
        tempfile.TemporaryDirectory() as folder,
        in_empty_folder(Path(folder)),
        toolkit.Gateway.demo() as gateway,
        toolkit.connect(gateway) as tk,
    ):
        result = result_of(ENTRIES[name], gateway, tk)
        if not needs_browser(result):
            return picture_of(result)
    return browser_picture(name)


@click.command()
@click.argument("names", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Make the pictures of the entries NAMES, or of all that no tutorial holds."""
    matplotlib.use("Agg")
    FOLDER.mkdir(exist_ok=True)
    for name in names or [name for name, entry in ENTRIES.items() if "picture" in entry]:
        picture = make(name)
        pyplot.close("all")
        if len(picture) > MOST_BYTES:
            raise click.ClickException(f"{name} has {len(picture):,} bytes; {MOST_BYTES:,} are allowed")
        (FOLDER / ENTRIES[name]["picture"]).write_bytes(picture)
        click.echo(f"{name}: {len(picture):,} bytes")


if __name__ == "__main__":
    sys.exit(main())
