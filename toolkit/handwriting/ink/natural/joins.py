"""How two neighbouring letters meet: joined into one line, touching, or apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.handwriting.ink.natural.letters import Letterform
from toolkit.handwriting.ink.natural.parts import STEP, Part, arc, bridge, direction, nearest, parts_of
from toolkit.keyed_noise import Floats

# Lengths in cap heights.
BLEND = 0.3  # from a join, where both strokes bend towards each other
_TAIL, _HEAD = 0.25, 0.2  # of a stroke that may be cut off at a join
_RETRACED = 1.0  # of a stroke that the pen may follow backwards to its beginning
_WIDEST = 0.16  # distance that a joined hand closes
_BRIDGED = (0.06, 0.9)  # distance over which a print hand may join
_TALL = 0.85  # height of an entry that is too high for a join
_RIGHTWARDS, _LOW_ENTRY = 0.4, 0.5  # least share of the direction in which an e begins, and the height below which
_BOWL, _CLOSED = 0.5, 0.17  # length of a bowl at least, and distance of its ends at most
_ASCENDERS = "bdfhklt"  # a line up to the top of one would look like another letter
_LEAST_RUN, _WIDENED = 0.5, 0.18  # of a join to its rise, and what may be added to the distance of the letters for that
_USUAL_GAP, _TIGHTENED, _MOST = 0.24, 0.7, 0.25  # optical kerning: share of what exceeds the gap, and its limit


class Meeting(NamedTuple):
    """A join cuts points off the exit, adds some, and cuts points off the entry."""

    kern: float  # added to the distance of the letters
    joins: bool
    cut_tail: int = 0
    between: Part = np.zeros((0, 3))  # relative to the origin of the second letter
    cut_head: int = 0
    touches: bool = False  # the exit ends in the ink of the second letter
    wider: float = 0.0  # added to the distance of letters that join


def meet(first: Letterform, second: Letterform, dx: float, dy: float, joined: bool, least: float) -> Meeting:
    """Return how `second` follows `first`, its origin at (dx, dy) from that of the first.

    `least` is the smallest gap between the ink of two letters where one is no letter; 0 lets them touch.
    """
    gap = float((second.left + dx - first.right).min())
    kern = 0.0
    if least:
        kern = max(0.0, least - gap) if gap < 9 else 0.0
    elif not joined and gap > _USUAL_GAP:
        kern = -min(_TIGHTENED * (gap - _USUAL_GAP), _MOST) if gap < 9 else -0.1
    if least or not (first.goes_out and second.comes_in):
        return Meeting(kern, False)
    tail = parts_of(first.strokes)[first.at_once - 1] - np.array([dx + kern, dy, 0.0])
    heads = parts_of(second.strokes)
    if joined:
        return _joined(tail, heads)
    return Meeting(kern, False) if second.character in _ASCENDERS else _bridged(kern, tail, heads[0])


def _joined(tail: Part, heads: list[Part]) -> Meeting:
    """Let the exit run into the entry; where it ends at the middle of the entry, the pen goes back along that."""
    back = arc(tail[::-1])[::-1]
    ahead = arc(heads[0])
    end, start = tail[back < (STEP if _closes(tail[::-1]) else _TAIL)], heads[0][ahead < _RETRACED]
    apart = end[:, None, :2] - start[None, :, :2]
    # A cut costs, or the strokes would meet where they cross.
    cost = np.sqrt((apart * apart).sum(axis=2)) + 0.35 * back[-len(end) :, None]
    cost += 0.2 * np.minimum(ahead[ahead < _RETRACED], _HEAD)
    p, q = np.unravel_index(int(cost.argmin()), cost.shape)
    distance = float(np.sqrt((apart[p, q] ** 2).sum()))
    touches = min(nearest(tail[-1], head)[1] for head in heads) < 0.075
    if distance > _WIDEST or len(tail) - (len(end) - 1 - p) < 4 or len(heads[0]) - q < 4:
        return Meeting(0.0, False, touches=touches)
    cut = len(end) - 1 - int(p)
    if ahead[q] > (0.0 if _closes(heads[0]) else _HEAD):
        return Meeting(0.0, True, cut, heads[0][1 : q + 1][::-1], 0)
    return Meeting(0.0, True, cut, cut_head=int(q))


def _closes(part: Part) -> bool:
    """Tell whether a part begins near a later point of itself, as a bowl does, which a cut would open."""
    rest = part[arc(part) > _BOWL]
    return len(rest) > 0 and nearest(part[0], rest)[1] < _CLOSED


def _bridged(kern: float, tail: Part, head: Part) -> Meeting:
    """Draw a line from the exit of one print letter to the entry of the next, where a pen would not turn back.

    `tail` is relative to the second letter. The exit may be cut; below a stem the pen turns to the right into an e.
    """
    arrive, is_low = direction(head, False), head[0, 1] < _LOW_ENTRY
    if head[0, 1] > _TALL:
        return Meeting(kern, False)
    for cut in (0, 2, 4):
        end = tail[: len(tail) - cut]
        if len(end) < 6 or end[-1, 1] > 0.75:
            break
        apart = head[0, :2] - end[-1, :2]
        wider = min(max(_LEAST_RUN * abs(apart[1]) - apart[0], 0.0), _WIDENED)
        apart = apart + np.array([wider, 0.0])
        distance = float(np.sqrt((apart * apart).sum()))
        if not (_BRIDGED[0] < distance < _BRIDGED[1]) or apart[0] < max(0.04, 0.99 * _LEAST_RUN * abs(apart[1])):
            continue
        heading, leave = apart / distance, direction(end, True)
        # A turn at the foot of a straight stem, to the top of the next one, would look like a u.
        turns_at_foot = cut > 0 and leave[1] < -0.5 and end[-1, 1] < 0.3 and arrive[0] > _RIGHTWARDS and is_low
        if float(leave @ heading) < 0.1 and not turns_at_foot:
            continue
        # Into a downstroke the pen arrives in its own direction and turns there.
        line = bridge(
            end[-1] - np.array([wider, 0.0, 0.0]), leave * (0.8 if turns_at_foot else 1.0), head[0],
            arrive if float(arrive @ heading) > 0 else heading,
        )  # fmt: skip
        rest = tail[: len(tail) // 2] - np.array([wider, 0.0, 0.0])
        if len(line) < 5 or min(nearest(point, rest)[1] for point in line[3:]) > 0.07:
            return Meeting(kern, True, cut, line, wider=wider)
    return Meeting(kern, False)


def blend(along: Floats, step: Floats) -> Floats:
    """Return the shift of points at a distance from a join, of half the `step` that is left between both ends."""
    share = np.maximum(1 - along / BLEND, 0.0)
    shift: Floats = 0.5 * step * share * share * (3 - 2 * share)
    return shift
