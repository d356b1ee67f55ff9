"""Whether a construction still reads as its letter, judged on small pictures beside the other letters of the hand."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.handwriting.ink.canvases.raster import coverage
from toolkit.handwriting.ink.ribbons import Strokes, ribbons
from toolkit.keyed_noise import Floats, Integers

_X_HEIGHT, _LEAST_SCALE, _MOST_SCALE = 20, 36, 58  # pixels: of small letters, and of a cap height
_WIDTH, _HEIGHT, _BASELINE = 88, 96, 60  # pixels: of a picture, and from its top to the baseline
_CELL = 4  # pixels of a cell in which pictures are compared
_INKED, _NEAR_INK = 0.5, 0.2  # least shade of what a usual pen, and a thick one, would fill
_LEAD = 0.3  # share that must remain of the lead which a letter has over each other one in alikeness to itself


class Pictures(NamedTuple):
    """The ink of n letters: the number of its parts less that of its counters, also with a thick pen, and its shape."""

    parts: Integers  # (n,)
    thick_parts: Integers  # (n,)
    shades: Floats  # (n, cells), each of length 1


def pictures_of(letters: Sequence[Strokes], nib: float, scale: float) -> Pictures:
    placed = []
    for n, strokes in enumerate(letters):
        x = (strokes.x - np.median(strokes.x)) * scale + (n + 0.5) * _WIDTH
        placed.append(replace(strokes, x=np.clip(x, n * _WIDTH + 3, (n + 1) * _WIDTH - 3)))
    ink = Strokes.concatenate(placed)
    ink = replace(ink, y=_BASELINE - ink.y * scale, radius=ink.radius * nib * scale)
    row = coverage([ribbons(ink)], _WIDTH * len(letters), _HEIGHT) / 255
    shades = _blurred(row.reshape(_HEIGHT, len(letters), _WIDTH).transpose(1, 0, 2))
    cells = shades.reshape(len(letters), _HEIGHT // _CELL, _CELL, _WIDTH // _CELL, _CELL).sum(axis=(2, 4))
    flat = _blurred(cells).reshape(len(letters), -1)
    flat /= np.maximum(np.sqrt((flat * flat).sum(axis=1, keepdims=True)), 1e-9)
    return Pictures(_parts(shades > _INKED), _parts(_blurred(shades) > _NEAR_INK), flat)


def _blurred(shades: Floats) -> Floats:
    for _ in range(2):
        blurred = 0.5 * shades
        blurred[:, :, 1:] += 0.25 * shades[:, :, :-1]
        blurred[:, :, :-1] += 0.25 * shades[:, :, 1:]
        shades = blurred.transpose(0, 2, 1)
    return shades


def _parts(ink: npt.NDArray[np.bool_]) -> Integers:
    """Return the number of parts less the number of counters, from the corners of the ink."""
    here, right, below, across = ink[:, :-1, :-1], ink[:, :-1, 1:], ink[:, 1:, :-1], ink[:, 1:, 1:]
    count = here.astype(np.int8) + right + below + across
    pinched = (count == 2) & (here == across)
    corners = (count == 1).sum(axis=(1, 2)) - (count == 3).sum(axis=(1, 2)) - 2 * pinched.sum(axis=(1, 2))
    parts: Integers = corners // 4
    return parts


class Alphabet:
    """The small letters and figures of a hand as its font draws them."""

    def __init__(self, letters: dict[str, Strokes], nib: float, x_height: float) -> None:
        self._pen = nib, min(max(_X_HEIGHT / x_height, _LEAST_SCALE), _MOST_SCALE)
        self._letters = list(letters)
        self._shades = pictures_of(list(letters.values()), *self._pen).shades

    def legible(self, character: str, font: Strokes, forms: Sequence[Strokes], counters: Integers) -> list[bool]:
        """Tell which of `forms` read as `character`, which has the strokes `font` in the font.

        They need its parts and its counters, and as many counters more as `counters` says (one fewer is a gap, which
        may be closed), and must be more alike to it than to each other letter. What a thick pen closes in the font may
        be closed, but not the eye of an e.
        """
        plain = unicodedata.normalize("NFD", character.lower())[0]
        rivals = [
            n for n, letter in enumerate(self._letters) if letter != plain and letter.isdigit() == plain.isdigit()
        ]
        parts, thick_parts, shades = pictures_of([font, *forms], *self._pen)
        fewest, most = min(parts[0], thick_parts[0]) - np.maximum(counters, 0), max(parts[0], thick_parts[0]) - counters
        same = (fewest <= parts[1:]) & (parts[1:] <= most) & (fewest <= thick_parts[1:]) & (thick_parts[1:] <= most)
        if plain == "e":
            same &= parts[1:] <= parts[0]
        alike = shades @ np.concatenate([shades[:1], self._shades[rivals]]).T
        lead = alike[:, :1] - alike[:, 1:]
        return list(same & (lead[1:] > _LEAD * lead[0]).all(axis=1))
