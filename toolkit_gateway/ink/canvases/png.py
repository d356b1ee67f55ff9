"""PNG with 72 pixels per inch: all pixels have the colour of the ink, and alpha is its coverage; or a scan of paper.

A page of a PDF is such a scan too, as a JPEG.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import starmap

import numpy as np
from isal import isal_zlib
from PIL import Image

from toolkit_gateway.ink.canvases.raster import Coverage, coverage
from toolkit_gateway.ink.canvases.scan import Scan
from toolkit_gateway.ink.canvases.texture import textured
from toolkit_gateway.ink.page import Page
from toolkit_gateway.ink.parameters import RGB
from toolkit_gateway.ink.pen import InkFlow
from toolkit_gateway.ink.ribbons import OUTLINE_FLAG, POINT_DISTANCE, Mask, Strokes, every_nth, refine, ribbons
from toolkit_gateway.ink.sheet import Sheet

MAX_BAND_PIXELS = 4_000_000  # a larger page is drawn in bands of rows, which limits the memory
MAX_BAND_EDGE = 2_000_000  # pixels on the edges of the ink in a band: Agg stores all of them
MAX_PAGE_EDGE = 20_000_000  # pixels on the edges of the ink of a page; a page with more is drawn coarsely
_MIN_BAND_ROWS = 16
_MAX_PIECE_PIXELS = 2.0  # of the straight pieces that approximate a curve
_MAX_PIECES = 64
_DENSE_POINTS = 1.1  # pixels; if the points of a stroke are closer than this, every second point is enough
_MAX_POINTS = 2_000_000  # of all strokes, after curves are cut into pieces
_POINTS_AT_ONCE = 200_000  # outlined in one step, which takes ten times the memory of the points

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGBA, _PALETTE = 6, 3
_PIXELS_PER_METRE = 2835  # 72 to the inch
JPEG_QUALITY = 80  # of a page in a PDF


def draw_png(page: Page, ink: RGB, size: float) -> tuple[bytes, float]:
    """Return the file, and the share of the page that ink covers; `size` is the cap height in pixels."""
    # The page of a letter may have fractions of pixels.
    width, height = max(1, int(page.width + 0.5)), max(1, int(page.height + 0.5))
    # ISA-L is four times as fast as zlib, even without PNG's filters, and its files are 5 to 8 % larger.
    packer = isal_zlib.compressobj(1)
    scan = None if page.sheet is None else Scan(page.sheet, ink, width, height)
    packed, total, row = [], 0, 0
    for alpha in _bands(page, size, width, height):
        pixels = [_coloured(alpha, ink)] if scan is None else scan.rows(alpha, row)
        packed += [packer.compress(np.pad(rows, ((0, 0), (1, 0))).data) for rows in pixels]  # 0 before a row: no filter
        row, total = row + len(alpha), total + int(alpha.sum(dtype=np.int64))
    packed.append(packer.flush())
    head = struct.pack(">IIBBBBB", width, height, 8, _RGBA if scan is None else _PALETTE, 0, 0, 0)
    density = struct.pack(">IIB", _PIXELS_PER_METRE, _PIXELS_PER_METRE, 1)
    colours = [] if scan is None else [(b"PLTE", scan.palette)]
    chunks = [(b"IHDR", head), (b"pHYs", density), *colours, (b"IDAT", b"".join(packed)), (b"IEND", b"")]
    return b"".join([_PNG_SIGNATURE, *starmap(_chunk, chunks)]), total / 255 / (width * height)


def scanned_jpeg(page: Page, sheet: Sheet, ink: RGB, size: float) -> tuple[bytes, int, int]:
    """Return a page on paper as a JPEG file, with its width and height; `size` is the cap height in pixels."""
    width, height = max(1, round(page.width)), max(1, round(page.height))
    scan, row = Scan(sheet, ink, width, height), 0
    pieces: list[Coverage] = []
    for alpha in _bands(page, size, width, height):
        pieces += scan.rows(alpha, row)
        row += len(alpha)
    picture = Image.fromarray(np.concatenate(pieces), "P")
    picture.putpalette(scan.palette)
    file = io.BytesIO()
    picture.convert("RGB").save(file, "JPEG", quality=JPEG_QUALITY, progressive=True)
    return file.getvalue(), width, height


def _bands(page: Page, size: float, width: int, height: int) -> Iterator[Coverage]:
    """Yield the coverage of the page from top to bottom in bands of rows, each of the shape (rows, width)."""
    strokes = page.strokes
    extent = _StrokeExtents(strokes)
    block = max(1, math.ceil(extent.edge_pixels(0, height) / MAX_PAGE_EDGE))  # block x block pixels are drawn as one
    if block > 1:
        rows_left = height
        for alpha in _bands(page.scaled(1 / block), size / block, -(-width // block), -(-height // block)):
            yield alpha.repeat(block, axis=0)[:rows_left].repeat(block, axis=1)[:, :width]
            rows_left -= len(alpha) * block
        return
    pieces = _pieces_per_interval(strokes)
    if page.ink is not None and POINT_DISTANCE * size < _DENSE_POINTS:
        page = _thinned(page, page.ink)
    for first, rows in _band_rows(extent, width, height):
        part = page.select(extent.touching(first, rows))
        stroke_batch = np.cumsum(part.strokes.length) * pieces // _POINTS_AT_ONCE
        batches = (part.strokes.select(stroke_batch == n) for n in np.unique(stroke_batch))
        alpha = coverage((ribbons(refine(strokes, pieces)) for strokes in batches), width, rows, first)
        if part.ink is not None:
            alpha = textured(alpha, part.strokes, part.ink, size, first)
        yield alpha


def _thinned(page: Page, ink: InkFlow) -> Page:
    """Return the page with every second point of each stroke; contours keep all points."""
    s = page.strokes
    index, length = every_nth(s.length, np.where(s.flags & OUTLINE_FLAG, 1, 2))
    strokes = Strokes(s.x[index], s.y[index], s.radius[index], length, s.flags)
    return replace(page, strokes=strokes, ink=ink.select(index))


def _band_rows(extent: _StrokeExtents, width: int, height: int) -> Iterator[tuple[int, int]]:
    """Yield first row and height of every band: one band for most pages, more for a huge page or a page full of ink."""
    usual = height if width * height <= MAX_BAND_PIXELS else max(_MIN_BAND_ROWS, MAX_BAND_PIXELS // 4 // width)
    first = 0
    while first < height:
        rows = min(usual, height - first)
        while rows > _MIN_BAND_ROWS and extent.edge_pixels(first, rows) > MAX_BAND_EDGE:
            rows = -(-rows // 2)
        yield first, rows
        first += rows


class _StrokeExtents:
    """Top row, bottom row and approximate length of the edge (in pixels) of every stroke."""

    def __init__(self, strokes: Strokes) -> None:
        start = strokes.start
        self._top = np.minimum.reduceat(strokes.y - strokes.radius, start) - 1
        self._bottom = np.maximum.reduceat(strokes.y + strokes.radius, start) + 1
        step = np.zeros(len(strokes.x))  # to the next point of the stroke
        step[:-1] = np.abs(np.diff(strokes.x)) + np.abs(np.diff(strokes.y))
        step[start + strokes.length - 1] = 0.0
        self._length = 2 * np.add.reduceat(step, start)

    def touching(self, first: int, rows: int) -> Mask:
        return (self._bottom >= first) & (self._top <= first + rows)

    def edge_pixels(self, first: int, rows: int) -> float:
        """Estimate the number of pixels on the edges of all strokes in a band."""
        inside = np.minimum(self._bottom, first + rows) - np.maximum(self._top, first)
        return float((self._length * np.maximum(inside, 0.0) / (self._bottom - self._top)).sum())


def _pieces_per_interval(strokes: Strokes) -> int:
    """Return how many straight pieces are needed between two points of a stroke to make curves look smooth."""
    if len(strokes.x) < 2:
        return 1
    step = np.maximum(np.abs(np.diff(strokes.x)), np.abs(np.diff(strokes.y)))
    inner = np.ones(len(step), bool)
    inner[strokes.start[1:] - 1] = False
    typical = float(np.median(step[inner])) if inner.any() else 0.0
    return int(max(1, min(np.ceil(typical / _MAX_PIECE_PIXELS), _MAX_PIECES, _MAX_POINTS // len(strokes.x))))


def _coloured(alpha: Coverage, ink: RGB) -> Coverage:
    """Return rows of RGBA pixels, all of the colour of the ink."""
    pixels = np.empty((*alpha.shape, 4), np.uint8)
    pixels[:, :, :3], pixels[:, :, 3] = ink, alpha
    return pixels.reshape(len(alpha), -1)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
