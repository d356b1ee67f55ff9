"""Compare strokes with the outline they came from: how much ink they share, and whether they have the same form."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.path import Path
from scipy import ndimage

from toolkit.handwriting.hands.outline import RESOLUTION, Picture
from toolkit.handwriting.ink.canvases.raster import coverage
from toolkit.handwriting.ink.ribbons import OUTLINE, Strokes, refined, ribbons

LEAST_OVERLAP = 0.75  # intersection over union
LEAST_PIXELS = 0.001 * RESOLUTION**2  # a smaller counter or part does not show at the size of a letter
_DENSITY = 40  # points in one cap height of a stored contour
_EIGHT = np.ones((3, 3), bool)

Ink = npt.NDArray[np.bool_]


class Form(NamedTuple):
    """What a reader tells letters apart by: the number of counters (enclosed white) and of separate parts."""

    counters: int
    parts: int


def form(ink: Ink) -> Form:
    """Count the counters and the parts of a drawn glyph; what is smaller than `LEAST_PIXELS` does not count."""
    # The border joins all white that is not enclosed, so one of the white areas is the outside.
    return Form(_count(~np.pad(ink, 1), None) - 1, _count(ink, _EIGHT))


def _count(mask: Ink, neighbours: Ink | None) -> int:
    area_of, _ = ndimage.label(mask, neighbours)
    return int((np.bincount(area_of.ravel())[1:] >= LEAST_PIXELS).sum())


def drawn(strokes: Strokes, picture: Picture) -> Ink:
    """Return the ink of `strokes` in the pixels of `picture`."""
    if not len(strokes.length):
        return np.zeros_like(picture.ink)
    outlines = ribbons(refined(strokes, 3))
    x, y = picture.to_pixels(outlines.x, outlines.y)
    return coverage([replace(outlines, x=x, y=y)], picture.width, picture.height) > 127


def overlap(ink: Ink, picture: Picture) -> float:
    """Return the intersection over union of `ink` and the ink of the picture."""
    return float((ink & picture.ink).sum() / max(1, (ink | picture.ink).sum()))


def outline_as_strokes(path: Path) -> Strokes:
    """Return the contours of an outline as they are, turning the way ribbons turn."""
    polygons = [np.asarray(polygon, np.float64) for polygon in path.to_polygons(closed_only=True)]
    contours = [_evened(polygon) for polygon in polygons if len(polygon) > 3]
    if sum(_area(contour) for contour in contours) < 0:
        contours = [contour[::-1] for contour in contours]
    x, y = np.concatenate(contours).T
    length = np.array([len(contour) for contour in contours], np.int64)
    return Strokes(x, y, np.zeros(len(x)), length, np.full(len(length), OUTLINE, np.uint8))


def _evened(polygon: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Place points closely enough for the contour to bend."""
    arc = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(polygon, axis=0).T))])
    even = np.union1d(arc[:-1], np.linspace(0, arc[-1], max(4, int(arc[-1] * _DENSITY)), endpoint=False))
    keep = np.concatenate([[True], np.diff(even) > 0.004])
    return np.stack([np.interp(even[keep], arc, column) for column in polygon.T], axis=1)


def _area(polygon: npt.NDArray[np.float64]) -> float:
    x, y = polygon.T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)
