"""Trace one glyph: strokes that share the ink of its outline and have its form, or else the outline itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.path import Path
from scipy import ndimage

from toolkit.handwriting.hands.outline import LEAST_PIXELS, Picture
from toolkit.handwriting.hands.strokes import arc_length, glyph_strokes
from toolkit.handwriting.ink.canvases.raster import coverage
from toolkit.handwriting.ink.ribbons import DOT, OUTLINE, Strokes, refined, ribbons

LEAST_OVERLAP = 0.75  # intersection over union
_DENSITY = 40  # points in one cap height of a stored contour
_EIGHT = np.ones((3, 3), bool)

Ink = npt.NDArray[np.bool_]


class Form(NamedTuple):
    """What a reader tells letters apart by: the number of counters (enclosed white) and of separate parts."""

    counters: int
    parts: int


@dataclass(frozen=True, slots=True)
class Tracing:
    """Strokes of a glyph, their form, and the form of the outline that they were traced from."""

    strokes: Strokes
    form: Form
    outline_form: Form

    @property
    def is_outline(self) -> bool:
        """Whether the glyph keeps its outline because strokes would not look like it."""
        return bool(np.any(self.strokes.flags & OUTLINE))


NOTHING = Tracing(Strokes.none(), Form(0, 0), Form(0, 0))


def traced(outline: Path, *, known_loss: bool = False) -> Tracing:
    """Return the strokes of a glyph, whose outline is in cap heights, y upwards.

    Strokes that lost a counter or a part are traced once more, round the eyes that are filled otherwise. A pen can
    write these; the outline, which no nib, haste or pressure changes, is kept only where that fails as well. A
    `known_loss` keeps its form: it is listed in ``known_losses.json``.
    """
    picture = Picture(outline)
    wanted = form(picture.ink)
    for open_eyes in (False, True):
        strokes = glyph_strokes(picture, open_eyes=open_eyes)
        ink = drawn(strokes, picture)
        if not _looks_alike(strokes, ink, picture):
            break
        if known_loss or form(ink) == wanted:
            return Tracing(strokes, form(ink), wanted)
    strokes = outline_as_strokes(outline)
    return Tracing(strokes, form(drawn(strokes, picture)), wanted)


def _looks_alike(strokes: Strokes, ink: Ink, picture: Picture) -> bool:
    only_dots = len(strokes.flags) > 0 and bool(np.all(strokes.flags & DOT))
    return only_dots or overlap(ink, picture) >= LEAST_OVERLAP


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
    arc = arc_length(polygon)
    even = np.union1d(arc[:-1], np.linspace(0, arc[-1], max(4, int(arc[-1] * _DENSITY)), endpoint=False))
    keep = np.concatenate([[True], np.diff(even) > 0.004])
    return np.stack([np.interp(even[keep], arc, column) for column in polygon.T], axis=1)


def _area(polygon: npt.NDArray[np.float64]) -> float:
    x, y = polygon.T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)
