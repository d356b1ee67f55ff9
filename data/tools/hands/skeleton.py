"""The medial axis (centre line) of a glyph's ink: branches that meet at nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from skimage.morphology import skeletonize

from toolkit_gateway.ink.random_streams import Floats

FREE_END = -1  # the node number of a free end
_EIGHT_NEIGHBOURS = np.ones((3, 3), bool)
_NEIGHBOUR_OFFSETS = ((-1, 0), (0, -1), (0, 1), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(slots=True, eq=False)
class Branch:
    points: Floats  # (n, 3) row, column and radius of the ink, in pixels
    nodes: list[int]  # numbers of the nodes at the first and the last point, or `FREE_END`


@dataclass(slots=True)
class Skeleton:
    branches: list[Branch]
    nodes: Floats  # (m, 3) row, column and radius of the ink, in pixels

    def arms(self) -> dict[int, list[tuple[int, int]]]:
        """Return the (branch, end) pairs that meet at each node; end 0 is the first point of the branch."""
        met: dict[int, list[tuple[int, int]]] = {}
        for i, branch in enumerate(self.branches):
            for end, node in enumerate(branch.nodes):
                if node != FREE_END:
                    met.setdefault(node, []).append((i, end))
        return met


def length_of(points: Floats) -> float:
    return float(np.hypot(*np.diff(points[:, :2], axis=0).T).sum())


def skeleton(ink: npt.NDArray[np.bool_]) -> Skeleton:
    """Return the medial axis of `ink`, without the artefacts of thinning: spurs and split crossings."""
    found = _trace_branches(skeletonize(ink), ndimage.distance_transform_edt(ink))
    found.branches = [branch for branch in found.branches if not _is_spur(branch, found)]
    _merge_split_crossings(found)
    return found


def _neighbour_count(line: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Count the neighbours of each pixel; a diagonal neighbour counts only if no straight neighbour touches it."""
    p = np.pad(line, 1)
    n, s, w, e = p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]
    straight = n.astype(np.int64) + s + w + e
    diagonal = (p[:-2, :-2] & ~n & ~w).astype(np.int64) + (p[:-2, 2:] & ~n & ~e)
    return straight + diagonal + (p[2:, :-2] & ~s & ~w) + (p[2:, 2:] & ~s & ~e)


def _trace_branches(line: npt.NDArray[np.bool_], depth: Floats) -> Skeleton:
    junction = line & (_neighbour_count(line) > 2)
    near = line & ndimage.binary_dilation(junction, _EIGHT_NEIGHBOURS)
    node_of, nodes = ndimage.label(near, _EIGHT_NEIGHBOURS)
    piece_of, pieces = ndimage.label(line & ~near, _EIGHT_NEIGHBOURS)
    numbers = np.arange(1, nodes + 1)
    centres = np.array(ndimage.center_of_mass(near, node_of, numbers)).reshape(-1, 2)
    radii = np.asarray(ndimage.maximum(depth, node_of, numbers), float).reshape(-1)
    branches = []
    for number, window in enumerate(ndimage.find_objects(piece_of), 1):
        rows, columns = np.nonzero(piece_of[window] == number)
        pixels = set(zip((rows + window[0].start).tolist(), (columns + window[1].start).tolist(), strict=True))
        path = _ordered_pixels(pixels)
        first, last = _touched_node(path[0], node_of), _touched_node(path[-1], node_of)
        if len(path) == 1:
            last = _touched_node(path[0], node_of, other_than=first)
        at = np.array(path)
        branches.append(Branch(np.column_stack([at, depth[at[:, 0], at[:, 1]]]), [first, last]))
    return Skeleton(branches, np.column_stack([centres, radii]))


def _ordered_pixels(pixels: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Order the pixels of a path from one end to the other; a ring ends with the first pixel."""

    def neighbours(p: tuple[int, int], among: set[tuple[int, int]]) -> list[tuple[int, int]]:
        return [q for dr, dc in _NEIGHBOUR_OFFSETS if (q := (p[0] + dr, p[1] + dc)) in among]

    start = min(pixels, key=lambda p: (min(len(neighbours(p, pixels)), 2), p))
    left, path = pixels - {start}, [start]
    while following := neighbours(path[-1], left):
        path.append(following[0])
        left.discard(following[0])
    ring = len(path) > 8 and max(abs(path[0][0] - path[-1][0]), abs(path[0][1] - path[-1][1])) == 1
    return [*path, path[0]] if ring else path


def _touched_node(pixel: tuple[int, int], node_of: npt.NDArray[np.int32], other_than: int = FREE_END) -> int:
    row, column = pixel
    around = node_of[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
    found = [int(n) - 1 for n in np.unique(around) if n and int(n) - 1 != other_than]
    return found[0] if found else FREE_END


def _is_spur(branch: Branch, found: Skeleton) -> bool:
    """Return whether a branch with a free end hardly leaves the ink of the node: it only points into a corner."""
    first, last = branch.nodes
    if (first == FREE_END) == (last == FREE_END):
        return False
    node = found.nodes[max(first, last), 2]
    tip = branch.points[0 if first == FREE_END else -1, 2]
    length = length_of(branch.points)
    narrows = node - tip > 0.4 * length  # as fast as towards a corner; the end of a stroke narrows less
    return bool(length + tip < 1.5 * node + 3 or (narrows and length < 3 * node))


def _merge_split_crossings(found: Skeleton) -> None:
    """Merge two nodes that are linked by a bridge inside thick ink: thinning has split a crossing."""
    for bridge in list(found.branches):
        a, b = bridge.nodes
        if FREE_END in (a, b) or a == b:
            continue
        reach = min(found.nodes[a, 2], found.nodes[b, 2])
        if length_of(bridge.points) > 1.3 * reach or bridge.points[:, 2].min() < 0.8 * reach:
            continue
        found.branches.remove(bridge)
        found.nodes[a, :2] = (found.nodes[a, :2] + found.nodes[b, :2]) / 2
        for other in found.branches:
            other.nodes = [a if node == b else node for node in other.nodes]
