"""Many renderings: one for each combination of parameters, and contact sheets of them."""

from __future__ import annotations

import base64
import hashlib
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, TypeVar, cast

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFont
from tqdm.auto import tqdm

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument
from toolkit.frames import declared_frame
from toolkit.handwriting import wire
from toolkit.handwriting.client.renderer import Renderer
from toolkit.handwriting.client.style import Distance, Style
from toolkit.handwriting.handwritten import Handwritten, png_bytes, save_file
from toolkit.handwriting.wire import Align, FileKind, Missing, Paper, Pen

Value = TypeVar("Value")
#: One value, or a list of values.
OneOrMore: TypeAlias = Value | Sequence[Value]


class SweptStyle(TypedDict, total=False):
    """The parameters of `PageStyle`; each may be one value or a list."""

    handwriting_size: OneOrMore[Distance] | None
    handwriting_color: OneOrMore[str] | None
    width: OneOrMore[Distance] | None
    min_padding: OneOrMore[Distance] | None
    line_spacing: OneOrMore[float] | None
    line_spacing_variance: OneOrMore[float] | None
    word_spacing_variance: OneOrMore[float] | None
    random_seed: OneOrMore[int] | None
    pen: OneOrMore[Pen] | None
    natural: OneOrMore[bool] | None
    paper: OneOrMore[Paper] | None
    missing: OneOrMore[Missing] | None
    margin: OneOrMore[Distance] | None
    align: OneOrMore[Align] | None


_MAX_COUNT_WITHOUT_BAR = 20  # combinations
_GAP_PX = 24
_LABEL_HEIGHT_PX = 18
_FONT_SIZE_PX = 12
_RESULT_COLUMNS = {
    "width": "float64", "height": "float64", "lines": "Int64", "ink_share": "float64", "seed": "object",
    "overflow": "bool",
}  # fmt: skip


class Thumbnail(bytes):
    """The file of a rendering as bytes, which Parquet can store; ``.writing`` is the rendering, and repr() shows it."""

    writing: Handwritten

    @classmethod
    def of(cls, writing: Handwritten) -> Thumbnail:
        """Return the thumbnail of a rendering."""
        thumbnail = cls(writing.data)
        thumbnail.writing = writing
        return thumbnail

    def __repr__(self) -> str:
        return repr(self.writing)

    __str__ = __repr__


def sweep(
    renderer: Renderer,
    text: str,
    handwriting: OneOrMore[str],
    style: Mapping[str, object],
    kind: FileKind,
    progress: bool,
) -> pd.DataFrame:
    """Write a text for each combination of the values in `style`; see `HandwritingClient.sweep`."""
    given = {name: value for name, value in style.items() if value is not None}
    given = {name: given[name] for name in (*wire.RENDER_PARAMETERS, *wire.OWN_PARAMETERS) if name in given}
    varied = [name for name, value in given.items() if not _is_single(value)]
    lists = {name: _as_list(name, value) for name, value in given.items()}
    combinations = list(itertools.product(_as_list("handwriting", handwriting), *lists.values()))
    rows = []
    needs_bar = progress and len(combinations) > _MAX_COUNT_WITHOUT_BAR
    for hand, *values in tqdm(combinations, unit="text", disable=not needs_bar):
        combination = dict(zip(lists, values, strict=True))
        rendering = renderer.render(text, hand, kind, cast("Style", combination))
        row = {"handwriting": rendering.handwriting, **{name: combination[name] for name in varied}}
        results = {name: getattr(rendering, name) for name in _RESULT_COLUMNS}
        rows.append({**row, "thumbnail": Thumbnail.of(rendering), "ms": rendering.milliseconds, **results})
    dtypes = {name: pd.Series(lists[name]).dtype.name for name in varied}
    # The measured width and height replace the requested ones.
    return declared_frame(
        rows, {"handwriting": "str", **dtypes, "thumbnail": "object", "ms": "float64", **_RESULT_COLUMNS}
    )


def _is_single(value: object) -> bool:
    return isinstance(value, str) or not isinstance(value, Sequence | pd.Series | pd.Index | np.ndarray)


def _as_list(name: str, value: Any) -> list[Any]:  # noqa: ANN401
    values = [value] if _is_single(value) else list(value)
    if not values:
        raise InvalidArgument(f"{name} is an empty list: there is nothing to render")
    return values


@dataclass(frozen=True)
class ContactSheet:
    """Many renderings on one picture. A notebook shows the picture.

    Attributes
    ----------
    image : PIL.Image.Image
    count : int
        The number of renderings.
    digest : str
        12 hexadecimal digits of a hash over the ``digest`` of each rendering; it does not depend on the labels.
    """

    image: Image.Image = field(repr=False)
    count: int
    digest: str

    @checked_arguments
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture as a PNG file and return its path."""
        return save_file(png_bytes(self.image), path, ".png", "a contact sheet")

    def __repr__(self) -> str:
        return f"<Contact sheet of {self.count}, {self.image.width} x {self.image.height}, {self.digest}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"text/plain": repr(self), "image/png": base64.b64encode(png_bytes(self.image)).decode("ascii")}


def contact_sheet(
    pictures: pd.DataFrame | Sequence[Handwritten], columns: int = 2, labels: Sequence[str] | None = None
) -> ContactSheet:
    """Put many renderings on one picture; see `HandwritingClient.contact_sheet`."""
    writings = _renderings_in(pictures) if isinstance(pictures, pd.DataFrame) else list(pictures)
    texts = list(labels) if labels is not None else _labels_of(pictures, writings)
    if not writings or columns < 1 or len(texts) != len(writings):
        raise InvalidArgument("a contact sheet needs pictures, at least one column, and one label per picture")
    images = [writing.on_paper() for writing in writings]
    columns = min(columns, len(images))
    font = ImageFont.load_default(_FONT_SIZE_PX)
    label_widths = [math.ceil(font.getlength(line)) for text in texts for line in text.split("\n")]
    # Each cell has half a gap on every side.
    cell_width = max(*label_widths, *(image.width for image in images)) + _GAP_PX
    rows = [images[first : first + columns] for first in range(0, len(images), columns)]
    heights = (max(image.height for image in row) + _LABEL_HEIGHT_PX + _GAP_PX for row in rows)
    tops = list(itertools.accumulate(heights, initial=0))
    sheet = Image.new("RGB", (cell_width * columns, tops[-1]), "white")
    draw = ImageDraw.Draw(sheet)
    for index, (image, text) in enumerate(zip(images, texts, strict=True)):
        left, top = _GAP_PX // 2 + index % columns * cell_width, _GAP_PX // 2 + tops[index // columns]
        draw.text((left, top), text, fill="#666666", font=font)
        sheet.paste(image, (left, top + _LABEL_HEIGHT_PX))
    digests = "".join(writing.digest for writing in writings)
    return ContactSheet(sheet, len(writings), hashlib.sha256(digests.encode("ascii")).hexdigest()[:12])


def _renderings_in(frame: pd.DataFrame) -> list[Handwritten]:
    try:
        return [thumbnail.writing for thumbnail in frame["thumbnail"]]
    except (KeyError, AttributeError):  # a DataFrame that was read from a file has bytes instead of thumbnails
        raise InvalidArgument("the frame has no column thumbnail with renderings: use the result of sweep()") from None


def _labels_of(pictures: pd.DataFrame | Sequence[Handwritten], writings: list[Handwritten]) -> list[str]:
    """Return a label for each rendering: the parameters that differ within a sweep, or else the title of the hand."""
    if isinstance(pictures, pd.DataFrame):
        parameters = pictures.columns[: pictures.columns.get_loc("thumbnail")]
        if differing := [name for name in parameters if pictures[name].nunique() > 1]:
            return [
                "   ".join(str(value) if name == "handwriting" else f"{name} {value}" for name, value in row.items())
                for row in pictures[differing].to_dict("records")
            ]
    return [writing.handwriting for writing in writings]
