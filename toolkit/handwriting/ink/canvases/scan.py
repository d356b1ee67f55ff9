"""A scan of the page: a PNG with ink on paper, uneven light, noise, and the artefacts of a JPEG.

The page is drawn as one channel of brightness; a palette maps brightness to the colours of ink, paper and rules.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from toolkit.handwriting.ink.canvases.raster import Coverage
from toolkit.handwriting.ink.canvases.texture import grain_tile
from toolkit.handwriting.ink.paper import MARGIN_LINE_COLOUR, Sheet
from toolkit.handwriting.parameters import RGB
from toolkit.keyed_noise import KeyedNoise

# Brightness has levels from 0 to 255; a pair is the range of a random value.
PAPER_BRIGHTNESS = 236
JPEG_QUALITY = 74, 88
CORNER_DARKENING = 2.0, 12.0  # levels by which the corners are darker than the middle
SIDE_SHADOW = 5.0  # levels by which one side is darker than the other
GUTTER, GUTTER_WIDTH = (3.0, 15.0), (0.03, 0.13)  # levels, and share of the width, of the shadow at a bent-up side
GUTTERS, LIDS, FOLDS, BACKS = 0.35, 0.45, 0.3, 0.35  # shares of the pages that have these
CREASE, CREASE_REACH = 5.0, 40  # levels, and pixels over which the light differs at a fold
LID, LID_WIDTH = 247.0, 40  # brightness of the scanner's lid beside the sheet, and its largest width in pixels
BACK_DARKER = 2.5, 6.0  # levels by which writing on the back is darker than paper
BLUR_PIXELS = 0.12, 0.38  # radius of the scanner's blur
NOISE_LEVELS = 1.1
GLAZE, DENSE = 0.35, 0.8  # share of ink that dyes the paper instead of covering it; factor on the thickest ink's colour
TILE_PX = 512  # the fibres repeat after this distance
FIBRE_COUNT = 3600  # in a tile
MAX_PIXELS_AT_ONCE = 1_500_000  # limits the memory
_INK_COLOURS = 192  # palette entries between ink and paper
_RULE_COLOURS = 48  # palette entries for rules; the remaining entries are for the margin line
_DARKEST_RULE_LEVEL = 160

Brightness = npt.NDArray[np.uint8]
Grey = npt.NDArray[np.float32]


class Scan:
    """Converts the coverage of the ink to palette colours, band by band."""

    def __init__(self, sheet: Sheet, ink: RGB, width: int, height: int) -> None:
        self._sheet, self._width, self._height = sheet, width, height
        self.palette = _palette(sheet, ink)
        light, fall_off = sheet.noise.uniform("light", 2), self._uniform_between("fall off", CORNER_DARKENING)
        self._across, self._down = (
            SIDE_SHADOW / 2 * np.float32(tilt) * place - np.float32(fall_off / 2) * place**4
            for tilt, place in zip(light, (_positions(width), _positions(height)), strict=True)
        )
        if self._happens("gutter", GUTTERS):
            reach = self._uniform_between("gutter width", GUTTER_WIDTH)
            near = np.maximum(1 - (1 - self._side("gutter side") * _positions(width)) / (2 * np.float32(reach)), 0)
            self._across -= np.float32(self._uniform_between("gutter depth", GUTTER)) * near * near
        self._texture = _texture(sheet.stock.texture > 3, sheet.stock.texture)
        self._shift = int(sheet.noise.number("fibres") * TILE_PX)
        self._quality = int(self._uniform_between("quality", JPEG_QUALITY))
        self._blur = ImageFilter.BoxBlur(self._uniform_between("soft", BLUR_PIXELS))
        has_back = self._happens("backs", BACKS) and sheet.stock.texture < 3
        self._back = self._uniform_between("back", BACK_DARKER) if has_back else 0.0
        self._folds = [1 / 3, 2 / 3] if self._happens("folds", 0.5) else [0.5]
        if not self._happens("folded", FOLDS):
            self._folds = []

    def _uniform_between(self, name: str, ends: tuple[float, float]) -> float:
        return ends[0] + (ends[1] - ends[0]) * self._sheet.noise.number(name)

    def _happens(self, name: str, share: float) -> bool:
        return self._sheet.noise.number(name) < share

    def _side(self, name: str) -> int:
        return 1 if self._happens(name, 0.5) else -1

    def rows(self, alpha: Coverage, first_row: int) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the unfiltered rows of a PNG, in pieces that limit the memory."""
        count = max(16, MAX_PIXELS_AT_ONCE // self._width // 16 * 16)
        for first in range(0, len(alpha), count):
            yield np.pad(self._colours(alpha[first : first + count], first_row + first), ((0, 0), (1, 0)))

    def _colours(self, alpha: Coverage, first_row: int) -> npt.NDArray[np.uint8]:
        """Return the palette index of each pixel, shape (rows, width)."""
        bright = self._bare_paper(first_row, len(alpha))
        rules, is_margin = self._rule_darkening(first_row, len(alpha))
        if self._back:
            bright -= np.float32(self._back / 255) * _seen_from_behind(alpha)
        for fold in self._folds:
            self._draw_fold(bright, fold * self._height - first_row)
        self._draw_lid(bright, rules, first_row)
        if rules is not None:
            bright -= rules
        soft = np.asarray(Image.fromarray(alpha).filter(self._blur))
        bright *= 1 - soft * np.float32(1 / 255)
        level = _as_jpeg(np.clip(bright, 0, 255).astype(np.uint8), self._quality)
        number = (level.astype(np.uint16) * _INK_COLOURS >> 8).astype(np.uint8)
        if rules is not None:
            shown = np.flatnonzero((rules > 4) & (alpha < 90))
            depth = np.maximum(level.ravel()[shown], _DARKEST_RULE_LEVEL) - _DARKEST_RULE_LEVEL >> 1
            first = np.where(is_margin.ravel()[shown], _INK_COLOURS + _RULE_COLOURS, _INK_COLOURS)
            number.ravel()[shown] = first + np.where(is_margin.ravel()[shown], depth // 3, depth)
        return number

    def _bare_paper(self, first_row: int, rows: int) -> Grey:
        bright = np.empty((rows, self._width), np.float32)
        np.add(self._down[first_row : first_row + rows, None] + np.float32(PAPER_BRIGHTNESS), self._across, out=bright)
        line = (np.arange(first_row, first_row + rows) + self._shift) % TILE_PX
        repeats = -(-self._width // TILE_PX)
        bright += np.tile(self._texture[line], (1, repeats))[:, : self._width]
        return bright

    def _draw_fold(self, bright: Grey, row: float) -> None:
        """Draw a fold of the sheet: a soft dark line, with more light on one side than on the other."""
        slope = self._sheet.turn
        lean = abs(slope) * self._width / 2 + CREASE_REACH
        first, last = (int(np.clip(end, 0, len(bright))) for end in (row - lean, row + lean))
        rows = np.arange(first, last, dtype=np.float32)[:, None]
        away = rows - np.float32(row) - np.float32(slope) * (np.arange(self._width, dtype=np.float32) - self._width / 2)
        near = np.maximum(1 - np.abs(away) / CREASE_REACH, 0)
        line = np.float32(1) / (1 + away * away / 2)
        bright[first:last] += CREASE * (0.35 * np.sign(away) * near * near - line)

    def _draw_lid(self, bright: Grey, rules: Grey | None, first_row: int) -> None:
        """Draw the lid of the scanner beside a turned sheet, at a side without ink."""
        is_right = self._happens("lid side", 0.5)
        reach = abs(self._sheet.turn) * self._height / 2
        if not self._happens("lid", LIDS) or 2 * reach + 4 > min(self._sheet.free[is_right] / 2, LID_WIDTH):
            return
        rows = np.arange(first_row, first_row + len(bright), dtype=np.float32)[:, None] - self._height / 2
        depth = np.float32(reach * self._uniform_between("lid depth", (0.0, 1.0)))
        edge = depth + np.float32(self._sheet.turn * (1 if is_right else -1)) * rows
        wide = min(LID_WIDTH, self._width)
        away = edge - np.arange(wide, dtype=np.float32)  # above 0 is outside the sheet
        outside = np.clip(away + np.float32(0.5), 0, 1)
        side = np.s_[:, : -wide - 1 : -1] if is_right else np.s_[:, :wide]
        if rules is not None:
            rules[side] *= 1 - outside
        strip = bright[side]
        shadow = 30 / (1 + np.abs(away - np.float32(1.5)) ** 2 / 2) * (away > -1)
        strip += outside * (np.float32(LID if self._sheet.stock.texture < 3 else PAPER_BRIGHTNESS) - strip) - shadow

    def _rule_darkening(self, first_row: int, rows: int) -> tuple[Grey | None, npt.NDArray[np.bool_]]:
        """Return by how many levels the rules darken each pixel, and which pixels are on the margin line."""
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
                if colour == MARGIN_LINE_COLOUR:
                    is_margin[place] = covered[inside] > 0.1
        return drop, is_margin


def _positions(length: int) -> Grey:
    return np.linspace(-1, 1, length, dtype=np.float32)


def _seen_from_behind(alpha: Coverage) -> Brightness:
    """Return the mirrored and shifted ink of this page: it is drawn as the writing on the back that shines through."""
    picture = Image.fromarray(alpha)
    small = picture.reduce(3).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.roll(np.asarray(small.resize(picture.size, Image.Resampling.BILINEAR)), len(alpha) // 9, 0)


def _as_jpeg(bright: Brightness, quality: int) -> Brightness:
    file = io.BytesIO()
    Image.fromarray(bright).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


@cache
def _texture(coarse: bool, strength: float) -> Grey:
    """Return by how many levels paper and scanner change the brightness, shape (TILE_PX, TILE_PX)."""
    grain = np.tile(grain_tile()[:-1, :-1], (2, 2))
    texture = NOISE_LEVELS * KeyedNoise("scanner").gaussian("noise", TILE_PX * TILE_PX).reshape(TILE_PX, TILE_PX)
    texture += (0.5 if coarse else 0.35) * strength * grain
    soft = np.repeat(np.repeat(grain_tile()[: TILE_PX // 8, : TILE_PX // 8], 8, 0), 8, 1)
    for axis in (0, 1):
        soft = np.mean([np.roll(soft, n, axis) for n in range(-6, 7)], axis=0)
    texture += (0.2 if coarse else 0.3) * strength * soft
    if coarse:
        texture += 0.8 * strength * _fibres()
    even: Grey = (texture - texture.mean()).astype(np.float32)
    return even


def _fibres() -> npt.NDArray[np.float64]:
    """Draw short light and dark fibres on a tile; a fibre that leaves the tile continues at the opposite edge."""
    picture = Image.new("L", (TILE_PX, TILE_PX), 128)
    draw = ImageDraw.Draw(picture)
    x, y, dx, dy, tone = KeyedNoise("fibres").uniform("all", 5 * FIBRE_COUNT).reshape(5, -1).tolist()
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
    bare = np.clip((bright - 180) / 30, 0, 1)[:, None]  # hardly darker than paper: this is paper in the shade
    depth = np.arange(_RULE_COLOURS) * 2 + _DARKEST_RULE_LEVEL
    table = [inked + (shaded - inked) * bare, _rule_colours(sheet.rule, paper, depth)]
    table.append(_rule_colours(MARGIN_LINE_COLOUR, paper, depth[::3]))
    colours: npt.NDArray[np.uint8] = np.clip(np.rint(np.concatenate(table)), 0, 255).astype(np.uint8)
    return colours.tobytes()


def _rule_colours(rule: RGB, paper: npt.NDArray[np.float64], bright: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    share = np.clip((PAPER_BRIGHTNESS - bright) / 44, 0, 1.4)[:, None]
    return paper + (np.array(rule) - paper) * share
