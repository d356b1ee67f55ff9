"""Section B, handwriting: renders text as a picture of real handwriting.

Read ``ink/renderer`` first: `render` takes ``parameters`` and returns a ``handwritten`` file. Its stages are one file
each and pass arrays to each other: ``shaping``, ``layout``, ``motion``, ``pen``, ``page``, ``ribbons``, ``canvases``.
What is not plain: ``pens`` (density of the ink), ``paper`` and ``corrections``; ``canvases/texture`` draws the density
in pixels, ``canvases/opacity`` in layers, ``canvases/scan`` the paper.
Random numbers are hashes of the seed (``toolkit.keyed_noise``), so a seed gives the same writing in every format.

To add a handwriting, add its font to ``hands/sources.toml`` with four titles, and compile (``hands``).
"""
