"""One module for each format (`png`, `pdf`, `svg`), and shared modules, such as `raster` and `curves`."""
