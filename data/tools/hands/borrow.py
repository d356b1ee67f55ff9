"""Letters of other hands, fitted to a hand."""

from dataclasses import replace

import numpy as np

from toolkit_gateway.ink.hand import FaceFit, Hand
from toolkit_gateway.ink.ribbons import OUTLINE_FLAG, Strokes

# Lengths in cap heights.
MIN_SIZE, MAX_WIDTH = 0.75, 1.15  # of a letter of another hand: limits of its changes
_DESCENDER_TOP = -0.1
_OVERSHOOT, _ASCENDER = 0.03, 0.12  # a round letter rises so far above the x-height; an ascender rises farther


def borrow(host: Hand, own: Strokes, character: str, lender: Hand) -> Strokes | None:
    """Return the letter of another hand, fitted to the host and in the place of `own`; None if it cannot fit.

    A small letter gets the x-height of the host and the ascender of `own`; other characters reach as high and as low as
    `own`, as old-style figures need. The radius is relative to the nib.
    """
    if character not in lender.characters:
        return None
    glyph, fit = lender.shape(character)[0], FaceFit.of(lender.measures, host.measures)
    is_small = character.islower()
    if fit and not is_small:
        fit = replace(fit, x_height=1.0, target=1.0)
    strokes = lender.glyph(glyph.glyph_id)
    strokes = replace(fit.apply(strokes) if fit else strokes, radius=strokes.radius / lender.measures.nib)
    if not glyph.is_whole or not len(strokes.x) or (strokes.flags & OUTLINE_FLAG).any():
        return None
    wider = float(np.ptp(own.x)) / max(float(np.ptp(strokes.x)), 1e-9)
    taller = 1.0 if is_small else float(np.ptp(own.y)) / max(float(np.ptp(strokes.y)), 1e-9)
    if not MIN_SIZE <= wider / taller <= 1 / MIN_SIZE:
        return None
    x = _left_side(own) + (strokes.x - _left_side(strokes)) * min(wider, MAX_WIDTH)
    if not is_small:
        return replace(strokes, x=x, y=own.y.min() + (strokes.y - strokes.y.min()) * taller)
    level = fit.target if fit else 0.0
    above = np.maximum(strokes.y - level, 0.0)
    if above.max() < _ASCENDER or character in "ij":  # a dot that moves would fall on its stem
        return replace(strokes, x=x)
    higher = max(float(own.y.max()) - level, _OVERSHOOT) / float(above.max())
    higher = min(max(higher, MIN_SIZE), 1 / MIN_SIZE)  # else an h would be an n, a b a 6
    return replace(strokes, x=x, y=strokes.y + above * (higher - 1))


def _left_side(letter: Strokes) -> float:
    """Return the left side of a letter without its descender, which may be below the letter before."""
    return float(letter.x[letter.y > _DESCENDER_TOP].min(initial=np.inf))
