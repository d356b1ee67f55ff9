"""Convert the medial axis of a glyph to smooth pen strokes in writing order, which cross each other straight."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from data.tools.hands.outline import MIN_AREA_PIXELS, RESOLUTION, GlyphPicture
from data.tools.hands.skeleton import FREE_END, Branch, Skeleton, length_of, skeleton
from toolkit_gateway.ink.random_streams import Floats
from toolkit_gateway.ink.ribbons import DOT_FLAG, ENDS_IN_INK, STARTS_IN_INK, Strokes

POINT_DISTANCE = RESOLUTION / 30  # pixels between the points of a stroke
_PINHOLE_PIXELS = 0.004 * RESOLUTION**2  # most holes as small as the eye of an e are scanning errors
_STRAIGHT_COSINE = -0.35  # two arms at a smaller cosine are one movement of the pen
_SMOOTHING_DEVIATION = 4  # standard deviation, in quarters of a `POINT_DISTANCE`

Arm = tuple[int, int]  # number of a branch, and one of its ends (0 or 1)
Line = tuple[Floats, int]  # (row, column, radius) of shape (n, 3), and flags


class Cleaning(NamedTuple):
    """How the ink of a glyph is prepared before it is thinned."""

    closes_gaps: bool  # closes gaps of two pixels: cracks in scanned ink, but also narrow gaps in neat letters
    eye_growth: int | None  # pixels by which small holes grow on every side, or None to fill small holes


# Small holes grow, because smoothing and a wide nib would close them again.
CLEANINGS = (Cleaning(True, None), Cleaning(True, RESOLUTION // 50), Cleaning(False, RESOLUTION // 100))


def glyph_strokes(picture: GlyphPicture, cleaning: Cleaning = CLEANINGS[0]) -> Strokes:
    """Return the strokes in cap heights, y upwards, in writing order."""
    filled = _clean_ink(picture.ink, cleaning)
    lines = [
        _in_writing_direction(points if flags & DOT_FLAG else resample(_cut_hooks(points, flags)), flags)
        for points, flags in _replace_dots(_pen_lines(skeleton(filled)), filled)
    ]
    if not lines:
        return Strokes.empty()
    lines.sort(key=lambda line: (bool(line[1] & DOT_FLAG), line[0][:, 1].min()))
    points = np.concatenate([line[0] for line in lines])
    x, y = picture.to_caps(points[:, :2]).T
    length = np.array([len(line[0]) for line in lines], np.int64)
    return Strokes(x, y, points[:, 2] / RESOLUTION, length, np.array([line[1] for line in lines], np.uint8))


def _clean_ink(ink: npt.NDArray[np.bool_], cleaning: Cleaning) -> npt.NDArray[np.bool_]:
    if cleaning.closes_gaps:
        ink = ndimage.binary_closing(np.pad(ink, 2))[2:-2, 2:-2] | ink
    filled = _fill_holes(ink, _PINHOLE_PIXELS)
    if cleaning.eye_growth is None:
        return filled
    clean = _fill_holes(ink, MIN_AREA_PIXELS)
    eyes = ndimage.binary_dilation(filled & ~clean, iterations=cleaning.eye_growth)
    return np.asarray(clean & ~eyes)


def _fill_holes(ink: npt.NDArray[np.bool_], min_area: float) -> npt.NDArray[np.bool_]:
    hole_of, _ = ndimage.label(~ink)
    area = np.bincount(hole_of.ravel())
    return np.asarray(ink | (area < min_area)[hole_of])


def _pen_lines(found: Skeleton) -> list[Line]:
    mate = _pair_arms(found)
    used: set[int] = set()
    loose = [(i, end) for i in range(len(found.branches)) for end in (0, 1) if (i, end) not in mate]
    loops = [(i, 0) for i in range(len(found.branches))]
    lines = []
    for start in loose + loops:
        if start[0] in used:
            continue
        chain = [start]
        while (out := (chain[-1][0], 1 - chain[-1][1])) in mate and mate[out][0] not in used | {chain[0][0]}:
            used.add(chain[-1][0])
            chain.append(mate[out])
        used.add(chain[-1][0])
        lines.append(_join_branches(found, chain, closed=start in mate))
    return [line for line in lines if len(line[0]) > 1]


def _pair_arms(found: Skeleton) -> dict[Arm, Arm]:
    """Pair the arms of every node, straightest pair first."""
    mate: dict[Arm, Arm] = {}
    for node, arms in found.arms().items():
        away = {arm: _direction(found.branches[arm[0]], arm[1], found.nodes[node, 2]) for arm in arms}
        pairs = [(float(away[a] @ away[b]), a, b) for n, a in enumerate(arms) for b in arms[n + 1 :] if a[0] != b[0]]
        for cosine, a, b in sorted(pairs):
            if cosine < _STRAIGHT_COSINE and a not in mate and b not in mate:
                mate[a], mate[b] = b, a
    return mate


def _direction(branch: Branch, end: int, radius: float) -> Floats:
    """Return the direction away from the node, measured outside the ink of the node, where the axis is not bent."""
    points = branch.points[::-1, :2] if end else branch.points[:, :2]
    far = min(len(points) - 1, int(2.2 * radius) + 4)
    near = min(int(0.9 * radius), max(far - 2, 0))
    step = points[far] - points[near]
    norm = math.hypot(*step)
    return np.asarray(step / norm if norm else step)


def _join_branches(found: Skeleton, chain: list[Arm], closed: bool) -> Line:
    arms = found.arms()
    parts = []
    for n, (i, end) in enumerate(chain):
        branch = found.branches[i]
        points = branch.points[::-1] if end else branch.points
        head = branch.nodes[end] if n or closed else FREE_END
        tail = branch.nodes[1 - end] if n + 1 < len(chain) or closed else FREE_END
        parts.append(_trim_bent_ends(points, found, head, tail))
    if closed:
        return np.vstack([*parts, parts[0][:1]]), STARTS_IN_INK | ENDS_IN_INK
    flags = 0
    (i, start), (j, end) = chain[0], chain[-1]
    first, last = found.branches[i].nodes[start], found.branches[j].nodes[1 - end]
    if first != FREE_END:
        parts.insert(0, found.nodes[[first]])
        flags |= STARTS_IN_INK if len(arms[first]) > 1 else 0
    if last != FREE_END:
        parts.append(found.nodes[[last]])
        flags |= ENDS_IN_INK if len(arms[last]) > 1 else 0
    points = np.vstack(parts)
    if math.hypot(*(points[0, :2] - points[-1, :2])) < 2:
        flags |= STARTS_IN_INK | ENDS_IN_INK
    return points, flags


def _trim_bent_ends(points: Floats, found: Skeleton, head: int, tail: int) -> Floats:
    """Remove the points within 0.6 radii of a node that the pen passes, because the axis is bent there."""
    before = 0 if head == FREE_END else int(0.6 * found.nodes[head, 2])
    after = 0 if tail == FREE_END else int(0.6 * found.nodes[tail, 2])
    if len(points) > 2 * (before + after) + 2:
        return points[before : len(points) - after]
    middle = len(points) // 2
    return points[middle : middle + 1]


def arc_length(points: Floats) -> Floats:
    """Return the length of the line (columns 0 and 1) from the first point to each point."""
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points[:, :2], axis=0).T))])


def _replace_dots(lines: list[Line], ink: npt.NDArray[np.bool_]) -> list[Line]:
    """Replace round pieces of ink by dots: short dashes along the longer axis of the piece."""
    piece_of, pieces = ndimage.label(ink, np.ones((3, 3), bool))
    owner = [int(piece_of[tuple(np.rint(points[len(points) // 2, :2]).astype(int))]) for points, _ in lines]
    kept, dots = lines, []
    for piece in range(1, pieces + 1):
        rows, columns = np.nonzero(piece_of == piece)
        if len(rows) < 12:
            continue
        inside = [line for line, own in zip(lines, owner, strict=True) if own == piece]
        total = sum(length_of(points) for points, _ in inside)
        dash, slimness = _dash_like(np.stack([rows, columns], axis=1).astype(float))
        radius = math.sqrt(len(rows) / math.pi)
        if total < 1.1 * radius or (total < 2 * radius and slimness < 1.6):
            kept = [line for line in kept if not any(line is gone for gone in inside)]
            dots.append((dash, DOT_FLAG))
    return kept + dots


def _dash_like(pixels: Floats) -> tuple[Floats, float]:
    """Return a dash as large as a blob of ink, and the length-to-width ratio of the blob."""
    centre = pixels.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov((pixels - centre).T) if len(pixels) > 2 else np.eye(2))
    minor, major = 2 * np.sqrt(np.maximum(variances, 0.25))
    along = axes[:, 1] * (1 if axes[0, 1] + 0.4 * axes[1, 1] > 0 else -1)
    half = max(major - minor, 0.12 * minor)
    offsets = np.array([-1.0, 0.0, 1.0])[:, None] * half
    return np.column_stack([centre + offsets * along, np.full(3, minor)]), float(major / minor)


def _cut_hooks(points: Floats, flags: int) -> Floats:
    """Cut off hooks at free ends: at the flat end of a stroke, the axis bends into a corner."""
    if not flags & STARTS_IN_INK:
        points = points[_count_hook_points(points) :]
    if not flags & ENDS_IN_INK:
        points = points[::-1][_count_hook_points(points[::-1]) :][::-1]
    return points


def _count_hook_points(points: Floats) -> int:
    """Return how many points at the beginning are a hook: the ink narrows faster than a pen can."""
    arc = arc_length(points)
    inside = int(np.searchsorted(arc, 1.6 * np.median(points[:, 2])))
    if inside >= len(points) // 2 or points[0, 2] > 0.5 * points[inside, 2]:
        return 0
    return int(np.argmax(points[:, 2] >= 0.8 * points[inside, 2]))


def resample(points: Floats) -> Floats:
    """Smooth a line and space the points evenly by `POINT_DISTANCE`; the columns are y, x and radius, in pixels."""
    arc = arc_length(points)
    moved = np.concatenate([[True], np.diff(arc) > 0])
    points, arc = points[moved], arc[moved]
    fine = np.linspace(0, arc[-1], max(8, int(arc[-1] / POINT_DISTANCE * 4)))
    dense = np.stack([np.interp(fine, arc, column) for column in points.T], axis=1)
    closed = math.hypot(*(points[0, :2] - points[-1, :2])) < 2 and arc[-1] > 4 * POINT_DISTANCE
    dense = _smooth(dense, closed)
    even = np.linspace(0, arc[-1], max(3, round(arc[-1] / POINT_DISTANCE) + 1))
    return np.stack([np.interp(even, fine, column) for column in dense.T], axis=1)


def _smooth(points: Floats, closed: bool) -> Floats:
    if closed:
        ring = ndimage.gaussian_filter1d(points[:-1], _SMOOTHING_DEVIATION, axis=0, mode="wrap")
        return np.vstack([ring, ring[:1]])
    reach = min(4 * _SMOOTHING_DEVIATION + 1, len(points) - 1)
    head = 2 * points[0] - points[1 : reach + 1][::-1]  # odd reflection keeps the ends in place
    tail = 2 * points[-1] - points[-reach - 1 : -1][::-1]
    extended = np.vstack([head, points, tail])
    smooth: Floats = ndimage.gaussian_filter1d(extended, _SMOOTHING_DEVIATION, axis=0)[reach:-reach]
    smooth[:, 2] = np.abs(smooth[:, 2])  # a reflected radius may be below 0
    return smooth


def _in_writing_direction(points: Floats, flags: int) -> Line:
    """Reverse a line that is not written downwards or to the right."""
    if points[0, 0] + points[0, 1] <= points[-1, 0] + points[-1, 1]:
        return points, flags
    swapped = flags & ~(STARTS_IN_INK | ENDS_IN_INK)
    swapped |= (ENDS_IN_INK if flags & STARTS_IN_INK else 0) | (STARTS_IN_INK if flags & ENDS_IN_INK else 0)
    return points[::-1], swapped
