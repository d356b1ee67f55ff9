"""Allographs: the ways in which one writer constructs a letter, made by edits of its strokes.

An edit returns the changed letter, or None where the construction of the letter does not allow it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from toolkit.handwriting.ink.natural.parts import Part, arc, direction, drawn, nearest, shortened
from toolkit.keyed_noise import Floats

Parts: TypeAlias = list[Part]
Edit: TypeAlias = Callable[[Parts, float], "Parts | None"]  # the second argument is the x-height

_LEAST_FORMS = 3  # of the letters that have edits
_CONTACT = 0.07  # cap heights; an end nearer than this to another part of the letter touches it


def forms_of(character: str, parts: Parts, x_height: float, joined: bool) -> list[Parts]:
    """Return the constructions of a letter, first that of the font."""
    forms = [parts]
    if not parts or min(map(len, parts)) < 3:
        return forms
    edits = _EDITS.get(character, _CAPITAL_EDITS if character.isupper() else ())
    for edit, for_joined in edits:
        if (not joined or for_joined) and (changed := edit([part.copy() for part in parts], x_height)) is not None:
            forms.append(changed)
    for edit, _ in _WIDTHS if edits else ():
        if len(forms) < _LEAST_FORMS and (changed := edit([part.copy() for part in parts], x_height)) is not None:
            forms.append(changed)
    return forms


def _contacts(parts: Parts) -> list[tuple[int, bool]]:
    """Return the ends (part, whether its end) that touch another part, or the same part further along."""
    found = []
    for n, part in enumerate(parts):
        along = arc(part)
        for at_end in (False, True):
            point = part[-1] if at_end else part[0]
            distance = along[-1] - along if at_end else along
            rest = [*parts[:n], part[distance > 0.45], *parts[n + 1 :]]
            if any(len(other) and nearest(point, other)[1] < _CONTACT for other in rest):
                found.append((n, at_end))
    return found


def _is_stem(part: Part) -> bool:
    x, y = part[-1, :2] - part[0, :2]
    return bool(abs(y) > 1.5 * abs(x) and x * x + y * y > (0.93 * arc(part)[-1]) ** 2)


def _opened(parts: Parts, x_height: float) -> Parts | None:
    """Leave a gap where a stroke ends at another one: an open bowl, an arch that does not meet its stem."""
    contacts = [(n, end) for n, end in _contacts(parts) if arc(parts[n])[-1] > 0.5 and not _is_stem(parts[n])]
    if not contacts:
        return None
    n, at_end = contacts[-1]
    parts[n] = shortened(parts[n], 0.2 * x_height, at_end)
    return parts


def _overshot(parts: Parts, x_height: float) -> Parts | None:
    """Let a stroke run past the one at which it ends."""
    contacts = [(n, end) for n, end in _contacts(parts) if arc(parts[n])[-1] > 0.5]
    if not contacts:
        return None
    n, at_end = contacts[0]
    forward = direction(parts[n], at_end) * (1 if at_end else -1) * 0.2 * x_height
    parts[n] = drawn(parts[n], [(forward[0] + 0.02, forward[1] - 0.03)], at_end)
    return parts


def _descender(parts: Parts) -> tuple[int, int, float] | None:
    """Return the part with the descender, its lowest point and the length of its return; turn it to end there."""
    n = min(range(len(parts)), key=lambda n: parts[n][:, 1].min())
    along, low = arc(parts[n]), int(parts[n][:, 1].argmin())
    if along[low] < along[-1] - along[low]:
        parts[n], low = parts[n][::-1], len(parts[n]) - 1 - low
        along = arc(parts[n])
    return (n, low, float(along[-1] - along[low])) if parts[n][low, 1] < -0.2 and low > 5 else None


def _straight_tail(parts: Parts, x_height: float) -> Parts | None:
    """End the descender at its lowest point."""
    found = _descender(parts)
    if found is None or found[2] < 0.15:
        return None
    n, low, _ = found
    parts[n] = parts[n][: low + 2]
    return parts


def _open_tail(parts: Parts, x_height: float) -> Parts | None:
    """End the return of the descender halfway, or give a straight one a hook."""
    found = _descender(parts)
    if found is None or 0.1 <= found[2] < 0.3:
        return None
    n, _, after = found
    if after >= 0.3:
        parts[n] = shortened(parts[n], 0.5 * after, True)
    else:
        parts[n] = drawn(parts[n], [(-0.13, -0.07), (-0.3, 0.0)], True)
    return parts


def _looped_tail(parts: Parts, x_height: float) -> Parts | None:
    """Lead the end of a descender back up through the stem."""
    found = _descender(parts)
    if found is None or found[2] > 0.45:
        return None
    n, low, _ = found
    parts[n] = drawn(parts[n][: low + 1], [(-0.14, -0.04), (-0.18, 0.12), (0.08, 0.36)], True)
    return parts


def _foot(parts: Parts, x_height: float) -> Parts | None:
    """Give the last stroke a hook at the baseline, or take it away."""
    n = max(range(len(parts)), key=lambda n: parts[n][-1, 0])
    part = parts[n]
    if (n, True) in _contacts(parts):
        return None
    if abs(part[-1, 1]) < 0.13 and direction(part, True)[1] < -0.6:
        parts[n] = drawn(part, [(0.08, -0.03), (0.22, 0.1)], True)
        return parts
    low = len(part) - 1 - int(part[::-1, 1].argmin())
    rise = arc(part)[-1] - arc(part)[low]
    if (
        abs(part[low, 1]) < 0.13
        and 0.1 < rise < 0.4
        and part[-1, 1] < 0.5 * x_height
        and low > len(part) // 3
        and part[-1, 0] > part[low, 0]
    ):
        parts[n] = part[: low + 1]
        return parts
    return None


def _ascender(parts: Parts) -> tuple[int, int]:
    n = max(range(len(parts)), key=lambda n: parts[n][:, 1].max())
    return n, int(parts[n][:, 1].argmax())


def _retraced_loop(parts: Parts, x_height: float) -> Parts | None:
    """Close the loop of an ascender: the stroke goes down on the way it came up."""
    n, top = _ascender(parts)
    part, along = parts[n], arc(parts[n])
    if min(along[top], along[-1] - along[top]) < 0.3 or part[top, 1] < x_height * 1.25:
        return None
    down = part[top:]
    falling = np.minimum.accumulate(down[:, 1]) == down[:, 1]
    rising = (np.arange(len(part)) < top) & (part[:, 1] > 0.4 * x_height)
    on_stem = np.interp(part[rising, 1], down[falling][::-1, 1], down[falling][::-1, 0])
    weight = np.minimum((part[rising, 1] - 0.4 * x_height) / x_height, 1.0)
    part[rising, 0] += 0.85 * weight * weight * (3 - 2 * weight) * (on_stem - part[rising, 0])
    return parts


def _looped_ascender(parts: Parts, x_height: float) -> Parts | None:
    """Begin an ascender with an upstroke on its right: a loop."""
    n, top = _ascender(parts)
    part = parts[n]
    others = max((other[:, 1].max() for m, other in enumerate(parts) if m != n), default=0.0)
    if top > 3 or part[top, 1] < x_height * 1.25 or direction(part, False)[1] > -0.5 or others > x_height * 1.2:
        return None
    middle = part[int(np.abs(part[:, 1] - 0.3 * x_height).argmin())]
    dx, dy = middle[0] - part[0, 0], middle[1] - part[0, 1]
    parts[n] = drawn(part, [(0.07, 0.0), (0.3 * dx + 0.15, 0.28 * dy), (dx - 0.13, dy)], False)
    return parts


def _retraced_stem(parts: Parts, x_height: float) -> Parts | None:
    """Write a stem and what branches off it without a lift, up along the stem again."""
    for n, stem in enumerate(parts):
        if abs(stem[-1, 1]) > 0.15 or direction(stem, True)[1] > -0.6:
            continue
        for m, branch in enumerate(parts):
            if m == n or direction(branch, False)[0] < 0 or branch[0, 1] < 0.15:
                continue
            at, distance = nearest(branch[0], stem)
            if distance < 2 * _CONTACT and at < len(stem) - 3:
                back = stem[at:-1][::-1].copy()
                t = np.arange(1, len(back) + 1) / (len(back) + 1)
                back[:, 0] += 0.13 * x_height * t  # the upstroke leans away from the stem
                whole = np.concatenate([stem, back, branch[2:]])
                return [whole if k == n else part for k, part in enumerate(parts) if k != m]
    return None


def _bar_moved(by: float) -> Edit:
    """Return an edit that moves the bar of t or f, in x-heights."""

    def move(parts: Parts, x_height: float) -> Parts | None:
        n = bar_of(parts)
        if n is None:
            return None
        here, top = parts[n][:, 1].mean(), max(part[:, 1].max() for part in parts)
        # A bar at the top of the stem would make a capital.
        moved = min(here + by * x_height, 0.78 * top) - here
        parts[n][:, 1] += moved
        return parts if abs(moved) > 0.06 else None

    return move


def bar_of(parts: Parts) -> int | None:
    """Return the part that is a flat stroke at about the x-height, or None."""
    for n, part in enumerate(parts):
        width, height = np.ptp(part[:, 0]), np.ptp(part[:, 1])
        if len(parts) > 1 and width > 1.8 * height and width > 0.15 and 0.3 < part[:, 1].mean() < 1.1:
            return n
    return None


def _crossed(parts: Parts, x_height: float) -> Parts | None:
    """Cross a 7 or a z."""
    if bar_of(parts) is not None and len(parts) > 2:
        return None
    rows = np.concatenate(parts)
    top, bottom = rows[:, 1].max(), rows[:, 1].min()
    level = 0.52 * top + 0.48 * bottom
    at = rows[np.abs(rows[:, 1] - level) < 0.08]
    if not len(at):
        return None
    x = np.linspace(-0.17, 0.19, 12)
    parts.append(np.column_stack([at[:, 0].mean() + x, level + 0.15 * x, np.full(12, 1.0)]))
    return parts


def _flag(parts: Parts, x_height: float) -> Parts | None:
    """Begin a 1 with a short upstroke, or leave it out."""
    n, top = _ascender(parts)
    if top <= 2:
        parts[n] = drawn(parts[n], [(-0.07, -0.06), (-0.24, -0.24)], False)
        return parts
    if top < len(parts[n]) // 2:
        parts[n] = parts[n][top:]
        return parts
    return None


def _bent(amount: float) -> Edit:
    """Return an edit that bends the lower half of a figure to one side."""

    def bend(parts: Parts, x_height: float) -> Parts | None:
        top = max(part[:, 1].max() for part in parts)
        for part in parts:
            low = np.maximum(0.45 * top - part[:, 1], 0.0)
            part[:, 0] += amount * low * low
        return parts

    return bend


def _leaning(amount: float) -> Edit:
    """Return an edit that moves the top of the first part, so that a 4 closes or opens."""

    def lean(parts: Parts, x_height: float) -> Parts | None:
        first = parts[0]
        first[:, 0] += amount * np.maximum(first[:, 1] - 0.35, 0.0)
        return parts

    return lean


def _tapered(amount: float) -> Edit:
    """Return an edit that makes the upper half of a letter wider and the lower one narrower, or the reverse."""

    def taper(parts: Parts, x_height: float) -> Parts | None:
        rows = np.concatenate(parts)
        middle, half = rows[:, 0].mean(), x_height / 2
        for part in parts:
            share = np.minimum(np.maximum((part[:, 1] - half) / half, -1.0), 1.0)
            part[:, 0] = middle + (part[:, 0] - middle) * (1 + amount * share)
        return parts

    return taper


def _squeezed_eye(parts: Parts, x_height: float) -> Parts | None:
    """Lower the upper half of an e or s."""
    for part in parts:
        above = np.maximum(part[:, 1] - 0.45 * x_height, 0.0)
        part[:, 1] -= 0.3 * above
    return parts


def _free_end(amount: float) -> Edit:
    """Return an edit that lengthens the last stroke in its direction, or cuts it."""

    def change(parts: Parts, x_height: float) -> Parts | None:
        n = max(range(len(parts)), key=lambda n: parts[n][-1, 0])
        if amount < 0:
            parts[n] = shortened(parts[n], -amount * x_height, True)
        else:
            forward: Floats = direction(parts[n], True) * amount * x_height
            parts[n] = drawn(parts[n], [(float(forward[0]), float(forward[1]) + 0.02)], True)
        return parts

    return change


_FINE = True  # for joined hands as well
_BOWL = ((_opened, _FINE), (_overshot, _FINE))
_TAIL = ((_straight_tail, False), (_open_tail, False), (_looped_tail, False))
_STEM = ((_foot, False), (_retraced_stem, _FINE), (_opened, False))
_TALL = ((_retraced_loop, _FINE), (_looped_ascender, _FINE))
_WIDTHS = ((_tapered(0.3), _FINE), (_tapered(-0.3), _FINE))
_CAPITAL_EDITS = (*_WIDTHS, (_squeezed_eye, _FINE))
_EDITS: dict[str, tuple[tuple[Edit, bool], ...]] = {
    "a": (*_BOWL, (_foot, False), *_WIDTHS[:1]),
    "b": ((_opened, False),),
    "d": (_BOWL[0], (_foot, False), (_retraced_loop, _FINE)),
    "e": ((_squeezed_eye, _FINE), (_overshot, _FINE), *_WIDTHS),
    "f": ((_bar_moved(0.2), _FINE), (_bar_moved(-0.15), _FINE), *_TALL, (_looped_tail, False)),
    "g": (*_BOWL, *_TAIL, *_WIDTHS[1:]),
    "h": (*_TALL, *_STEM, *_WIDTHS[:1]),
    "i": ((_foot, False),),
    "j": _TAIL,
    "k": (_TALL[0], *_STEM),
    "l": (*_TALL, (_foot, False), (_bent(0.5), False), (_bent(-0.5), False)),
    "m": _STEM[:2],
    "n": (*_STEM, *_WIDTHS),
    "o": (*_BOWL, *_WIDTHS),
    "p": _STEM[1:2],
    "q": (_BOWL[0], *_TAIL),
    "r": (*_STEM[1:], *_WIDTHS[:1]),
    "s": ((_squeezed_eye, _FINE), (_free_end(0.3), False), (_free_end(-0.25), False), *_WIDTHS),
    "t": ((_bar_moved(0.3), _FINE), (_bar_moved(-0.15), _FINE), (_foot, False), *_WIDTHS[1:]),
    "u": _STEM[:1],
    "y": (*_TAIL, (_opened, _FINE), *_WIDTHS),
    "z": ((_crossed, _FINE),),
    "0": _BOWL,
    "1": ((_flag, _FINE), (_bent(-0.6), _FINE), (_bent(0.6), _FINE)),
    "4": ((_leaning(-0.3), _FINE), (_leaning(0.3), _FINE), (_opened, _FINE), (_overshot, _FINE)),
    "6": _BOWL,
    "7": ((_crossed, _FINE), (_bent(0.8), _FINE), (_bent(-0.8), _FINE)),
    "9": ((_opened, _FINE), (_bent(-0.9), _FINE), (_bent(0.8), _FINE)),
}
