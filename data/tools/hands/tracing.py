"""Trace one glyph: convert the outline to strokes that draw the same ink, or keep the outline if that fails."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.path import Path
from scipy import ndimage

from data.tools.hands.outline import MIN_AREA_PIXELS, GlyphPicture
from data.tools.hands.strokes import CLEANINGS, arc_length, glyph_strokes
from toolkit_gateway.ink.canvases.raster import coverage
from toolkit_gateway.ink.random_streams import Floats
from toolkit_gateway.ink.ribbons import DOT_FLAG, OUTLINE_FLAG, Strokes, refine, ribbons

MIN_OVERLAP = 0.65  # intersection over union of the ink of the strokes and of the outline
_POINTS_PER_CAP_HEIGHT = 40  # of a stored contour
_EIGHT_NEIGHBOURS = np.ones((3, 3), bool)

InkMask = npt.NDArray[np.bool_]


class GlyphFeatures(NamedTuple):
    """Features by which letters differ: the numbers of counters (enclosed white areas) and of separate parts."""

    counters: int
    parts: int


def trace_outline(outline: Path) -> Strokes:
    """Return strokes that draw the ink of an outline with the same features, or the contours if no strokes do."""
    picture = GlyphPicture(outline)
    wanted = features_of(picture.ink)
    for cleaning in CLEANINGS:
        strokes = glyph_strokes(picture, cleaning)
        ink = draw_ink(strokes, picture)
        only_dots = len(strokes.flags) > 0 and bool(np.all(strokes.flags & DOT_FLAG))
        overlap = (ink & picture.ink).sum() / max(1, int((ink | picture.ink).sum()))
        if features_of(ink) == wanted and (only_dots or overlap >= MIN_OVERLAP):
            return strokes
    return outline_as_strokes(outline)


def is_outline(glyph: Strokes) -> bool:
    return bool(np.any(glyph.flags & OUTLINE_FLAG))


def features_of(ink: InkMask) -> GlyphFeatures:
    """Count the counters and parts of at least `MIN_AREA_PIXELS`."""
    # With the added border, all white outside the letter is one area, which does not count.
    return GlyphFeatures(_count_areas(~np.pad(ink, 1), None) - 1, _count_areas(ink, _EIGHT_NEIGHBOURS))


def _count_areas(mask: InkMask, neighbours: InkMask | None) -> int:
    area_of, _ = ndimage.label(mask, neighbours)
    return int((np.bincount(area_of.ravel())[1:] >= MIN_AREA_PIXELS).sum())


def draw_ink(strokes: Strokes, picture: GlyphPicture) -> InkMask:
    if not len(strokes.length):
        return np.zeros_like(picture.ink)
    outlines = ribbons(refine(strokes, 3))
    x, y = picture.to_pixels(outlines.x, outlines.y)
    return coverage([replace(outlines, x=x, y=y)], picture.width, picture.height) > 127


def outline_as_strokes(path: Path) -> Strokes:
    """Return the contours of a path, turning in the same direction as ribbons."""
    polygons = [np.asarray(polygon, np.float64) for polygon in path.to_polygons(closed_only=True)]
    contours = [_space_evenly(polygon) for polygon in polygons if len(polygon) > 3]
    if sum(_signed_area(contour) for contour in contours) < 0:
        contours = [contour[::-1] for contour in contours]
    x, y = np.concatenate(contours).T
    length = np.array([len(contour) for contour in contours], np.int64)
    return Strokes(x, y, np.zeros(len(x)), length, np.full(len(length), OUTLINE_FLAG, np.uint8))


def _space_evenly(polygon: Floats) -> Floats:
    arc = arc_length(polygon)
    even = np.union1d(arc[:-1], np.linspace(0, arc[-1], max(4, int(arc[-1] * _POINTS_PER_CAP_HEIGHT)), endpoint=False))
    keep = np.concatenate([[True], np.diff(even) > 0.004])
    return np.stack([np.interp(even[keep], arc, column) for column in polygon.T], axis=1)


def _signed_area(polygon: Floats) -> float:
    x, y = polygon.T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)
