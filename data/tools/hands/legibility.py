"""Legibility: small pictures of letters are compared with those of the other letters of the hand."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from toolkit_gateway.ink.canvases.raster import coverage
from toolkit_gateway.ink.random_streams import Floats, Integers
from toolkit_gateway.ink.ribbons import Mask, Strokes, ribbons

_X_HEIGHT, _MIN_SCALE, _MAX_SCALE = 20, 36, 58  # in pixels: wanted x-height, limits of the cap height
_WIDTH, _HEIGHT, _BASELINE = 88, 96, 60  # pixels: size of a picture, and from the top to the baseline
_CELL_PX = 4  # pictures are compared in cells of this size
_INKED, _NEAR_INK = 0.5, 0.2  # smallest shade of pixels that count as ink, with the usual pen and with a thick pen
_MIN_READ_LEAD = 0.03  # in similarity, of the expected letter over all other letters
_MIN_LEAD = 0.3  # share of the font's lead in similarity (over other letters) that a form must keep


def pictures_of(letters: Sequence[Strokes], nib: float, scale: float) -> tuple[Integers, Integers, Floats]:
    """Return for each letter the Euler number, the Euler number with a thick pen, and the shades of a small picture.

    The Euler number is the number of parts minus the number of counters. Shades have the shape (letters, cells).
    """
    placed = []
    for n, strokes in enumerate(letters):
        x = (strokes.x - np.median(strokes.x)) * scale + (n + 0.5) * _WIDTH
        placed.append(replace(strokes, x=np.clip(x, n * _WIDTH + 3, (n + 1) * _WIDTH - 3)))
    ink = Strokes.concatenate(placed)
    ink = replace(ink, y=_BASELINE - ink.y * scale, radius=ink.radius * nib * scale)
    picture = coverage([ribbons(ink)], _WIDTH * len(letters), _HEIGHT) / 255
    shades = _blurred(picture.reshape(_HEIGHT, len(letters), _WIDTH).transpose(1, 0, 2))
    cells = shades.reshape(len(letters), _HEIGHT // _CELL_PX, _CELL_PX, _WIDTH // _CELL_PX, _CELL_PX).sum(axis=(2, 4))
    flat = _blurred(cells).reshape(len(letters), -1)
    flat /= np.maximum(np.sqrt((flat * flat).sum(axis=1, keepdims=True)), 1e-9)
    return _euler_number(shades > _INKED), _euler_number(_blurred(shades) > _NEAR_INK), flat


def _blurred(shades: Floats) -> Floats:
    for _ in range(2):
        blurred = 0.5 * shades
        blurred[:, :, 1:] += 0.25 * shades[:, :, :-1]
        blurred[:, :, :-1] += 0.25 * shades[:, :, 1:]
        shades = blurred.transpose(0, 2, 1)
    return shades


def _euler_number(ink: Mask) -> Integers:
    """Return the number of parts minus the number of counters, from counts of the corners of the ink."""
    here, right, below, across = ink[:, :-1, :-1], ink[:, :-1, 1:], ink[:, 1:, :-1], ink[:, 1:, 1:]
    count = here.astype(np.int8) + right + below + across
    pinched = (count == 2) & (here == across)
    corners = (count == 1).sum(axis=(1, 2)) - (count == 3).sum(axis=(1, 2)) - 2 * pinched.sum(axis=(1, 2))
    number: Integers = corners // 4
    return number


class Alphabet:
    """The letters of one group (small letters, capitals or figures) as a hand draws them."""

    def __init__(self, letters: dict[str, Strokes], nib: float, x_height: float) -> None:
        self._pen = nib, min(max(_X_HEIGHT / x_height, _MIN_SCALE), _MAX_SCALE)
        self._letters = list(letters)
        self.shades = self.shades_of(list(letters.values()))

    def shades_of(self, forms: Sequence[Strokes]) -> Floats:
        """Return one row for each form; the product of two rows is their similarity."""
        return pictures_of(forms, *self._pen)[2] if forms else self.shades[:0]

    def leads(self, usual: Floats) -> dict[str, float]:
        """Return for each letter of the hand how much more similar it is to itself in all hands than to any other.

        `usual` has one picture for each letter, as all hands draw it.
        """
        alike = self.shades @ usual.T
        own = alike.diagonal().copy()
        np.fill_diagonal(alike, -1.0)
        return dict(zip(self._letters, (own - alike.max(axis=1)).tolist(), strict=True))

    def reads_as(self, character: str, shades: Floats, usual: Floats) -> list[bool]:
        """Return for each of the pictures `shades` whether it is read as `character`.

        It must be more similar to `character` as all hands draw it (`usual`, one picture for each letter) than to any
        other letter, and less similar to the other letters of this hand.
        """
        own = self._letters.index(character)
        alike, rivals = shades @ usual.T, np.delete(shades @ self.shades.T, own, axis=1)
        lead = alike[:, own] - np.delete(alike, own, axis=1).max(axis=1)
        return list((lead > _MIN_READ_LEAD) & (alike[:, own] > rivals.max(axis=1)))

    def keeps_form(self, character: str, drawn: Strokes, forms: Sequence[Strokes], counters: Integers) -> list[bool]:
        """Return for each changed form of `drawn`, a letter of this hand, whether it is legible as `character`.

        A legible form has as many parts and counters as `drawn`, apart from the change in `counters` (-1: a counter
        may open), and is clearly more similar to `character` than to any other letter. A counter that a thick pen
        would close may be closed, but not the eye of an e.
        """
        parts, thick_parts, shades = pictures_of([drawn, *forms], *self._pen)
        fewest, most = min(parts[0], thick_parts[0]) - np.maximum(counters, 0), max(parts[0], thick_parts[0]) - counters
        same = (fewest <= parts[1:]) & (parts[1:] <= most) & (fewest <= thick_parts[1:]) & (thick_parts[1:] <= most)
        if character == "e":
            same &= parts[1:] <= parts[0]
        rivals = np.delete(self.shades, self._letters.index(character), axis=0)
        alike = shades @ np.concatenate([shades[:1], rivals]).T
        lead = alike[:, :1] - alike[:, 1:]
        return list(same & (lead[1:] > _MIN_LEAD * lead[0]).all(axis=1))

    def pictures_of(self, forms: Sequence[Strokes]) -> tuple[Integers, Floats]:
        """Return for each form the number of its parts minus that of its counters, and the shades of its picture."""
        parts, _, shades = pictures_of(forms, *self._pen)
        return parts, shades
