"""Where the ink goes: `raster` (coverage) and `png`, `pdf`, `svg`."""
