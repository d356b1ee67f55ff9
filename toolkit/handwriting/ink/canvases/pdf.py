"""PDF: one page, the ink as Bezier outlines in true CMYK or RGB, and the words as invisible text to search and copy."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter

import numpy as np
import pydyf

from toolkit.handwriting.ink.canvases.curves import UNIT, outline_curves
from toolkit.handwriting.ink.page import Page
from toolkit.handwriting.parameters import CMYK, RGB

_PER_FONT = 255  # codes 1..255 of a one-byte font
_FONT_SIZE = 1.45  # cap heights


def draw_pdf(page: Page, ink: RGB | CMYK, size: float, lap: Callable[[str], None]) -> bytes:
    """Draw without dates: the same page gives the same bytes. `size` is the cap height."""
    seen = page.seen()
    curves = outline_curves(page.strokes.select(seen))
    layer = _TextLayer(page, size)
    content = _packed(chain(_ink_operators(page, ink, curves, page.stroke_word[seen]), layer.operators()))
    lap("canvas")
    return _document(page, content, layer)


def number(value: float) -> str:
    """No exponent, no trailing zeros, as PDF wants it."""
    text = f"{value:.5f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def ink_operator(ink: RGB | CMYK) -> str:
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


def _document(page: Page, content: bytes, layer: _TextLayer) -> bytes:
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


class _TextLayer:
    """The invisible words: a font of empty letters, one word at a time, each as wide as its ink."""

    def __init__(self, page: Page, size: float) -> None:
        self._page = page
        self._font_size = _FONT_SIZE * size
        characters = dict.fromkeys([" ", *(c for word in page.layout.words for c in word.text)])
        self._characters = list(characters)
        self._code = {c: divmod(n, _PER_FONT) for n, c in enumerate(self._characters)}

    def operators(self) -> Iterator[str]:
        page, words = self._page, self._page.layout.words
        yield "BT 3 Tr"
        for n, word in enumerate(words):
            x, end = float(page.word_x[n]), float(page.word_end[n])
            yield f"1 0 0 1 {x:.2f} {page.height - float(page.word_y[n]):.2f} Tm"
            yield from self._shown(word.text, end - x)
            if n + 1 < len(words) and page.layout.line[n + 1] == page.layout.line[n]:
                yield from self._shown(" ", float(page.word_x[n + 1]) - end)
        yield "ET"

    def _shown(self, text: str, width: float) -> Iterator[str]:
        """Show `text` stretched to `width`; every letter of the font is one em wide."""
        yield f"{max(100 * width / (len(text) * self._font_size), 1.0):.2f} Tz"
        for font, run in groupby((self._code[character] for character in text), key=itemgetter(0)):
            codes = "".join(f"{code + 1:02x}" for _, code in run)
            yield f"/T{font} {self._font_size:.2f} Tf <{codes}> Tj"

    def add_fonts(self, document: pydyf.PDF) -> pydyf.Dictionary:
        fonts = pydyf.Dictionary()
        for number, first in enumerate(range(0, len(self._characters), _PER_FONT)):
            font = _font(document, self._characters[first : first + _PER_FONT])
            fonts[f"T{number}"] = font.reference
        return fonts


def _font(document: pydyf.PDF, characters: list[str]) -> pydyf.Dictionary:
    """Type 3 font whose letters are empty; what they stand for is in its ToUnicode map."""
    empty = pydyf.Stream(["1000 0 0 -250 1000 750 d1"])
    unicode_map = pydyf.Stream([_unicode_map(characters)])
    document.add_object(empty)
    document.add_object(unicode_map)
    names = [f"/g{n + 1}" for n in range(len(characters))]
    encoding = {"Type": "/Encoding", "Differences": pydyf.Array([1, *names])}
    font = pydyf.Dictionary(
        {
            "Type": "/Font",
            "Subtype": "/Type3",
            "FontBBox": pydyf.Array([0, -250, 1000, 750]),
            "FontMatrix": pydyf.Array([0.001, 0, 0, 0.001, 0, 0]),
            "FirstChar": 1,
            "LastChar": len(characters),
            "Widths": pydyf.Array([1000] * len(characters)),
            "Encoding": pydyf.Dictionary(encoding),
            "CharProcs": pydyf.Dictionary({name[1:]: empty.reference for name in names}),
            "Resources": pydyf.Dictionary(),
            "ToUnicode": unicode_map.reference,
        }
    )
    document.add_object(font)
    return font


def _unicode_map(characters: list[str]) -> str:
    lines = ["/CIDInit /ProcSet findresource begin", "12 dict begin", "begincmap", "/CMapName /U def",
             "/CMapType 2 def", "1 begincodespacerange <00> <ff> endcodespacerange"]  # fmt: skip
    for first in range(0, len(characters), 100):
        part = characters[first : first + 100]
        lines.append(f"{len(part)} beginbfchar")
        lines += [f"<{first + n + 1:02x}> <{c.encode('utf-16-be').hex()}>" for n, c in enumerate(part)]
        lines.append("endbfchar")
    lines += ["endcmap", "CMapName currentdict /CMap defineresource pop", "end", "end"]
    return "\n".join(lines)
