"""Many writings on one picture, each with a line that says what it is."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image, ImageDraw, ImageFont

from toolkit.errors import InvalidArgument
from toolkit.handwriting.handwritten import Handwritten, png_bytes, save_file

_GAP = 24
_LABEL = 18
_LABEL_SIZE = 12


@dataclass(frozen=True)
class ContactSheet:
    """Many writings on one picture. It shows itself in a notebook.

    Attributes
    ----------
    image : PIL.Image.Image
    count : int
        How many writings are on it.
    digest : str
        12 digits made of the writings' digests; the labels, whose letters come from a font, do not count.
    """

    image: Image.Image = field(repr=False)
    count: int
    digest: str

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture as a PNG file and return where it is."""
        return save_file(png_bytes(self.image), path, ".png", "a contact sheet")

    def __repr__(self) -> str:
        return f"<Contact sheet of {self.count}, {self.image.width} x {self.image.height}, {self.digest}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"text/plain": repr(self), "image/png": base64.b64encode(png_bytes(self.image)).decode("ascii")}


def picture_sheet(
    pictures: pd.DataFrame | Sequence[Handwritten], columns: int, labels: Sequence[str] | None
) -> ContactSheet:
    """See `toolkit.handwriting.client.handwriting.HandwritingClient.contact_sheet`."""
    writings = _writings(pictures) if isinstance(pictures, pd.DataFrame) else list(pictures)
    texts = list(labels) if labels is not None else _labels(pictures)
    if not writings or columns < 1 or len(texts) != len(writings):
        raise InvalidArgument("a contact sheet needs pictures, at least one column, and one label a picture")
    images = [writing.on_paper() for writing in writings]
    columns = min(columns, len(images))
    # Each cell has half a gap on every side.
    cell = max(image.width for image in images) + _GAP
    rows = [images[first : first + columns] for first in range(0, len(images), columns)]
    heights = (max(image.height for image in row) + _LABEL + _GAP for row in rows)
    tops = list(accumulate(heights, initial=0))
    sheet = Image.new("RGB", (cell * columns, tops[-1]), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_LABEL_SIZE)
    for number, (image, text) in enumerate(zip(images, texts, strict=True)):
        left, top = _GAP // 2 + number % columns * cell, _GAP // 2 + tops[number // columns]
        draw.text((left, top), text, fill="#666666", font=font)
        sheet.paste(image, (left, top + _LABEL))
    digest = hashlib.sha256("".join(writing.digest for writing in writings).encode("ascii")).hexdigest()[:12]
    return ContactSheet(sheet, len(writings), digest)


def _writings(frame: pd.DataFrame) -> list[Handwritten]:
    try:
        return [thumbnail.writing for thumbnail in frame["thumbnail"]]
    except (KeyError, AttributeError):  # a frame that was read from a file has only the bytes
        raise InvalidArgument("the frame has no renderings in a column thumbnail: give what sweep returned") from None


def _labels(pictures: pd.DataFrame | Sequence[Handwritten]) -> list[str]:
    """Say what tells the rows apart: the columns before the thumbnail that have more than one value."""
    if not isinstance(pictures, pd.DataFrame):
        return [writing.handwriting for writing in pictures]
    columns = [str(name) for name in pictures.columns]
    asked = columns[: columns.index("thumbnail")]
    differing = [name for name in asked if pictures[name].nunique() > 1] or ["handwriting"]
    return [
        "   ".join(str(value) if name == "handwriting" else f"{name} {value}" for name, value in row.items())
        for row in pictures[differing].to_dict("records")
    ]
