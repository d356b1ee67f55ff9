"""The hands: openly licensed fonts of real handwriting (``sources.toml``), compiled to pen strokes.

This code runs at build time only: ``python -m toolkit.handwriting.hands.compile`` (extra ``hands``) writes
``packs/*.npz``, ``licences/*.txt``, ``catalogue.json`` and ``contact_sheet.png``, which are committed.
"""
