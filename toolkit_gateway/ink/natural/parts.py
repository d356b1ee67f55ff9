"""Geometry of parts. A part is one stroke, with a row (x, y, radius) for each point."""

import numpy as np

from toolkit_gateway.ink.random_streams import Floats
from toolkit_gateway.ink.ribbons import POINT_DISTANCE, Strokes

Part = Floats  # (points, 3)
_DIRECTION_POINTS = 4  # the direction of an end is measured over these points


def parts_of(strokes: Strokes) -> list[Part]:
    rows = np.stack([strokes.x, strokes.y, strokes.radius], axis=1)
    return np.split(rows, strokes.start[1:]) if len(strokes.length) else []


def arc_lengths(part: Part) -> Floats:
    """Return the length of the stroke from the first point to each point."""
    dx, dy = np.diff(part[:, 0]), np.diff(part[:, 1])
    return np.concatenate([[0.0], np.cumsum(np.sqrt(dx * dx + dy * dy))])


def direction(part: Part, at_end: bool) -> Floats:
    """Return the unit vector of the direction at the start of a part, or at the end."""
    n = min(_DIRECTION_POINTS, len(part) - 1)
    vector = part[-1, :2] - part[-1 - n, :2] if at_end else part[n, :2] - part[0, :2]
    norm = np.sqrt((vector * vector).sum())
    return vector / norm if norm > 0 else np.array([1.0, 0.0])


def bridge(a: Floats, leave: Floats, b: Floats, arrive: Floats) -> Part:
    """Return the points between `a` and `b` on a curve; `leave` and `arrive` are its directions at `a` and `b`."""
    apart = b[:2] - a[:2]
    span = np.sqrt((apart * apart).sum())
    count = int(span / POINT_DISTANCE)
    t = (np.arange(1, count + 1) / (count + 1))[:, None]
    t2, t3 = t * t, t * t * t
    xy = (2 * t3 - 3 * t2 + 1) * a[:2] + (t3 - 2 * t2 + t) * span * leave
    xy = xy + (3 * t2 - 2 * t3) * b[:2] + (t3 - t2) * span * arrive
    return np.column_stack([xy, a[2] + (b[2] - a[2]) * t])


def nearest(point: Floats, part: Part) -> tuple[int, float]:
    """Return the index of the point of a part that is nearest to `point`, and their distance."""
    apart = part[:, :2] - point[:2]
    square = (apart * apart).sum(axis=1)
    at = int(square.argmin())
    return at, float(np.sqrt(square[at]))
