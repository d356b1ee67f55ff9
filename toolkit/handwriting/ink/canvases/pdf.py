"""PDF: one page, the ink as Bezier outlines in true CMYK or RGB, and the words as invisible text to search and copy."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np
import pydyf

from toolkit.handwriting.ink.canvases.curves import UNIT, outline_curves
from toolkit.handwriting.ink.canvases.pdf_text import TextLayer
from toolkit.handwriting.ink.page import Page
from toolkit.handwriting.parameters import CMYK, RGB


def draw_pdf(page: Page, ink: RGB | CMYK, size: float, lap: Callable[[str], None]) -> bytes:
    """Return `page` as a PDF; `size` is the cap height. No dates: the same page gives the same bytes."""
    seen = page.seen()
    curves = outline_curves(page.strokes.select(seen))
    layer = TextLayer(page, size)
    content = _packed(chain(_ink_operators(page, ink, curves, page.stroke_word[seen]), layer.operators()))
    lap("canvas")
    return _document(page, content, layer)


def number(value: float) -> str:
    """Return a number as PDF wants it: no exponent, no trailing zeros.

    Examples
    --------
    >>> number(0.50), number(-0.000001)
    ('0.5', '0')
    """
    text = f"{value:.5f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def ink_operator(ink: RGB | CMYK) -> str:
    """Return the operator that sets the fill: ``C M Y K k`` or ``R G B rg``."""
    if isinstance(ink, CMYK):
        return " ".join(number(v) for v in (ink.cyan, ink.magenta, ink.yellow, ink.black)) + " k"
    return " ".join(number(channel / 255) for channel in ink.rgb()) + " rg"


def _ink_operators(
    page: Page, ink: RGB | CMYK, curves: Iterable[tuple[int, list[int]]], word: np.ndarray
) -> Iterator[str]:
    """Fill once for each word, so that a viewer may pick words."""
    scale = 1 / UNIT
    yield f"q {ink_operator(ink)} {number(scale)} 0 0 {number(-scale)} 0 {number(page.height)} cm"
    of_word: dict[int, list[str]] = {}
    for stroke, curve in curves:
        pieces = (len(curve) - 2) // 6
        drawn = ("%d %d m\n" + "%d %d %d %d %d %d c\n" * pieces + "h") % tuple(curve)
        of_word.setdefault(int(word[stroke]), []).append(drawn)
    for number_of_word in sorted(of_word):
        yield "\n".join(of_word.pop(number_of_word))
        yield "f"
    yield "Q"


def _packed(operators: Iterable[str]) -> bytes:
    """Compress the content stream as it comes: whole, a long text's takes 100 MB."""
    # compressed here: pydyf's level 9 takes ten times as long for 4 % less
    packer = zlib.compressobj(4)
    packed = [packer.compress(f"\n{text}".encode() if n else text.encode()) for n, text in enumerate(operators)]
    return b"".join([*packed, packer.flush()])


def _document(page: Page, content: bytes, layer: TextLayer) -> bytes:
    document = pydyf.PDF()
    body = pydyf.Stream([content], extra={"Filter": "/FlateDecode"})
    document.add_object(body)
    fonts = layer.add_fonts(document)
    document.add_page(
        pydyf.Dictionary(
            {
                "Type": "/Page",
                "Parent": document.pages.reference,
                "MediaBox": pydyf.Array([0, 0, number(page.width), number(page.height)]),
                "Contents": body.reference,
                "Resources": pydyf.Dictionary({"Font": fonts}),
            }
        )
    )
    out = io.BytesIO()
    document.write(out, version="1.4", identifier=True)
    return out.getvalue()
