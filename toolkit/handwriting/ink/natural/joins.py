"""How a letter follows the letter before: joined into one line, touching, or apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.handwriting.ink.natural.letters import Letterform
from toolkit.handwriting.ink.natural.parts import POINT_DISTANCE, Part, arc, bridge, direction, nearest

# Lengths in cap heights.
_TAIL, _HEAD = 0.25, 0.2  # length of the exit, and of the entry, that a join may cut off
_MAX_RETRACED_LENGTH = 1.0  # length over which the pen may follow a stroke backwards to its start
_MAX_CLOSED_DISTANCE = 0.16  # a joined hand joins over at most this distance
_MIN_BRIDGE, _MAX_BRIDGE = 0.06, 0.9  # distances over which a print hand may join
_TALL_ENTRY = 0.85  # a higher entry is not joined
_RIGHTWARDS, _LOW_ENTRY = 0.4, 0.5  # of an entry that can follow a turn at a foot: rightward direction, height
_BOWL, _CLOSED = 0.5, 0.17  # smallest length of a bowl, and largest distance of its ends
_ASCENDERS = "bdfhklt"  # with a line up to the top of one of these, it would look like another letter
_LEAST_RUN, _WIDENED = 0.5, 0.18  # smallest run of a join per rise, and how much the letters may move apart for it
_USUAL_GAP, _TIGHTENED, _MOST = 0.24, 0.7, 0.25  # optical kerning removes this share of a gap's excess, with a limit


class Meeting(NamedTuple):
    """How two letters meet. A join cuts points off the exit, inserts points, and cuts points off the entry."""

    kern: float  # added to the distance of the letters
    joins: bool
    cut_tail: int = 0  # number of points
    between: Part = np.zeros((0, 3))  # relative to the origin of the second letter
    cut_head: int = 0  # number of points
    touches: bool = False  # the exit ends in the ink of the second letter
    wider: float = 0.0  # added to the distance of letters that join


def meet(first: Letterform, second: Letterform, dx: float, dy: float, joined: bool, least: float) -> Meeting:
    """Return how `second` follows `first`; (dx, dy) is the distance of the two origins.

    `least` is the smallest gap between the ink of both, if one of them is punctuation; for two letters it is 0.
    """
    gap = float((second.left + dx - first.right).min())
    kern = max(0.0, least - gap) if least else 0.0
    if not least and not joined and gap > _USUAL_GAP:
        kern = -min(_TIGHTENED * (gap - _USUAL_GAP), _MOST) if gap < 9 else -0.1
    if least or not (first.goes_out and second.comes_in):
        return Meeting(kern, False)
    tail = first.parts[first.at_once - 1] - np.array([dx + kern, dy, 0.0])
    if joined:
        return _joined_by_overlap(tail, second.parts)
    return Meeting(kern, False) if second.character in _ASCENDERS else _joined_by_bridge(kern, tail, second.parts[0])


def _joined_by_overlap(tail: Part, heads: list[Part]) -> Meeting:
    """Join the exit to the nearest point of the entry; from a point inside, the pen first goes back to the start."""
    back = arc(tail[::-1])[::-1]
    ahead = arc(heads[0])
    end, start = (
        tail[back < (POINT_DISTANCE if _is_bowl(tail[::-1]) else _TAIL)],
        heads[0][ahead < _MAX_RETRACED_LENGTH],
    )
    apart = end[:, None, :2] - start[None, :, :2]
    # Cutting has a cost; without it, strokes that cross would be joined at the crossing.
    cost = np.sqrt((apart * apart).sum(axis=2)) + 0.35 * back[-len(end) :, None]
    cost += 0.2 * np.minimum(ahead[ahead < _MAX_RETRACED_LENGTH], _HEAD)
    p, q = np.unravel_index(int(cost.argmin()), cost.shape)
    distance = float(np.sqrt((apart[p, q] ** 2).sum()))
    touches = min(nearest(tail[-1], head)[1] for head in heads) < 0.075
    if distance > _MAX_CLOSED_DISTANCE or len(tail) - (len(end) - 1 - p) < 4 or len(heads[0]) - q < 4:
        return Meeting(0.0, False, touches=touches)
    cut = len(end) - 1 - int(p)
    if ahead[q] > (0.0 if _is_bowl(heads[0]) else _HEAD):
        return Meeting(0.0, True, cut, heads[0][1 : q + 1][::-1], 0)
    return Meeting(0.0, True, cut, cut_head=int(q))


def _is_bowl(part: Part) -> bool:
    """Return whether a part starts near one of its later points, as a bowl does: a cut would open the bowl."""
    rest = part[arc(part) > _BOWL]
    return len(rest) > 0 and nearest(part[0], rest)[1] < _CLOSED


def _joined_by_bridge(kern: float, tail: Part, head: Part) -> Meeting:
    """Draw a line from the exit of a print letter to the entry of the next, unless the pen would have to turn back.

    `tail` is relative to the second letter. The exit may be cut; from the foot of a stem the pen may turn into an e.
    """
    arrive, is_low = direction(head, False), head[0, 1] < _LOW_ENTRY
    if head[0, 1] > _TALL_ENTRY:
        return Meeting(kern, False)
    for cut in (0, 2, 4):
        end = tail[: len(tail) - cut]
        if len(end) < 6 or end[-1, 1] > 0.75:
            break
        apart = head[0, :2] - end[-1, :2]
        wider = min(max(_LEAST_RUN * abs(apart[1]) - apart[0], 0.0), _WIDENED)
        apart = apart + np.array([wider, 0.0])
        distance = float(np.sqrt((apart * apart).sum()))
        if not (_MIN_BRIDGE < distance < _MAX_BRIDGE) or apart[0] < max(0.04, 0.99 * _LEAST_RUN * abs(apart[1])):
            continue
        heading, leave = apart / distance, direction(end, True)
        # A turn at the foot of a stem to the top of the next stem would look like a u, so only low entries allow it.
        turns_at_foot = cut > 0 and leave[1] < -0.5 and end[-1, 1] < 0.3 and arrive[0] > _RIGHTWARDS and is_low
        if float(leave @ heading) < 0.1 and not turns_at_foot:
            continue
        # At a downstroke, the pen arrives in the direction of the line and turns there.
        line = bridge(
            end[-1] - np.array([wider, 0.0, 0.0]), leave * (0.8 if turns_at_foot else 1.0), head[0],
            arrive if float(arrive @ heading) > 0 else heading,
        )  # fmt: skip
        rest = tail[: len(tail) // 2] - np.array([wider, 0.0, 0.0])
        if len(line) < 5 or min(nearest(point, rest)[1] for point in line[3:]) > 0.07:
            return Meeting(kern, True, cut, line, wider=wider)
    return Meeting(kern, False)
