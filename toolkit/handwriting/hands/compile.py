"""Build command: ``python -m toolkit.handwriting.hands.compile [--only NAME ...] [--archives FOLDER]``.

Fetches the fonts of ``sources.toml``, turns their letters into pen strokes and writes the packs, the licences, the
catalogue and the contact sheet beside this file. Needs the extra ``hands`` and npm. About four minutes on one core.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import string
import subprocess
import tarfile
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from fontTools.ttLib import TTFont
from matplotlib.transforms import Affine2D
from PIL import Image, ImageDraw
from tqdm.auto import tqdm

from toolkit.handwriting.catalogue import HANDS, Handwriting, Source, sources
from toolkit.handwriting.hands import shaping_font
from toolkit.handwriting.hands.known_losses import Loss, check_losses, known_losses
from toolkit.handwriting.hands.outline import glyph_path
from toolkit.handwriting.hands.ratings import handwritings
from toolkit.handwriting.hands.tracing import NOTHING, Tracing, trace_outline
from toolkit.handwriting.ink.hand import PACKS, Measures, write_pack
from toolkit.handwriting.ink.renderer import render
from toolkit.handwriting.ink.ribbons import DOT, Strokes
from toolkit.handwriting.parameters import Parameters

LICENCES = HANDS / "licences"
_FEATURES = ["ccmp", "locl", "calt", "liga", "clig", "rlig", "kern", "mark", "mkmk", "curs"]
LINE = "Thanks for the quick jam, Zoë!"
_COLUMNS, _WIDTH, _HEIGHT = 4, 560, 66  # of the contact sheet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[source.name for source in sources()])
    parser.add_argument("--archives", type=Path, help="folder that keeps the fetched archives")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.archives or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for source in tqdm([s for s in sources() if s.name in arguments.only], desc="hands"):
            archive = fetch(source.package, source.version, source.integrity, folder)
            glyphs, outlines = compile_hand(source, read_member(archive, source.font))
            (LICENCES / f"{source.name}.txt").write_text(_licence(source, archive))
            tqdm.write(f"{source.name}: {glyphs} glyphs, {outlines} kept as outlines")
    catalogue = handwritings()
    (HANDS / "catalogue.json").write_text("[\n" + ",\n".join(json.dumps(asdict(row)) for row in catalogue) + "\n]\n")
    _contact_sheet(catalogue, HANDS / "contact_sheet.png")


class WrongArchive(Exception):
    pass


def fetch(package: str, version: str, integrity: str, folder: Path) -> Path:
    """Fetch the archive with ``npm pack`` if it is missing; raise WrongArchive if its sha512 is not `integrity`."""
    archive = folder / f"{package.removeprefix('@').replace('/', '-')}-{version}.tgz"
    if not archive.exists():
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{package}@{version}"]
        subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != integrity:
        raise WrongArchive(f"{archive.name}: sha512-{digest}, expected {integrity}")
    return archive


def read_member(archive: Path, name: str) -> bytes:
    """Return a file of the package, or no bytes if it is missing."""
    with tarfile.open(archive) as files:
        member = f"package/{name}"
        file = files.extractfile(member) if member in files.getnames() else None
        return file.read() if file else b""


def compile_hand(source: Source, font: bytes) -> tuple[int, int]:
    """Write the pack and return its number of glyphs, and of glyphs kept as outlines; raise UnknownLoss."""
    cut = shaping_font.subset_font(font, shaping_font.characters(source.name), _FEATURES)
    units, lift = _scale(cut, source.name)
    made = _trace_glyphs(source.name, cut, Affine2D().scale(1 / units).translate(0, lift))
    check_losses(source.name, _losses(source.name, cut, made))
    moved = {cut.getBestCmap()[ord(letter)]: by for letter, by in source.dots_moved.items()}
    order = cut.getGlyphOrder()
    strokes = [_move_dots(glyph.strokes, moved.get(name, 0.0)) for name, glyph in zip(order, made, strict=True)]
    measures = _measures(source, cut, units, strokes)
    write_pack(PACKS / f"{source.name}.npz", measures, shaping_font.drop_outlines(cut), strokes)
    return len(made), sum(glyph.is_outline for glyph in made)


def _trace_glyphs(hand: str, font: TTFont, to_caps: Affine2D) -> list[Tracing]:
    glyphs, listed = font.getGlyphSet(), {loss.glyph for loss in known_losses() if loss.hand == hand}
    paths = {name: glyph_path(glyphs, name) for name in font.getGlyphOrder()}
    return [
        NOTHING if path is None else trace_outline(to_caps.transform_path(path), known_loss=name in listed)
        for name, path in paths.items()
    ]


def _losses(hand: str, font: TTFont, made: list[Tracing]) -> list[Loss]:
    text: dict[str, str] = {}
    for code, name in sorted(font.getBestCmap().items()):
        text[name] = text.get(name, "") + chr(code)
    return [
        Loss(hand, number, name, text.get(name, ""), glyph.outline_form, glyph.form)
        for number, (name, glyph) in enumerate(zip(font.getGlyphOrder(), made, strict=True))
        if glyph.form != glyph.outline_form
    ]


def _move_dots(strokes: Strokes, by: float) -> Strokes:
    dots = ((strokes.flags & DOT) > 0)[strokes.stroke_of_point]
    return replace(strokes, x=np.where(dots, strokes.x + by, strokes.x)) if by else strokes


def _scale(font: TTFont, name: str) -> tuple[float, float]:
    """Return the font units in a cap height, and how far to lift the drawings, in cap heights."""
    if name == "emoji":
        low, high = _extent(font, "\N{GRINNING FACE}")
        units = (high - low) / 1.25
        return units, -low / units - 0.12
    if ord("H") in font.getBestCmap():
        return _extent(font, "H")[1], 0.0
    low, high = _extent(font, "\N{HANGUL SYLLABLE HAN}")
    return (high - low) / 1.15, 0.0  # no capitals: a syllable is a little taller than one


def _extent(font: TTFont, character: str) -> tuple[float, float]:
    path = glyph_path(font.getGlyphSet(), font.getBestCmap()[ord(character)])
    if path is None:
        return 0.0, 0.0
    (_, low), (_, high) = path.get_extents().get_points()
    return float(low), float(high)


def _measures(source: Source, font: TTFont, units: float, strokes: list[Strokes]) -> Measures:
    cmap, order = font.getBestCmap(), {name: i for i, name in enumerate(font.getGlyphOrder())}
    letters = [strokes[order[cmap[ord(c)]]] for c in string.ascii_letters if ord(c) in cmap] or strokes
    radii = np.concatenate([s.radius[s.radius > 0] for s in letters])
    deep = [_extent(font, c)[0] for c in "gjpqy" if ord(c) in cmap]
    return Measures(
        name=source.name,
        units_per_cap=float(units),
        space=font["hmtx"][cmap[ord(" ")]][0] / units * source.word_space,
        descender=max(0.0, -min(deep, default=0.0) / units),
        nib=float(radii.mean()),
        joined=source.joined,
    )


def _licence(source: Source, archive: Path) -> str:
    names = TTFont(io.BytesIO(read_member(archive, source.font)))["name"]
    licence = read_member(archive, "LICENSE_FONT").decode() or names.getDebugName(13) or ""
    return (
        f'The hand "{source.name}" is a modified version, as pen strokes, of the font in the npm package\n'
        f"{source.package} {source.version}, {source.font}.\n"
        f"Licence: {source.licence}. Copyright notice of the font:\n\n"
        f"{names.getDebugName(0) or ''}\n\n{licence.strip()}\n"
    )


def _contact_sheet(handwritings: list[Handwriting], path: Path) -> None:
    rows = -(-len(handwritings) // _COLUMNS)
    sheet = Image.new("L", (_COLUMNS * _WIDTH, rows * _HEIGHT), 255)
    draw = ImageDraw.Draw(sheet)
    for n, handwriting in enumerate(handwritings):
        left, top = n % _COLUMNS * _WIDTH + 8, n // _COLUMNS * _HEIGHT
        draw.text((left, top), f"{handwriting.title}  {handwriting.id}", fill=120)
        line = render(Parameters(handwriting, "png", LINE, 22, width=_WIDTH - 16, height=_HEIGHT - 6, random_seed=1))
        sheet.paste(0, (left, top + 6), line.image().getchannel("A"))
    sheet.quantize(16).save(path, optimize=True)


if __name__ == "__main__":
    main()
