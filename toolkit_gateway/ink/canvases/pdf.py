"""PDF: the ink as Bezier outlines in CMYK or RGB, or a scan; the words as invisible text to search and copy."""

import io
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby, pairwise
from operator import itemgetter

import numpy as np
import pydyf

from toolkit_gateway.ink.canvases.curves import ink_opacity, outline_curves, units_per_point
from toolkit_gateway.ink.canvases.png import scanned_jpeg
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.parameters import CMYK, RGB
from toolkit_gateway.ink.sheet import Sheet

_CODES_PER_FONT = 255  # the codes 1 to 255 of a one-byte font
_FONT_SIZE, _LEAST_SPACE = 1.45, 0.3  # of the invisible text, in cap heights
SCAN_DPI, MAX_SCAN_PIXELS = 200, 8_000_000  # resolution of a page with paper; a larger page has fewer dots per inch


def draw_pdf(pages: Iterable[Page], ink: RGB | CMYK, size: float) -> bytes:
    """Return a file without dates, so that the same pages give the same bytes; `size` is the cap height in points."""
    document = pydyf.PDF()
    for page in pages:
        _add_page(document, page, ink, size)
    file = io.BytesIO()
    document.write(file, version="1.4", identifier=True)
    return file.getvalue()


def _add_page(document: pydyf.PDF, page: Page, ink: RGB | CMYK, size: float) -> None:
    characters = list(dict.fromkeys([" ", *(c for word in page.layout.words for c in word.text)]))
    codes = {c: divmod(n, _CODES_PER_FONT) for n, c in enumerate(characters)}
    text, opacity, resources = _text_operators(page, codes, size), ink_opacity(page), {}
    if page.sheet is None:
        picture = _ink_operators(page, ink, opacity, units_per_point(size))
        if opacity is not None:
            state = pydyf.Dictionary({"Type": "/ExtGState", "ca": pdf_number(opacity)})
            resources["ExtGState"] = pydyf.Dictionary({"Ink": state})
    else:
        scan = _add_scan(document, page, page.sheet, ink.rgb(), size)
        picture = iter([f"q {pdf_number(page.width)} 0 0 {pdf_number(page.height)} 0 0 cm /Scan Do Q"])
        resources["XObject"] = pydyf.Dictionary({"Scan": scan.reference})
    content = pydyf.Stream([_compress(chain(picture, text))], extra={"Filter": "/FlateDecode"})
    document.add_object(content)
    parts = (characters[first : first + _CODES_PER_FONT] for first in range(0, len(characters), _CODES_PER_FONT))
    fonts = {f"T{number}": _add_font(document, part).reference for number, part in enumerate(parts)}
    entries = {
        "Type": "/Page",
        "Parent": document.pages.reference,
        "MediaBox": pydyf.Array([0, 0, pdf_number(page.width), pdf_number(page.height)]),
        "Contents": content.reference,
        "Resources": pydyf.Dictionary({"Font": pydyf.Dictionary(fonts), **resources}),
    }
    document.add_page(pydyf.Dictionary(entries))


def _add_scan(document: pydyf.PDF, page: Page, sheet: Sheet, ink: RGB, size: float) -> pydyf.Stream:
    """Add the picture of a page on paper, as a scanner would send it."""
    scale = min(SCAN_DPI / 72, math.sqrt(MAX_SCAN_PIXELS / (page.width * page.height)))
    file, width, height = scanned_jpeg(page.scaled(scale), sheet.scaled(scale), ink, size * scale)
    entries = {
        "Type": "/XObject", "Subtype": "/Image", "Width": width, "Height": height, "ColorSpace": "/DeviceRGB",
        "BitsPerComponent": 8, "Filter": "/DCTDecode",
    }  # fmt: skip
    picture = pydyf.Stream([file], extra=entries)
    document.add_object(picture)
    return picture


def pdf_number(value: float) -> str:
    """Write a number in PDF syntax: no exponent, no trailing zeros."""
    text = f"{value:.5f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def ink_operator(ink: RGB | CMYK) -> str:
    if isinstance(ink, CMYK):
        return " ".join(pdf_number(v) for v in (ink.cyan, ink.magenta, ink.yellow, ink.black)) + " k"
    return " ".join(pdf_number(channel / 255) for channel in ink.rgb()) + " rg"


def _ink_operators(page: Page, ink: RGB | CMYK, opacity: float | None, units: int) -> Iterator[str]:
    """Yield the operators of the ink; a word is one fill, so that a drawing program can select words."""
    scale, of_stroke, word = f"{1 / units:.9f}", page.word_of_stroke.tolist(), None
    yield f"q {ink_operator(ink)} {scale} 0 0 -{scale} 0 {pdf_number(page.height)} cm"
    if opacity is not None:
        yield "/Ink gs"
    for stroke, curve in outline_curves(page.scaled(units).strokes, word=page.word_of_stroke):
        if word not in (None, of_stroke[stroke]):
            yield "f"
        word, pieces = of_stroke[stroke], (len(curve) - 2) // 6
        yield ("%d %d m\n" + "%d %d %d %d %d %d c\n" * pieces + "h") % tuple(curve)
    if word is not None:
        yield "f"
    yield "Q"


def _compress(operators: Iterable[str]) -> bytes:
    """Compress the content stream piece by piece, because the whole stream of a long text would take 100 MB."""
    # Level 4, because pydyf's level 9 takes ten times as long and saves 4 %.
    packer, packed = zlib.compressobj(4), io.BytesIO()
    for n, text in enumerate(operators):
        packed.write(packer.compress(f"\n{text}".encode() if n else text.encode()))
    packed.write(packer.flush())
    return packed.getvalue()


def _text_operators(page: Page, codes: Mapping[str, tuple[int, int]], size: float) -> Iterator[str]:
    """Yield the invisible words; `codes` maps characters to (font, code).

    All words of a line are on one baseline with a space between them: readers of PDF lose words that overlap, or take
    words at different heights for other lines.
    """
    font_size, least = _FONT_SIZE * size, _LEAST_SPACE * size

    def show(text: str, width: float) -> Iterator[str]:
        # Every letter of the font is one em wide; Tz scales the text to `width`.
        yield f"{max(100 * width / (len(text) * font_size), 1.0):.2f} Tz"
        for font, run in groupby((codes[character] for character in text), key=itemgetter(0)):
            yield f"/T{font} {font_size:.2f} Tf <{''.join(f'{code + 1:02x}' for _, code in run)}> Tj"

    words, line = page.layout.words, page.layout.line
    yield "BT 3 Tr"
    for first, last in pairwise([*np.flatnonzero(np.diff(line, prepend=-1)).tolist(), len(words)]):
        y = page.height - float(np.median(page.word_y[first:last]))
        x = page.word_x[first:last].tolist()
        for n, word in enumerate(words[first:last]):
            following = x[n + 1] if n + 1 < len(x) else math.inf
            end = max(min(float(page.word_end[first + n]), following - least), x[n] + 0.1 * least)
            yield f"1 0 0 1 {x[n]:.2f} {y:.2f} Tm"
            yield from show(word.text, end - x[n])
            if n + 1 < len(x):
                yield from show(" ", following - end)
    yield "ET"


def _add_font(document: pydyf.PDF, characters: list[str]) -> pydyf.Dictionary:
    """Add a Type 3 font with empty letters and a ToUnicode map of their characters."""
    empty = pydyf.Stream(["1000 0 0 -250 1000 750 d1"])
    unicode_map = pydyf.Stream([_unicode_map(characters)])
    document.add_object(empty)
    document.add_object(unicode_map)
    names = [f"/g{n + 1}" for n in range(len(characters))]
    font = pydyf.Dictionary(
        {
            "Type": "/Font",
            "Subtype": "/Type3",
            "FontBBox": pydyf.Array([0, -250, 1000, 750]),
            "FontMatrix": pydyf.Array([0.001, 0, 0, 0.001, 0, 0]),
            "FirstChar": 1,
            "LastChar": len(characters),
            "Widths": pydyf.Array([1000] * len(characters)),
            "Encoding": pydyf.Dictionary({"Type": "/Encoding", "Differences": pydyf.Array([1, *names])}),
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
