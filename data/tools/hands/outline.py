"""The outline of one glyph, as a path from the font and as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from fontTools.pens.basePen import BasePen
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from toolkit_gateway.ink.canvases.raster import fill_path
from toolkit_gateway.ink.random_streams import Floats

RESOLUTION = 200  # pixels in one cap height
MARGIN_PX = 8  # around the picture
MIN_AREA_PIXELS = 0.001 * RESOLUTION**2  # a smaller counter or part is invisible


class PathPen(BasePen):
    """A fontTools pen that writes a matplotlib path."""

    def __init__(self, glyphs: Any) -> None:  # noqa: ANN401 - fontTools' glyph sets have no common type; or None
        super().__init__(glyphs)
        self.vertices: list[tuple[float, float]] = []
        self.codes: list[np.uint8] = []

    def path(self) -> Path:
        return Path(self.vertices, self.codes)

    def _add(self, code: np.uint8, *points: tuple[float, float]) -> None:
        self.vertices += points
        self.codes += [code] * len(points)

    def _moveTo(self, pt: tuple[float, float]) -> None:
        self._add(Path.MOVETO, pt)

    def _lineTo(self, pt: tuple[float, float]) -> None:
        self._add(Path.LINETO, pt)

    def _curveToOne(self, pt1: tuple[float, float], pt2: tuple[float, float], pt3: tuple[float, float]) -> None:
        self._add(Path.CURVE4, pt1, pt2, pt3)

    def _qCurveToOne(self, pt1: tuple[float, float], pt2: tuple[float, float]) -> None:
        self._add(Path.CURVE3, pt1, pt2)

    def _closePath(self) -> None:
        self._add(Path.CLOSEPOLY, (0.0, 0.0))


def glyph_path(glyphs: Any, name: str) -> Path | None:  # noqa: ANN401
    """Return the outline in font units, or None for a blank glyph."""
    pen = PathPen(glyphs)
    glyphs[name].draw(pen)
    return pen.path() if pen.vertices else None


class GlyphPicture:
    """A glyph drawn as pixels at `RESOLUTION`; converts between pixels and cap heights. `path` is in cap heights."""

    def __init__(self, path: Path) -> None:
        (self._left, self._bottom), (right, top) = path.get_extents().get_points()
        self.width = int((right - self._left) * RESOLUTION) + 2 * MARGIN_PX + 1
        self.height = int((top - self._bottom) * RESOLUTION) + 2 * MARGIN_PX + 1
        shift = Affine2D().translate(-self._left, -self._bottom).scale(RESOLUTION).translate(MARGIN_PX, MARGIN_PX)
        self.ink = fill_path(path, shift, self.width, self.height) > 127

    def to_caps(self, rows_columns: Floats) -> Floats:
        """Convert the centres of pixels (row, column) to (x, y) in cap heights, both of shape (n, 2)."""
        x = (rows_columns[:, 1] + 0.5 - MARGIN_PX) / RESOLUTION + self._left
        y = (self.height - rows_columns[:, 0] - 0.5 - MARGIN_PX) / RESOLUTION + self._bottom
        return np.stack([x, y], axis=1)

    def to_pixels(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        down = (y - self._bottom) * RESOLUTION + MARGIN_PX
        return (x - self._left) * RESOLUTION + MARGIN_PX, self.height - down
