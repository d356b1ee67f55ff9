"""The density of the ink in every pixel, from ink flow, overlapping strokes, streaks along strokes, and paper grain."""

from collections.abc import Iterator
from functools import cache
from itertools import starmap

import numpy as np
import numpy.typing as npt

from toolkit_gateway.ink.canvases.raster import Coverage
from toolkit_gateway.ink.pen import InkFlow, PenKind
from toolkit_gateway.ink.random_streams import RandomStreams
from toolkit_gateway.ink.ribbons import OUTLINE_FLAG, POINT_DISTANCE, Strokes, tangents
from toolkit_gateway.ink.shaping import THICKEST_NIB

Single = npt.NDArray[np.float32]

TILE_CELLS = 256  # width and height of the tile of grain, which repeats; a power of two
GRAIN = 0.015  # size of the grain in cap heights
HOLLOWS_CAP_HEIGHT = 110  # pixels; from this cap height on, the hollows of the paper can stay white
STREAK_LENGTH, MIN_STREAK_FLOW = 0.9, 0.5  # length in cap heights, and smallest share of the flow in a streak
MIN_CELL = 2.0  # pixels
_MIN_LANES, _MAX_LANES = 3, 9  # points side by side across a stroke
_POINTS_AT_ONCE = 200_000  # added to the grid in one step, which takes 150 bytes per point
# Strokes with more than this many times the area of the rows, and more points than this, get one density, for speed.
_MAX_STROKE_AREA, _MAX_POINTS = 3.0, 100_000
_SECOND_PASS = 1.2  # more passes than this over a cell mean that ink lies on ink


def amount_at(
    x: Single, y: Single, strokes: Strokes, ink: InkFlow, size: float, area: tuple[int, int, int], cell: float
) -> Single:
    """Return the amount of ink at positions of the page: the mean flow (1 without strokes), more where strokes cross.

    The ink of an area (width, first row, number of rows) is collected on a grid of cells of `cell` pixels, which is at
    least one cell larger on each side; `size` is the cap height in pixels.
    """
    width, first_row, height = area
    top, rows, columns = int(first_row / cell) - 1, int(height / cell) + 6, int(width / cell) + 5

    def collected(point_x: Single, point_y: Single, weight: Single, amount: Single) -> Single:
        """Return the passes and the flow of the points in each cell, shape (2, cells)."""
        # Ink outside the area goes to the outermost cells, which no pixel reads.
        across = np.clip(point_x / np.float32(cell) + 1, 0, columns - 2)
        along = np.clip(point_y / np.float32(cell) - top, 0, rows - 2)
        column, row = np.floor(across), np.floor(along)
        first, right, down = row.astype(np.intp) * columns + column.astype(np.intp), across - column, along - row
        upper, lower = weight * (1 - down), weight * down
        both = np.zeros((2, rows * columns), np.float32)
        parts = upper * (1 - right), upper * right, lower * (1 - right), lower * right
        for corner, part in zip((first, first + 1, first + columns, first + columns + 1), parts, strict=True):
            np.add.at(both[0], corner, part)
            np.add.at(both[1], corner, part * amount)
        return both

    batches = starmap(collected, _points_across_strokes(strokes, ink, size, cell))
    total = next(batches, np.zeros((2, rows * columns), np.float32))
    for both in batches:
        total += both
    inked = np.flatnonzero(total[0] > 1e-4)
    passes, flow = total[:, inked]
    second = np.minimum(np.maximum(passes - _SECOND_PASS, 0), 1.5)
    grid = np.ones(rows * columns, np.float32)
    grid[inked] = flow / passes * (1 + ink.kind.overlap * second)
    return _interpolated(grid, columns, x / np.float32(cell) + 1, y / np.float32(cell) - top)


def textured(alpha: Coverage, strokes: Strokes, ink: InkFlow, size: float, first_row: int) -> Coverage:
    """Multiply the coverage of rows of a page by the density of the ink; `size` is the cap height in pixels."""
    if len(strokes.x) > _MAX_POINTS and (strokes.steps() * 2 * strokes.radius).sum() > _MAX_STROKE_AREA * alpha.size:
        return (alpha * np.float32(ink.kind.opacity)).astype(np.uint8)
    inked = np.flatnonzero(alpha)
    if not len(inked):
        return alpha
    rows = inked // alpha.shape[1]
    columns = inked - rows * alpha.shape[1]
    x, y = columns + np.float32(0.5), rows + np.float32(first_row + 0.5)
    cell = max(MIN_CELL, THICKEST_NIB * size / 4)
    amount = amount_at(x, y, strokes, ink, size, (alpha.shape[1], first_row, alpha.shape[0]), cell)
    # The hollows of the paper stay white, more of them if there is little ink.
    # In small writing a pixel contains many hollows, so `minimum` keeps the strokes from breaking.
    minimum = amount * np.float32(max(0.0, 1 - size / HOLLOWS_CAP_HEIGHT))
    amount = np.maximum(amount - np.float32(ink.kind.grain) * _hollows(ink.noise, x, y, size), minimum)
    darkened = np.zeros_like(alpha)
    darkened.ravel()[inked] = (alpha.ravel()[inked] * density(ink.kind, amount) + np.float32(0.5)).astype(np.uint8)
    return darkened


def density(kind: PenKind, amount: Single) -> Single:
    """Return the opacity of an amount of ink: amount 1 gives the opacity of the pen, a larger amount approaches 1."""
    # Beer and Lambert's law without an exponential, because its last digit depends on the machine.
    strength = (1 - kind.opacity) ** -0.25 - 1
    clear: Single = np.float32(1) / (np.float32(1) + np.float32(strength) * np.maximum(amount, np.float32(0)))
    clear *= clear
    return np.float32(1) - clear * clear


def _points_across_strokes(strokes: Strokes, ink: InkFlow, size: float, cell: float) -> Iterator[tuple[Single, ...]]:
    """Yield points side by side across the strokes: x, y, the passes that a point adds to its cell, and the flow."""
    tx, ty = tangents(strokes)
    step = strokes.steps()
    step[1:] += step[:-1].copy()
    before, after, _, _ = strokes.neighbours()
    bend = (tx[before] * ty[after] - ty[before] * tx[after]) / np.maximum(step, 1e-9)
    written = np.nonzero(np.repeat((strokes.flags & OUTLINE_FLAG) == 0, strokes.length))[0]
    # Arrays have the shape (lanes across the stroke, pieces of an interval, points).
    pieces = max(1, int(np.ceil(POINT_DISTANCE * size / cell - 0.2)))
    share = (np.arange(pieces)[:, None] / pieces).astype(np.float32)
    lanes = int(np.clip(round(2 * THICKEST_NIB * size / cell), _MIN_LANES, _MAX_LANES))
    across = ((2 * np.arange(lanes) + 1) / lanes - 1)[:, None, None].astype(np.float32)
    rim = 1 + np.float32(ink.kind.rim) * (1.5 * across * across - 0.5)
    full = ink.overlap_weight * step * strokes.radius / (lanes * pieces * cell * cell)
    values = (strokes.x, strokes.y, strokes.radius, ink.flow, ink.path, tx, ty, bend, full)
    singles = [value.astype(np.float32) for value in values]
    at_once = max(1, _POINTS_AT_ONCE // (pieces * lanes))
    for first in range(0, len(written), at_once):
        batch = written[first : first + at_once]
        x, y, r, flow, path, ux, uy, curvature, weight = (
            a[None, batch] if pieces == 1 else a[batch] + share * (a[after[batch]] - a[batch]) for a in singles
        )
        drift = ink.noise.drifts([f"streak {lane}" for lane in range(lanes)], path / np.float32(STREAK_LENGTH))
        thin = np.float32(ink.kind.streaks) * np.maximum(drift, 0.0) * np.minimum(1.2 / (flow + np.float32(0.2)), 2.0)
        # On the inner side of a curve the points are closer together.
        spread = np.minimum(np.maximum(1 - curvature * r * across, 0.0), 2.0)
        amount = flow * rim * np.maximum(1 - thin, np.float32(MIN_STREAK_FLOW))
        yield (x - uy * r * across).ravel(), (y + ux * r * across).ravel(), (weight * spread).ravel(), amount.ravel()


def _interpolated(grid: Single, columns: int, x: Single, y: Single) -> Single:
    """Return the values of a flat grid at positions in cells."""
    column, row = x.astype(np.int32), y.astype(np.int32)
    right, down, first = x - column, y - row, row * columns + column
    top = grid[first] + right * (grid[first + 1] - grid[first])
    first += columns
    bottom = grid[first] + right * (grid[first + 1] - grid[first])
    between: Single = (top + down * (bottom - top)).astype(np.float32)
    return between


def _hollows(noise: RandomStreams, x: Single, y: Single, size: float) -> Single:
    """Return the depth of the paper's hollows at positions of the page, with a mean of about 0.2."""
    shift = int(noise.number("grain") * TILE_CELLS)
    grain = np.float32(1.4) * _grain(x, y + shift, max(1.2, GRAIN * size))
    depth: Single = np.float32(0.3) * grain + np.maximum(grain - np.float32(0.9), 0)
    return depth


def _grain(x: Single, y: Single, scale: float) -> Single:
    tile = grain_tile().ravel()
    if scale < 1.5:
        column, row = (position.astype(np.int32) & (TILE_CELLS - 1) for position in (x, y))
        nearest: Single = tile[row * (TILE_CELLS + 1) + column]
        return nearest
    x, y = (np.fmod(position / np.float32(scale), np.float32(TILE_CELLS)) for position in (x, y))
    return _interpolated(tile, TILE_CELLS + 1, x, y)


@cache
def grain_tile() -> Single:
    """Return a tile of smooth, repeating noise, shape (TILE_CELLS + 1, TILE_CELLS + 1), mean about 0 and variance 1."""
    white = RandomStreams("grain").gaussian("white", TILE_CELLS * TILE_CELLS).reshape(TILE_CELLS, TILE_CELLS)
    soft = white
    for axis in (0, 1):
        soft = np.roll(soft, 1, axis) + 2 * soft + np.roll(soft, -1, axis)
    mixed = 0.45 * white + soft / soft.std()
    tile = mixed / mixed.std()
    return np.pad(tile, ((0, 1), (0, 1)), mode="wrap").astype(np.float32)
