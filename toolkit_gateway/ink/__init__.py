"""The ink: converts a text to strokes of a pen, strokes to outlines, and outlines to files.

Read ``renderer`` first: `render` takes ``parameters`` and returns a ``handwritten`` file. Each stage is one module and
passes arrays to the next: ``shaping``, ``layout``, ``baselines``, ``motion``, ``pen``, ``page``, ``ribbons``,
``canvases``. Options add ``natural`` and ``paper``; ``canvases/texture`` draws the density of the ink as pixels,
``canvases/curves`` draws it as layers, and ``canvases/scan`` draws the paper.
Random numbers are hashes of the seed (``random_streams``), so a seed gives the same writing in every format.

To add a handwriting, see the chapter "Hands" in ``CONTRIBUTING.md``.
"""
