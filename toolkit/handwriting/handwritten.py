"""`Handwritten`, the result of a rendering, which the client reads from the response; a `Letter` has many pages."""

import base64
import contextlib
import hashlib
import io
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from PIL import Image, ImageColor

from toolkit.argument_checks import absolute_path, checked_arguments
from toolkit.errors import InvalidArgument, ToolkitError, counted, warn_caller
from toolkit.handwriting import wire
from toolkit.handwriting.wire import FileKind
from toolkit.system.files import write_whole

SUFFIXES: dict[FileKind, str] = {"png": ".png", "pdf": ".pdf", "svg": ".svg", "replay": ".svg"}
_LIGHT_INK_BRIGHTNESS = 170  # of 255; a notebook shows lighter ink on a dark background


@dataclass(frozen=True)
class Handwritten:
    """A finished rendering. A notebook shows it on white or dark grey; without `paper`, the file itself is transparent.

    Attributes
    ----------
    data, kind, handwriting
        The file; ``png``, ``pdf``, ``svg`` or ``replay``; the title of the hand.
    seed
        Pass it as `random_seed` to get the same writing again, in any kind of file; None if the server sends no seed.
    width, height
        In points; a point is a pixel.
    lines, ink_share
        The number of lines of text, including empty lines, and the share of the page that is covered by ink, from 0 to
        1; None if the server does not send them.
    overflow, cut
        Whether ink outside the page was cut off, and the beginning of the first line that was, if the server sends it.
    pages
        Number of pages of the letter; a PDF contains all pages, a PNG or an SVG only one of them.
    milliseconds
        Time from the request to the response.
    """

    data: bytes = field(repr=False)
    kind: FileKind
    handwriting: str
    seed: int | Decimal | None
    width: float
    height: float
    lines: int | None
    ink_share: float | None
    overflow: bool
    cut: str = ""
    pages: int = 1
    missing: str = ""  # characters that were replaced or skipped, because no hand has them
    milliseconds: float = field(default=0.0, compare=False)
    preview: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)  # renders it again as a PNG

    @property
    def digest(self) -> str:
        """The first 12 hexadecimal digits of a SHA-256 hash: of a PNG's size and pixels, of any other file's bytes."""
        if self.kind != "png":
            return hashlib.sha256(self.data).hexdigest()[:12]
        image = self.image().convert("RGBA")
        return hashlib.sha256(repr(image.size).encode("ascii") + image.tobytes()).hexdigest()[:12]

    @checked_arguments
    def save(self, path: str | os.PathLike[str], *, background: str | None = None) -> Path:
        """Write the file and return its path; raise InvalidArgument if the suffix of the name does not fit the file.

        `background` is a CSS colour such as ``"white"`` or ``"#ffe"``, behind a PNG or an SVG; a PDF takes none.
        """
        target, suffix = absolute_path(path), SUFFIXES[self.kind]
        if target.suffix.lower() != suffix:
            raise InvalidArgument(f"a {self.kind} is saved as *{suffix}, not {target.name}")
        write_whole(target, self.data if background is None else _add_background(self.data, self.kind, background))
        return target

    def image(self) -> Image.Image:
        """Return the rendering as a Pillow image; a PDF or an SVG is rendered again as a PNG."""
        return Image.open(io.BytesIO(self._png()))

    def on_paper(self) -> Image.Image:
        """Return the rendering on a white background, or on a dark background if the ink is light."""
        return _on_background(self.image())

    def _png(self) -> bytes:
        return self.data if self.kind == "png" or self.preview is None else self.preview()

    def __repr__(self) -> str:
        kind = "animation" if self.kind == "replay" else self.kind.upper()
        ink = "" if self.ink_share is None else f", ink {self.ink_share:.2%}"
        lines = "" if self.lines is None else f", {counted(self.lines, 'line')}"
        size = f"{self.width:g} x {self.height:g}"
        cut = ", cut off" if self.overflow else ""
        return f"<{kind} by {self.handwriting}, {size}{lines}{ink}{cut}, seed {self.seed}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        shown: dict[str, Any] = {"text/plain": repr(self)}
        background = "white"
        with contextlib.suppress(ToolkitError):  # other files are rendered again, which a closed connection cannot do
            png = self._png()
            background = choose_background(Image.open(io.BytesIO(png)))
            # An SVG is also shown as a PNG, because JupyterLab shows no SVG in a notebook that is not trusted.
            shown["image/png"] = base64.b64encode(opaque_png(png)).decode("ascii")
        if self.kind in ("svg", "replay"):
            shown["image/svg+xml"] = self.data.decode().replace("<svg ", f'<svg style="background:{background}" ', 1)
        return shown


@checked_arguments
@dataclass(frozen=True, repr=False)
class Letter(Handwritten):
    """A letter: a PDF of one or more pages, whose words can be searched. A notebook shows the first page."""

    render_page: Callable[[int, float], Handwritten] = field(kw_only=True, compare=False)  # page number, dpi

    def picture(self, page: int = 1, *, dpi: float = 144) -> Handwritten:
        """Return one page (the first is 1) as a PNG with `dpi` pixels per inch, and at most 9000 pixels per side."""
        if not 1 <= page <= self.pages:
            raise InvalidArgument(f"page is between 1 and {self.pages}, not {page}")
        return self.render_page(page, dpi)

    def __repr__(self) -> str:
        size = f"{self.width:g} x {self.height:g}"
        shown = f"{counted(self.pages, 'page')} of {size}, {counted(self.lines or 0, 'line')}, seed {self.seed}"
        return f"<Letter by {self.handwriting}, {shown}>"


def rendering_of(
    data: bytes, headers: Mapping[str, str], kind: FileKind, handwriting: str, milliseconds: float
) -> Handwritten:
    """Read a response. `headers` has lower-case keys; other servers may not send the headers of this toolkit."""
    names = wire.SEED_HEADER, wire.LINES_HEADER, wire.INK_SHARE_HEADER, wire.PAGE_SIZE_HEADER
    seed, lines, share, size = (headers.get(name.lower(), "") for name in names)
    width, height = (float(side) for side in (size or "nanxnan").split("x"))
    if kind == "png" and len(data) >= 24:  # the header of a PNG file contains the size
        width, height = (float(side) for side in struct.unpack(">II", data[16:24]))
    return Handwritten(
        data, kind, handwriting, _parse_seed(seed), width, height,
        lines=int(lines) if lines.isdigit() else None, ink_share=float(share) if share else None,
        overflow=headers.get(wire.OVERFLOW_HEADER.lower()) == "true",
        cut=unquote(headers.get(wire.CUT_HEADER.lower(), "")),
        missing=unquote(headers.get(wire.MISSING_HEADER.lower(), "")),
        pages=int(pages) if (pages := headers.get(wire.PAGES_HEADER.lower(), "")).isdigit() else 1,
        milliseconds=milliseconds,
    )  # fmt: skip


def warn_of_losses(rendering: Handwritten, advice: str) -> None:
    if rendering.overflow:
        where = f", from the line {rendering.cut!r} on" if rendering.cut else ""
        warn_caller(f"the text does not fit, and some ink was cut off{where}: {advice}")
    if rendering.missing:
        warn_caller(f"no hand has these characters of the text: {rendering.missing!r}")


def _parse_seed(text: str) -> int | Decimal | None:
    try:
        seed = Decimal(text)
    except InvalidOperation:
        return None
    return int(seed) if seed == seed.to_integral_value() else seed


def _add_background(data: bytes, kind: FileKind, colour: str) -> bytes:
    if kind == "pdf":
        raise InvalidArgument("a PDF has no background: it is shown and printed on paper; save a PNG or an SVG")
    try:
        fill = ImageColor.getrgb(colour)
        bytes(fill)  # raises ValueError for rgb(300, 0, 0)
    except ValueError:
        raise InvalidArgument(f"background {colour!r} is no CSS colour, as white or #ffe") from None
    if kind == "png":
        with Image.open(io.BytesIO(data)) as image:
            filled, dpi = _composite(image, fill), image.info.get("dpi", (72, 72))
        file = io.BytesIO()
        (filled if len(fill) == 4 else filled.convert("RGB")).save(file, "PNG", dpi=dpi)
        return file.getvalue()
    opacity = f' fill-opacity="{fill[3] / 255:.3f}"' if len(fill) == 4 else ""
    rectangle = f'<rect width="100%" height="100%" fill="#{bytes(fill[:3]).hex()}"{opacity}/>'
    svg_tag, bracket, drawing = data.partition(b">")
    return svg_tag + bracket + rectangle.encode("ascii") + drawing


def _composite(image: Image.Image, background: str | tuple[int, ...]) -> Image.Image:
    inked = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", inked.size, background), inked)


def choose_background(image: Image.Image) -> str:
    """Return the colour to show behind a transparent picture: white, or dark grey if the ink is light."""
    # Without paper, every pixel has the colour of the ink, even where the picture is transparent.
    red, green, blue, _ = image.convert("RGBA").getpixel((0, 0))  # type: ignore[misc]
    return "#2b2b2b" if 0.3 * red + 0.6 * green + 0.1 * blue > _LIGHT_INK_BRIGHTNESS else "white"


def _on_background(image: Image.Image) -> Image.Image:
    return _composite(image, choose_background(image)).convert("RGB")


def opaque_png(png: bytes) -> bytes:
    """Return a PNG as a notebook shows it, without transparency; a picture on paper has none, and stays as it is."""
    image = Image.open(io.BytesIO(png))
    return png_bytes(_on_background(image)) if image.has_transparency_data else png


def set_resolution(png: bytes, dpi: float) -> bytes:
    """Return a PNG of the service with `dpi` as its resolution; the service writes 72 pixels per inch."""
    start, per_metre = png.index(b"pHYs"), round(dpi / 0.0254)
    chunk = struct.pack(">4sIIB", b"pHYs", per_metre, per_metre, 1)
    crc = struct.pack(">I", zlib.crc32(chunk))
    return png[:start] + chunk + crc + png[start + len(chunk) + len(crc) :]


def png_bytes(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=3)  # smaller than with optimize=True, and eight times as fast
    return file.getvalue()
