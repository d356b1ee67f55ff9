"""Make the moving picture of the README: ``python -m tests.moving_picture`` drives widgets in a real lab.

Four scenes of about three seconds, each with a title.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import matplotlib
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Locator, Page, sync_playwright

import toolkit
from tests.browser.lab_page import CHROMIUM_FLAGS, EXPOSED, open_notebook, run_opened, running_lab
from tests.browser.widget_page import ask_kernel
from tests.conftest import ROOT
from tests.gallery_pictures import writing_steps
from tests.notebook_pictures import chromium_program

PICTURE = ROOT / "docs" / "_static" / "widgets.gif"
_WINDOW = {"width": 1040, "height": 1300}
_SIZE = 800, 500
_TITLE_HEIGHT = 40
_MOST_BYTES = 1_500_000
_CONTROLS = 100  # the height of the buttons above the diagrams of mobile identity

_CONNECT = """\
import pandas as pd, toolkit
tk = toolkit.connect(toolkit.Gateway.demo())
sent = pd.read_json("data/attic_sensor.jsonl", lines=True)
attic = sent.set_index(pd.to_datetime(sent.pop("measured"))).dweets.numeric()"""
_HISTORY = """\
history = toolkit.HistoryExplorer(attic[["celsius"]], unit="°C")
history.mark_shifts.value = True
history"""
_REWARDS = """\
rules = {"default": {"p": 0.2}, "rewards": [{"id": "tea", "title": "Tea", "stock": 5_000}]}
rewards = toolkit.RewardsExplorer(configuration=rules)
rewards"""
_IDENTITY = """\
identity = toolkit.IdentityWalkthrough(tk)
identity.run_all()
identity"""
_LETTER = """Dear Ada,

The engine works: yesterday
it wove its first pattern, as
the loom weaves flowers
and leaves.

Yours, Charles"""

#: A picture, and for how many milliseconds it is shown.
Shot = tuple[Image.Image, int]


def shot(part: Locator, title: str, milliseconds: int, top: int = 0, is_whole: bool = False) -> Shot:
    """Return what is seen of a part from `top` pixels below its edge on, under a bar with the title.

    It has the width of the picture, and is cut at the bottom, or it is whole and smaller.
    """
    with Image.open(io.BytesIO(part.screenshot())) as opened:
        image = opened.convert("RGB")
    width, height = _SIZE
    shown_height = round(image.width * (height - _TITLE_HEIGHT) / width)
    image = image.crop((0, top, image.width, image.height if is_whole else min(image.height, top + shown_height)))
    image.thumbnail((width, height - _TITLE_HEIGHT), Image.Resampling.LANCZOS)
    shown = Image.new("RGB", _SIZE, image.getpixel((0, image.height - 1)))
    shown.paste(image, ((width - image.width) // 2, _TITLE_HEIGHT))
    draw = ImageDraw.Draw(shown)
    draw.rectangle((0, 0, width, _TITLE_HEIGHT - 1), fill="#1f2933")
    font = ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans-Bold.ttf"), 18)
    draw.text((16, 9), title, "white", font)
    return shown, milliseconds


def output(page: Page, cell: int) -> Locator:
    part = page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-output").last
    part.scroll_into_view_if_needed()
    return part


def history(page: Page) -> Iterator[Shot]:
    """Point at the shift and at a gap, then zoom to both."""
    title, part = "1 · Point and zoom: a level shift, a gap", output(page, 1)
    box = part.locator(".u-over").first.bounding_box()
    assert box is not None

    def move(across: float, down: float = 0.5) -> None:
        page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * down, steps=3)
        page.wait_for_timeout(250)

    for across in (0.08, 0.12, 0.155, 0.172, 0.2, 0.27, 0.338):
        move(across)
        yield shot(part, title, 180)
    move(0.13)
    page.mouse.down()
    for across in (0.2, 0.28, 0.36):
        move(across)
        yield shot(part, title, 150)
    page.mouse.up()
    page.wait_for_timeout(1_500)
    for across in (0.1, 0.2, 0.5, 0.9):
        move(across)
        yield shot(part, title, 330)


def rewards(page: Page) -> Iterator[Shot]:
    title, part = "2 · Change a rule of the rewards: before and after", output(page, 2)
    page.mouse.move(0, 0)
    yield shot(part, title, 900)
    for percent in (25, 30, 35, 40, 45, 50):
        ask_kernel(page, f"setattr(rewards.p, 'value', {percent / 100})")
        page.wait_for_timeout(300)
        yield shot(part, title, 150)
    yield shot(part, title, 1_200)


def letter(page: Page, svg: str) -> Iterator[Shot]:
    for step in writing_steps(page, svg, 25):
        yield shot(page.locator("div"), "3 · A letter that writes itself", 110 if step < 24 else 700)


def attack(page: Page) -> Iterator[Shot]:
    title, part = "4 · An attack on mobile identity, refused", output(page, 3)
    yield shot(part, title, 1_100, top=_CONTROLS, is_whole=True)
    ask_kernel(page, "identity.try_attack('replay the final fingerprint')")
    page.wait_for_timeout(800)
    yield shot(part, title, 1_900, top=_CONTROLS, is_whole=True)


def writing() -> str:
    with toolkit.Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        look = {"width": 640, "handwriting_size": 24, "handwriting_color": "#16265f", "pen": "fountain"}
        svg = tk.handwriting.animation(_LETTER, "Molly", natural=True, random_seed=7, **look)
        return svg.data.decode()


def recorded() -> list[Shot]:
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder), *EXPOSED) as lab,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium_program(), args=CHROMIUM_FLAGS) as browser,
        browser.new_page(viewport=_WINDOW, reduced_motion="reduce") as page,
        browser.new_page(viewport={"width": 800, "height": 600}) as paper,
    ):
        path = lab.write_notebook("picture.ipynb", (_CONNECT, _HISTORY, _REWARDS, _IDENTITY))
        open_notebook(page, lab, path, "doc/tree")  # without a side bar
        if errors := run_opened(page):
            raise click.ClickException(errors[0])
        page.wait_for_load_state("networkidle")
        return [*history(page), *rewards(page), *letter(paper, writing()), *attack(page)]


@click.command()
def main() -> None:
    pictures, durations = zip(*recorded(), strict=True)
    first, *rest = [picture.quantize(128, dither=Image.Dither.NONE) for picture in pictures]
    first.save(PICTURE, save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)
    if PICTURE.stat().st_size > _MOST_BYTES:
        raise click.ClickException(f"{PICTURE.name} has {PICTURE.stat().st_size:,} bytes; {_MOST_BYTES:,} are allowed")
    seconds = sum(durations) / 1000
    click.echo(f"{PICTURE.name}: {len(pictures)} pictures, {seconds:.0f} s, {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
