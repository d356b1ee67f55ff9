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
    x, y, length = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y", "length"))
    codes = np.full(len(x), Path.LINETO, np.uint8)
    codes[np.cumsum(length) - length] = Path.MOVETO  # a fill closes every polygon
    path = Path(np.stack([x, y], axis=1), codes)
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
