"""Edits of a letter's strokes: each returns the changed letter, or None if the strokes do not allow the edit."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from toolkit_gateway.ink.natural.joins import bar_of
from toolkit_gateway.ink.natural.parts import Part, arc_lengths, bridge, direction, nearest

Parts: TypeAlias = list[Part]

# Lengths in cap heights.
_MAX_LOOP_WIDTH = 0.2  # of an ascender; a wider loop stays open
_CONTACT_DISTANCE = 0.07  # an end nearer than this to another part of the letter touches it


def _contacts(parts: Parts) -> list[tuple[int, bool]]:
    """Return the ends that touch another part or a far point of their own: (number of the part, whether at its end)."""
    contacts = []
    for n, part in enumerate(parts):
        along = arc_lengths(part)
        for at_end in (False, True):
            point = part[-1] if at_end else part[0]
            distance = along[-1] - along if at_end else along
            rest = [*parts[:n], part[distance > 0.45], *parts[n + 1 :]]  # and far points of this part
            if any(len(other) and nearest(point, other)[1] < _CONTACT_DISTANCE for other in rest):
                contacts.append((n, at_end))
    return contacts


def _is_stem(part: Part) -> bool:
    x, y = part[-1, :2] - part[0, :2]
    return bool(abs(y) > 1.5 * abs(x) and x * x + y * y > (0.93 * arc_lengths(part)[-1]) ** 2)


def open_bowl(parts: Parts, x_height: float) -> Parts | None:
    """Shorten a stroke that ends at another stroke: an open bowl, or an arch that does not meet the stem."""
    contacts = [(n, end) for n, end in _contacts(parts) if arc_lengths(parts[n])[-1] > 0.5 and not _is_stem(parts[n])]
    if not contacts:
        return None
    n, at_end = contacts[-1]
    parts[n] = shorten(parts[n], min(0.19 * x_height, 0.35 * float(np.ptp(parts[n][:, 0]))), at_end)
    return parts


def _find_descender(parts: Parts) -> tuple[int, int, float] | None:
    """Find the part with the descender, reverse it if needed; return its number, lowest point, length after that."""
    n = min(range(len(parts)), key=lambda n: parts[n][:, 1].min())
    along, low = arc_lengths(parts[n]), int(parts[n][:, 1].argmin())
    if along[low] < along[-1] - along[low]:
        parts[n], low = parts[n][::-1], len(parts[n]) - 1 - low
        along = arc_lengths(parts[n])
    return (n, low, float(along[-1] - along[low])) if parts[n][low, 1] < -0.2 and low > 5 else None


def change_tail(parts: Parts, x_height: float, shape: Literal["straight", "open", "looped"]) -> Parts | None:
    """End a descender at its lowest point (straight), with a short hook (open), or with a line up through the stem."""
    descender = _find_descender(parts)
    if descender is None:
        return None
    n, low, after = descender
    if shape == "straight" and after >= 0.15:
        parts[n] = parts[n][: low + 2]
    elif shape == "open" and after >= 0.3:
        parts[n] = shorten(parts[n], 0.5 * after, True)
    elif shape == "open" and after < 0.1 and direction(parts[n], True)[1] < -0.8:
        parts[n] = extend(parts[n], [(-0.13, -0.07), (-0.3, 0.0)], True)
    elif shape == "looped" and after <= 0.45:
        rise = -float(parts[n][low, 1])
        points = [(-0.1, -0.04), (-0.2, 0.06), (-0.16, 0.3 * rise), (0.02, 0.7 * rise), (0.16, 0.95 * rise)]
        parts[n] = extend(parts[n][: low + 1], points, True)
    else:
        return None
    return parts


def _highest_point(parts: Parts) -> tuple[int, int]:
    """Return the number of the part with the highest point, and the index of this point."""
    n = max(range(len(parts)), key=lambda n: parts[n][:, 1].max())
    return n, int(parts[n][:, 1].argmax())


def close_loop(parts: Parts, x_height: float) -> Parts | None:
    """Close the loop of an ascender: the upstroke follows the same line as the downstroke."""
    n, top = _highest_point(parts)
    part, along = parts[n], arc_lengths(parts[n])
    if min(along[top], along[-1] - along[top]) < 0.3 or part[top, 1] < x_height * 1.25:
        return None
    down = part[top:]
    falling = np.minimum.accumulate(down[:, 1]) == down[:, 1]
    rising = (np.arange(len(part)) < top) & (part[:, 1] > 0.4 * x_height)
    on_stem = np.interp(part[rising, 1], down[falling][::-1, 1], down[falling][::-1, 0])
    if np.abs(on_stem - part[rising, 0]).max(initial=0.0) > _MAX_LOOP_WIDTH:
        return None
    weight = np.minimum((part[rising, 1] - 0.4 * x_height) / x_height, 1.0)
    part[rising, 0] += weight * weight * (3 - 2 * weight) * (on_stem - part[rising, 0])
    return parts


def retrace_stem(parts: Parts, x_height: float) -> Parts | None:
    """Write a stem and its branch without lifting the pen: the pen goes up along the stem again."""
    for n, stem in enumerate(parts):
        for m, branch in enumerate(parts):
            back = None if m == n or direction(stem, True)[1] > -0.6 else _way_back(stem, branch)
            if back is not None:
                t = np.arange(1, len(back) + 1) / (len(back) + 1)
                back[:, 0] += 0.2 * x_height * t * (1 - t)  # the upstroke bulges away from the stem
                whole = np.concatenate([stem, back, branch[2:]])
                return [whole if k == n else part for k, part in enumerate(parts) if k != m]
    return None


def _way_back(stem: Part, branch: Part) -> Part | None:
    """Return the points from the end of the stem to the start of the branch, back along either; None if apart."""
    at, distance = nearest(branch[0], stem)
    if abs(stem[-1, 1]) < 0.15 and direction(branch, False)[0] > 0 and branch[0, 1] > 0.15:
        return stem[at:-1][::-1].copy() if distance < 2 * _CONTACT_DISTANCE and at < len(stem) - 3 else None
    at, distance = nearest(stem[-1], branch)
    rises = 0 < at < len(branch) - 3 and bool((np.diff(branch[: at + 1, 1]) > 0).all())
    return branch[:at][::-1].copy() if distance < _CONTACT_DISTANCE and rises else None


def move_bar(parts: Parts, x_height: float, by: float) -> Parts | None:
    """Move the bar of t or f up by `by` x-heights; return None without a bar, or if the bar hardly moves."""
    n = bar_of(parts)
    if n is None:
        return None
    height, top = parts[n][:, 1].mean(), max(part[:, 1].max() for part in parts)
    # A bar at the top of the stem would make a capital.
    moved = min(height + by * x_height, 0.78 * top) - height
    parts[n][:, 1] += moved
    return parts if abs(moved) > 0.06 else None


def shorten(part: Part, length: float, at_end: bool) -> Part:
    """Cut `length` from one end; return the part unchanged if fewer than three points would remain."""
    along = arc_lengths(part) if not at_end else arc_lengths(part[::-1])[::-1]
    rest = part[along >= length]
    return rest if len(rest) >= 3 else part


def extend(part: Part, points: list[tuple[float, float]], at_end: bool) -> Part:
    """Extend a part at one end by a smooth curve through `points`, which are relative to this end."""
    end = part[-1] if at_end else part[0]
    heading = direction(part, at_end) * (1 if at_end else -1)
    pieces, here = [], end
    targets = [np.array([end[0] + x, end[1] + y, end[2]]) for x, y in points]
    for number, target in enumerate(targets):
        following = targets[number + 1] if number + 1 < len(targets) else target
        ahead = following[:2] - here[:2]
        ahead = ahead / np.sqrt((ahead * ahead).sum())
        pieces += [bridge(here, heading, target, ahead), target[None]]
        here, heading = target, ahead
    added = np.concatenate(pieces)
    return np.concatenate([part, added]) if at_end else np.concatenate([added[::-1], part])


EDITS: Mapping[str, Callable[[Parts, float], Parts | None]] = {  # the second argument is the x-height
    "open bowl": open_bowl,
    "close loop": close_loop,
    "retrace stem": retrace_stem,
    "raise bar": partial(move_bar, by=0.25),
    "lower bar": partial(move_bar, by=-0.15),
    "straight tail": partial(change_tail, shape="straight"),
    "open tail": partial(change_tail, shape="open"),
    "looped tail": partial(change_tail, shape="looped"),
}
