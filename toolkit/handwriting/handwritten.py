"""A finished rendering in a notebook: it shows itself, is saved, and knows how to be had again."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from PIL import Image

from toolkit.errors import InvalidArgument
from toolkit.handwriting.parameters import Format

SUFFIXES: dict[Format, str] = {"png": ".png", "pdf": ".pdf", "svg": ".svg", "replay": ".svg"}
_LIGHT_INK = 170  # of 255; lighter ink is shown on dark paper


@dataclass(frozen=True)
class Handwritten:
    """A text in somebody's hand. It shows itself in a notebook, on paper; the file itself is transparent.

    Attributes
    ----------
    data : bytes
        The file.
    kind : {"png", "pdf", "svg", "replay"}
        What it is.
    handwriting : str
        Title of the hand.
    seed : int, Decimal or None
        Gives the same writing again, in any format; None where the server does not tell.
    width, height : float
        In points, which are pixels.
    lines : int or None
        Lines of text.
    ink_share : float or None
        Share of the page under ink, 0..1.
    overflow : bool
        Whether some ink did not fit and was cut off.
    milliseconds : float
        What rendering took.
    """

    data: bytes = field(repr=False)
    kind: Format
    handwriting: str
    seed: int | Decimal | None
    width: float
    height: float
    lines: int | None
    ink_share: float | None
    overflow: bool
    milliseconds: float = field(compare=False)
    preview: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """12 digits of a SHA-256: of a PNG's pixels, however they are compressed, and of any other file as it is."""
        if self.kind != "png":
            return hashlib.sha256(self.data).hexdigest()[:12]
        image = self.image().convert("RGBA")
        return hashlib.sha256(repr(image.size).encode("ascii") + image.tobytes()).hexdigest()[:12]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file and return where it is.

        Raises
        ------
        InvalidArgument
            The name ends in the suffix of another kind of file.

        Examples
        --------
        >>> import tempfile, toolkit
        >>> with toolkit.connect() as tk, tempfile.TemporaryDirectory() as folder:
        ...     tk.handwriting.png("Hello", "Molly").save(f"{folder}/hello.png").name
        'hello.png'
        """
        target = Path(path)
        suffix = SUFFIXES[self.kind]
        if target.suffix.lower() != suffix:
            raise InvalidArgument(f"a {self.kind} is saved as *{suffix}, not {target.name}")
        target.write_bytes(self.data)
        return target

    def image(self) -> Image.Image:
        """Return the writing as a Pillow image with transparency; a PDF or an SVG is rendered as PNG for it."""
        png = self.data if self.kind == "png" or self.preview is None else self.preview()
        return Image.open(io.BytesIO(png))

    def on_paper(self) -> Image.Image:
        """Return the writing on white, or on dark paper where the ink is light."""
        return _on_paper(self.image())

    def __repr__(self) -> str:
        kind = "PDF" if self.kind == "pdf" else "PNG" if self.kind == "png" else self.kind
        ink = "" if self.ink_share is None else f", ink {self.ink_share:.2%}"
        lines = "" if self.lines is None else f", {self.lines} line{'s' * (self.lines != 1)}"
        size = f"{self.width:g} x {self.height:g}"
        cut = ", cut off" if self.overflow else ""
        return f"<{kind} by {self.handwriting}, {size}{lines}{ink}{cut}, seed {self.seed}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        shown: dict[str, Any] = {"text/plain": repr(self)}
        if self.kind in ("svg", "replay"):
            shown["image/svg+xml"] = self.data.decode("utf-8").replace("<svg ", '<svg style="background:#fff" ', 1)
        else:
            shown["image/png"] = base64.b64encode(png_bytes(self.on_paper())).decode("ascii")
        return shown


def png_bytes(image: Image.Image) -> bytes:
    """Return an image as a PNG file."""
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def ink_share_of(png: bytes) -> float:
    """Return the share of a PNG that is covered, from its alpha channel."""
    with Image.open(io.BytesIO(png)) as image:
        histogram = image.convert("RGBA").getchannel("A").histogram()
    covered = sum(level * count for level, count in enumerate(histogram))
    return covered / 255 / sum(histogram)


def _on_paper(image: Image.Image) -> Image.Image:
    inked = image.convert("RGBA")
    # The ink's colour is everywhere, also where nothing is written.
    red, green, blue, _ = inked.getpixel((0, 0))  # type: ignore[misc]
    light = 0.3 * red + 0.6 * green + 0.1 * blue > _LIGHT_INK
    paper = Image.new("RGBA", inked.size, "#2b2b2b" if light else "white")
    return Image.alpha_composite(paper, inked).convert("RGB")
