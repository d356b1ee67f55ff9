"""The hands: real handwriting, compiled to pen strokes.

``sources.toml`` names the openly licensed fonts; ``python -m toolkit.handwriting.hands.compile`` (extra ``hands``)
turns them into ``packs/*.npz``, ``licences/*.txt``, ``catalogue.json`` and ``contact_sheet.png``, which are committed.
Only `pack` is needed to read them; everything else here runs at build time only:

``npm`` fetches the archives and checks them · ``shaping_font`` keeps the font's knowledge of words and drops its
outlines · ``outline`` draws a glyph · ``skeleton`` finds its centre lines · ``strokes`` makes pen strokes of them ·
``tracing`` compares them with the outline and chooses between the two · ``known_losses`` stops the compilation when a
glyph lost a counter or a part and ``known_losses.json`` does not list it · ``ratings`` measures the handwritings.
"""
