"""Draw polygons with Agg: the exact anti-aliased coverage of each pixel."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.path import Path
from matplotlib.transforms import Affine2D

from toolkit_gateway.ink.ribbons import Polygons

Coverage = npt.NDArray[np.uint8]


def coverage(parts: Iterable[Polygons], width: int, height: int, first_row: int = 0) -> Coverage:
    """Return how much of every pixel is inside the polygons (non-zero rule), 0..255, shape (height, width)."""
    pieces = [(np.stack([part.x, part.y], axis=1), part.length) for part in parts]
    if not any(len(points) for points, _ in pieces):
        return np.zeros((height, width), np.uint8)
    points, length = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    del pieces  # as large as the points
    codes = np.full(len(points), Path.LINETO, np.uint8)
    codes[np.cumsum(length) - length] = Path.MOVETO  # a fill closes every polygon
    path = Path(points, codes)
    path.should_simplify = False
    # In Agg, y is measured upwards; on a page, downwards.
    return fill_path(path, Affine2D().scale(1, -1).translate(0, height + first_row), width, height)


def fill_path(path: Path, transform: Affine2D, width: int, height: int) -> Coverage:
    agg = RendererAgg(width, height, 72)
    pen = agg.new_gc()
    pen.set_linewidth(0)
    pen.set_snap(False)
    agg.draw_path(pen, path, transform, (0, 0, 0, 1))
    return np.asarray(agg.buffer_rgba())[:, :, 3].copy()  # the buffer takes four times the memory
