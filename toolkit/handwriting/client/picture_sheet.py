"""A contact sheet: many renderings on one picture, each with a label."""

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

_GAP_PX = 24
_LABEL_HEIGHT_PX = 18
_FONT_SIZE_PX = 12


@dataclass(frozen=True)
class ContactSheet:
    """Many renderings on one picture. A notebook shows the picture.

    Attributes
    ----------
    image : PIL.Image.Image
    count : int
        The number of renderings.
    digest : str
        12 hexadecimal digits, a hash of the digests of all renderings; labels do not change it.
    """

    image: Image.Image = field(repr=False)
    count: int
    digest: str

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture as a PNG file and return its path."""
        return save_file(png_bytes(self.image), path, ".png", "a contact sheet")

    def __repr__(self) -> str:
        return f"<Contact sheet of {self.count}, {self.image.width} x {self.image.height}, {self.digest}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"text/plain": repr(self), "image/png": base64.b64encode(png_bytes(self.image)).decode("ascii")}


def picture_sheet(
    pictures: pd.DataFrame | Sequence[Handwritten], columns: int, labels: Sequence[str] | None
) -> ContactSheet:
    """See `toolkit.handwriting.client.handwriting.HandwritingClient.contact_sheet`."""
    writings = _renderings_in(pictures) if isinstance(pictures, pd.DataFrame) else list(pictures)
    texts = list(labels) if labels is not None else _labels_of(pictures)
    if not writings or columns < 1 or len(texts) != len(writings):
        raise InvalidArgument("a contact sheet needs pictures, at least one column, and one label per picture")
    images = [writing.on_paper() for writing in writings]
    columns = min(columns, len(images))
    # Each cell has half a gap on every side.
    cell = max(image.width for image in images) + _GAP_PX
    rows = [images[first : first + columns] for first in range(0, len(images), columns)]
    heights = (max(image.height for image in row) + _LABEL_HEIGHT_PX + _GAP_PX for row in rows)
    tops = list(accumulate(heights, initial=0))
    sheet = Image.new("RGB", (cell * columns, tops[-1]), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_FONT_SIZE_PX)
    for number, (image, text) in enumerate(zip(images, texts, strict=True)):
        left, top = _GAP_PX // 2 + number % columns * cell, _GAP_PX // 2 + tops[number // columns]
        draw.text((left, top), text, fill="#666666", font=font)
        sheet.paste(image, (left, top + _LABEL_HEIGHT_PX))
    digest = hashlib.sha256("".join(writing.digest for writing in writings).encode("ascii")).hexdigest()[:12]
    return ContactSheet(sheet, len(writings), digest)


def _renderings_in(frame: pd.DataFrame) -> list[Handwritten]:
    try:
        return [thumbnail.writing for thumbnail in frame["thumbnail"]]
    except (KeyError, AttributeError):  # a DataFrame that was read from a file has bytes instead of thumbnails
        raise InvalidArgument("the frame has no column thumbnail with renderings: give the frame of sweep") from None


def _labels_of(pictures: pd.DataFrame | Sequence[Handwritten]) -> list[str]:
    """Return a label for each rendering: the values of the columns before the thumbnail that differ between rows."""
    if not isinstance(pictures, pd.DataFrame):
        return [writing.handwriting for writing in pictures]
    columns = [str(name) for name in pictures.columns]
    asked = columns[: columns.index("thumbnail")]
    differing = [name for name in asked if pictures[name].nunique() > 1] or ["handwriting"]
    return [
        "   ".join(str(value) if name == "handwriting" else f"{name} {value}" for name, value in row.items())
        for row in pictures[differing].to_dict("records")
    ]
