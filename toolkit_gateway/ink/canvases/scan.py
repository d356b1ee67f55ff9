"""A picture that looks like a scan: ink on paper, uneven light and noise.

The page is drawn as one channel of brightness; a palette maps brightness to the colours of ink, paper and rules.
"""

from collections.abc import Iterator
from functools import cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from toolkit_gateway.ink.canvases.raster import Coverage, coverage
from toolkit_gateway.ink.canvases.texture import grain_tile
from toolkit_gateway.ink.parameters import RGB
from toolkit_gateway.ink.random_streams import RandomStreams
from toolkit_gateway.ink.ribbons import Polygons, Strokes, ribbons
from toolkit_gateway.ink.sheet import MARGIN_LINE_COLOUR, Sheet

# Brightness has levels from 0 to 255; a pair is the range of a random value.
PAPER_BRIGHTNESS = 236
CORNER_DARKENING = 2.0, 12.0  # levels by which the corners are darker than the middle
SIDE_SHADOW = 5.0  # largest difference in levels between opposite sides
GUTTER, GUTTER_WIDTH = (3.0, 15.0), (0.03, 0.13)  # shadow at a side that bends up: levels, share of the width
GUTTER_SHARE = 0.35  # share of the pages with this shadow
RULE_LEVELS = 44  # levels by which a rule is darker than the paper
NOISE_LEVELS = 0.9
GLAZE, DENSE = 0.35, 0.8  # share of the ink that dyes paper instead of covering it; factor on the colour of thick ink
TILE_PX = 512  # the fibres repeat after this distance
FIBRE_COUNT = 3600  # in a tile
MAX_PIXELS_AT_ONCE = 200_000  # their brightness stays in the cache of the processor
_COARSE_TEXTURE = 3  # above this strength, single fibres can be seen
_INK_COLOURS = 96  # palette entries between ink and paper; more would store noise that nobody sees
_INDEX_PER_LEVEL = np.float32(_INK_COLOURS / 256)
_RULE_COLOURS = 48  # palette entries for rules; the remaining 16 are for the margin line
_DARKEST_RULE_LEVEL = 160

Grey = npt.NDArray[np.float32]
_CLEARNESS: Grey = (1 - np.arange(256) / 255).astype(np.float32)  # the light that paper keeps, by coverage of the ink


class Scan:
    """Converts the coverage of the ink to palette colours, band by band."""

    def __init__(self, sheet: Sheet, ink: RGB, width: int, height: int) -> None:
        noise = sheet.noise
        self._sheet, self._width = sheet, width
        self.palette = _palette(sheet, ink)
        light, fall_off = noise.uniform("light", 2), noise.number("fall off", CORNER_DARKENING)
        positions = (np.linspace(-1, 1, length, dtype=np.float32) for length in (width, height))
        self._across, self._down = (
            SIDE_SHADOW / 2 * np.float32(tilt) * position - np.float32(fall_off / 2) * position**4
            for tilt, position in zip(light, positions, strict=True)
        )
        if noise.number("gutter") < GUTTER_SHARE:
            side = 1 if noise.number("gutter side") < 0.5 else -1
            away = (1 - side * np.linspace(-1, 1, width, dtype=np.float32)) / 2
            near = np.maximum(1 - away / np.float32(noise.number("gutter width", GUTTER_WIDTH)), 0)
            self._across -= np.float32(noise.number("gutter depth", GUTTER)) * near * near
        self._down = (self._down + np.float32(PAPER_BRIGHTNESS)) * _INDEX_PER_LEVEL
        self._across *= _INDEX_PER_LEVEL
        self._texture = _texture(sheet.stock.texture)
        self._shift = int(noise.number("fibres") * TILE_PX)
        self._rules = _outlines(sheet, width, height, sheet.rule)
        self._margin = _outlines(sheet, width, height, MARGIN_LINE_COLOUR)

    def rows(self, alpha: Coverage, first_row: int) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the palette index of each pixel, in pieces that limit the memory; `first_row` is the row of `alpha`."""
        count = max(16, MAX_PIXELS_AT_ONCE // self._width // 16 * 16)
        for first in range(0, len(alpha), count):
            yield self._palette_indices(alpha[first : first + count], first_row + first)

    def _palette_indices(self, alpha: Coverage, first_row: int) -> npt.NDArray[np.uint8]:
        """Return the palette index of each pixel, shape (rows, width)."""
        bright = self._bare_paper(first_row, len(alpha))
        if self._sheet.lines:
            rules, margin = (coverage([ink], self._width, len(alpha), first_row) for ink in (self._rules, self._margin))
            drop = np.maximum(margin, rules) * np.float32(RULE_LEVELS * min(self._sheet.rule_width, 1.0) / 255)
            bright -= drop * _INDEX_PER_LEVEL
        inked = np.flatnonzero(alpha)
        bright.ravel()[inked] *= _CLEARNESS[alpha.ravel()[inked]]
        index = bright.astype(np.uint8)
        if self._sheet.lines:
            shown = np.flatnonzero((drop > 4) & (alpha < 90))
            level = (bright.ravel()[shown] / _INDEX_PER_LEVEL).astype(np.uint8)
            depth = np.maximum(level, _DARKEST_RULE_LEVEL) - _DARKEST_RULE_LEVEL >> 1
            is_margin = margin.ravel()[shown] > 25
            index.ravel()[shown] = _INK_COLOURS + np.where(is_margin, _RULE_COLOURS + depth // 3, depth)
        return index

    def _bare_paper(self, first_row: int, rows: int) -> Grey:
        """Return the brightness of the paper, not in levels but in palette indices."""
        bright = np.empty((rows, self._width), np.float32)
        np.add(self._down[first_row : first_row + rows, None], self._across, out=bright)
        line = (np.arange(first_row, first_row + rows) + self._shift) % TILE_PX
        texture = self._texture[line]
        for left in range(0, self._width, TILE_PX):
            part = bright[:, left : left + TILE_PX]
            part += texture[:, : part.shape[1]]
        return bright


def _outlines(sheet: Sheet, width: int, height: int, colour: RGB) -> Polygons:
    """Return the outlines of the printed lines of one colour."""
    ends = [line.ends(width, height) for line in sheet.lines if line.colour == colour]
    x, y = np.array(ends, np.float64).reshape(-1, 2).T
    radius = np.full(len(x), max(sheet.rule_width, 1.0) / 2)
    return ribbons(Strokes(x, y, radius, np.full(len(ends), 2), np.zeros(len(ends), np.uint8)))


@cache
def _texture(strength: float) -> Grey:
    """Return the change of the brightness by paper and scanner, in palette indices, shape (TILE_PX, TILE_PX)."""
    coarse = strength > _COARSE_TEXTURE
    grain = np.tile(grain_tile()[:-1, :-1], (2, 2))
    texture = NOISE_LEVELS * RandomStreams("scanner").gaussian("noise", TILE_PX * TILE_PX).reshape(TILE_PX, TILE_PX)
    texture += (0.5 if coarse else 0.35) * strength * grain
    soft: npt.NDArray[Any] = np.repeat(np.repeat(grain_tile()[: TILE_PX // 8, : TILE_PX // 8], 8, 0), 8, 1)
    for _ in range(2):  # the mean of 13 neighbours, down and across
        wide = np.concatenate([soft[-6:], soft, soft[:6]])
        soft = (reduce(np.add, (wide[n : n + TILE_PX] for n in range(12, -1, -1))) / 13).T
    texture += (0.2 if coarse else 0.3) * strength * soft
    if coarse:
        texture += 0.8 * strength * _fibres()
    # The brightest paper has the highest index of the palette.
    even: Grey = np.minimum(texture - texture.mean(), 255 - PAPER_BRIGHTNESS - SIDE_SHADOW).astype(np.float32)
    return even * _INDEX_PER_LEVEL


def _fibres() -> npt.NDArray[np.float64]:
    """Draw short light and dark fibres on a tile; a fibre that leaves the tile continues at the opposite edge."""
    picture = Image.new("L", (TILE_PX, TILE_PX), 128)
    draw = ImageDraw.Draw(picture)
    x, y, dx, dy, tone = RandomStreams("fibres").uniform("all", 5 * FIBRE_COUNT).reshape(5, -1).tolist()
    for n in range(FIBRE_COUNT):
        begin = TILE_PX * (x[n] + 1) / 2, TILE_PX * (y[n] + 1) / 2
        end = begin[0] + 22 * dx[n], begin[1] + 14 * dy[n]
        for right in (0, -TILE_PX, TILE_PX):
            for down in (0, -TILE_PX, TILE_PX):
                ends = begin[0] + right, begin[1] + down, end[0] + right, end[1] + down
                draw.line(ends, fill=int(128 + 60 * tone[n] - 18))
    return (np.asarray(picture, np.float64) - 128) / 32


def _palette(sheet: Sheet, ink: RGB) -> bytes:
    """Return a palette of 256 colours: from ink to paper, then rules, then the margin line."""
    paper = np.array(sheet.colour, np.float64)
    bright = (np.arange(_INK_COLOURS) + 0.5) * 256 / _INK_COLOURS
    clear = np.minimum(bright / PAPER_BRIGHTNESS, 1)[:, None]
    # Thin ink has more colour than a mixture with paper; thick ink is darker than the named colour.
    dark = np.maximum(np.array(ink) * DENSE, 1)
    inked = GLAZE * paper * (dark / paper) ** (1 - clear) + (1 - GLAZE) * (dark + (paper - dark) * clear)
    shaded = paper * (bright / PAPER_BRIGHTNESS)[:, None]
    bare = np.clip((bright - 180) / 30, 0, 1)[:, None]  # 1 if hardly darker than paper: paper in the shade, not ink
    depth = np.arange(_RULE_COLOURS) * 2 + _DARKEST_RULE_LEVEL
    table = [inked + (shaded - inked) * bare, _rule_colours(sheet.rule, paper, depth)]
    table.append(_rule_colours(MARGIN_LINE_COLOUR, paper, depth[::3]))
    colours: npt.NDArray[np.uint8] = np.clip(np.rint(np.concatenate(table)), 0, 255).astype(np.uint8)
    return colours.tobytes()


def _rule_colours(rule: RGB, paper: npt.NDArray[np.float64], bright: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    share = np.clip((PAPER_BRIGHTNESS - bright) / RULE_LEVELS, 0, 1.4)[:, None]
    return paper + (np.array(rule) - paper) * share
