"""Whether a construction still reads as its letter, judged on small pictures beside the other letters of the hand."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from toolkit.handwriting.ink.canvases.raster import coverage
from toolkit.handwriting.ink.ribbons import Strokes, refine, ribbons
from toolkit.keyed_noise import Floats

_SCALE, _WIDTH, _HEIGHT, _BASELINE = 40, 96, 112, 72  # pixels: a cap height, the picture, its top to the baseline
_CELL = 4  # pixels of a cell in which pictures are compared
_INKED, _NEAR_INK = 0.5, 0.2  # least shade of what a usual pen, and a thick one, would fill
_LEAD = 0.3  # share that must remain of the lead which a letter has over each other one in alikeness to itself


class Picture(NamedTuple):
    """The form of the ink: its number of parts less that of its counters, also where it is written with a thick pen."""

    parts: int
    thick_parts: int
    shades: Floats  # of the cells, of length 1


def picture_of(strokes: Strokes, nib: float) -> Picture:
    x = (strokes.x - np.median(strokes.x)) * _SCALE + _WIDTH / 2
    placed = replace(strokes, x=x, y=_BASELINE - strokes.y * _SCALE, radius=strokes.radius * nib * _SCALE)
    shades = coverage([ribbons(refine(placed, 2))], _WIDTH, _HEIGHT) / 255
    thick = _blurred(shades)
    cells = thick.reshape(_HEIGHT // _CELL, _CELL, _WIDTH // _CELL, _CELL).sum(axis=(1, 3))
    flat = _blurred(cells).ravel()
    parts, thick_parts = (_parts(_blurred(thick) > least) for least in (_INKED, _NEAR_INK))
    return Picture(parts, thick_parts, flat / max(float(np.sqrt((flat * flat).sum())), 1e-9))


def _blurred(shades: Floats) -> Floats:
    for axis in (0, 1):
        shades = 0.5 * shades + 0.25 * (np.roll(shades, 1, axis) + np.roll(shades, -1, axis))
    return shades


def _parts(ink: np.ndarray) -> int:
    """Return the number of parts less the number of counters, from the corners of the ink."""
    here, right, below, across = ink[:-1, :-1], ink[:-1, 1:], ink[1:, :-1], ink[1:, 1:]
    count = here.astype(np.int8) + right + below + across
    pinched = (count == 2) & (here == across)
    return int((count == 1).sum() - (count == 3).sum() - 2 * pinched.sum()) // 4


class Alphabet:
    """The small letters and figures of a hand as its font draws them."""

    def __init__(self, letters: dict[str, Strokes], nib: float) -> None:
        self._nib = nib
        self._letters = list(letters)
        self._shades = np.stack([picture_of(strokes, nib).shades for strokes in letters.values()])

    def reader(self, character: str, strokes: Strokes) -> Callable[[Strokes, int], bool]:
        """Return a function that tells whether other strokes read as `character`, which has these in the font.

        They need its parts and counters, or as many counters more as the second argument says, and must be more alike
        to it than to each other letter. One counter fewer is a gap, which may be closed.
        """
        own, plain = picture_of(strokes, self._nib), unicodedata.normalize("NFD", character.lower())[0]
        others = [
            n for n, letter in enumerate(self._letters) if letter != plain and letter.isdigit() == plain.isdigit()
        ]

        def reads(changed: Strokes, counters: int) -> bool:
            seen = picture_of(changed, self._nib)
            fewest, most = own.parts - max(counters, 0), own.parts - min(counters, 0)
            if not fewest <= seen.parts <= most - max(counters, 0):
                return False
            # A thick pen closes a gap, and what it closes in the font.
            closed, usual = seen.parts - seen.thick_parts, own.parts - own.thick_parts
            if closed not in {0, usual} and not (counters < 0 and closed in {1, usual + 1}):
                return False
            lead = float(seen.shades @ own.shades) - self._shades[others] @ seen.shades
            return bool((lead > _LEAD * (1 - self._shades[others] @ own.shades)).all())

        return reads
