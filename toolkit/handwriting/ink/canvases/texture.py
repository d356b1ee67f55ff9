"""The density of the ink in every pixel: its flow, second strokes, streaks along the line, and the paper's grain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from toolkit.handwriting.ink.canvases.raster import Coverage
from toolkit.handwriting.ink.pens import Ink, PenKind
from toolkit.handwriting.ink.ribbons import OUTLINE, Strokes, tangents
from toolkit.keyed_noise import Floats, KeyedNoise

Single = npt.NDArray[np.float32]

TILE = 256  # cells of the grain, which repeats
FINE, COARSE = 0.0075, 0.024  # cap heights: fibres of the paper, and how they lie
STREAK_LENGTH = 0.9
_LANES = 3, 9  # least and most, side by side in a line
_AT_ONCE = 60_000  # points
_SECOND = 1.2  # passes in a cell from which ink lies on ink: neighbouring cells share some


@dataclass(frozen=True, slots=True)
class Deposit:
    """The ink on a grid of cells; cell (0, 0) is around the first pixel of `first_row`."""

    cell: float  # pixels
    first_row: int
    flow: Single  # (rows, columns) mean flow, 1 where there are no strokes
    passes: Single  # (rows, columns) how many strokes lie on each other, 0 outside

    @classmethod
    def of(cls, strokes: Strokes, ink: Ink, size: float, area: tuple[int, int, int], cell: float) -> Deposit:
        """Collect the ink of strokes in an area (width, first row, number of rows); `size` is the cap height."""
        width, first_row, height = area
        rows, columns = int(height / cell) + 3, int(width / cell) + 3
        passes, flow = np.zeros(rows * columns), np.zeros(rows * columns)
        for at, weight, amount in _lanes(strokes, ink, size, cell):
            x, y = at[0] / cell, (at[1] - first_row) / cell
            column, row = np.floor(x).astype(np.intp), np.floor(y).astype(np.intp)
            inside = (column >= 0) & (column < columns - 1) & (row >= 0) & (row < rows - 1)
            column, row, weight = np.where(inside, column, 0), np.where(inside, row, 0), np.where(inside, weight, 0.0)
            right, down = x - column, y - row
            first = row * columns + column
            shares = (1 - right) * (1 - down), right * (1 - down), (1 - right) * down, right * down
            where = np.concatenate([first, first + 1, first + columns, first + columns + 1])
            share = np.concatenate([part * weight for part in shares])
            passes += np.bincount(where, share, rows * columns)
            flow += np.bincount(where, share * np.tile(amount, 4), rows * columns)
        mean = np.divide(flow, passes, out=np.ones_like(flow), where=passes > 1e-6)
        shape = rows, columns
        return cls(cell, first_row, mean.reshape(shape).astype(np.float32), passes.reshape(shape).astype(np.float32))

    def at(self, x: Floats | Single, y: Floats | Single) -> tuple[Single, Single]:
        """Return flow and passes at places of the page, in pixels."""
        x, y = x / self.cell, (y - self.first_row) / self.cell
        column = np.clip(x.astype(np.intp), 0, self.flow.shape[1] - 2)
        row = np.clip(y.astype(np.intp), 0, self.flow.shape[0] - 2)
        right, down = (x - column).astype(np.float32), (y - row).astype(np.float32)
        first = row * self.flow.shape[1] + column
        return _between(self.flow, first, right, down), _between(self.passes, first, right, down)


def textured(alpha: Coverage, strokes: Strokes, ink: Ink, size: float, first_row: int) -> Coverage:
    """Return the coverage of rows of a page times the density of the ink; `size` is the cap height in pixels."""
    inked = np.flatnonzero(alpha)
    if not len(inked):
        return alpha
    rows, columns = np.divmod(inked, alpha.shape[1])
    x, y = columns + np.float32(0.5), rows + np.float32(first_row + 0.5)
    cell = max(1.0, float(np.median(strokes.radius)) / 4)
    flow, passes = Deposit.of(strokes, ink, size, (alpha.shape[1], first_row, alpha.shape[0]), cell).at(x, y)
    amount = flow * layers(ink.kind, passes)
    # The hollows of the paper stay white, more of them where there is little ink.
    amount -= np.float32(ink.kind.grain) * _hollows(ink.noise, x, y, size)
    done = np.zeros_like(alpha)
    done.ravel()[inked] = (alpha.ravel()[inked] * density(ink.kind, amount) + np.float32(0.5)).astype(np.uint8)
    return done


def layers(kind: PenKind, passes: Single) -> Single:
    second = np.minimum(np.maximum(passes - np.float32(_SECOND), 0), 1.5)
    lying: Single = np.float32(1) + np.float32(kind.overlap) * second
    return lying


def density(kind: PenKind, amount: Single) -> Single:
    """Return the opacity of an amount of ink; 1 gives that of the pen, and more of it approaches 1."""
    # Beer and Lambert's law without an exponential, whose last digit depends on the machine.
    strength = (1 - kind.opacity) ** -0.25 - 1
    clear: Single = np.float32(1) / (np.float32(1) + np.float32(strength) * np.maximum(amount, np.float32(0)))
    clear *= clear
    return np.float32(1) - clear * clear


def _lanes(
    strokes: Strokes, ink: Ink, size: float, cell: float
) -> Iterator[tuple[tuple[Floats, Floats], Floats, Floats]]:
    """Yield points side by side across the lines, with the passes that each adds to a cell, and its flow."""
    tx, ty = tangents(strokes)
    step = strokes.steps() + np.concatenate([[0.0], strokes.steps()[:-1]])
    before, after, _, _ = strokes.neighbours()
    bend = (tx[before] * ty[after] - ty[before] * tx[after]) / np.maximum(step, 1e-9)
    written = np.nonzero(np.repeat((strokes.flags & OUTLINE) == 0, strokes.length))[0]
    pieces = max(1, int(np.ceil(float(np.median(step)) / 2 / cell - 0.2)))
    least, most = _LANES
    count = int(np.clip(np.ceil(2 * float(np.median(strokes.radius)) / cell), least, most))
    for first in range(0, len(written), _AT_ONCE):
        at = written[first : first + _AT_ONCE]
        for piece in range(pieces):
            share = piece / pieces
            x, y, r, flow, path, ux, uy, curvature = (
                a[at] + share * (a[after[at]] - a[at])
                for a in (strokes.x, strokes.y, strokes.radius, ink.flow, ink.path, tx, ty, bend)
            )
            weight = ink.share[at] * (step[at] / 2) * (2 * r / count) / (cell * cell) / pieces
            for lane in range(count):
                aside = (2 * lane + 1) / count - 1
                rim = 1 + ink.kind.rim * (1.5 * aside * aside - 0.5)
                thin = np.maximum(ink.noise.drift(f"streak {lane}", path / STREAK_LENGTH), 0.0)
                streak = 1 - ink.kind.streaks * thin * np.minimum(1.2 / (flow + 0.2), 2.0)
                # On the inner side of a curve the points lie closer together.
                spread = np.minimum(np.maximum(1 - curvature * r * aside, 0.0), 2.0)
                yield (x - uy * r * aside, y + ux * r * aside), weight * spread, flow * rim * streak


def _between(grid: Single, first: npt.NDArray[np.intp], right: Single, down: Single) -> Single:
    values, columns = grid.ravel(), grid.shape[1]
    top = values[first] + right * (values[first + 1] - values[first])
    bottom = values[first + columns] + right * (values[first + columns + 1] - values[first + columns])
    between: Single = top + down * (bottom - top)
    return between


def _hollows(noise: KeyedNoise, x: Single, y: Single, size: float) -> Single:
    """Return how deep the paper is at places of the page, mean about 0."""
    shift = int(noise.number("grain") * TILE)
    depth = _grain(x, y + shift, max(1.0, FINE * size)) + _grain(x + shift, y, max(1.6, COARSE * size))
    deep: Single = np.float32(0.3) * depth + np.maximum(depth - np.float32(0.9), 0)
    return deep


def _grain(x: Single, y: Single, scale: float) -> Single:
    tile = grain_tile()
    if scale < 1.5:
        nearest: Single = tile.ravel()[(y.astype(np.intp) % TILE) * (TILE + 1) + x.astype(np.intp) % TILE]
        return nearest
    x, y = x / np.float32(scale), y / np.float32(scale)
    column, row = x.astype(np.intp), y.astype(np.intp)
    right, down = (x - column).astype(np.float32), (y - row).astype(np.float32)
    return _between(tile, (row % TILE) * (TILE + 1) + column % TILE, right, down)


@cache
def grain_tile() -> Single:
    """Return smooth noise that repeats, shape (TILE + 1, TILE + 1), mean 0 and variance 1."""
    white = KeyedNoise("grain").gaussian("white", TILE * TILE).reshape(TILE, TILE)
    soft = white
    for axis in (0, 1):
        soft = np.roll(soft, 1, axis) + 2 * soft + np.roll(soft, -1, axis)
    mixed = 0.45 * white + soft / soft.std()
    tile = mixed / mixed.std()
    return np.pad(tile, ((0, 1), (0, 1)), mode="wrap").astype(np.float32)
