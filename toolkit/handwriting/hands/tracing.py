"""Trace one glyph: strokes with the ink and the form of its outline, or else the outline itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.path import Path
from scipy import ndimage

from toolkit.handwriting.hands.outline import LEAST_PIXELS, Picture
from toolkit.handwriting.hands.strokes import CLEANINGS, arc_length, glyph_strokes
from toolkit.handwriting.ink.canvases.raster import coverage
from toolkit.handwriting.ink.ribbons import DOT, OUTLINE, Strokes, refine, ribbons
from toolkit.keyed_noise import Floats

LEAST_OVERLAP = 0.65  # of strokes and outline: intersection over union of their ink
_DENSITY = 40  # points in one cap height of a stored contour
_EIGHT = np.ones((3, 3), bool)

Ink = npt.NDArray[np.bool_]


class Form(NamedTuple):
    """Features that tell letters apart: the numbers of counters (enclosed white areas) and of separate parts."""

    counters: int
    parts: int


@dataclass(frozen=True, slots=True)
class Tracing:
    """The strokes of a glyph, and the form of its outline."""

    strokes: Strokes
    form: Form

    @property
    def is_outline(self) -> bool:
        return bool(np.any(self.strokes.flags & OUTLINE))


NOTHING = Tracing(Strokes.empty(), Form(0, 0))


def trace_outline(outline: Path) -> Tracing:
    """Return strokes with the ink and the form of an outline, or else the outline itself."""
    picture = Picture(outline)
    wanted = form_of(picture.ink)
    for cleaning in CLEANINGS:
        strokes = glyph_strokes(picture, cleaning)
        ink = draw_ink(strokes, picture)
        only_dots = len(strokes.flags) > 0 and bool(np.all(strokes.flags & DOT))
        overlap = (ink & picture.ink).sum() / max(1, (ink | picture.ink).sum())
        if form_of(ink) == wanted and (only_dots or overlap >= LEAST_OVERLAP):
            return Tracing(strokes, wanted)
    return Tracing(outline_as_strokes(outline), wanted)


def form_of(ink: Ink) -> Form:
    """Count the counters and parts of at least `LEAST_PIXELS`."""
    # The added border makes all white that is not enclosed one area: the outside, which does not count.
    return Form(_count(~np.pad(ink, 1), None) - 1, _count(ink, _EIGHT))


def _count(mask: Ink, neighbours: Ink | None) -> int:
    area_of, _ = ndimage.label(mask, neighbours)
    return int((np.bincount(area_of.ravel())[1:] >= LEAST_PIXELS).sum())


def draw_ink(strokes: Strokes, picture: Picture) -> Ink:
    if not len(strokes.length):
        return np.zeros_like(picture.ink)
    outlines = ribbons(refine(strokes, 3))
    x, y = picture.to_pixels(outlines.x, outlines.y)
    return coverage([replace(outlines, x=x, y=y)], picture.width, picture.height) > 127


def outline_as_strokes(path: Path) -> Strokes:
    """Return the contours of a path, in the direction in which ribbons turn."""
    polygons = [np.asarray(polygon, np.float64) for polygon in path.to_polygons(closed_only=True)]
    contours = [_space_evenly(polygon) for polygon in polygons if len(polygon) > 3]
    if sum(_area(contour) for contour in contours) < 0:
        contours = [contour[::-1] for contour in contours]
    x, y = np.concatenate(contours).T
    length = np.array([len(contour) for contour in contours], np.int64)
    return Strokes(x, y, np.zeros(len(x)), length, np.full(len(length), OUTLINE, np.uint8))


def _space_evenly(polygon: Floats) -> Floats:
    arc = arc_length(polygon)
    even = np.union1d(arc[:-1], np.linspace(0, arc[-1], max(4, int(arc[-1] * _DENSITY)), endpoint=False))
    keep = np.concatenate([[True], np.diff(even) > 0.004])
    return np.stack([np.interp(even[keep], arc, column) for column in polygon.T], axis=1)


def _area(polygon: Floats) -> float:
    x, y = polygon.T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)
