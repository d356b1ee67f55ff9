"""Convert pen strokes to outlines: every stroke becomes closed polygons with round ends.

The arrays of `Strokes` hold all strokes of a page. All polygons turn in the same direction, so that a fill with the
non-zero rule draws their union: strokes may cross themselves and each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from toolkit_gateway.ink.random_streams import Floats, Integers

Flags = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

# Flags of a stroke.
STARTS_IN_INK = 1  # the stroke begins inside another stroke, so it has no attack
ENDS_IN_INK = 2  # the stroke ends inside another stroke, so it has no release
DOT_FLAG = 4  # an i-dot or full stop
OUTLINE_FLAG = 8  # not a stroke, but a contour of a shape that strokes cannot draw

SMOOTH_END, COARSE_END = 5, 2  # number of straight pieces of a round end
POINT_DISTANCE = 1 / 30  # cap heights between two points of a stroke


@dataclass(frozen=True, slots=True)
class Strokes:
    """Pen strokes as arrays: n points in m strokes, in writing order."""

    x: Floats  # (n,) centre line
    y: Floats  # (n,) upwards in cap heights, downwards on a page
    radius: Floats  # (n,) half the width of the ink
    length: Integers  # (m,) number of points of each stroke
    flags: Flags  # (m,) `STARTS_IN_INK`, `ENDS_IN_INK`, `DOT_FLAG`, `OUTLINE_FLAG`

    @classmethod
    def empty(cls) -> Strokes:
        return cls(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.uint8))

    @classmethod
    def concatenate(cls, parts: Iterable[Strokes]) -> Strokes:
        several = [cls.empty(), *parts]
        return cls(*(np.concatenate([getattr(part, name) for part in several]) for name in cls.__slots__))

    @property
    def start(self) -> Integers:
        return np.cumsum(self.length) - self.length

    @property
    def stroke_of_point(self) -> Integers:
        return np.repeat(np.arange(len(self.length)), self.length)

    def steps(self) -> Floats:
        """Return the distance from every point to the next point of the stroke, 0 for the last point."""
        step = np.zeros(len(self.x))
        dx, dy = np.diff(self.x), np.diff(self.y)
        step[:-1] = np.sqrt(dx * dx + dy * dy)
        step[self.start + self.length - 1] = 0.0
        return step

    def ends(self) -> tuple[Mask, Mask]:
        """Return two masks: whether a point is the first point of a stroke, and whether it is the last."""
        first, last = np.zeros(len(self.x), bool), np.zeros(len(self.x), bool)
        start = self.start
        first[start] = True
        last[start + self.length - 1] = True
        return first, last

    def neighbours(self) -> tuple[Integers, Integers, Mask, Mask]:
        """Return the indices of the points before and after each point (itself for none), and the masks of `ends`."""
        first, last = self.ends()
        i = np.arange(len(self.x))
        return np.where(first, i, i - 1), np.where(last, i, i + 1), first, last

    def select(self, keep: Mask) -> Strokes:
        points = np.repeat(keep, self.length)
        return Strokes(self.x[points], self.y[points], self.radius[points], self.length[keep], self.flags[keep])


@dataclass(frozen=True, slots=True)
class Polygons:
    x: Floats  # (corners,)
    y: Floats  # (corners,)
    length: Integers  # (polygons,) number of corners of each polygon
    stroke: Integers  # (polygons,) number of the stroke of each polygon


def refine(strokes: Strokes, pieces: int) -> Strokes:
    """Insert points on a Catmull-Rom curve, so that each interval between two points becomes `pieces` intervals."""
    if pieces <= 1 or not len(strokes.x):
        return strokes
    before, after, first, last = strokes.neighbours()
    i = np.arange(len(strokes.x))
    beyond = after[after]
    count = np.where(last, 1, pieces)
    source = np.repeat(i, count)
    t = (np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)) / pieces
    t2, t3 = t * t, t * t * t
    b0, b1 = 0.5 * (2 * t2 - t - t3), 0.5 * (3 * t3 - 5 * t2 + 2)
    b2, b3 = 0.5 * (4 * t2 - 3 * t3 + t), 0.5 * (t3 - t2)

    def curve(v: Floats) -> Floats:
        v0 = np.where(first, 2 * v - v[after], v[before])
        v3 = np.where(beyond == after, 2 * v[after] - v, v[beyond])
        curved: Floats = b0 * v0[source] + b1 * v[source] + b2 * v[after[source]] + b3 * v3[source]
        return curved

    return replace(
        strokes, x=curve(strokes.x), y=curve(strokes.y), radius=np.abs(curve(strokes.radius)),
        length=(strokes.length - 1) * pieces + 1,
    )  # fmt: skip


def tangents(strokes: Strokes) -> tuple[Floats, Floats]:
    before, after, _, _ = strokes.neighbours()
    tx, ty = strokes.x[after] - strokes.x[before], strokes.y[after] - strokes.y[before]
    norm = np.sqrt(tx * tx + ty * ty)
    still = norm == 0
    norm = np.where(still, 1.0, norm)
    return np.where(still, 1.0, tx / norm), np.where(still, 0.0, ty / norm)


def ribbons(strokes: Strokes, every: int = 1, end: int = SMOOTH_END) -> Polygons:
    """Return the outline of the ink: a ribbon for each stroke, a disc at each sharp turn, and the unchanged contours.

    Contours are the strokes with `OUTLINE_FLAG`. Ribbons use one point in `every`, and all points of tight curves; 4 is
    enough if the polygons become curves. A round end has `end` pieces.
    """
    is_contour = (strokes.flags & OUTLINE_FLAG) > 0
    written = strokes.select(~is_contour) if is_contour.any() else strokes
    number = np.nonzero(~is_contour)[0]
    tx, ty = tangents(written)
    parts = [_ribbon_polygons(*_thinned(written, tx, ty, every), number, end), _discs(written, tx, ty, number, end)]
    if is_contour.any():
        contours = strokes.select(is_contour)
        parts.append(Polygons(contours.x, contours.y, contours.length, np.nonzero(is_contour)[0]))
    return Polygons(*(np.concatenate([getattr(part, name) for part in parts]) for name in Polygons.__slots__))


def every_nth(length: Integers, every: int | Integers) -> tuple[Integers, Integers]:
    """Choose one point in `every`, evenly, with both ends of each stroke; return indices, and the count per stroke."""
    old = length - 1  # intervals between the points of a stroke
    new = np.maximum(-(-old // every), np.minimum(old, 2))
    stroke = np.repeat(np.arange(len(new)), new + 1)
    index = np.arange(len(stroke)) - (np.cumsum(new + 1) - new - 1)[stroke]  # of a chosen point, from 0 in each stroke
    start = np.cumsum(length) - length
    # index * old / new, rounded
    return start[stroke] + (2 * index * old[stroke] + new[stroke]) // np.maximum(2 * new[stroke], 1), new + 1


def _thinned(s: Strokes, tx: Floats, ty: Floats, every: int) -> tuple[Strokes, Floats, Floats]:
    """Keep one point in `every`, the ends of strokes, and all points of tight curves."""
    if every == 1:
        return s, tx, ty
    keep = _straightness(s, tx, ty) < 0.8
    keep[every_nth(s.length, every)[0]] = True
    length = np.bincount(s.stroke_of_point[keep], minlength=len(s.length))
    return replace(s, x=s.x[keep], y=s.y[keep], radius=s.radius[keep], length=length), tx[keep], ty[keep]


def _straightness(s: Strokes, tx: Floats, ty: Floats) -> Floats:
    """Return the cosine between the directions before and after every point; 1 at the ends."""
    before, after, first, last = s.neighbours()
    return np.where(first | last, 1.0, tx[after] * tx[before] + ty[after] * ty[before])


def _ribbon_polygons(s: Strokes, tx: Floats, ty: Floats, number: Integers, pieces: int) -> Polygons:
    """Return one polygon per stroke: right side, cap around the end, left side backwards, cap around the start."""
    start, length, stroke = s.start, s.length, s.stroke_of_point
    end = start + length - 1
    corners = 2 * length + 2 * (pieces - 1)
    base = np.cumsum(corners) - corners
    x, y = np.empty(int(corners.sum())), np.empty(int(corners.sum()))
    along = np.arange(len(s.x)) - start[stroke]
    right = base[stroke] + along
    left = base[stroke] + 2 * length[stroke] + pieces - 2 - along
    across_x, across_y = -ty * s.radius, tx * s.radius
    x[right], y[right] = s.x - across_x, s.y - across_y
    x[left], y[left] = s.x + across_x, s.y + across_y
    angles = np.pi * np.arange(1, pieces) / pieces
    for k, (c, sn) in enumerate(zip(np.cos(angles), np.sin(angles), strict=True)):
        corner = base + length + k
        x[corner] = s.x[end] - across_x[end] * c + tx[end] * s.radius[end] * sn
        y[corner] = s.y[end] - across_y[end] * c + ty[end] * s.radius[end] * sn
        corner = base + 2 * length + pieces - 1 + k
        x[corner] = s.x[start] + across_x[start] * c - tx[start] * s.radius[start] * sn
        y[corner] = s.y[start] + across_y[start] * c - ty[start] * s.radius[start] * sn
    return Polygons(x, y, corners, number)


def _discs(s: Strokes, tx: Floats, ty: Floats, number: Integers, pieces: int) -> Polygons:
    """Return discs, the shape of the round nib, at sharp turns of the pen, where a ribbon would be too narrow."""
    turns = np.nonzero(_straightness(s, tx, ty) < 0.35)[0]
    r, corners = s.radius[turns, None], 2 * pieces + 2
    angles = 2 * np.pi * np.arange(corners) / corners
    x, y = s.x[turns, None] + r * np.cos(angles), s.y[turns, None] + r * np.sin(angles)
    return Polygons(x.ravel(), y.ravel(), np.full(len(turns), corners), number[s.stroke_of_point[turns]])
