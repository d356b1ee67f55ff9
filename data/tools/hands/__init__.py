"""The hands: openly licensed fonts of real handwriting (``sources.toml``), compiled to pen strokes.

``python -m data.tools.hands.compile`` writes ``packs/*.npz``, ``licences/*.txt`` and ``catalogue.json`` in
``toolkit_gateway/hands``, and ``contact_sheet.png`` here; all of them are committed.
"""
