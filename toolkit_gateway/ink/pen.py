"""The pen: how wide the ink is at every point of a stroke, and how much ink lies there.

A page has one nib. The ink is wider in tight curves, where the hand is slow, and where the hand presses; the pressure
drifts along the path of the pen. A stroke ends thinner, as the pen is lifted. The flow is the amount of ink on a point
of the paper after one stroke; 1 is the usual amount. The flow is larger where the hand is slow or presses. Plain ink
has no flow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from toolkit.handwriting.wire import Pen
from toolkit_gateway.ink.random_streams import Floats, Integers, RandomStreams, unit
from toolkit_gateway.ink.ribbons import DOT_FLAG, ENDS_IN_INK, OUTLINE_FLAG, STARTS_IN_INK, Strokes, tangents
from toolkit_gateway.ink.shaping import Shaper

# Lengths in cap heights; widenings and thinnings are shares of the width.
CURVE_WIDENING = 0.05  # by which the tightest curve is wider than a straight line
PRESSURE_WIDENING = 0.10  # amplitude of the change of the width with the pressure
PRESSURE_LENGTH = 0.9  # over which the pressure drifts
RELEASE, RELEASE_LENGTH = 0.35, 0.20  # thinning at the end of a stroke, and its length
MIN_WIDTH, MAX_WIDTH = 0.4, 1.9  # limits of the width, in nibs
DOT_WIDTH = 1.25  # width of a dot of the usual size, in nibs
JOIN_LENGTH = 0.10  # a stroke that starts or ends in other ink counts as a second stroke only from this distance on
RUN_UP_LENGTH = 0.45  # the hand is slow over this length: after it sets the pen down and before it lifts the pen
FAINT_FLOW = 0.8  # a flow below this value is raised, so that the faintest strokes stay readable
MIN_FLOW, MAX_FLOW = 0.04, 2.6
MAX_NIB_RATIO = 1.1  # of the writer's nib to the script's: with a wider nib, every pen would look like a marker


@dataclass(frozen=True, slots=True)
class PenKind:
    """The properties of a pen, relative to the usual flow or width unless a comment says otherwise."""

    opacity: float  # of one stroke with the usual flow
    nib: float  # factor on the pen width
    contrast: float  # factor on the variation of the width
    speed_width: float  # how much wider the slowest line is than the fastest
    speed_flow: float  # how much more ink the slowest line has than the fastest
    pressure: float  # change of the flow per unit of pressure
    down: float  # more ink in downstrokes, where the fingers press, and less in upstrokes
    overlap: float  # share of a second stroke that adds to the first
    streaks: float  # change of the flow across the line, in streaks along it
    rim: float  # more ink at both edges of the line than in its middle
    grain: float  # depth of the paper's grain


PENS: dict[Pen, PenKind] = {
    "ballpoint": PenKind(
        opacity=0.76, nib=0.94, contrast=0.8, speed_width=0.16, speed_flow=1.25, pressure=0.26, down=0.34,
        overlap=0.8, streaks=0.30, rim=-0.12, grain=0.20,
    ),
    "gel": PenKind(
        opacity=0.90, nib=1.0, contrast=0.6, speed_width=0.14, speed_flow=0.75, pressure=0.13, down=0.12,
        overlap=0.6, streaks=0.08, rim=0.14, grain=0.09,
    ),
    "fountain": PenKind(
        opacity=0.76, nib=1.08, contrast=1.7, speed_width=0.40, speed_flow=1.2, pressure=0.33, down=0.38,
        overlap=0.75, streaks=0.07, rim=0.30, grain=0.10,
    ),
    "pencil": PenKind(
        opacity=0.62, nib=1.0, contrast=0.9, speed_width=0.14, speed_flow=0.8, pressure=0.35, down=0.26,
        overlap=0.55, streaks=0.12, rim=-0.30, grain=0.26,
    ),
    "felt": PenKind(
        opacity=0.82, nib=1.60, contrast=0.6, speed_width=0.18, speed_flow=0.6, pressure=0.13, down=0.08,
        overlap=0.7, streaks=0.16, rim=0.12, grain=0.12,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class InkFlow:
    """How much ink a pen leaves at each point of the strokes of a page."""

    kind: PenKind
    flow: Floats  # (points,)
    path: Floats  # (points,) length of the line that the pen has written before a point, in cap heights
    overlap_weight: Floats  # (points,) how much a point counts where strokes overlap: 0 at a join, 1 elsewhere
    noise: RandomStreams

    def select(self, points: npt.NDArray[np.bool_] | Integers) -> InkFlow:
        return replace(self, flow=self.flow[points], path=self.path[points], overlap_weight=self.overlap_weight[points])


class _Travel:
    """What the pen does at each point of the strokes; lengths in cap heights."""

    def __init__(self, strokes: Strokes, noise: RandomStreams) -> None:
        start, stroke, steps = strokes.start, strokes.stroke_of_point, strokes.steps()
        self.stroke, self.flags = stroke, strokes.flags[stroke]
        self.path = np.cumsum(steps) - steps  # length of all lines from the beginning of the page to the point
        self.arc = self.path - self.path[start][stroke]  # ... from the beginning of the stroke
        self.total = self.arc[start + strokes.length - 1][stroke]  # ... of the whole stroke
        self.remaining = self.total - self.arc  # ... up to the end of the stroke
        self.slow = slowness(strokes, self.arc)
        self.pressure = noise.drift("pressure", self.path / PRESSURE_LENGTH)


def apply_pen(strokes: Strokes, pen: Pen, shaper: Shaper, noise: RandomStreams) -> tuple[Strokes, InkFlow | None]:
    """Return the strokes with the radius in cap heights, and the ink flow (None for plain ink).

    The radius of the given strokes is relative to the nib, 1 on average.
    """
    kind, nib, contrast = PENS.get(pen), shaper.nib, shaper.writer.contrast
    if kind is not None:
        nib *= kind.nib * min(1.0, MAX_NIB_RATIO / shaper.writer.nib)
        contrast *= kind.contrast
    travel = _Travel(strokes, noise)
    strokes = replace(strokes, radius=nib * _relative_width(strokes, travel, contrast, noise))
    return (strokes, None) if kind is None else _draw_with_flow(kind, strokes, travel, noise)


def slowness(strokes: Strokes, arc: Floats) -> Floats:
    """Return how slow the hand is: 0 on straight lines, nearly 1 in tight curves (about the two-thirds power law)."""
    tx, ty = tangents(strokes)
    before, after, _, _ = strokes.neighbours()
    turn = np.abs(tx[after] * ty[before] - ty[after] * tx[before])
    curvature = np.minimum(turn / np.maximum(arc[after] - arc[before], 1e-6), 60.0)
    curvature = 0.25 * curvature[before] + 0.5 * curvature + 0.25 * curvature[after]
    return curvature / (curvature + 3.0)


def _relative_width(strokes: Strokes, travel: _Travel, contrast: float, noise: RandomStreams) -> Floats:
    """Return the width of the ink in nibs; `contrast` scales the variation of the radius of the strokes."""
    width = np.minimum(np.maximum(1 + contrast * (strokes.radius - 1), MIN_WIDTH), MAX_WIDTH)
    width *= 1 + CURVE_WIDENING * (travel.slow - 0.5) + PRESSURE_WIDENING * 0.55 * travel.pressure
    length = np.minimum(RELEASE_LENGTH, 0.35 * travel.total)
    lifted = 1 - np.minimum(travel.remaining / np.where(length > 0, length, 1.0), 1.0)
    depth = RELEASE * (0.5 + unit(noise.hashes("release", len(strokes.length))))[travel.stroke]
    release = np.where(travel.flags & ENDS_IN_INK, 0.0, depth * lifted * lifted)
    width *= 1 - release
    dot = DOT_WIDTH * (0.6 + 0.4 * np.minimum(np.maximum(strokes.radius, 0.9), 1.5))
    return np.where(travel.flags & DOT_FLAG, dot, width)


def _draw_with_flow(kind: PenKind, strokes: Strokes, travel: _Travel, noise: RandomStreams) -> tuple[Strokes, InkFlow]:
    """Return the strokes as this pen draws them (wider where the hand is slow), and the ink flow."""
    free_start, free_end = (travel.flags & STARTS_IN_INK) == 0, (travel.flags & ENDS_IN_INK) == 0
    is_contour = (travel.flags & OUTLINE_FLAG) > 0
    to_start = np.where(free_start, travel.arc, RUN_UP_LENGTH)
    to_end = np.where(free_end, travel.remaining, RUN_UP_LENGTH)
    run_up = np.minimum(np.minimum(to_start, to_end) / RUN_UP_LENGTH, 1.0)
    # About a third where the pen rests, 1 on straight lines away from the ends, less in curves.
    speed = _smooth(strokes, (1 - travel.slow) * (0.35 + 0.65 * run_up * (2 - run_up)))
    _, ty = tangents(strokes)

    flow = 1 + kind.speed_flow * (0.5 - speed) + kind.pressure * travel.pressure
    flow -= kind.down * _smooth(strokes, ty)
    flow = np.where(flow < FAINT_FLOW, FAINT_FLOW * FAINT_FLOW / (2 * FAINT_FLOW - flow), flow)
    flow = np.where(is_contour, 1.0, np.minimum(np.maximum(flow, MIN_FLOW), MAX_FLOW))

    width = np.where(is_contour, 1.0, 1 + kind.speed_width * (0.5 - speed))
    to_start, to_end = np.where(free_start, JOIN_LENGTH, travel.arc), np.where(free_end, JOIN_LENGTH, travel.remaining)
    overlap_weight = np.minimum(np.minimum(to_start, to_end) / JOIN_LENGTH, 1.0)
    return replace(strokes, radius=strokes.radius * width), InkFlow(kind, flow, travel.path, overlap_weight, noise)


def _smooth(strokes: Strokes, value: Floats) -> Floats:
    before, after, _, _ = strokes.neighbours()
    for _ in range(3):
        value = 0.25 * value[before] + 0.5 * value + 0.25 * value[after]
    return value
