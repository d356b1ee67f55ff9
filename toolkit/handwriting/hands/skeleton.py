"""The medial axis of a drawn glyph as branches between nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from skimage.morphology import skeletonize

from toolkit.keyed_noise import Floats

FREE = -1  # the node number of a free end
_EIGHT = np.ones((3, 3), bool)
_STEPS = ((-1, 0), (0, -1), (0, 1), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(slots=True, eq=False)
class Branch:
    """A piece of centre line: points (row, column) and radii in pixels, and the node at each end."""

    first: int
    last: int
    points: Floats
    radii: Floats

    @property
    def length(self) -> float:
        return float(np.hypot(*np.diff(self.points, axis=0).T).sum()) if len(self.points) > 1 else 0.0

    def node(self, end: int) -> int:
        return self.last if end else self.first


@dataclass(slots=True)
class Skeleton:
    """Branches and nodes; ``centre`` (row, column) and ``radius`` of each node, in pixels."""

    branches: list[Branch]
    centre: Floats
    radius: Floats

    def arms(self) -> dict[int, list[tuple[int, int]]]:
        """Return for every node the (branch, end) pairs that meet there."""
        met: dict[int, list[tuple[int, int]]] = {}
        for i, branch in enumerate(self.branches):
            for end in (0, 1):
                if branch.node(end) != FREE:
                    met.setdefault(branch.node(end), []).append((i, end))
        return met


def skeleton(ink: npt.NDArray[np.bool_]) -> Skeleton:
    """Return the medial axis of `ink`, without the spurs that thinning leaves and with split crossings joined."""
    depth = ndimage.distance_transform_edt(ink)
    return _collapsed(_pruned(_traced(skeletonize(ink), depth)))


def _degree(line: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Count neighbours on the line; a diagonal one only where no straight one leads there."""
    p = np.pad(line, 1)
    n, s, w, e = p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]
    straight = n.astype(np.int64) + s + w + e
    diagonal = (p[:-2, :-2] & ~n & ~w).astype(np.int64) + (p[:-2, 2:] & ~n & ~e)
    return straight + diagonal + (p[2:, :-2] & ~s & ~w) + (p[2:, 2:] & ~s & ~e)


def _traced(line: npt.NDArray[np.bool_], depth: Floats) -> Skeleton:
    junction = line & (_degree(line) > 2)
    near = line & ndimage.binary_dilation(junction, _EIGHT)
    node_of, nodes = ndimage.label(near, _EIGHT)
    piece_of, pieces = ndimage.label(line & ~near, _EIGHT)
    numbers = np.arange(1, nodes + 1)
    centre = np.array(ndimage.center_of_mass(near, node_of, numbers)).reshape(-1, 2)
    radius = np.asarray(ndimage.maximum(depth, node_of, numbers), float).reshape(-1)
    branches = []
    for number, window in enumerate(ndimage.find_objects(piece_of), 1):
        rows, columns = np.nonzero(piece_of[window] == number)
        pixels = set(zip((rows + window[0].start).tolist(), (columns + window[1].start).tolist(), strict=True))
        path = _walk(pixels)
        first, last = _touched(path[0], node_of), _touched(path[-1], node_of)
        if len(path) == 1:
            last = _touched(path[0], node_of, other_than=first)
        at = np.array(path)
        branches.append(Branch(first, last, at.astype(float), depth[at[:, 0], at[:, 1]]))
    return Skeleton(branches, centre, radius)


def _walk(pixels: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Order the pixels of a path from one end to the other; of a ring, once round."""

    def neighbours(p: tuple[int, int], among: set[tuple[int, int]]) -> list[tuple[int, int]]:
        return [q for dr, dc in _STEPS if (q := (p[0] + dr, p[1] + dc)) in among]

    start = min(pixels, key=lambda p: (min(len(neighbours(p, pixels)), 2), p))
    left, path = pixels - {start}, [start]
    while following := neighbours(path[-1], left):
        path.append(following[0])
        left.discard(following[0])
    ring = len(path) > 8 and max(abs(path[0][0] - path[-1][0]), abs(path[0][1] - path[-1][1])) == 1
    return [*path, path[0]] if ring else path


def _touched(pixel: tuple[int, int], node_of: npt.NDArray[np.int32], other_than: int = FREE) -> int:
    row, column = pixel
    around = node_of[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
    found = [int(n) - 1 for n in np.unique(around) if n and int(n) - 1 != other_than]
    return found[0] if found else FREE


def _pruned(found: Skeleton) -> Skeleton:
    """Drop branches whose free end hardly leaves the ink of their node: they only point into corners of the outline."""

    def spur(b: Branch) -> bool:
        if (b.first == FREE) == (b.last == FREE):
            return False
        node = found.radius[max(b.first, b.last)]
        tip = b.radii[0] if b.first == FREE else b.radii[-1]
        narrows = node - tip > 0.4 * b.length  # into a corner; the end of a stroke narrows less
        return bool(b.length + tip < 1.5 * node + 3 or (narrows and b.length < 3 * node))

    found.branches = [b for b in found.branches if not spur(b)]
    return found


def _collapsed(found: Skeleton) -> Skeleton:
    """Make one node of two that a bridge inside thick ink links: a crossing that thinning pulled apart."""
    for bridge in list(found.branches):
        a, b = bridge.first, bridge.last
        if FREE in (a, b) or a == b:
            continue
        reach = min(found.radius[a], found.radius[b])
        if bridge.length > 1.3 * reach or bridge.radii.min() < 0.8 * reach:
            continue
        found.branches.remove(bridge)
        found.centre[a] = (found.centre[a] + found.centre[b]) / 2
        for other in found.branches:
            other.first = a if other.first == b else other.first
            other.last = a if other.last == b else other.last
    return found
