"""Section B, handwriting: text in, a picture of real handwriting out.

Read ``renderer`` first: `render` takes ``parameters`` (one record: the handwriting, the format and all that a request
may set) and returns a ``handwritten`` one (the file and its figures). It runs through one small file a stage, with
structures of arrays between them::

    shaping    words as strokes of a hand: fallback chain, kerning, clearance of punctuation      (uharfbuzz)
    layout     lines of words at their nominal places
    motion     the moving hand: drift of lines, words and letters
    pen        how wide the ink is: speed, pressure, attack and release
    page       baselines, left edge, squeezed lines, automatic size, padding; points from here on
    ribbons    strokes as closed outlines
    canvases/  png (Agg, Pillow), pdf (pydyf, true CMYK, searchable), svg, replay

Below them: ``toolkit.keyed_noise`` (randomness that is looked up by seed, script, writer, name and index, so the same
seed gives the same writing whatever the colour or the format), ``writers`` (who holds the pen), ``hand`` (one compiled
script) and ``hands/`` (where the scripts come from, and the command that compiles them: ``python -m
toolkit.handwriting.hands.compile``; ``hands/contact_sheet.png`` shows all handwritings).

To add a handwriting: add its font to ``hands/sources.toml`` with four titles, and compile.

Above them: ``wire`` (what travels), ``service`` (what the gateway does), ``client`` (what one types), ``widgets``
(what one clicks). The gateway reads ``parameters`` from a request in ``service/query`` and knows callers by
``service/authentication``. ``service/render_pool`` has the texts rendered by processes that run
``service/render_worker``; ``service/fair_turns`` decides whose text is next. The ``handwritten`` result travels as the
file and its headers. A person gives a ``style`` and gets a ``handwritten`` text back, a table of them from
``sweeping``, a ``picture_sheet`` of many.
"""
