"""A scan of the page: PNG with the ink on its paper, uneven light, noise, and the traces of a JPEG.

Brightness is drawn in one channel, and a palette gives it the colours of ink, paper and rules.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from toolkit.handwriting.ink.canvases.raster import Coverage
from toolkit.handwriting.ink.canvases.texture import grain_tile
from toolkit.handwriting.ink.paper import MARGIN_LINE, Sheet
from toolkit.handwriting.parameters import RGB
from toolkit.keyed_noise import KeyedNoise

PAPER = 236  # brightness of bare paper
QUALITY = 84  # of the JPEG
FALL_OFF = 9.0  # levels that the corners are darker than the middle
SHADOW = 4.0  # levels from one side to the other
NOISE = 1.1  # levels
TILE = 512  # pixels after which the fibres repeat
FIBRES = 3600
MOST_PIXELS = 1_500_000  # in work together
_RAMP = 192  # colours between ink and paper
_RULES = 48  # and of rules; the rest is for the margin line
_DARKEST_RULE = 160

Brightness = npt.NDArray[np.uint8]


class Scan:
    """Turns the coverage of the ink into the colours of a palette, band by band."""

    def __init__(self, sheet: Sheet, ink: RGB, width: int, height: int) -> None:
        self._sheet, self._width = sheet, width
        self.palette = _palette(sheet, ink)
        light = sheet.noise.number("light"), sheet.noise.number("light across")
        self._across = _fall_off(width) + SHADOW * (light[0] - 0.5) * np.linspace(-1, 1, width, dtype=np.float32)
        self._down = _fall_off(height) + SHADOW * (light[1] - 0.5) * np.linspace(-1, 1, height, dtype=np.float32)
        self._texture = _texture(sheet.stock.texture > 3, sheet.stock.texture)
        self._shift = int(sheet.noise.number("fibres") * TILE)

    def rows(self, alpha: Coverage, first_row: int) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the rows of a PNG, not filtered, in pieces that limit the memory."""
        count = max(16, MOST_PIXELS // self._width // 16 * 16)
        for first in range(0, len(alpha), count):
            yield np.pad(self._colours(alpha[first : first + count], first_row + first), ((0, 0), (1, 0)))

    def _colours(self, alpha: Coverage, first_row: int) -> npt.NDArray[np.uint8]:
        """Return the number of the colour of each pixel, shape (rows, width)."""
        bright = self._paper(first_row, len(alpha))
        rules, is_margin = self._rules(first_row, len(alpha))
        if rules is not None:
            bright -= rules
        bright *= 1 - alpha * np.float32(1 / 255)
        level = _as_jpeg(np.clip(bright, 0, 255).astype(np.uint8))
        number = (level.astype(np.uint16) * _RAMP >> 8).astype(np.uint8)
        if rules is not None:
            shown = np.flatnonzero((rules > 4) & (alpha < 90))
            depth = np.maximum(level.ravel()[shown], _DARKEST_RULE) - _DARKEST_RULE >> 1
            first = np.where(is_margin.ravel()[shown], _RAMP + _RULES, _RAMP)
            number.ravel()[shown] = first + np.where(is_margin.ravel()[shown], depth // 3, depth)
        return number

    def _paper(self, first_row: int, rows: int) -> npt.NDArray[np.float32]:
        bright = np.empty((rows, self._width), np.float32)
        np.add(self._down[first_row : first_row + rows, None] + np.float32(PAPER), self._across, out=bright)
        line = (np.arange(first_row, first_row + rows) + self._shift) % TILE
        repeats = -(-self._width // TILE)
        bright += np.tile(self._texture[line], (1, repeats))[:, : self._width]
        return bright

    def _rules(self, first_row: int, rows: int) -> tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.bool_]]:
        """Return how much darker the rules make each pixel, and where they are margin lines."""
        lines, half = self._sheet.lines, max(self._sheet.rule_width, 1.0) / 2
        is_margin = np.zeros((rows, self._width), bool)
        if not lines:
            return None, is_margin
        drop = np.zeros((rows, self._width), np.float32)
        strength = np.float32(min(self._sheet.rule_width, 1.0) * 44)
        for upright, colour in dict.fromkeys((line.upright, line.colour) for line in lines):
            alike = [line for line in lines if (line.upright, line.colour) == (upright, colour)]
            along = np.arange(rows) if upright else np.arange(self._width)
            before = 0 if upright else first_row
            steps = along + (first_row if upright else 0) + 0.5
            limit = self._width if upright else rows
            at = np.array([line.at for line in alike])[:, None] - before
            ends = at + alike[0].slope * steps[[0, -1]]
            near = (ends.max(axis=1) > -2 * half - 2) & (ends.min(axis=1) < limit + 2 * half + 2)
            centre = at[near] + alike[0].slope * steps
            place_along = np.broadcast_to(along, centre.shape)
            for step in range(int(2 * half) + 2):
                at = np.floor(centre - half).astype(np.intp) + step
                covered = np.clip(half + 0.5 - np.abs(at + 0.5 - centre), 0, 1).astype(np.float32)
                inside = (at >= 0) & (at < limit)
                place = (place_along[inside], at[inside]) if upright else (at[inside], place_along[inside])
                drop[place] = np.maximum(drop[place], covered[inside] * strength)
                if colour == MARGIN_LINE:
                    is_margin[place] = covered[inside] > 0.1
        return drop, is_margin


def _fall_off(length: int) -> npt.NDArray[np.float32]:
    place = np.linspace(-1, 1, length, dtype=np.float32)
    return -np.float32(FALL_OFF / 2) * place * place * place * place


def _as_jpeg(bright: Brightness) -> Brightness:
    file = io.BytesIO()
    Image.fromarray(bright).save(file, "JPEG", quality=QUALITY)
    return np.asarray(Image.open(file))


@cache
def _texture(coarse: bool, strength: float) -> npt.NDArray[np.float32]:
    """Return the change of brightness by the paper and the scanner, shape (TILE, TILE)."""
    grain = np.tile(grain_tile()[:-1, :-1], (2, 2))
    texture = NOISE * KeyedNoise("scanner").gaussian("noise", TILE * TILE).reshape(TILE, TILE)
    texture += (0.5 if coarse else 0.35) * strength * grain
    soft = np.repeat(np.repeat(grain_tile()[: TILE // 8, : TILE // 8], 8, 0), 8, 1)
    for axis in (0, 1):
        soft = np.mean([np.roll(soft, n, axis) for n in range(-6, 7)], axis=0)
    texture += (0.2 if coarse else 0.3) * strength * soft
    if coarse:
        texture += 0.8 * strength * _fibres()
    even: npt.NDArray[np.float32] = (texture - texture.mean()).astype(np.float32)
    return even


def _fibres() -> npt.NDArray[np.float64]:
    """Return short light and dark fibres, which continue at the opposite edges of the tile."""
    picture = Image.new("L", (TILE, TILE), 128)
    draw = ImageDraw.Draw(picture)
    x, y, dx, dy, tone = KeyedNoise("fibres").uniform("all", 5 * FIBRES).reshape(5, -1).tolist()
    for n in range(FIBRES):
        begin = TILE * (x[n] + 1) / 2, TILE * (y[n] + 1) / 2
        end = begin[0] + 22 * dx[n], begin[1] + 14 * dy[n]
        for right in (0, -TILE, TILE):
            for down in (0, -TILE, TILE):
                ends = begin[0] + right, begin[1] + down, end[0] + right, end[1] + down
                draw.line(ends, fill=int(128 + 60 * tone[n] - 18))
    return (np.asarray(picture, np.float64) - 128) / 32


def _palette(sheet: Sheet, ink: RGB) -> bytes:
    """Return 256 colours: from ink to paper, of rules, of the margin line."""
    paper = np.array(sheet.colour, np.float64)
    bright = (np.arange(_RAMP) + 0.5) * 256 / _RAMP
    inked = np.array(ink) + (paper - ink) * np.minimum(bright / PAPER, 1)[:, None]
    shaded = paper * (bright / PAPER)[:, None]
    bare = np.clip((bright - 165) / 40, 0, 1)[:, None]  # what is hardly darker than paper is paper in the shade
    depth = np.arange(_RULES) * 2 + _DARKEST_RULE
    table = [inked + (shaded - inked) * bare, _printed(sheet.rule, paper, depth)]
    table.append(_printed(MARGIN_LINE, paper, depth[::3]))
    return np.clip(np.rint(np.concatenate(table)), 0, 255).astype(np.uint8).tobytes()


def _printed(rule: RGB, paper: npt.NDArray[np.float64], bright: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    share = np.clip((PAPER - bright) / 44, 0, 1.4)[:, None]
    return paper + (np.array(rule) - paper) * share
