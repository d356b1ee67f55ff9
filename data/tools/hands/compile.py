"""Build command: ``python -m data.tools.hands.compile [--only NAME ...]``.

Fetches the fonts of ``sources.toml``, converts letters to pen strokes and writes the packs, the licences and the
catalogue in ``toolkit_gateway/hands``, and the contact sheets of the documentation. The command needs the dependency
group ``hands`` and npm, and about eight minutes.
"""

from __future__ import annotations

import argparse
import io
import json
import string
from dataclasses import asdict, replace

import numpy as np
from fontTools.ttLib import TTFont
from matplotlib.transforms import Affine2D
from tqdm.auto import tqdm

from data.tools.hands import allographs, contact_sheets, shaping_font
from data.tools.hands.outline import glyph_path
from data.tools.hands.pack import write_pack
from data.tools.hands.ratings import handwritings
from data.tools.hands.repairs import Glyphs, repair, strokes_from_svg
from data.tools.hands.sources import FontSource, sources
from data.tools.hands.tracing import is_outline, trace_outline
from data.tools.npm import fetch_package
from toolkit_gateway.ink.catalogue import HANDS_DIR
from toolkit_gateway.ink.hand import Measures
from toolkit_gateway.ink.ribbons import DOT_FLAG, Strokes

LICENCES_DIR = HANDS_DIR / "licences"
_OPENTYPE_FEATURES = ["ccmp", "locl", "calt", "liga", "clig", "rlig", "kern", "mark", "mkmk", "curs"]
_BORROWED = "For natural writing it also has letters of other hands, under the licences of these.\n"
_LETTERS_WITH_STEMS = "bdhklpqtijfHITNMEFL"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [source.name for source in sources()]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    only = parser.parse_args().only
    for source in tqdm([source for source in sources() if source.name in only], desc="hands"):
        files = fetch_package(source.package, source.version, source.integrity)
        glyphs, outlines = compile_hand(source, files[source.font])
        (LICENCES_DIR / f"{source.name}.txt").write_text(_licence_text(source, files))
        tqdm.write(f"{source.name}: {glyphs} glyphs, {outlines} kept as outlines")
    allographs.main()
    rows = ",\n".join(json.dumps(asdict(row)) for row in handwritings())
    (HANDS_DIR / "catalogue.json").write_text(f"[\n{rows}\n]\n")
    contact_sheets.main()


def compile_hand(source: FontSource, font: bytes) -> tuple[int, int]:
    """Write the pack; return the number of glyphs, and the number of glyphs that stay outlines."""
    kept = shaping_font.characters(source.name) - set(map(ord, source.left_out))
    cut = shaping_font.subset_font(font, kept, _OPENTYPE_FEATURES)
    units, lift = _units_and_lift(cut, source.name)
    to_caps = Affine2D().scale(1 / units).translate(0, lift)
    strokes = {}
    for name in cut.getGlyphOrder():
        path = glyph_path(cut.getGlyphSet(), name)
        strokes[name] = trace_outline(to_caps.transform_path(path)) if path else Strokes.empty()
    counts = len(strokes), sum(is_outline(glyph) for glyph in strokes.values())
    for letter, by in source.dots_moved.items():
        name = cut.getBestCmap()[ord(letter)]
        strokes[name] = _move_dots(strokes[name], by)
    measures = _measure_hand(source, cut, units, strokes)
    repair(Glyphs(cut, units, strokes, measures.nib), source)
    order = [strokes[name] for name in cut.getGlyphOrder()]
    redrawn = [strokes_from_svg(path, measures.nib) for path in source.redrawn.values()]
    # A name of more characters is that of a glyph.
    names = [cut.getBestCmap()[ord(name)] if len(name) == 1 else name for name in source.redrawn]
    write_pack(measures, shaping_font.drop_outlines(cut), order + redrawn, list(map(cut.getGlyphID, names)))
    return counts


def _move_dots(strokes: Strokes, by: float) -> Strokes:
    dots = ((strokes.flags & DOT_FLAG) > 0)[strokes.stroke_of_point]
    return replace(strokes, x=np.where(dots, strokes.x + by, strokes.x))


def _units_and_lift(font: TTFont, name: str) -> tuple[float, float]:
    """Return the font units in a cap height, and how far all glyphs must move up, in cap heights."""
    if name == "emoji":
        low, high = _vertical_extent(font, "\N{GRINNING FACE}")
        units = (high - low) / 1.25
        return units, -low / units - 0.12
    if ord("H") in font.getBestCmap():
        return _vertical_extent(font, "H")[1], 0.0
    low, high = _vertical_extent(font, "\N{HANGUL SYLLABLE HAN}")
    return (high - low) / 1.15, 0.0  # no capitals: a Hangul syllable is a little taller than a capital


def _vertical_extent(font: TTFont, character: str) -> tuple[float, float]:
    path = glyph_path(font.getGlyphSet(), font.getBestCmap()[ord(character)])
    if path is None:
        return 0.0, 0.0
    (_, low), (_, high) = path.get_extents().get_points()
    return float(low), float(high)


def _measure_hand(source: FontSource, font: TTFont, units: float, strokes: dict[str, Strokes]) -> Measures:
    cmap = font.getBestCmap()
    letters = [strokes[cmap[ord(c)]] for c in string.ascii_letters if ord(c) in cmap] or list(strokes.values())
    radii = np.concatenate([s.radius[s.radius > 0] for s in letters])
    deep = [_vertical_extent(font, c)[0] for c in "gjpqy" if ord(c) in cmap]
    stems = Strokes.concatenate(strokes[cmap[ord(c)]] for c in _LETTERS_WITH_STEMS if ord(c) in cmap)
    return Measures(
        name=source.name,
        units_per_cap=float(units),
        space=font["hmtx"][cmap[ord(" ")]][0] / units * source.word_space,
        descender=max(0.0, -min(deep, default=0.0) / units),
        nib=float(radii.mean()),
        joined=source.joined,
        x_height=float(np.median([_vertical_extent(font, c)[1] for c in "xvz"])) / units if ord("x") in cmap else None,
        slant=_slant_of(stems) if len(stems.x) else None if source.name == "emoji" else 0.0,
    )


def _slant_of(stems: Strokes) -> float:
    """Return the median slope of the steep strokes, weighted by length: 0 is upright, above 0 leans to the right."""
    inside = np.diff(stems.stroke_of_point) == 0
    dx, dy = np.diff(stems.x)[inside], np.diff(stems.y)[inside]
    steep = np.abs(dy) > np.abs(dx)
    slope, weight = dx[steep] / dy[steep], np.hypot(dx, dy)[steep]
    order = np.argsort(slope)
    return float(slope[order][np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)])


def _licence_text(source: FontSource, files: dict[str, bytes]) -> str:
    names = TTFont(io.BytesIO(files[source.font]))["name"]
    licence = files.get("LICENSE_FONT", b"").decode() or names.getDebugName(13) or ""
    return (
        f'The hand "{source.name}" is a modified version, as pen strokes, of the font in the npm package\n'
        f"{source.package} {source.version}, {source.font}.\n"
        f"Licence: {source.licence}. {_BORROWED if source.titles else ''}Copyright notice of the font:\n\n"
        f"{names.getDebugName(0) or ''}\n\n{licence.strip()}\n"
    )


if __name__ == "__main__":
    main()
