"""Make the moving picture of the README: ``python -m tests.moving_picture`` drives two widgets in a real lab."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.browser.lab_page import CHROMIUM_FLAGS, EXPOSED, open_notebook, run_opened, running_lab
from tests.conftest import ROOT
from tests.notebook_pictures import chromium_program

PICTURE = ROOT / "docs" / "_static" / "widgets.gif"
_WINDOW = {"width": 1000, "height": 860}
_SIZE = 900, 560
_MOST_BYTES = 1_500_000

_CONNECT = """\
import numpy as np, pandas as pd, toolkit
tk = toolkit.connect(toolkit.Gateway.demo())
times = pd.date_range("2026-01-01", periods=480, freq="15min", name="time")
wave = 20 + 3 * np.sin(np.arange(480) / 15) + np.random.default_rng(1).normal(0, 0.25, 480)
rows = pd.DataFrame({"celsius": wave.round(2)}, index=times)"""
_LIVE = """\
live = toolkit.LiveDweets(tk, "kitchen", "celsius", unit="°C", time="time")
live"""
_REPLAY = "playback = tk.dweets.replay('kitchen', rows, speed=60_000)"
_WRITE = """\
explorer = toolkit.HandwritingExplorer(tk)
explorer.look.pen.value, explorer.look.natural.value = "fountain", True
explorer"""


_PARTS = ("Dear Ada,", "Dear Ada,\nThe engine", "Dear Ada,\nThe engine works.")


def frames(page: Page, cell: int, count: int, pause: int) -> Iterator[Image.Image]:
    output = page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-output").first
    output.scroll_into_view_if_needed()
    for _ in range(count):
        with Image.open(io.BytesIO(output.screenshot())) as opened:
            image = opened.convert("RGB")
        shown = Image.new("RGB", _SIZE, "white")
        image.thumbnail(_SIZE, Image.Resampling.LANCZOS)
        shown.paste(image, (0, 0))
        yield shown
        page.wait_for_timeout(pause)


def recorded(page: Page) -> tuple[list[Image.Image], list[int]]:
    """Return the pictures, and for how many milliseconds each is shown."""
    pictures = list(frames(page, 1, 40, 60))
    durations = [100] * len(pictures)
    text = page.locator(".jp-CodeCell").nth(2).locator("textarea").first
    text.scroll_into_view_if_needed()
    text.fill("")
    for part in _PARTS:
        text.fill(part)
        page.wait_for_timeout(700)
        pictures += frames(page, 2, 1, 0)
        durations.append(700)
    durations[-1] = 2_000
    return pictures, durations


@click.command()
def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder), *EXPOSED) as lab,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium_program(), args=CHROMIUM_FLAGS) as browser,
        browser.new_page(viewport=_WINDOW) as page,
    ):
        open_notebook(page, lab, lab.write_notebook("picture.ipynb", (_CONNECT, _LIVE, _WRITE, _REPLAY)), "doc/tree")
        if errors := run_opened(page):
            raise click.ClickException(errors[0])
        pictures, durations = recorded(page)
    first, *rest = [picture.quantize(64, dither=Image.Dither.NONE) for picture in pictures]
    first.save(PICTURE, save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)
    if PICTURE.stat().st_size > _MOST_BYTES:
        raise click.ClickException(f"{PICTURE.name} has {PICTURE.stat().st_size:,} bytes; {_MOST_BYTES:,} are allowed")
    click.echo(f"{PICTURE.name}: {len(pictures)} pictures, {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
