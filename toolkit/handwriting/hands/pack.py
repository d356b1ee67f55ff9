"""The file of one hand: a font without outlines, for shaping, and the pen strokes of its glyphs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolkit.handwriting.ink.ribbons import Strokes

PACKS = Path(__file__).parent / "packs"
UNITS = 1024  # stored numbers are whole 1/1024 of the cap height


@dataclass(frozen=True, slots=True)
class Measures:
    """Figures of one hand; lengths in cap heights."""

    name: str
    units_per_cap: float  # font units in one cap height (top of the drawn H)
    space: float  # advance of the space
    descender: float  # how far the deepest of ``gjpqy`` goes below the baseline
    nib: float  # mean half width of the strokes of the letters
    joined: bool  # letters are joined: only whole words may move


@dataclass(frozen=True, slots=True)
class Pack:
    """One hand as stored: its figures, its shaping font and the strokes of every glyph."""

    measures: Measures
    font: bytes  # OpenType font without outlines
    strokes: Strokes  # of all glyphs, one after another, in cap heights, y upwards
    glyph_strokes: npt.NDArray[np.int64]  # (glyphs,) how many strokes each has


def write_pack(pack: Pack, path: Path) -> None:
    """Write `pack` to `path` (.npz): whole numbers, each point as the change of the change, which packs well."""
    points = np.stack([pack.strokes.x, pack.strokes.y, pack.strokes.radius])
    whole = np.rint(points * UNITS).astype(np.int16)
    np.savez_compressed(
        path,
        measures=np.frombuffer(json.dumps(asdict(pack.measures)).encode(), np.uint8),
        font=np.frombuffer(pack.font, np.uint8),
        points=np.diff(np.diff(whole, prepend=np.int16(0)), prepend=np.int16(0)),
        length=pack.strokes.length.astype(np.uint16),
        flags=pack.strokes.flags,
        glyph_strokes=pack.glyph_strokes.astype(np.uint8),
    )


def read_pack(path: Path) -> Pack:
    with np.load(path) as stored:
        # 16-bit sums wrap round, exactly as the differences did
        whole = np.cumsum(np.cumsum(stored["points"], axis=1, dtype=np.int16), axis=1, dtype=np.int16)
        x, y, radius = whole / UNITS
        strokes = Strokes(x, y, radius, stored["length"].astype(np.int64), stored["flags"])
        measures = Measures(**json.loads(stored["measures"].tobytes()))
        return Pack(measures, stored["font"].tobytes(), strokes, stored["glyph_strokes"].astype(np.int64))
