"""Draw the contact sheets of the documentation: ``python -m data.tools.hands.contact_sheets``.

One shows a line of every handwriting, the other a natural page of the first writer of every script. `compile` draws
them too.
"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw

from toolkit_gateway.ink.catalogue import Handwriting, catalogue
from toolkit_gateway.ink.parameters import RGB, Margin, Parameters
from toolkit_gateway.ink.renderer import render

FOLDER = Path(__file__).parents[3] / "docs/_static"
SAMPLE_TEXT = "Thanks for the quick jam, Zoë!"
PAGE_TEXT = (
    "Dear Eleanor,\n\nThank you for your long letter of Tuesday; it arrived at 9:05 this morning, just as I boiled "
    "the kettle. You asked about the little cottage. Yes, it is for sale, but not at £325,000! He will settle for less "
    "if we call on him before the 27th.\n\nPeter has finished his book at last: 418 pages about coffee, bees and jazz. "
    "He still remembers the evening when we missed the 10:40 train and walked home along the river.\n\n"
    "With much love,\n\nMargaret Hollis"
)
_COLUMNS, _WIDTH, _HEIGHT, _LABEL = 4, 560, 72, 12  # of the sheet of lines, in pixels
_PAGE_COLUMNS, _PAGE_WIDTH, _PAGE_HEIGHT = 6, 330, 440  # of the sheet of pages


def main() -> None:
    rows = sorted(catalogue().values(), key=lambda row: (row.script, row.writer))
    _lines(rows).quantize(8).save(FOLDER / "hands.png", optimize=True)
    _pages([row for row in rows if row.writer == 0]).save(FOLDER / "pages.jpg", quality=60, optimize=True)


def _lines(rows: list[Handwriting]) -> Image.Image:
    sheet = Image.new("L", (_COLUMNS * _WIDTH, -(-len(rows) // _COLUMNS) * _HEIGHT), 255)
    draw = ImageDraw.Draw(sheet)
    for n, row in enumerate(rows):
        left, top = n % _COLUMNS * _WIDTH + 8, n // _COLUMNS * _HEIGHT
        draw.text((left, top), f"{row.title}  {row.id}", fill=120)
        width, height = float(_WIDTH - 16), float(_HEIGHT - _LABEL)
        line = _picture(Parameters(row, "png", SAMPLE_TEXT, 20, width=width, height=height, random_seed=1))
        sheet.paste(0, (left, top + _LABEL), line.getchannel("A"))
    return sheet


def _pages(rows: list[Handwriting]) -> Image.Image:
    sheet = Image.new("RGB", (_PAGE_COLUMNS * _PAGE_WIDTH, -(-len(rows) // _PAGE_COLUMNS) * _PAGE_HEIGHT))
    for n, row in enumerate(rows):
        page = Parameters(
            row, "png", PAGE_TEXT, 20.0, RGB(28, 47, 125), 2.0 * _PAGE_WIDTH, 2.0 * _PAGE_HEIGHT, None, random_seed=7,
            pen="ballpoint", natural=True, paper="blank", margin=Margin(*[50.0] * 4), is_multipage=True, page_number=1,
        )  # fmt: skip
        picture = _picture(page).convert("RGB").resize((_PAGE_WIDTH, _PAGE_HEIGHT), Image.Resampling.LANCZOS)
        sheet.paste(picture, (n % _PAGE_COLUMNS * _PAGE_WIDTH, n // _PAGE_COLUMNS * _PAGE_HEIGHT))
    return sheet


def _picture(page: Parameters) -> Image.Image:
    return Image.open(io.BytesIO(render(page).data))


if __name__ == "__main__":
    main()
