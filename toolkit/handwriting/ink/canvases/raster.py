"""Draw polygons with Agg: the exact anti-aliased coverage of each pixel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from toolkit.handwriting.ink.ribbons import Polygons

Coverage = npt.NDArray[np.uint8]


def coverage(parts: Sequence[Polygons], width: int, height: int, first_row: int = 0) -> Coverage:
    """Return how much of every pixel is inside the polygons (non-zero rule), 0..255, shape (height, width)."""
    if not any(len(part.x) for part in parts):
        return np.zeros((height, width), np.uint8)
    corners, codes = zip(*map(_closed_path, parts), strict=True)
    path = Path(np.concatenate(corners), np.concatenate(codes))
    path.should_simplify = False
    # In Agg y points up, in `Polygons` down.
    return fill_path(path, Affine2D().scale(1, -1).translate(0, height + first_row), width, height)


def fill_path(path: Path, transform: Affine2D, width: int, height: int) -> Coverage:
    agg = RendererAgg(width, height, 72)
    pen = agg.new_gc()
    pen.set_linewidth(0)
    pen.set_snap(False)
    agg.draw_path(pen, path, transform, (0, 0, 0, 1))
    return np.asarray(agg.buffer_rgba())[:, :, 3]


def _closed_path(polygons: Polygons) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint8]]:
    xy, end = np.stack([polygons.x, polygons.y], axis=1), np.cumsum(polygons.length)
    codes = np.full(len(xy), Path.LINETO, np.uint8)
    codes[end - polygons.length] = Path.MOVETO
    return np.insert(xy, end, 0.0, axis=0), np.insert(codes, end, Path.CLOSEPOLY)
