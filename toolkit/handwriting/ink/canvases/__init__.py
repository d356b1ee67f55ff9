"""One file for each format (`png`, `pdf`, `svg`), and their parts `raster` and `curves`."""
