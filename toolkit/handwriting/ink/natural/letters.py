"""Prepare letters for joining: strokes in writing order, and the ends at which joins may arrive and leave."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

from toolkit.handwriting.ink.natural.forms import bar_of
from toolkit.handwriting.ink.natural.parts import Part, nearest
from toolkit.handwriting.ink.ribbons import DOT_FLAG, ENDS_IN_INK, OUTLINE_FLAG, STARTS_IN_INK
from toolkit.keyed_noise import Floats

# Lengths in cap heights.
BAND_COUNT = 26  # number of height bands in which the left and right sides of a letter are measured
_LOWEST, _BAND = -1.0, 0.1  # bottom of the lowest band, and height of a band
BAR, MARK = 1, 2  # kinds of delayed strokes, which are written after the word: a bar; a dot or accent
_BRANCH, _MOST_BACK = 0.08, 25  # largest distance from a stroke to a branch; most points of the way back to it
_STEM_COUNTS = {"b": 2, "h": 2, "i": 1, "k": 2, "l": 1, "m": 3, "n": 2, "p": 2, "r": 1, "t": 1, "u": 2}
_LOW, _ABOVE_FOOT = 0.2, 0.3  # the foot of a stem is below the first height, and its hook ends below the second
_REACHES, _LEVEL = 0.14, 0.2  # largest distance of a joinable end from the side of the letter at its height


@dataclass(frozen=True, slots=True, eq=False)
class Letterform:
    """One form of a letter, relative to the origin of the letter, in cap heights."""

    character: str
    parts: list[Part]  # the strokes written at once, then the delayed strokes
    flags: list[int]  # of each stroke
    delayed: list[int]  # of each stroke: 0, `BAR` or `MARK`
    comes_in: bool  # whether the first stroke begins where a join may arrive
    goes_out: bool  # whether the last stroke that is not delayed ends where a join may leave
    left: Floats  # (BAND_COUNT,) the left side of the ink in each band of height, inf without ink
    right: Floats  # (BAND_COUNT,) the right side, -inf without ink

    @property
    def at_once(self) -> int:
        """Return the number of strokes that are not delayed."""
        return self.delayed.count(0)


def drawn_form(character: str, parts: list[Part], flags: list[int]) -> Letterform:
    """Return a letter that is a drawing, or has no ink: nothing is joined to it."""
    return Letterform(character, parts, flags, [0] * len(parts), False, False, *_band_sides(parts))


def letterform_of(character: str, parts: list[Part], flags: list[int], joined: bool) -> Letterform:
    """Return a letter with the strokes in writing order."""
    late = _delay_of_strokes(character, parts, flags, joined)
    main, after = ([n for n in range(len(parts)) if bool(late[n]) == is_late] for is_late in (False, True))
    entry: tuple[int, bool] | None = None
    exit_: tuple[int, bool] | None = None
    if unicodedata.category(character)[0] == "L" and not any(flags[n] & DOT_FLAG for n in main):
        entry, exit_ = _find_entry(parts, main, joined), _find_exit(parts, main)
        if entry == exit_ or _is_foot(character, parts[entry[0]][-1 if entry[1] else 0], [parts[n] for n in main]):
            entry = None
    first = entry[0] if entry else None
    last = exit_[0] if exit_ and exit_[0] != first else None
    order = sorted(main, key=lambda n: (n != first, n == last))
    turned = [entry[0]] if entry and entry[1] else []
    turned += [exit_[0]] if exit_ and not exit_[1] else []
    at_once = [parts[n][::-1] if n in turned else parts[n] for n in order]
    own = [flags[n] for n in order]
    if joined and not any(flag & (DOT_FLAG | OUTLINE_FLAG) for flag in own):
        at_once = _without_lifts(at_once)
        own = [0] * len(at_once)
    parts = [*at_once, *(parts[n] for n in after)]
    own = [_stroke_flags(parts, n, flag) for n, flag in enumerate([*own, *(flags[n] for n in after)])]
    delayed = [0] * len(at_once) + [late[n] for n in after]
    goes_out = exit_ is not None and order[-1] == exit_[0]
    return Letterform(character, parts, own, delayed, entry is not None, goes_out, *_band_sides(parts))


def _without_lifts(parts: list[Part]) -> list[Part]:
    """Replace lifts of the pen: it goes back along a stroke to the point at which the next stroke branches off."""
    whole = [parts[0]]
    for part in parts[1:]:
        at, distance = nearest(part[0], whole[-1])
        back = whole[-1][at:-1][::-1]
        if distance < _BRANCH and len(back) < _MOST_BACK:
            whole[-1] = np.concatenate([whole[-1], back, part[1:]])
        else:
            whole.append(part)
    return whole


def _delay_of_strokes(character: str, parts: list[Part], flags: list[int], joined: bool) -> list[int]:
    """Return for every stroke 0 (not delayed), `BAR` or `MARK`."""
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


def _stroke_flags(parts: list[Part], n: int, flag: int) -> int:
    """Return the flags of a stroke; an end near the rest of the letter is in ink."""
    if flag & ~(STARTS_IN_INK | ENDS_IN_INK):
        return flag
    rest = np.concatenate([np.full((1, 3), 9.0), *(part for m, part in enumerate(parts) if m != n)])
    near = (nearest(parts[n][end], rest)[1] < 0.05 for end in (0, -1))
    return sum(kind for kind, touches in zip((STARTS_IN_INK, ENDS_IN_INK), near, strict=True) if touches)


def _find_entry(parts: list[Part], main: list[int], joined: bool) -> tuple[int, bool]:
    """Return number and end of the stroke at which a join arrives: leftmost end, or start of the first stroke."""
    if joined:
        left = min(float(parts[n][:, 0].min()) for n in main)
        x, n, at_end = min((float(parts[n][end, 0]), n, end == -1) for n in main for end in (0, -1))
        if x < left + _REACHES:
            return n, at_end
    n = main[0]
    return n, parts[n][0, 1] < parts[n][-1, 1] and abs(parts[n][0, 0] - parts[n][-1, 0]) < 0.25


def _is_foot(character: str, end: Floats, parts: list[Part]) -> bool:
    """Return whether an entry is the foot of the first stem: with a join, the pen would write the stem upwards."""
    # For an m: hooks end higher, and strokes that go back up along a stem do not count, only one before the first stem.
    level, branch = (_ABOVE_FOOT, _BRANCH) if character == "m" else (_LOW, 0.0)
    crossings = np.sort(np.concatenate([part[:-1][np.diff(part[:, 1] > level), 0] for part in parts]))
    new = (np.diff(crossings, prepend=-9.0) > branch) | (crossings < crossings[:1] + branch)
    return bool(end[1] < _LOW and new.sum() <= _STEM_COUNTS.get(character, 0))


def _find_exit(parts: list[Part], main: list[int]) -> tuple[int, bool] | None:
    """Return number and end of the stroke from which a join leaves: the rightmost end, without ink on its right."""
    ends = [(float(parts[n][end, 0]), n, end == -1) for n in main for end in (0, -1) if -0.3 < parts[n][end, 1] < 0.8]
    if not ends:
        return None
    x, n, at_end = max(ends)
    rows = np.concatenate([parts[k] for k in main])
    level = np.abs(rows[:, 1] - parts[n][-1 if at_end else 0, 1]) < _LEVEL
    return (n, at_end) if x > rows[level, 0].max() - _REACHES else None


def bands_of(y: Floats) -> np.ndarray:
    return np.clip(((y - _LOWEST) / _BAND).astype(np.int64), 0, BAND_COUNT - 1)


def widen_bands(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Extend every band (last axis) to the outermost ink of the two neighbouring bands."""
    for side, pick in ((left, np.minimum), (right, np.maximum)):
        copy = side.copy()
        pick(side[..., 1:], copy[..., :-1], out=side[..., 1:])
        pick(side[..., :-1], copy[..., 1:], out=side[..., :-1])
    return left, right


def _band_sides(parts: list[Part]) -> tuple[Floats, Floats]:
    left, right = np.full(BAND_COUNT, np.inf), np.full(BAND_COUNT, -np.inf)
    rows = np.concatenate([np.zeros((0, 3)), *parts])
    band = bands_of(rows[:, 1])
    np.minimum.at(left, band, rows[:, 0])
    np.maximum.at(right, band, rows[:, 0])
    return widen_bands(left, right)
