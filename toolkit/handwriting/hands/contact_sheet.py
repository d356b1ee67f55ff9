"""One picture of all handwritings: the same line in every hand."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw

from toolkit.handwriting.catalogue import Handwriting
from toolkit.handwriting.ink.renderer import render
from toolkit.handwriting.parameters import Parameters

LINE = "Thanks for the quick jam, Zoë!"
_COLUMNS, _WIDTH, _HEIGHT = 4, 560, 66


def contact_sheet(handwritings: list[Handwriting], path: Path) -> None:
    """Write a PNG with a row for every script and a column for every writer."""
    rows = -(-len(handwritings) // _COLUMNS)
    sheet = Image.new("L", (_COLUMNS * _WIDTH, rows * _HEIGHT), 255)
    draw = ImageDraw.Draw(sheet)
    for n, handwriting in enumerate(handwritings):
        corner = (n % _COLUMNS * _WIDTH + 8, n // _COLUMNS * _HEIGHT)
        draw.text(corner, f"{handwriting.title}  {handwriting.id}", fill=120)
        sheet.paste(0, (corner[0], corner[1] + 6), _line(handwriting))
    sheet.quantize(16).save(path, optimize=True)


def _line(handwriting: Handwriting) -> Image.Image:
    parameters = Parameters(
        handwriting, "png", LINE, handwriting_size=22, width=_WIDTH - 16, height=_HEIGHT - 6, random_seed=1
    )
    return Image.open(io.BytesIO(render(parameters).data)).getchannel("A")
