"""Trace one glyph: strokes that look like its outline and have its form, or else the outline itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.path import Path

from toolkit.handwriting.hands.outline import Picture
from toolkit.handwriting.hands.quality import LEAST_OVERLAP, Form, Ink, drawn, form, outline_as_strokes, overlap
from toolkit.handwriting.hands.strokes import glyph_strokes
from toolkit.handwriting.ink.ribbons import DOT, OUTLINE, Strokes


@dataclass(frozen=True, slots=True)
class Tracing:
    """Strokes of a glyph, their form, and the form of the outline that they were traced from."""

    strokes: Strokes
    form: Form
    outline_form: Form

    @property
    def is_outline(self) -> bool:
        """Whether the glyph keeps its outline because strokes would not look like it."""
        return bool(np.any(self.strokes.flags & OUTLINE))


NOTHING = Tracing(Strokes.none(), Form(0, 0), Form(0, 0))


def traced(outline: Path, *, known_loss: bool = False) -> Tracing:
    """Return the strokes of a glyph.

    Strokes that lost a counter or a part are traced once more, round the eyes that are filled otherwise. A pen can
    write these; the outline, which no nib, haste or pressure changes, is kept only where that fails as well.

    Parameters
    ----------
    outline : matplotlib.path.Path
        Outline in cap heights, y upwards.
    known_loss : bool
        Leave the form as it is: the glyph is listed in ``known_losses.json``.
    """
    picture = Picture(outline)
    wanted = form(picture.ink)
    for open_eyes in (False, True):
        strokes = glyph_strokes(picture, open_eyes=open_eyes)
        ink = drawn(strokes, picture)
        if not _looks_alike(strokes, ink, picture):
            break
        if known_loss or form(ink) == wanted:
            return Tracing(strokes, form(ink), wanted)
    strokes = outline_as_strokes(outline)
    return Tracing(strokes, form(drawn(strokes, picture)), wanted)


def _looks_alike(strokes: Strokes, ink: Ink, picture: Picture) -> bool:
    only_dots = len(strokes.flags) > 0 and bool(np.all(strokes.flags & DOT))
    return only_dots or overlap(ink, picture) >= LEAST_OVERLAP
