"""Reduce a font to the tables for shaping: characters, advances, substitutions, kerning; no outlines."""

from __future__ import annotations

import io

from fontTools import subset
from fontTools.ttLib import TTFont

_TEXT_RANGES = (
    (0x20, 0x7E), (0xA0, 0x17F), (0x18F, 0x192), (0x1A0, 0x1A1), (0x1AF, 0x1B0), (0x218, 0x21B), (0x300, 0x304),
    (0x306, 0x30C), (0x323, 0x328), (0x370, 0x3FF), (0x400, 0x45F), (0x490, 0x493), (0x1E80, 0x1E85),
    (0x1E9E, 0x1E9E), (0x1EA0, 0x1EF9), (0x2010, 0x2027), (0x2030, 0x203A), (0x2044, 0x2044), (0x20A0, 0x20BF),
    (0x2116, 0x2116), (0x2122, 0x2122), (0x2190, 0x2194), (0x2212, 0x2212), (0x2248, 0x2248), (0x2260, 0x2265),
    (0x2070, 0x209C), (0x2113, 0x2113), (0x2126, 0x2126), (0x212E, 0x212E), (0x2150, 0x215E), (0x2202, 0x2206),
    (0x220F, 0x2211), (0x221A, 0x221A), (0x221E, 0x221E), (0x222B, 0x222B), (0x27E8, 0x27E9),
)  # fmt: skip
_EMOJI_RANGES = (  # emoji and symbols of one code point
    (0x2190, 0x21FF), (0x2300, 0x23FF), (0x2460, 0x27BF), (0x2934, 0x2935), (0x2B05, 0x2B55), (0x3030, 0x303D),
    (0x3297, 0x3299), (0x1F300, 0x1F64F), (0x1F680, 0x1F6FF), (0x1F900, 0x1FAFF),
)  # fmt: skip
_OUTLINE_TABLES = (
    "glyf", "loca", "CFF ", "gvar", "fpgm", "prep", "cvt ", "gasp", "post", "name", "VDMX", "hdmx", "STAT", "vhea",
    "vmtx", "OS/2", "meta", "FFTM", "VORG", "BASE",
)  # fmt: skip


def characters(hand: str) -> set[int]:
    """Return the code points that a hand keeps: for most hands, European letters, punctuation and currency signs."""
    if hand == "haneul":  # the 2,350 syllables of KS X 1001, which write nearly all Korean
        return {0x20} | {ord(bytes((a, b)).decode("euc_kr")) for a in range(0xB0, 0xC9) for b in range(0xA1, 0xFF)}
    ranges = _EMOJI_RANGES if hand == "emoji" else _TEXT_RANGES
    return {0x20} | {code for low, high in ranges for code in range(low, high + 1)}


def subset_font(font: bytes, characters: set[int], features: list[str]) -> TTFont:
    options = subset.Options()
    options.layout_features = features
    options.hinting = False
    options.notdef_outline = False
    options.glyph_names = False
    options.drop_tables += ["DSIG", "FFTM"]
    opened = TTFont(io.BytesIO(font), recalcTimestamp=False)  # no date: the same font gives the same bytes
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=characters)
    cutter.subset(opened)
    return opened


def drop_outlines(font: TTFont) -> bytes:
    """Delete outlines and names from `font`, which is changed, and return the font as bytes."""
    for table in _OUTLINE_TABLES + (("kern",) if "GPOS" in font else ()):
        if table in font:
            del font[table]
    out = io.BytesIO()
    font.save(out, reorderTables=None)
    return out.getvalue()
