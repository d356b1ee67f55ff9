"""Section B, handwriting: text in, a picture of real handwriting out.

Read ``ink/renderer`` first: `render` takes ``parameters`` and returns a ``handwritten`` file. Its stages are one file
each, with structures of arrays between them: ``shaping``, ``layout``, ``motion``, ``pen``, ``page``, ``ribbons``, and
``canvases``. Random numbers are looked up (``toolkit.keyed_noise``), so a seed gives the same writing in every format.

To add a handwriting, add its font to ``hands/sources.toml`` with four titles, and compile (``hands``).
"""
