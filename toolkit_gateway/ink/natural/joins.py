"""How letters are joined: strokes in writing order, the ends at which joins arrive and leave, and the joins themselves.

A letter is joined to the letter before in one stroke, touches it, or stands apart from it.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toolkit_gateway.ink.natural.parts import Part, arc_lengths, bridge, direction, nearest
from toolkit_gateway.ink.random_streams import Floats
from toolkit_gateway.ink.ribbons import DOT_FLAG, ENDS_IN_INK, OUTLINE_FLAG, POINT_DISTANCE, STARTS_IN_INK

# Lengths in cap heights.
BAND_COUNT = 26  # number of height bands in which the left and right sides of a letter are measured
_LOWEST, _BAND = -1.0, 0.1  # bottom of the lowest band, and height of a band
BAR, MARK = 1, 2  # kinds of delayed strokes, which are written after the word: a bar; a dot or accent
_BRANCH_GAP, _MAX_POINTS_BACK = 0.08, 25  # largest distance of a branch from a stroke; longest way back to it
#: Usual number of lines at the height of the foot of a stem.
_LINES_AT_FOOT = {"b": 2, "h": 2, "i": 1, "k": 2, "l": 1, "m": 3, "n": 2, "p": 2, "r": 1, "t": 1, "u": 2}
_FOOT_HEIGHT, _HOOK_HEIGHT = 0.2, 0.3  # the foot of a stem is below the first, the end of its hook below the second
_MAX_INSET = 0.14  # a join does not use an end that is farther inside the letter
_STEEP, _BELOW_TOP = 0.8, 0.15  # upward part of the direction of a stem; how far its top may be below that of a letter
_STEM_WIDTH = 0.08  # two ends on one stem are at most this far apart across the stem
_SAME_HEIGHT = 0.2  # an exit is compared with ink that is at most this much higher or lower
_MAX_CUT_TAIL, _MAX_CUT_HEAD = 0.25, 0.2  # length that a join may cut off the exit, and off the entry
_MAX_RETRACED_LENGTH = 1.0  # longest way back along an entry to its start, if joined farther on
_MAX_CLOSED_DISTANCE = 0.16  # a joined hand joins over at most this distance
_MIN_BRIDGE, _MAX_BRIDGE = 0.06, 0.9  # distances over which a print hand may join
_MAX_ENTRY_HEIGHT = 0.85  # a print hand does not join a higher entry
_MIN_BOWL_LENGTH, _MAX_BOWL_GAP = 0.5, 0.17  # of a bowl: smallest length, largest distance of its ends
_NEAR_MARKS = frozenset(".,:;!?‘’“”")  # stand as near to their word as they may
_DESCENDER_TOP = -0.15  # ink below it may be under a mark
_ASCENDERS = "bdfhklt"  # with a join at the top, these would look like other letters
_MIN_RUN, _MAX_WIDENING = 0.5, 0.18  # smallest run of a join per rise, and how far letters may move apart for it
_MIN_SHARE_OF_GAP = 0.85  # smallest gap of two letters in other forms, as a share of the gap in the forms of the hand
_WIDEST_GAP = 0.24  # a gap of two letters that is at least so wide at its narrowest needs no more
_LEAST_GAP = 0.08  # between two print letters, at any height
# Optical kerning: the white between two letters is as wide as usual, at the height of small letters.
_USUAL_WHITE = 0.55  # mean width in a hand, as a share of the width of its letters
_MAX_EXTRA_WHITE = 0.35  # by how much white is wider than at its narrowest point: largest value that counts
_REMOVED_SHARE, _MAX_REMOVED = 0.75, 0.4  # of the excess over the usual white: share, and largest length
_MIN_KERNED_GAP, _BAR_OVERLAP = 0.15, 0.1  # kerning brings ink no nearer, and bars no farther over a letter


@dataclass(frozen=True, slots=True, eq=False)
class Letterform:
    """One form of a letter, relative to the origin of the letter, in cap heights."""

    character: str
    parts: list[Part]  # first the strokes that are not delayed, then the delayed strokes
    flags: list[int]  # of each stroke
    delayed: list[int]  # of each stroke: 0 (not delayed), `BAR` or `MARK`
    last: int  # number of the last stroke that is not delayed
    has_entry: bool  # whether the first stroke begins where a join may arrive
    has_exit: bool  # whether the last stroke that is not delayed ends where a join may leave
    left: Floats  # (BAND_COUNT,) x of the left side of the ink in each band, inf without ink
    right: Floats  # (BAND_COUNT,) x of the right side, -inf without ink
    body_left: Floats  # as `left`, without delayed strokes, and only of the ink in the band itself
    body_right: Floats
    usual: Letterform | None = None  # the form of the hand itself, if this is another


def unjoined_form(character: str, parts: list[Part], flags: list[int]) -> Letterform:
    """Return the form of a character that is never joined: with outlines, a combining mark, or without ink."""
    sides = *widen_bands(*_band_sides(parts)), *_band_sides(parts)
    return Letterform(character, parts, flags, [0] * len(parts), len(parts) - 1, False, False, *sides)


def letterform_of(character: str, parts: list[Part], flags: list[int], joined: bool, slant: float) -> Letterform:
    """Return the form of a letter, with the strokes in writing order and the ends that joins may use.

    `slant` is the run over rise of the stems.
    """
    late = _delayed_kinds(character, parts, flags, joined)
    main, after = ([n for n in range(len(parts)) if bool(late[n]) == is_late] for is_late in (False, True))
    entry: tuple[int, bool] | None = None
    exit_: tuple[int, bool] | None = None
    if unicodedata.category(character)[0] == "L" and not any(flags[n] & DOT_FLAG for n in main):
        entry, exit_ = _find_entry(parts, main, joined), _find_exit(parts, main, joined, slant)
        if entry == exit_ or _is_foot(character, parts[entry[0]][-1 if entry[1] else 0], [parts[n] for n in main]):
            entry = None
    first = entry[0] if entry else None
    last = exit_[0] if exit_ and exit_[0] != first else None
    order = sorted(main, key=lambda n: (n != first, n == last))
    reversed_strokes = [entry[0]] if entry and entry[1] else []
    reversed_strokes += [exit_[0]] if exit_ and not exit_[1] else []
    at_once = [parts[n][::-1] if n in reversed_strokes else parts[n] for n in order]
    new_flags = [flags[n] for n in order]
    if joined and not any(flag & (DOT_FLAG | OUTLINE_FLAG) for flag in new_flags):
        at_once = _without_lifts(at_once)
        new_flags = [0] * len(at_once)
    parts = [*at_once, *(parts[n] for n in after)]
    new_flags = [_stroke_flags(parts, n, flag) for n, flag in enumerate([*new_flags, *(flags[n] for n in after)])]
    delayed = [0] * len(at_once) + [late[n] for n in after]
    has_exit = exit_ is not None and order[-1] == exit_[0]
    sides = *widen_bands(*_band_sides(parts)), *_band_sides(at_once)
    return Letterform(character, parts, new_flags, delayed, len(at_once) - 1, entry is not None, has_exit, *sides)


def _without_lifts(parts: list[Part]) -> list[Part]:
    """Join strokes without a lift: the pen goes back along a stroke to the point where the next stroke branches off."""
    joined = [parts[0]]
    for part in parts[1:]:
        branch, distance = nearest(part[0], joined[-1])
        back = joined[-1][branch:-1][::-1]
        if distance < _BRANCH_GAP and len(back) < _MAX_POINTS_BACK:
            joined[-1] = np.concatenate([joined[-1], back, part[1:]])
        else:
            joined.append(part)
    return joined


def _delayed_kinds(character: str, parts: list[Part], flags: list[int], joined: bool) -> list[int]:
    """Return for every stroke 0 (not delayed), `BAR` or `MARK`."""
    late = [0] * len(parts)
    if len(parts) < 2:
        return late
    decomposed = unicodedata.normalize("NFD", character)
    if character in "tf" and (bar := bar_of(parts)) is not None:
        late[bar] = BAR
    if character == "x" and joined:
        late[max(range(len(parts)), key=lambda n: parts[n][0, 1] + parts[n][-1, 1])] = BAR
    if decomposed[0] in "ij" or len(decomposed) > 1:
        body = max(parts, key=lambda part: len(part))
        for n, part in enumerate(parts):
            touches = min(nearest(part[end], body)[1] for end in (0, -1)) < _BRANCH_GAP  # the serif of an i is no dot
            if part[:, 1].min() > body[:, 1].max() - 0.05 and part is not body and not touches:
                late[n] = MARK
    return late


def bar_of(parts: list[Part]) -> int | None:
    """Return the number of the part that is a flat stroke at about the x-height, or None."""
    for n, part in enumerate(parts):
        width, height = np.ptp(part[:, 0]), np.ptp(part[:, 1])
        if len(parts) > 1 and width > 1.8 * height and width > 0.15 and 0.3 < part[:, 1].mean() < 1.1:
            return n
    return None


def _stroke_flags(parts: list[Part], n: int, flags: int) -> int:
    """Return the flags of stroke `n`: of a pen stroke, an end near the rest of the letter is in ink."""
    if flags & ~(STARTS_IN_INK | ENDS_IN_INK):
        return flags
    rest = np.concatenate([np.full((1, 3), 9.0), *(part for m, part in enumerate(parts) if m != n)])
    near = (nearest(parts[n][end], rest)[1] < 0.05 for end in (0, -1))
    return sum(flag for flag, touches in zip((STARTS_IN_INK, ENDS_IN_INK), near, strict=True) if touches)


def _find_entry(parts: list[Part], main: list[int], joined: bool) -> tuple[int, bool]:
    """Return the end at which a join arrives: (number of the stroke, whether it is its last point).

    In a joined hand it is the leftmost end, if no ink is much farther left; else an end of the first stroke.
    """
    if joined:
        left = min(float(parts[n][:, 0].min()) for n in main)
        x, n, at_end = min((float(parts[n][end, 0]), n, end == -1) for n in main for end in (0, -1))
        if x < left + _MAX_INSET:
            return n, at_end
    n = main[0]
    return n, parts[n][0, 1] < parts[n][-1, 1] and abs(parts[n][0, 0] - parts[n][-1, 0]) < 0.25


def _is_foot(character: str, end: Floats, parts: list[Part]) -> bool:
    """Return whether an entry is the foot of the first stem: with a join, the pen would write the stem upwards."""
    # In an m, hooks end higher, and a stroke back up along a stem does not count, except along the first stem.
    level, branch = (_HOOK_HEIGHT, _BRANCH_GAP) if character == "m" else (_FOOT_HEIGHT, 0.0)
    crossings = np.sort(np.concatenate([part[:-1][np.diff(part[:, 1] > level), 0] for part in parts]))
    new = (np.diff(crossings, prepend=-9.0) > branch) | (crossings < crossings[:1] + branch)
    return bool(end[1] < _FOOT_HEIGHT and new.sum() <= _LINES_AT_FOOT.get(character, 0))


def _find_exit(parts: list[Part], main: list[int], joined: bool, slant: float) -> tuple[int, bool] | None:
    """Return the rightmost end, where a join leaves, as in `_find_entry`; None if ink is much farther right.

    In a print hand, it is the lower of two ends on a stem: a join at the top would make an i and an n look like an m.
    """
    ends = [(n, at_end) for n in main for at_end in (False, True) if -0.3 < parts[n][-at_end, 1] < 0.8]
    if not joined:
        ends = [(n, at_end) for n, at_end in ends if not _is_top_of_stem(parts[n], at_end)]
    if not ends:
        return None
    lean, width = (0.0, 0.0) if joined else (slant, _STEM_WIDTH)
    upright = np.array([parts[n][-at_end, 0] - lean * parts[n][-at_end, 1] for n, at_end in ends])
    on_stem = [ends[k] for k in np.nonzero(upright >= upright.max() - width)[0]]
    n, at_end = max(on_stem, key=lambda end: (-parts[end[0]][-end[1], 1], end))
    x, y, _ = parts[n][-at_end]
    points = np.concatenate([parts[k] for k in main])
    beside = np.abs(points[:, 1] - y) < _SAME_HEIGHT
    return (n, at_end) if x > points[beside, 0].max() - _MAX_INSET else None


def _is_top_of_stem(part: Part, at_end: bool) -> bool:
    """Return whether a stroke ends at its top, steeply upwards."""
    part = part if at_end else part[::-1]
    return bool(part[-1, 1] > part[:, 1].max() - _BELOW_TOP and direction(part, True)[1] > _STEEP)


def bands_of(y: Floats) -> np.ndarray:
    return np.clip(((y - _LOWEST) / _BAND).astype(np.int64), 0, BAND_COUNT - 1)


def heights_of_bands() -> Floats:
    """Return the height of the middle of each band."""
    return np.linspace(_LOWEST + _BAND / 2, _LOWEST + _BAND * (BAND_COUNT - 0.5), BAND_COUNT)


def widen_bands(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Extend every band (last axis), in place, to the outermost ink of the two neighbouring bands."""
    for side, pick in ((left, np.minimum), (right, np.maximum)):
        copy = side.copy()
        pick(side[..., 1:], copy[..., :-1], out=side[..., 1:])
        pick(side[..., :-1], copy[..., 1:], out=side[..., :-1])
    return left, right


def _band_sides(parts: list[Part]) -> tuple[Floats, Floats]:
    left, right = np.full(BAND_COUNT, np.inf), np.full(BAND_COUNT, -np.inf)
    x, y, _ = np.concatenate([np.zeros((0, 3)), *parts]).T
    band = bands_of(y)
    np.minimum.at(left, band, x)
    np.maximum.at(right, band, x)
    return left, right


class Junction(NamedTuple):
    """How two letters meet. A join cuts points off the exit, inserts points, and cuts points off the entry."""

    kern: float  # added to the distance of the letters
    joins: bool
    cut_tail: int = 0  # number of points cut off the exit
    between: Part = np.zeros((0, 3))  # inserted points, relative to the origin of the second letter
    cut_head: int = 0  # number of points cut off the entry
    touches: bool = False  # the exit ends in the ink of the second letter
    wider: float = 0.0  # added to the distance of the letters for a join, in addition to `kern`


def meet(first: Letterform, second: Letterform, dx: float, dy: float, joined: bool, kern: float) -> Junction:
    """Return how `second` follows `first`; (dx, dy) is the distance of the two origins.

    `kern` is added to the distance if they do not overlap.
    """
    can_join = first.has_exit and second.has_entry
    if joined and can_join:
        junction = _join_by_overlap(first.parts[first.last] - np.array([dx, dy, 0.0]), second.parts)
        if junction.joins or junction.touches:
            return junction
    if joined or not can_join:
        return Junction(kern, False)
    tail = first.parts[first.last] - np.array([dx + kern, dy, 0.0])
    return Junction(kern, False) if second.character in _ASCENDERS else _join_by_bridge(kern, tail, second.parts[0])


def punctuation_kern(first: Letterform, second: Letterform, dx: float, gap: float, slant: float) -> float:
    """Return what must be added to the distance of two characters to keep their ink `gap` apart; marks no farther."""
    needed = gap - float((second.left + dx - first.right).min())
    if not {first.character, second.character} & _NEAR_MARKS:
        return max(needed, 0.0)
    height = heights_of_bands()
    left, right = ((side - slant * height)[height > _DESCENDER_TOP] for side in (second.left, first.right))
    apart = float(left.min() + dx - right.max())
    return max(needed, min(gap - apart, 0.0)) if np.isfinite(apart) else 0.0


def optical_kern(
    first: Letterform, second: Letterform, dx: float, x_height: float, letter_width: float, joined: bool
) -> float:
    """Return what must be added to the distance of two letters or digits so that the white between them is usual."""
    between = second.body_left + dx - first.body_right
    beside = between[bands_of(np.arange(0.05, x_height, 0.1))]
    beside = beside[np.isfinite(beside)]
    white = float(np.minimum(beside, beside.min() + _MAX_EXTRA_WHITE).mean()) if len(beside) else 0.0
    kern = -min(_REMOVED_SHARE * max(white - _USUAL_WHITE * letter_width, 0.0), _MAX_REMOVED)
    gap = float((second.left + dx - first.right).min())
    if not (first.character.isalpha() and second.character.isalpha()):
        return max(kern, _MIN_KERNED_GAP - gap)  # figures stand apart
    if joined:
        return min(max(kern, _MIN_KERNED_GAP - gap), 0.0)
    # Print letters are also about as far apart as in the hand itself, or an r and an n would be an m; bars may overlap.
    kern = min(max(kern, -_BAR_OVERLAP - gap), 0.0)
    wanted = _body_gap(first.usual or first, second.usual or second, dx)
    least = max(_MIN_SHARE_OF_GAP * min(wanted, _WIDEST_GAP), _LEAST_GAP)
    return max(kern, least - _body_gap(first, second, dx))


def _body_gap(first: Letterform, second: Letterform, dx: float) -> float:
    """Return the smallest horizontal distance of two letters at any height, without bars, dots and accents."""
    return float((second.body_left + dx - first.body_right).min())


def _join_by_overlap(tail: Part, heads: list[Part]) -> Junction:
    """Join the exit to the nearest point of the entry; if this is far from its start, first go back to the start."""
    back = arc_lengths(tail[::-1])[::-1]
    ahead = arc_lengths(heads[0])
    end = tail[back < (POINT_DISTANCE if _is_bowl(tail[::-1]) else _MAX_CUT_TAIL)]
    start = heads[0][ahead < _MAX_RETRACED_LENGTH]
    apart = end[:, None, :2] - start[None, :, :2]
    # A cut has a cost; without this cost, strokes that cross would be joined at the crossing.
    cost = np.sqrt((apart * apart).sum(axis=2)) + 0.35 * back[-len(end) :, None]
    cost += 0.2 * np.minimum(ahead[ahead < _MAX_RETRACED_LENGTH], _MAX_CUT_HEAD)
    p, q = np.unravel_index(int(cost.argmin()), cost.shape)
    distance = float(np.sqrt((apart[p, q] ** 2).sum()))
    touches = min(nearest(tail[-1], head)[1] for head in heads) < 0.075
    if distance > _MAX_CLOSED_DISTANCE or len(tail) - (len(end) - 1 - p) < 4 or len(heads[0]) - q < 4:
        return Junction(0.0, False, touches=touches)
    cut = len(end) - 1 - int(p)
    if ahead[q] > (0.0 if _is_bowl(heads[0]) else _MAX_CUT_HEAD):
        return Junction(0.0, True, cut, heads[0][1 : q + 1][::-1], 0)
    return Junction(0.0, True, cut, cut_head=int(q))


def _is_bowl(part: Part) -> bool:
    """Return whether a part starts near one of its later points, as a bowl does: a cut would open the bowl."""
    rest = part[arc_lengths(part) > _MIN_BOWL_LENGTH]
    return len(rest) > 0 and nearest(part[0], rest)[1] < _MAX_BOWL_GAP


def _join_by_bridge(kern: float, tail: Part, head: Part) -> Junction:
    """Join print letters by a curve from exit to entry, unless the entry is too high or far, or the pen must turn back.

    `tail` is relative to the second letter. A few points of the exit may be cut off.
    """
    arrive = direction(head, False)
    if head[0, 1] > _MAX_ENTRY_HEIGHT:
        return Junction(kern, False)
    for cut in (0, 2, 4):
        end = tail[: len(tail) - cut]
        if len(end) < 6 or end[-1, 1] > 0.75:
            break
        apart = head[0, :2] - end[-1, :2]
        wider = min(max(_MIN_RUN * abs(apart[1]) - apart[0], 0.0), _MAX_WIDENING)
        apart = apart + np.array([wider, 0.0])
        distance = float(np.sqrt((apart * apart).sum()))
        if not (_MIN_BRIDGE < distance < _MAX_BRIDGE) or apart[0] < max(0.04, 0.99 * _MIN_RUN * abs(apart[1])):
            continue
        heading, leave = apart / distance, direction(end, True)
        if float(leave @ heading) < 0.1:
            continue
        # At a downstroke, the pen arrives in the direction of the line and turns there.
        line = bridge(
            end[-1] - np.array([wider, 0.0, 0.0]), leave, head[0],
            arrive if float(arrive @ heading) > 0 else heading,
        )  # fmt: skip
        rest = tail[: len(tail) // 2] - np.array([wider, 0.0, 0.0])
        if len(line) < 5 or min(nearest(point, rest)[1] for point in line[3:]) > 0.07:
            return Junction(kern, True, cut, line, wider=wider)
    return Junction(kern, False)
