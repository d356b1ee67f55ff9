"""The kinds of pens: how much ink a pen leaves along a stroke, and how the line follows the speed of the hand.

The flow is the amount of ink on a point of the paper after one stroke; 1 is the usual amount. The flow is larger where
the hand is slow, presses or stops, and smaller where the hand is fast or the ink starts late.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from toolkit.handwriting.ink.pen import LONG_PRESSURE, slowness
from toolkit.handwriting.ink.ribbons import DOT_FLAG, ENDS_IN_INK, OUTLINE_FLAG, STARTS_IN_INK, Strokes, tangents
from toolkit.handwriting.wire import Pen
from toolkit.keyed_noise import Floats, KeyedNoise, unit

# Lengths in cap heights.
JOIN_LENGTH = 0.10  # an end inside other ink counts as a second stroke only beyond this length
RUN_UP = 0.45  # the hand is slow over this length, after the pen is set down and before it stops
POOL_LENGTH = 0.10
SUPPLY_LENGTH = 9.0  # over which the supply of ink drifts
DRY_LENGTH = 2.2
RIPPLE_LENGTH = 0.05  # of a rough edge
FAINT_FLOW = 0.8  # a flow below this value is raised, so that the faintest strokes stay readable
THINNEST_FLOW, THICKEST_FLOW = 0.04, 2.6
MAX_NIB_RATIO = 1.1  # to the nib of the script: with the nib of the widest writers, every pen would look like a marker


@dataclass(frozen=True, slots=True)
class PenKind:
    """The properties of a pen, as shares of the usual flow or width, unless a comment says otherwise."""

    opacity: float  # of one stroke with the usual flow
    nib: float  # factor on the pen width
    contrast: float  # factor on the variation of the width
    speed_width: float  # how much wider the slowest line is than the fastest
    speed_flow: float  # how much more ink the slowest line has than the fastest
    pressure: float  # change of the flow with one standard deviation of pressure
    down: float  # more ink in downstrokes, because the fingers press, and less in upstrokes
    supply: float  # slow change of the flow
    pool: float  # more ink where the pen stops
    skip: float  # probability that the ink starts late
    dry: float  # largest loss of ink, where the supply is dry and the hand fast
    overlap: float  # share of a second stroke that adds to the first
    streaks: float  # change of the flow across the line, in streaks along it
    rim: float  # more ink at both edges of the line than in its middle
    grain: float  # depth of the paper's grain
    rough: float  # ripple of the edge, in half widths of the line


PENS: dict[Pen, PenKind] = {
    "ballpoint": PenKind(
        opacity=0.76, nib=0.94, contrast=0.8, speed_width=0.16, speed_flow=1.1, pressure=0.20, down=0.28, supply=0.14,
        pool=0.8, skip=0.15, dry=0.4, overlap=0.8, streaks=0.30, rim=-0.12, grain=0.20, rough=0.03,
    ),
    "gel": PenKind(
        opacity=0.90, nib=1.0, contrast=0.6, speed_width=0.14, speed_flow=0.75, pressure=0.10, down=0.12, supply=0.08,
        pool=0.5, skip=0.05, dry=0.18, overlap=0.6, streaks=0.08, rim=0.14, grain=0.09, rough=0.02,
    ),
    "fountain": PenKind(
        opacity=0.75, nib=1.0, contrast=1.2, speed_width=0.26, speed_flow=1.2, pressure=0.14, down=0.22, supply=0.24,
        pool=1.3, skip=0.05, dry=0.3, overlap=0.75, streaks=0.07, rim=0.30, grain=0.10, rough=0.025,
    ),
    "pencil": PenKind(
        opacity=0.72, nib=0.95, contrast=0.9, speed_width=0.14, speed_flow=0.6, pressure=0.32, down=0.30, supply=0.18,
        pool=0.10, skip=0.0, dry=0.2, overlap=0.55, streaks=0.12, rim=-0.38, grain=0.26, rough=0.06,
    ),
    "felt": PenKind(
        opacity=0.82, nib=1.42, contrast=0.6, speed_width=0.18, speed_flow=0.6, pressure=0.08, down=0.08, supply=0.10,
        pool=0.6, skip=0.0, dry=0.25, overlap=0.7, streaks=0.12, rim=0.12, grain=0.12, rough=0.04,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class InkFlow:
    """How much ink a pen leaves at each point of the strokes of a page."""

    kind: PenKind
    flow: Floats  # (points,)
    path: Floats  # (points,) length of the line that the pen has written before a point, in cap heights
    share: Floats  # (points,) how much a point counts as a second stroke on other ink, 0 to 1
    noise: KeyedNoise

    def select(self, points: npt.NDArray[np.bool_]) -> InkFlow:
        return replace(self, flow=self.flow[points], path=self.path[points], share=self.share[points])


def pen_kind(pen: Pen) -> PenKind | None:
    """Return the properties of a pen, or None for plain ink."""
    return PENS.get(pen)


def written_with(kind: PenKind, strokes: Strokes, noise: KeyedNoise) -> tuple[Strokes, InkFlow]:
    """Return the strokes as this pen draws them (in cap heights), wider where the hand is slow, and the ink flow."""
    count, start, stroke = len(strokes.length), strokes.start, strokes.stroke_of_point
    step = strokes.steps()
    path = np.cumsum(step) - step
    if not count:
        return strokes, InkFlow(kind, path, path, path, noise)
    arc = path - path[start][stroke]
    left = arc[start + strokes.length - 1][stroke] - arc
    flags = strokes.flags[stroke]
    is_free_start, is_free_end = (flags & STARTS_IN_INK) == 0, (flags & ENDS_IN_INK) == 0
    speed = _hand_speed(strokes, arc, np.where(is_free_start, arc, RUN_UP), np.where(is_free_end, left, RUN_UP))
    flow = 1 + kind.speed_flow * (0.5 - speed) + kind.pressure * noise.drift("pressure", path / LONG_PRESSURE)
    flow -= kind.down * _smooth(strokes, tangents(strokes)[1])
    flow += kind.supply * noise.drift("supply", path / SUPPLY_LENGTH)
    dryness = np.minimum(np.maximum(noise.drift("dry", path / DRY_LENGTH) - 0.9, 0.0), 1.0)
    flow *= 1 - kind.dry * dryness * speed
    flow = np.where(flow < FAINT_FLOW, FAINT_FLOW * FAINT_FLOW / (2 * FAINT_FLOW - flow), flow)
    starts = is_free_start & ((flags & DOT_FLAG) == 0)
    flow *= _late_start(kind, noise, stroke, np.where(starts, arc, np.inf), arc + left)
    amount = kind.pool * (0.4 + 1.2 * unit(noise.hashes("pool", 2 * count))).reshape(2, count)[:, stroke]
    flow += 0.5 * amount[0] * _pool_shape(arc, is_free_start) + amount[1] * _pool_shape(left, is_free_end)
    flow[(flags & OUTLINE_FLAG) > 0] = 1.0
    flow = np.minimum(np.maximum(flow, THINNEST_FLOW), THICKEST_FLOW)

    is_drawn = (flags & OUTLINE_FLAG) > 0
    width = np.where(is_drawn, 1.0, 1 + kind.speed_width * (0.5 - speed))
    width *= 1 + kind.rough * noise.drift("edge", path / RIPPLE_LENGTH)
    aside = np.where(is_drawn, 0.0, kind.rough * strokes.radius * noise.drift("side", path / RIPPLE_LENGTH))
    tx, ty = tangents(strokes)
    rough = replace(strokes, x=strokes.x - ty * aside, y=strokes.y + tx * aside, radius=strokes.radius * width)
    from_join = np.minimum(np.where(is_free_start, JOIN_LENGTH, arc), np.where(is_free_end, JOIN_LENGTH, left))
    return rough, InkFlow(kind, flow, path, np.minimum(from_join / JOIN_LENGTH, 1.0), noise)


def _hand_speed(strokes: Strokes, arc: Floats, since_start: Floats, until_stop: Floats) -> Floats:
    """Return the speed of the hand: 0 at rest, nearly 1 in long flat curves, away from the ends."""
    rest = np.minimum(np.minimum(since_start, until_stop) / RUN_UP, 1.0)
    speed = (1 - slowness(strokes, arc)) * (0.35 + 0.65 * rest * (2 - rest))
    return _smooth(strokes, speed)


def _smooth(strokes: Strokes, value: Floats) -> Floats:
    before, after, _, _ = strokes.neighbours()
    for _ in range(3):
        value = 0.25 * value[before] + 0.5 * value + 0.25 * value[after]
    return value


def _late_start(kind: PenKind, noise: KeyedNoise, stroke: npt.NDArray[np.int64], arc: Floats, whole: Floats) -> Floats:
    """Return a factor on the flow: 1, and less at starts at which the pen touches the paper before the ink runs."""
    chance, depth, end = (unit(noise.hashes(f"skip {of}", int(stroke[-1]) + 1)) for of in ("chance", "depth", "end"))
    depth = np.where(chance < kind.skip, 0.35 + 0.5 * depth, 0.0)[stroke]
    end = np.minimum((0.10 + 0.16 * end * end)[stroke], 0.15 * whole)
    started: Floats = 1 - depth * np.minimum(np.maximum((end - arc) / 0.06, 0.0), 1.0)
    return started


def _pool_shape(distance: Floats, counts: npt.NDArray[np.bool_]) -> Floats:
    near = np.maximum(1 - distance / POOL_LENGTH, 0.0)
    return np.where(counts, near * near * (3 - 2 * near), 0.0)
