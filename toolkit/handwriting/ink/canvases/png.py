"""PNG: one colour everywhere, the ink in the alpha channel, 72 pixels in an inch."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from toolkit.handwriting.ink.canvases.raster import Coverage, coverage
from toolkit.handwriting.ink.page import Page
from toolkit.handwriting.ink.ribbons import Strokes, refine, ribbons
from toolkit.handwriting.parameters import RGB

BAND_PIXELS = 4_000_000  # a larger page is drawn in bands of rows, so that memory stays small
BAND_EDGE = 2_000_000  # and so is one with more pixels on the edge of its ink: Agg keeps each of them
MOST_EDGE = 20_000_000  # giant letters on top of one another are drawn coarsely, which takes seconds, not minutes
_LEAST_ROWS = 16
_COARSEST = 1.3  # longest straight piece of a curve, in pixels
_MOST_PIECES = 64
_MOST_POINTS = 2_000_000  # thousands of giant letters on top of one another need no smooth curves
_AT_ONCE = 200_000  # points; outlines take ten times the memory while they are made

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGBA = 6
_FROM_THE_LEFT, _FROM_ABOVE = 1, 2  # filter types
_PIXELS_A_METRE = 2835  # 72 in an inch

Lap = Callable[[str], None]


def draw_png(page: Page, ink: RGB, lap: Lap) -> tuple[bytes, float]:
    """Return the file and the share of the page under ink; a huge page is drawn band by band."""
    width, height = int(page.width + 0.5), int(page.height + 0.5)
    visible = page.visible_strokes()
    strokes = page.strokes if visible.all() else page.strokes.select(visible)
    # Differences between rows are zero almost everywhere. For ink this is two to three times faster than an encoder
    # that tries all filters, and the file is larger by a few per cent only.
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
    packed, above, total = [], None, 0
    for alpha in _bands(strokes, width, height, lap):
        packed.append(packer.compress(_filter_rows(alpha, above, ink).data))
        above = alpha[-1].copy()
        total += int(alpha.sum(dtype=np.int64))
        lap("encode")
    packed.append(packer.flush())
    head = struct.pack(">IIBBBBB", width, height, 8, _RGBA, 0, 0, 0)
    density = struct.pack(">IIB", _PIXELS_A_METRE, _PIXELS_A_METRE, 1)
    chunks = [_chunk(b"IHDR", head), _chunk(b"pHYs", density), *(_chunk(b"IDAT", data) for data in packed if data)]
    return b"".join([_SIGNATURE, *chunks, _chunk(b"IEND", b"")]), total / 255 / (width * height)


def _bands(strokes: Strokes, width: int, height: int, lap: Lap) -> Iterator[Coverage]:
    """Yield the page from top to bottom in bands of rows, each shape (rows, width)."""
    extent = _Extent(strokes)
    grain = max(1, math.ceil(extent.edge(0, height) / MOST_EDGE))
    if grain > 1:
        small = replace(strokes, x=strokes.x / grain, y=strokes.y / grain, radius=strokes.radius / grain)
        left = height
        for alpha in _bands(small, -(-width // grain), -(-height // grain), lap):
            yield alpha.repeat(grain, axis=0)[:left].repeat(grain, axis=1)[:, :width]
            left -= len(alpha) * grain
        return
    pieces = _pieces_a_step(strokes)
    for first, rows in _band_rows(extent, width, height):
        yield _band(strokes.select(extent.touching(first, rows)), pieces, width, first, rows, lap)


def _band_rows(extent: _Extent, width: int, height: int) -> Iterator[tuple[int, int]]:
    """Cut the page where it is huge or full of ink: (first row, rows)."""
    usual = height if width * height <= BAND_PIXELS else max(_LEAST_ROWS, BAND_PIXELS // 4 // width)
    first = 0
    while first < height:
        rows = min(usual, height - first)
        while rows > _LEAST_ROWS and extent.edge(first, rows) > BAND_EDGE:
            rows = -(-rows // 2)
        yield first, rows
        first += rows


class _Extent:
    """Highest and lowest row of the ink of every stroke, and about how long its edge is."""

    def __init__(self, strokes: Strokes) -> None:
        if not len(strokes.length):
            self._top = self._bottom = self._length = np.zeros(0)
            return
        start = strokes.start
        self._top = np.minimum.reduceat(strokes.y - strokes.radius, start) - 1
        self._bottom = np.maximum.reduceat(strokes.y + strokes.radius, start) + 1
        step = np.zeros(len(strokes.x))  # to the next point of the stroke
        step[:-1] = np.abs(np.diff(strokes.x)) + np.abs(np.diff(strokes.y))
        step[start + strokes.length - 1] = 0.0
        self._length = 2 * np.add.reduceat(step, start)

    def touching(self, first: int, rows: int) -> np.ndarray:
        return (self._bottom >= first) & (self._top <= first + rows)

    def edge(self, first: int, rows: int) -> float:
        """Estimate the pixels on the edge of the ink in a band, each stroke counted for itself."""
        inside = np.minimum(self._bottom, first + rows) - np.maximum(self._top, first)
        return float((self._length * np.maximum(inside, 0.0) / (self._bottom - self._top)).sum())


def _band(strokes: Strokes, pieces: int, width: int, first: int, rows: int, lap: Lap) -> Coverage:
    if not len(strokes.length):
        return np.zeros((rows, width), np.uint8)
    part = np.cumsum(strokes.length) * pieces // _AT_ONCE
    outlines = [ribbons(refine(strokes.select(part == n), pieces)) for n in np.unique(part)]
    lap("pen")
    alpha = coverage(outlines, width, rows, first)
    lap("canvas")
    return alpha


def _pieces_a_step(strokes: Strokes) -> int:
    """In how many straight pieces to cut each interval of a stroke, so that curves look smooth."""
    if len(strokes.x) < 2:
        return 1
    step = np.maximum(np.abs(np.diff(strokes.x)), np.abs(np.diff(strokes.y)))
    inner = np.ones(len(step), bool)
    inner[strokes.start[1:] - 1] = False
    typical = float(np.median(step[inner])) if inner.any() else 0.0
    return int(max(1, min(np.ceil(typical / _COARSEST), _MOST_PIECES, _MOST_POINTS // len(strokes.x))))


def _filter_rows(alpha: Coverage, above: Coverage | None, ink: RGB) -> Coverage:
    """Return rows of RGBA, each as the difference from the row above; `above` is the last row of the band before."""
    rows = np.zeros((len(alpha), 1 + 4 * alpha.shape[1]), np.uint8)
    rows[:, 0] = _FROM_ABOVE
    np.subtract(alpha[1:], alpha[:-1], out=rows[1:, 4::4])
    if above is None:
        rows[0, :4] = _FROM_THE_LEFT, *ink
        rows[0, 4::4] = np.diff(alpha[0], prepend=np.uint8(0))
    else:
        np.subtract(alpha[0], above, out=rows[0, 4::4])
    return rows


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
