"""SVG: the ink as one path."""

from __future__ import annotations

from html import escape

from toolkit.handwriting.ink.canvases.curves import UNIT, outline_curves
from toolkit.handwriting.ink.page import Page
from toolkit.handwriting.parameters import CMYK, RGB


def draw_svg(page: Page, ink: RGB | CMYK) -> bytes:
    curves = outline_curves(page.strokes.select(page.seen()), relative=True)
    return svg_document(page, f'<path fill="{hexadecimal(ink)}" d="{"".join(path(c) for _, c in curves)}"/>')


def path(curve: list[int]) -> str:
    """Return a closed, relative curve of `outline_curves` as SVG path data."""
    count = (len(curve) - 2) // 6
    return ("M%d %dc" + " ".join(["%d %d %d %d %d %d"] * count) + "Z") % tuple(curve)


def svg_document(page: Page, body: str) -> bytes:
    """Return an SVG file of the size of `page`, coordinates in hundredths of a point; the text is its label."""
    label = escape("\n".join(page.layout.text))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{page.width:g}" height="{page.height:g}" '
        f'viewBox="0 0 {page.width * UNIT:g} {page.height * UNIT:g}" role="img" aria-label="{label}">'
    )
    return f"{head}{body}</svg>\n".encode()


def hexadecimal(ink: RGB | CMYK) -> str:
    return "#{:02x}{:02x}{:02x}".format(*ink.rgb())
