"""The file of a hand: its measures, the strokes of its glyphs, the font that shapes them, and its allographs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
import numpy as np

from toolkit_gateway.ink.hand import PACK_UNITS, PACKS_DIR, Allographs, Measures
from toolkit_gateway.ink.ribbons import Strokes


def write_pack(
    measures: Measures,
    font: bytes,
    glyphs: Sequence[Strokes],
    redrawn: Sequence[int],
    allographs: Allographs | None = None,
) -> None:
    """Write the pack of a hand; coordinates are second differences of integers, which compress well.

    The glyphs are those of the font, then one for each glyph number in `redrawn`, then those that allographs add.
    """
    strokes = Strokes.concatenate(glyphs)
    whole = np.rint(np.stack([strokes.x, strokes.y, strokes.radius]) * PACK_UNITS).astype(np.int16)
    arrays = {
        "measures": np.frombuffer(json.dumps(asdict(measures)).encode(), np.uint8),
        "font": np.frombuffer(font, np.uint8),
        "points": np.diff(np.diff(whole, prepend=np.int16(0)), prepend=np.int16(0)),
        "length": strokes.length.astype(np.uint16),
        "flags": strokes.flags,
        "redrawn": np.array(redrawn, np.uint16),
        "glyph_strokes": np.array([len(glyph.length) for glyph in glyphs], np.uint8),
    }
    if allographs is not None:
        joins = [sorted(of_writer) for of_writer in allographs.joins]
        text = msgspec.json.encode({"forms": allographs.forms, "joins": joins})
        arrays["allographs"] = np.frombuffer(text, np.uint8)
    # As np.savez_compressed, but 2 % smaller.
    with ZipFile(PACKS_DIR / f"{measures.name}.npz", "w", ZIP_DEFLATED, compresslevel=9) as pack:
        for name, array in arrays.items():
            with pack.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.asanyarray(array))
