"""Repair faults of the fonts: letters that look like other letters, missing signs, quotes, dashes, digits.

Lengths are in cap heights. ``sources.toml`` says which letters of a hand to repair; dashes, side bearings and the size
of digits are repaired after measurements.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace

import numpy as np
from fontTools.svgLib.path import parse_path
from fontTools.ttLib import TTFont
from matplotlib.transforms import Affine2D

from data.tools.hands.outline import RESOLUTION, PathPen
from data.tools.hands.sources import FontSource
from data.tools.hands.strokes import arc_length, resample
from toolkit_gateway.ink.hand import REDRAWN, REDRAWN_GLYPH
from toolkit_gateway.ink.ribbons import DOT_FLAG, Strokes

LONGEST_HYPHEN = 0.45
EN_DASH, EM_DASH = 1.4, 1.5  # smallest lengths, relative to the hyphen and to the en dash
MAX_SIDE_BEARING = 0.1  # beside commas, stops and quotes
LOWEST_DIGITS, HIGHEST_DIGITS, TALLEST_DIGIT = 0.8, 1.0, 1.15
_QUOTE_HEIGHT, _QUOTE_STEP, _QUOTE_BEARING = 0.28, 0.15, 0.07
_LONGEST_DOT = 0.12
_FRACTIONS = {"½": "12", "⅓": "13", "⅔": "23", "¼": "14", "¾": "34", "⅛": "18", "⅜": "38", "⅝": "58", "⅞": "78"}
_LOWERED, _RAISED = "₀₁₂₃₄₅₆₇₈₉", "⁰¹²³⁴⁵⁶⁷⁸⁹"


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The strokes of a font by glyph name, with the font for characters and advances."""

    font: TTFont
    units: float  # font units in a cap height
    strokes: dict[str, Strokes]
    nib: float

    def name_of(self, character: str) -> str | None:
        name: str | None = self.font.getBestCmap().get(ord(character))
        return name

    def advance(self, name: str) -> float:
        return float(self.font["hmtx"][name][0] / self.units)

    def put(self, name: str, strokes: Strokes, advance: float) -> None:
        self.strokes[name] = strokes
        self.font["hmtx"][name] = (round(advance * self.units), 0)

    def add(self, character: str) -> str:
        """Add a blank glyph for `character` and return the name of the glyph."""
        name = f"uni{ord(character):04X}"
        self.font.setGlyphOrder([*self.font.getGlyphOrder(), name])
        self.font["maxp"].numGlyphs += 1
        for table in self.font["cmap"].tables:
            if table.isUnicode():
                table.cmap[ord(character)] = name
        self.put(name, Strokes.empty(), 0.0)
        return name


def repair(glyphs: Glyphs, source: FontSource) -> None:
    for letter, path in source.drawn.items():
        _draw_letter(glyphs, letter, path)
    _replace_glyphs(glyphs, source.replaced)
    for letter, path in source.redrawn.items():
        is_glyph = len(letter) > 1  # the name of a glyph
        code = REDRAWN_GLYPH + glyphs.font.getGlyphID(letter) if is_glyph else REDRAWN + ord(letter)
        advance = glyphs.advance(letter if is_glyph else glyphs.name_of(letter) or "")
        glyphs.put(glyphs.add(chr(code)), strokes_from_svg(path, glyphs.nib), advance)
    for letter, factor in source.stretched.items():
        if name := glyphs.name_of(letter):
            taller = replace(glyphs.strokes[name], y=glyphs.strokes[name].y * factor)
            _change_letter(glyphs, letter, taller, glyphs.advance(name))
    for letter, path in source.added.items():
        if name := glyphs.name_of(letter):
            strokes = Strokes.concatenate([glyphs.strokes[name], strokes_from_svg(path, glyphs.nib)])
            glyphs.put(name, strokes, glyphs.advance(name))
    if source.quotes_from_comma:
        _make_quotes(glyphs)
    _lengthen_dashes(glyphs)
    _limit_side_bearings(glyphs)
    if glyphs.name_of("0"):
        _scale_digits(glyphs, source.digits)
        _compose_signs(glyphs)


def strokes_from_svg(path: str, nib: float) -> Strokes:
    """Return the strokes of a path in SVG syntax, y upwards; a very short line becomes a dot."""
    pen = PathPen(None)
    parse_path(path, pen)
    lines = pen.path().transformed(Affine2D().scale(RESOLUTION)).to_polygons(closed_only=False)
    made = []
    for line in map(np.asarray, lines):
        is_dot = arc_length(line)[-1] < _LONGEST_DOT * RESOLUTION
        points = line if is_dot else resample(np.column_stack([line, np.zeros(len(line))]))
        x, y = points[:, 0] / RESOLUTION, points[:, 1] / RESOLUTION
        made.append(Strokes(x, y, np.full(len(x), nib), np.array([len(x)]), np.array([DOT_FLAG * is_dot], np.uint8)))
    return Strokes.concatenate(made)


def _replace_glyphs(glyphs: Glyphs, names: dict[str, str]) -> None:
    """Replace glyphs: `names` gives for each glyph the names of one or more other glyphs, which are drawn in a row."""
    new = {name: [(glyphs.strokes[part], glyphs.advance(part)) for part in names[name].split()] for name in names}
    for name, parts in new.items():
        ends = np.cumsum([advance for _, advance in parts])
        moved = [replace(strokes, x=strokes.x + end - step) for (strokes, step), end in zip(parts, ends, strict=True)]
        glyphs.put(name, Strokes.concatenate(moved), float(ends[-1]))


def _draw_letter(glyphs: Glyphs, letter: str, path: str) -> None:
    strokes = strokes_from_svg(path, glyphs.nib)
    if name := glyphs.name_of(letter):
        _change_letter(glyphs, letter, strokes, glyphs.advance(name))
    else:
        glyphs.put(glyphs.add(letter), strokes, float(strokes.x.max()) + 0.12)


def _change_letter(glyphs: Glyphs, letter: str, strokes: Strokes, advance: float) -> None:
    """Change a letter, also in letters with accents, whose accents stay."""
    name = glyphs.name_of(letter)
    assert name is not None
    old = glyphs.strokes[name]
    for code, composed in glyphs.font.getBestCmap().items():
        parts = unicodedata.normalize("NFD", chr(code))
        if len(parts) > 1 and parts[0] == letter:
            kept = Strokes.concatenate([strokes, _accents_of(glyphs.strokes[composed], old)])
            glyphs.put(composed, kept, glyphs.advance(composed))
    glyphs.put(name, strokes, advance)


def _accents_of(accented: Strokes, letter: Strokes) -> Strokes:
    """Return the accents: the strokes above, below or to the right of the letter."""
    start = accented.start
    above = np.minimum.reduceat(accented.y, start) > letter.y.max() - 0.03
    below = np.maximum.reduceat(accented.y, start) < letter.y.min() + 0.03
    beside = np.minimum.reduceat(accented.x, start) > letter.x.max() - 0.03
    return accented.select(above | below | beside)


def _make_quotes(glyphs: Glyphs) -> None:
    """Make curly quotes from the comma, for fonts whose curly quotes are straight."""
    comma = glyphs.strokes[glyphs.name_of(",") or ""]
    height = np.ptp(comma.y) + 2 * glyphs.nib
    factor = min(_QUOTE_HEIGHT / height, 1.2)
    x, y = (comma.x - comma.x.min()) * factor, (comma.y - comma.y.max()) * factor
    closing = replace(comma, x=x + _QUOTE_BEARING, y=y + 1 - glyphs.nib, radius=comma.radius * min(factor, 1.0))
    x, y = (closing.x.max() + _QUOTE_BEARING - closing.x)[::-1], (1 - 2 * glyphs.nib + y.min() - y)[::-1] + glyphs.nib
    opening = Strokes(x, y, closing.radius[::-1], comma.length[::-1], comma.flags[::-1])
    for characters, count in (("‘’", 1), ("“”", 2)):
        for character, one in zip(characters, (opening, closing), strict=True):
            step = _QUOTE_STEP + 0.3 * float(np.ptp(one.x))
            strokes = Strokes.concatenate(replace(one, x=one.x + n * step) for n in range(count))
            glyphs.put(glyphs.name_of(character) or glyphs.add(character), strokes, strokes.x.max() + _QUOTE_BEARING)


def _lengthen_dashes(glyphs: Glyphs) -> None:
    """Shorten a long hyphen; make the en dash longer than the hyphen, and the em dash longer than the en dash."""
    hyphen, en, em = (glyphs.name_of(character) for character in "-–—")
    if not (hyphen and en and em):
        return
    width = min(_ink_width(glyphs, hyphen), LONGEST_HYPHEN)
    _widen(glyphs, hyphen, width)
    _widen(glyphs, en, max(_ink_width(glyphs, en), EN_DASH * width))
    _widen(glyphs, em, max(_ink_width(glyphs, em), EM_DASH * _ink_width(glyphs, en)))


def _ink_width(glyphs: Glyphs, name: str) -> float:
    return float(np.ptp(glyphs.strokes[name].x)) + 2 * glyphs.nib


def _widen(glyphs: Glyphs, name: str, width: float) -> None:
    strokes, change = glyphs.strokes[name], width - _ink_width(glyphs, name)
    left, span = strokes.x.min(), float(np.ptp(strokes.x))
    if span:
        wider = replace(strokes, x=left + (strokes.x - left) * (span + change) / span)
        glyphs.put(name, wider, glyphs.advance(name) + change)


def _limit_side_bearings(glyphs: Glyphs) -> None:
    """Limit the space beside commas, stops and quotes, so that they stand near the word."""
    for name in filter(None, map(glyphs.name_of, ",.;:‘’“”")):
        strokes, advance = glyphs.strokes[name], glyphs.advance(name)
        left = float((strokes.x - strokes.radius).min())
        right = advance - float((strokes.x + strokes.radius).max())
        # Ink beyond the advance of a glyph belongs above the next letter and stays there.
        before, after = min(left - MAX_SIDE_BEARING, left + right), right - MAX_SIDE_BEARING
        before, after = max(before, 0.0), max(after, 0.0)
        glyphs.put(name, replace(strokes, x=strokes.x - before), advance - before - after)


def _scale_digits(glyphs: Glyphs, height: float | None) -> None:
    """Scale the digits so that their mean height is `height`, or if None, between 0.8 and 1 cap heights."""
    names = [glyphs.name_of(digit) or "" for digit in "0123456789"]
    heights = np.array([np.ptp(glyphs.strokes[name].y) for name in names])
    ink = 2 * glyphs.nib  # the line width does not scale
    mean = float(heights.mean())
    factor = ((height or min(max(mean + ink, LOWEST_DIGITS), HIGHEST_DIGITS)) - ink) / mean
    factor = min(factor, max((TALLEST_DIGIT - ink) / float(heights.max()), 1.0))
    for name, strokes in list(glyphs.strokes.items()):
        if name.partition(".")[0] in names:
            glyphs.put(name, _resized(strokes, factor), glyphs.advance(name) * factor)


def _resized(strokes: Strokes, factor: float, rise: float = 0.0) -> Strokes:
    return replace(strokes, x=strokes.x * factor, y=strokes.y * factor + rise)


def _compose_signs(glyphs: Glyphs) -> None:
    """Compose fractions, and superscript and subscript digits that the font lacks, from small digits."""
    digit = {d: (glyphs.strokes[name], glyphs.advance(name)) for d in "0123456789" if (name := glyphs.name_of(d))}
    for character, digits in _FRACTIONS.items():
        upper, lower = _resized(digit[digits[0]][0], 0.55, 0.45), _resized(digit[digits[1]][0], 0.55)
        foot = float(upper.x.max()) - 0.04
        slash = strokes_from_svg(f"M {foot} -.02 L {foot + 0.34} 1.02", glyphs.nib)
        lower = replace(lower, x=lower.x - lower.x.min() + foot + 0.32)
        strokes = Strokes.concatenate([upper, slash, lower])
        glyphs.put(glyphs.name_of(character) or glyphs.add(character), strokes, float(lower.x.max()) + 0.1)
    for characters, rise in ((_LOWERED, -0.2), (_RAISED, 0.5)):
        for character, (strokes, advance) in zip(characters, digit.values(), strict=True):
            if glyphs.name_of(character) is None:
                glyphs.put(glyphs.add(character), _resized(strokes, 0.6, rise), 0.6 * advance)
