"""Letters ready to be joined: strokes in writing order, with the ends at which the pen comes in and goes on."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

from toolkit.handwriting.ink.natural.forms import bar_of
from toolkit.handwriting.ink.natural.parts import Part, nearest, strokes_of
from toolkit.handwriting.ink.ribbons import DOT, ENDS_IN_INK, OUTLINE, STARTS_IN_INK, Strokes
from toolkit.keyed_noise import Floats

BANDS = 26  # of height, in which the sides of a letter are measured
_LOWEST, _BAND = -1.0, 0.1  # cap heights
BAR, MARK = 1, 2  # delayed strokes: a bar, a dot or accent
_BRANCH, _MOST_BACK = 0.08, 25  # cap heights, points: where a pen goes back along a stroke to the next one
_STEMS = {"b": 2, "h": 2, "i": 1, "k": 2, "l": 1, "m": 3, "n": 2, "p": 2, "r": 1, "t": 1, "u": 2}
_LOW, _ABOVE_FOOT = 0.2, 0.3  # cap heights; the foot of a stem lies below, and the hook of a foot ends below
_REACHES, _LEVEL = 0.14, 0.2  # cap heights from the side of a letter within which it may be joined, at one height


@dataclass(frozen=True, slots=True, eq=False)
class Letterform:
    """One construction of one letter, relative to its origin, in cap heights."""

    character: str
    strokes: Strokes  # those written at once, then the delayed ones
    delayed: tuple[int, ...]  # of each stroke: 0, `BAR` or `MARK`
    comes_in: bool  # whether the first stroke begins where a join may arrive
    goes_out: bool  # whether the last stroke that is not delayed ends where a join may leave
    left: Floats  # (BANDS,) the left side of the ink in each band of height, inf without ink
    right: Floats  # (BANDS,) the right side, -inf without ink

    @property
    def at_once(self) -> int:
        """Return the number of strokes that are not delayed."""
        return sum(not late for late in self.delayed)


def prepared(character: str, parts: list[Part], flags: list[int], joined: bool) -> Letterform:
    """Put the strokes of a letter into the order in which they are written."""
    late = _delayed(character, parts, flags, joined)
    main = [n for n in range(len(parts)) if not late[n]]
    turned = list(parts)
    entry = exit_ = None
    if unicodedata.category(character)[0] == "L" and not any(flags[n] & DOT for n in main):
        entry, exit_ = _entry(turned, main, joined), _exit(turned, main)
        if entry is not None and _is_foot(character, parts[entry[0]][-1 if entry[1] else 0], [parts[n] for n in main]):
            entry = None
        if entry is not None and exit_ is not None and entry[0] == exit_[0] and entry[1] == exit_[1]:
            entry = None
        turns = {n for n, at_end in filter(None, (entry,)) if at_end}
        turns |= {n for n, at_end in filter(None, (exit_,)) if not at_end}
        for n in turns:
            turned[n] = turned[n][::-1]
    first = [entry[0]] if entry is not None else []
    last = [exit_[0]] if exit_ is not None and exit_[0] not in first else []
    order = [*first, *(n for n in main if n not in (*first, *last)), *last, *(n for n in range(len(parts)) if late[n])]
    goes_out = exit_ is not None and order[len(main) - 1] == exit_[0]
    late_order = order[len(main) :]
    at_once = [turned[n] for n in order[: len(main)]]
    own = [flags[n] for n in order[: len(main)]]
    if joined and at_once and not any(flag & (DOT | OUTLINE) for flag in own):
        at_once = _without_lifts(at_once)
        own = [0] * len(at_once)
    parts = at_once + [turned[n] for n in late_order]
    own += [flags[n] for n in late_order]
    strokes = strokes_of(parts, [_flags(parts, n, flag) for n, flag in enumerate(own)])
    delayed = (0,) * len(at_once) + tuple(late[n] for n in late_order)
    return Letterform(character, strokes, delayed, entry is not None, goes_out, *sides(strokes))


def _without_lifts(parts: list[Part]) -> list[Part]:
    """Go back along a stroke to where the next one branches off it, instead of lifting the pen."""
    whole = [parts[0]]
    for part in parts[1:]:
        at, distance = nearest(part[0], whole[-1])
        back = whole[-1][at:-1][::-1]
        if distance < _BRANCH and len(back) < _MOST_BACK:
            whole[-1] = np.concatenate([whole[-1], back, part[1:]])
        else:
            whole.append(part)
    return whole


def _delayed(character: str, parts: list[Part], flags: list[int], joined: bool) -> list[int]:
    """Return 0, `BAR` or `MARK` for every stroke."""
    late = [0] * len(parts)
    if len(parts) < 2:
        return late
    plain = unicodedata.normalize("NFD", character)
    if character in "tf" and (bar := bar_of(parts)) is not None:
        late[bar] = BAR
    if character == "x" and joined:
        late[max(range(len(parts)), key=lambda n: parts[n][0, 1] + parts[n][-1, 1])] = BAR
    if plain[0] in "ij" or len(plain) > 1:
        body = max(parts, key=lambda part: len(part))
        for n, part in enumerate(parts):
            touches = min(nearest(part[end], body)[1] for end in (0, -1)) < _BRANCH  # the serif of an i is no dot
            if part[:, 1].min() > body[:, 1].max() - 0.05 and part is not body and not touches:
                late[n] = MARK
    return late


def _flags(parts: list[Part], n: int, flag: int) -> int:
    """Return the flags of a stroke, its ends compared with the rest of the letter."""
    if flag & ~(STARTS_IN_INK | ENDS_IN_INK):
        return flag
    rest = np.concatenate([np.full((1, 3), 9.0), *(part for m, part in enumerate(parts) if m != n)])
    near = (nearest(parts[n][end], rest)[1] < 0.05 for end in (0, -1))
    return sum(kind for kind, touches in zip((STARTS_IN_INK, ENDS_IN_INK), near, strict=True) if touches)


def _entry(parts: list[Part], main: list[int], joined: bool) -> tuple[int, bool] | None:
    """Return the stroke and the end at which a join arrives: far left, or the start of the first stroke."""
    if joined:
        left = min(float(parts[n][:, 0].min()) for n in main)
        x, n, at_end = min((float(parts[n][end, 0]), n, end == -1) for n in main for end in (0, -1))
        if x < left + _REACHES:
            return n, at_end
    n = main[0]
    return n, parts[n][0, 1] < parts[n][-1, 1] and abs(parts[n][0, 0] - parts[n][-1, 0]) < 0.25


def _is_foot(character: str, end: Floats, parts: list[Part]) -> bool:
    """Tell whether an entry is the foot of the first stem: a join there would make an upstroke of the stem."""
    # The hook of an m ends higher up, and what goes up along its stems is none, but before the first an upstroke.
    level, branch = (_ABOVE_FOOT, _BRANCH) if character == "m" else (_LOW, 0.0)
    crossings = np.sort(np.concatenate([part[:-1][np.diff(part[:, 1] > level), 0] for part in parts]))
    new = (np.diff(crossings, prepend=-9.0) > branch) | (crossings < crossings[:1] + branch)
    return bool(end[1] < _LOW and new.sum() <= _STEMS.get(character, 0))


def _exit(parts: list[Part], main: list[int]) -> tuple[int, bool] | None:
    """Return the stroke and the end from which a join leaves: the rightmost one, with no ink on its right."""
    ends = [(float(parts[n][end, 0]), n, end == -1) for n in main for end in (0, -1) if -0.3 < parts[n][end, 1] < 0.8]
    if not ends:
        return None
    x, n, at_end = max(ends)
    rows = np.concatenate([parts[k] for k in main])
    level = np.abs(rows[:, 1] - parts[n][-1 if at_end else 0, 1]) < _LEVEL
    return (n, at_end) if x > rows[level, 0].max() - _REACHES else None


def bands_of(y: Floats) -> np.ndarray:
    return np.clip(((y - _LOWEST) / _BAND).astype(np.int64), 0, BANDS - 1)


def widened(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Let every band take the outermost ink of its neighbours, along the last axis."""
    for side, pick in ((left, np.minimum), (right, np.maximum)):
        copy = side.copy()
        pick(side[..., 1:], copy[..., :-1], out=side[..., 1:])
        pick(side[..., :-1], copy[..., 1:], out=side[..., :-1])
    return left, right


def sides(strokes: Strokes) -> tuple[Floats, Floats]:
    left, right = np.full(BANDS, np.inf), np.full(BANDS, -np.inf)
    band = bands_of(strokes.y)
    np.minimum.at(left, band, strokes.x)
    np.maximum.at(right, band, strokes.x)
    return widened(left, right)
