"""Many renderings: one for each combination of hands and options, and contact sheets of them."""

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFont
from tqdm.auto import tqdm

from toolkit.errors import InvalidArgument
from toolkit.frames import declared_frame
from toolkit.handwriting.client.renderer import Renderer
from toolkit.handwriting.client.style import OneOrMore, PageStyle, Style
from toolkit.handwriting.handwritten import Handwritten, png_bytes
from toolkit.handwriting.wire import FileKind

_MAX_COUNT_WITHOUT_BAR = 20  # combinations
_GAP_PX = 24
_LABEL_HEIGHT_PX = 18
_FONT_SIZE_PX = 12
_RESULT_COLUMNS = {
    "width": "float64", "height": "float64", "lines": "Int64", "ink_share": "float64", "seed": "object",
    "overflow": "bool",
}  # fmt: skip


def sweep(
    renderer: Renderer,
    text: str,
    hand: OneOrMore[str],
    style: Style,
    swept: Mapping[str, object],
    kind: FileKind,
    progress: bool,
) -> pd.DataFrame:
    """Write a text for each combination of the values in `swept`; see `HandwritingClient.sweep`."""
    lists = {name: _as_list(name, value) for name, value in swept.items() if value is not None}
    varied = [name for name in lists if not _is_single(swept[name])]
    combinations = list(itertools.product(_as_list("hand", hand), *lists.values()))
    rows = []
    needs_bar = progress and len(combinations) > _MAX_COUNT_WITHOUT_BAR
    for title, *values in tqdm(combinations, unit="text", disable=not needs_bar):
        combination = dict(zip(lists, values, strict=True))
        writing = renderer.render(text, title, kind, cast("PageStyle", {**style, **combination}))
        results = {name: getattr(writing, name) for name in _RESULT_COLUMNS}
        row = {"hand": writing.handwriting, **{name: combination[name] for name in varied}}
        rows.append({**row, "writing": writing, "ms": writing.milliseconds, **results})
    dtypes = {name: pd.Series(lists[name]).dtype.name for name in varied}
    # The measured width and height replace the requested ones.
    return declared_frame(rows, {"hand": "str", **dtypes, "writing": "object", "ms": "float64", **_RESULT_COLUMNS})


def _is_single(value: object) -> bool:
    return isinstance(value, str) or not isinstance(value, Sequence | pd.Series | pd.Index | np.ndarray)


def _as_list(name: str, value: Any) -> list[Any]:  # noqa: ANN401
    values = [value] if _is_single(value) else list(value)
    if not values:
        raise InvalidArgument(f"{name} is an empty list: there is nothing to render")
    return values


@dataclass(frozen=True, repr=False)
class ContactSheet(Handwritten):
    """Many renderings on one picture, a PNG. A notebook shows it."""

    writings: Sequence[Handwritten] = field(kw_only=True, compare=False)

    @property
    def digest(self) -> str:
        """12 hexadecimal digits of a hash over the digest of each rendering; it does not depend on the labels."""
        digests = "".join(writing.digest for writing in self.writings)
        return hashlib.sha256(digests.encode("ascii")).hexdigest()[:12]

    def __repr__(self) -> str:
        # With the digest, because the test of the notebooks compares texts, and no pictures.
        return f"<Contact sheet of {len(self.writings)}, {self.width:g} x {self.height:g}, {self.digest}>"


def contact_sheet(
    pictures: pd.DataFrame | Sequence[Handwritten], columns: int = 2, labels: Sequence[str] | None = None
) -> ContactSheet:
    """Put many renderings on one picture; see `HandwritingClient.contact_sheet`."""
    if isinstance(pictures, pd.DataFrame) and "writing" not in pictures:
        raise InvalidArgument("the frame has no column writing with renderings: use the result of sweep()")
    writings = list(pictures["writing"] if isinstance(pictures, pd.DataFrame) else pictures)
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
    hands = ", ".join(dict.fromkeys(writing.handwriting for writing in writings))
    return ContactSheet(
        png_bytes(sheet), "png", hands, None, *sheet.size, None, None, overflow=False, writings=writings
    )


def _labels_of(pictures: pd.DataFrame | Sequence[Handwritten], writings: list[Handwritten]) -> list[str]:
    if isinstance(pictures, pd.DataFrame):
        parameters = pictures.columns[: pictures.columns.get_loc("writing")]
        if differing := [name for name in parameters if pictures[name].nunique() > 1]:
            return [
                "   ".join(str(value) if name == "hand" else f"{name} {value}" for name, value in row.items())
                for row in pictures[differing].to_dict("records")
            ]
    return [writing.handwriting for writing in writings]
