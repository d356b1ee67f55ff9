"""The pen: the width of the ink at every point of a stroke.

A page has one nib. The ink is wider in tight curves, because the hand is slow there, and under pressure, which drifts
along the path of the pen. A stroke begins a little wider, and ends thinner as the pen is lifted.
"""

from __future__ import annotations

import numpy as np

from toolkit.handwriting.ink.ribbons import DOT_FLAG, ENDS_IN_INK, STARTS_IN_INK, Strokes, tangents
from toolkit.keyed_noise import Floats, KeyedNoise, unit

CURVE_WIDENING = 0.05  # by which the tightest curve is wider than a straight, as a share of the width
PRESSURE, LONG_PRESSURE, SHORT_PRESSURE = 0.10, 0.9, 0.25  # amplitude, and two wavelengths in cap heights
ATTACK, ATTACK_LENGTH = 0.08, 0.10  # relative widening at the start of a stroke, and length in cap heights
RELEASE, RELEASE_LENGTH = 0.35, 0.20  # relative thinning at the end of a stroke, and length in cap heights
THINNEST, WIDEST = 0.4, 1.9  # limits of the width, in nibs
DOT_WIDTH = 1.25  # nibs


def inked_radius(strokes: Strokes, nib: float, contrast: float, noise: KeyedNoise) -> Floats:
    """Return half the width of the ink at every point, in cap heights, for a pen of half width `nib`.

    The radius of the strokes is relative to the nib, 1 on average; `contrast` scales its variation.
    """
    if not len(strokes.x):
        return np.zeros(0)
    count, start, stroke = len(strokes.length), strokes.start, strokes.stroke_of_point
    step = strokes.steps()
    path = np.cumsum(step) - step
    arc = path - path[start][stroke]
    whole = arc[start + strokes.length - 1][stroke]
    width = np.minimum(np.maximum(1 + contrast * (strokes.radius - 1), THINNEST), WIDEST)
    pressure = 0.5 * noise.drift("pressure", path / LONG_PRESSURE)
    pressure += 0.2 * noise.drift("quick pressure", path / SHORT_PRESSURE)
    width *= 1 + CURVE_WIDENING * (slowness(strokes, arc) - 0.5) + PRESSURE * pressure

    is_free = ((strokes.flags & STARTS_IN_INK) == 0)[stroke]
    attack = np.where(is_free, ATTACK * np.maximum(1 - arc / ATTACK_LENGTH, 0.0), 0.0)
    is_free = ((strokes.flags & ENDS_IN_INK) == 0)[stroke]
    reach = np.minimum(RELEASE_LENGTH, 0.35 * whole)
    lifted = 1 - np.minimum((whole - arc) / np.where(reach > 0, reach, 1.0), 1.0)
    depth = RELEASE * (0.5 + unit(noise.hashes("release", count)))[stroke]
    release = np.where(is_free, depth * lifted * lifted, 0.0)
    width *= (1 + attack) * (1 - release)

    is_dot = ((strokes.flags & DOT_FLAG) > 0)[stroke]
    weight = np.minimum(np.maximum(strokes.radius, 0.9), 1.5)
    return nib * np.where(is_dot, DOT_WIDTH * (0.6 + 0.4 * weight), width)


def slowness(strokes: Strokes, arc: Floats) -> Floats:
    """Return how slow the hand is: 0 on straights, nearly 1 in tight curves (approximates the two-thirds power law)."""
    tx, ty = tangents(strokes)
    before, after, _, _ = strokes.neighbours()
    turn = np.abs(tx[after] * ty[before] - ty[after] * tx[before])
    curvature = np.minimum(turn / np.maximum(arc[after] - arc[before], 1e-6), 60.0)
    curvature = 0.25 * curvature[before] + 0.5 * curvature + 0.25 * curvature[after]
    return curvature / (curvature + 3.0)
