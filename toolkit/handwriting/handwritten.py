"""`Handwritten`, the result of a rendering, in the renderer as in a notebook."""

from __future__ import annotations

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
from urllib.parse import quote, unquote

from PIL import Image, ImageColor

from toolkit.argument_checks import absolute_path
from toolkit.errors import InvalidArgument, ToolkitError, counted
from toolkit.handwriting import wire
from toolkit.handwriting.wire import Format
from toolkit.local_files import write_whole

SUFFIXES: dict[Format, str] = {"png": ".png", "pdf": ".pdf", "svg": ".svg", "replay": ".svg"}
_LIGHT_INK_BRIGHTNESS = 170  # of 255; a notebook shows lighter ink on a dark background


@dataclass(frozen=True)
class Handwritten:
    """A finished rendering. A notebook shows it on a white or dark background; the file itself is transparent.

    Attributes
    ----------
    data : bytes
    kind : {"png", "pdf", "svg", "replay"}
    handwriting : str
        Title of the hand.
    seed : int, Decimal or None
        Pass it as `random_seed` to get the same writing again, in any format; None if the server sends no seed.
    width, height : float
        In points; a point is a pixel.
    lines : int or None
        Number of lines of text, with empty lines.
    ink_share : float or None
        Share of the page that is covered by ink, from 0 to 1; None if the server sends none.
    overflow : bool
        Whether ink outside the page was cut off.
    cut : str
        The beginning of the first line that was cut off; empty if no line was, or if the server sends no such header.
    pages : int
        How many pages a letter has; a PDF has all pages, another format one page.
    timings : dict of str to float
        Milliseconds of each stage of the rendering, or of the whole request if the server sends no timings.
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
    timings: dict[str, float] = field(compare=False)
    cut: str = ""
    pages: int = 1
    preview: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)

    @property
    def milliseconds(self) -> float:
        return sum(self.timings.values())

    def headers(self) -> dict[str, str]:
        headers = {
            wire.SEED_HEADER: str(self.seed),
            wire.OVERFLOW_HEADER: "true" if self.overflow else "false",
            wire.PAGE_SIZE_HEADER: f"{round(self.width, 2):g}x{round(self.height, 2):g}",
            wire.LINES_HEADER: str(self.lines),
            wire.INK_SHARE_HEADER: f"{self.ink_share:.6f}",
            wire.TIMING_HEADER: ", ".join(f"{stage};dur={spent:.1f}" for stage, spent in self.timings.items()),
        }
        if self.cut:
            headers[wire.CUT_HEADER] = quote(self.cut)
        if self.pages > 1:
            headers[wire.PAGES_HEADER] = str(self.pages)
        return headers

    @classmethod
    def from_response(
        cls, data: bytes, headers: Mapping[str, str], kind: Format, handwriting: str, milliseconds: float
    ) -> Handwritten:
        """Read a response; `headers` have lower-case names, and other servers may send no header of this toolkit."""
        names = wire.SEED_HEADER, wire.LINES_HEADER, wire.INK_SHARE_HEADER, wire.PAGE_SIZE_HEADER, wire.TIMING_HEADER
        seed, lines, share, size, timing = (headers.get(name.lower(), "") for name in names)
        stages = [part.partition(";dur=") for part in timing.split(", ") if ";dur=" in part]
        width, height = (float(side) for side in (size or "nanxnan").split("x"))
        if kind == "png" and len(data) >= 24:  # a PNG file contains the size
            width, height = (float(side) for side in struct.unpack(">II", data[16:24]))
        return cls(
            data,
            kind,
            handwriting,
            _parse_seed(seed),
            width,
            height,
            int(lines) if lines.isdigit() else None,
            float(share) if share else None,
            headers.get(wire.OVERFLOW_HEADER.lower()) == "true",
            {stage: float(spent) for stage, _, spent in stages} or {"call": milliseconds},
            cut=unquote(headers.get(wire.CUT_HEADER.lower(), "")),
            pages=int(pages) if (pages := headers.get(wire.PAGES_HEADER.lower(), "")).isdigit() else 1,
        )

    @property
    def digest(self) -> str:
        """12 hexadecimal digits of a SHA-256: for a PNG of the decompressed pixels, for other formats of the file."""
        if self.kind != "png":
            return hashlib.sha256(self.data).hexdigest()[:12]
        image = self.image().convert("RGBA")
        return hashlib.sha256(repr(image.size).encode("ascii") + image.tobytes()).hexdigest()[:12]

    def save(self, path: str | os.PathLike[str], *, background: str | None = None) -> Path:
        """Write the file and return its path; a name with the suffix of another format raises InvalidArgument.

        Without a `background` (a CSS colour such as ``"white"`` or ``"#ffe"``), a PNG or an SVG is transparent.
        """
        data = self.data if background is None else on_background(self.data, self.kind, background)
        return save_file(data, path, SUFFIXES[self.kind], f"a {self.kind}")

    def image(self) -> Image.Image:
        """Return the rendering as a transparent Pillow image; a PDF or an SVG is rendered again as a PNG."""
        png = self.data if self.kind == "png" or self.preview is None else self.preview()
        return Image.open(io.BytesIO(png))

    def on_paper(self) -> Image.Image:
        """Return the rendering on a white background, or on a dark background if the ink is light."""
        inked = self.image().convert("RGBA")
        paper = Image.new("RGBA", inked.size, paper_colour(inked))
        return Image.alpha_composite(paper, inked).convert("RGB")

    def __repr__(self) -> str:
        kind = "animation" if self.kind == "replay" else self.kind.upper()
        ink = "" if self.ink_share is None else f", ink {self.ink_share:.2%}"
        lines = "" if self.lines is None else f", {counted(self.lines, 'line')}"
        size = f"{self.width:g} x {self.height:g}"
        cut = ", cut off" if self.overflow else ""
        return f"<{kind} by {self.handwriting}, {size}{lines}{ink}{cut}, seed {self.seed}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        shown: dict[str, Any] = {"text/plain": repr(self)}
        if self.kind in ("svg", "replay"):
            shown["image/svg+xml"] = self.data.decode("utf-8").replace("<svg ", '<svg style="background:#fff" ', 1)
        # The PNG is added to an SVG too, because JupyterLab shows no SVG in a notebook that is not trusted.
        with contextlib.suppress(ToolkitError):  # a PDF is rendered again, which a closed connection cannot do
            shown["image/png"] = base64.b64encode(png_bytes(self.on_paper())).decode("ascii")
        return shown


def _parse_seed(text: str) -> int | Decimal | None:
    try:
        seed = Decimal(text)
    except InvalidOperation:
        return None
    return int(seed) if seed == seed.to_integral_value() else seed


def save_file(data: bytes, path: str | os.PathLike[str], suffix: str, what: str) -> Path:
    target = absolute_path(path)
    if target.suffix.lower() != suffix:
        raise InvalidArgument(f"{what} is saved as *{suffix}, not {target.name}")
    write_whole(target, data)
    return target


def css_colour(colour: str, kind: Format) -> tuple[int, ...]:
    """Return red, green, blue and maybe alpha of a background; raise InvalidArgument for a PDF or an unknown colour."""
    if kind == "pdf":
        raise InvalidArgument("a PDF has no background: it is shown and printed on paper; save a PNG or an SVG")
    try:
        return ImageColor.getrgb(colour)
    except ValueError:
        raise InvalidArgument(f"background {colour!r} is no CSS colour, as white or #ffe") from None


def on_background(data: bytes, kind: Format, colour: str) -> bytes:
    """Return a PNG or an SVG with a background; raise InvalidArgument for a PDF or an unknown colour."""
    fill = css_colour(colour, kind)
    if kind == "png":
        with Image.open(io.BytesIO(data)) as image:
            inked, dpi = image.convert("RGBA"), image.info.get("dpi", (72, 72))
        file = io.BytesIO()
        flat = Image.alpha_composite(Image.new("RGBA", inked.size, fill), inked)
        (flat if len(fill) == 4 else flat.convert("RGB")).save(file, "PNG", dpi=dpi)
        return file.getvalue()
    opacity = f' fill-opacity="{fill[3] / 255:.3f}"' if len(fill) == 4 else ""
    sheet = f'<rect width="100%" height="100%" fill="#{bytes(fill[:3]).hex()}"{opacity}/>'
    head, bracket, body = data.partition(b">")
    return head + bracket + sheet.encode("ascii") + body


def paper_colour(inked: Image.Image) -> str:
    """Return the background for a transparent picture: white, or dark grey if the ink is light."""
    # Every pixel has the colour of the ink, also the transparent pixels.
    red, green, blue, _ = inked.convert("RGBA").getpixel((0, 0))  # type: ignore[misc]
    return "#2b2b2b" if 0.3 * red + 0.6 * green + 0.1 * blue > _LIGHT_INK_BRIGHTNESS else "white"


def at_resolution(png: bytes, dpi: float) -> bytes:
    """Return a PNG of the service, which says 72 pixels per inch, with `dpi` in place of them."""
    at, per_metre = png.index(b"pHYs"), round(dpi / 0.0254)
    chunk = struct.pack(">4sIIB", b"pHYs", per_metre, per_metre, 1)
    return png[:at] + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[at + len(chunk) + 4 :]


def png_bytes(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()
