"""PNG: one colour everywhere, the ink in the alpha channel, 72 pixels in an inch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from toolkit.handwriting.ink.canvases.png_file import PngFile
from toolkit.handwriting.ink.canvases.raster import Coverage, coverage
from toolkit.handwriting.ink.page import Page
from toolkit.handwriting.ink.ribbons import Strokes, refined, ribbons
from toolkit.handwriting.parameters import RGB
from toolkit.keyed_noise import Floats

BAND_PIXELS = 4_000_000  # a larger page is drawn in bands of rows, so that memory stays small
BAND_EDGE = 2_000_000  # and so is one with more pixels on the edge of its ink: Agg keeps each of them
MOST_EDGE = 20_000_000  # giant letters on top of one another are drawn coarsely, which takes seconds, not minutes
_LEAST_ROWS = 16
_COARSEST = 1.3  # longest straight piece of a curve, in pixels
_MOST_PIECES = 64
_MOST_POINTS = 2_000_000  # thousands of giant letters on top of one another need no smooth curves
_AT_ONCE = 200_000  # points; outlines take ten times the memory while they are made


Lap = Callable[[str], None]


def draw_png(page: Page, ink: RGB, lap: Lap) -> tuple[bytes, float]:
    """Return the file and the share of the page under ink; a huge page is drawn band by band."""
    width, height = int(page.width + 0.5), int(page.height + 0.5)
    seen = page.seen()
    strokes = page.strokes if seen.all() else page.strokes.select(seen)
    file, total = PngFile(width, height, ink), 0
    for alpha in _bands(strokes, width, height, lap):
        file.add(alpha)
        total += int(alpha.sum(dtype=np.int64))
        lap("encode")
    return file.finished(), total / 255 / (width * height)


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
    pieces = _pieces(strokes)
    for first, rows in _cut(extent, width, height):
        yield _band(strokes.select(extent.touching(first, rows)), pieces, width, first, rows, lap)


def _cut(extent: _Extent, width: int, height: int) -> Iterator[tuple[int, int]]:
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
        self._length = 2 * np.add.reduceat(_steps(strokes), start)

    def touching(self, first: int, rows: int) -> np.ndarray:
        return (self._bottom >= first) & (self._top <= first + rows)

    def edge(self, first: int, rows: int) -> float:
        """Estimate the pixels on the edge of the ink in a band, each stroke counted for itself."""
        inside = np.minimum(self._bottom, first + rows) - np.maximum(self._top, first)
        return float((self._length * np.maximum(inside, 0.0) / (self._bottom - self._top)).sum())


def _steps(strokes: Strokes) -> Floats:
    """Distance to the next point of the stroke, 0 at its last point."""
    step = np.zeros(len(strokes.x))
    step[:-1] = np.abs(np.diff(strokes.x)) + np.abs(np.diff(strokes.y))
    step[strokes.start + strokes.length - 1] = 0.0
    return step


def _band(strokes: Strokes, pieces: int, width: int, first: int, rows: int, lap: Lap) -> Coverage:
    if not len(strokes.length):
        return np.zeros((rows, width), np.uint8)
    part = np.cumsum(strokes.length) * pieces // _AT_ONCE
    outlines = [ribbons(refined(strokes.select(part == n), pieces)) for n in np.unique(part)]
    lap("pen")
    alpha = coverage(outlines, width, rows, first)
    lap("canvas")
    return alpha


def _pieces(strokes: Strokes) -> int:
    """In how many straight pieces to cut each interval of a stroke, so that curves look smooth."""
    if len(strokes.x) < 2:
        return 1
    step = np.maximum(np.abs(np.diff(strokes.x)), np.abs(np.diff(strokes.y)))
    inner = np.ones(len(step), bool)
    inner[strokes.start[1:] - 1] = False
    typical = float(np.median(step[inner])) if inner.any() else 0.0
    return int(max(1, min(np.ceil(typical / _COARSEST), _MOST_PIECES, _MOST_POINTS // len(strokes.x))))
