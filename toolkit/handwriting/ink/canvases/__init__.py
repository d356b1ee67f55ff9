"""Where the ink goes: `raster` (coverage) and `png`, `pdf`, `svg` and `replay` (the strokes in writing order)."""
