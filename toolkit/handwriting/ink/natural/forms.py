"""Allographs: the forms in which one writer writes a letter, made by edits of the letter's strokes.

An edit returns the changed letter, or None if the strokes of the letter do not allow the edit. A form must be legible:
`Alphabet` compares a small picture of the form with pictures of the other letters of the hand.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from toolkit.handwriting.ink.canvases.raster import coverage
from toolkit.handwriting.ink.natural.parts import Part, arc_lengths, direction, extend, nearest, shorten, strokes_of
from toolkit.handwriting.ink.ribbons import Mask, Strokes, ribbons
from toolkit.keyed_noise import Floats, Integers

Parts: TypeAlias = list[Part]
LegibilityTest: TypeAlias = Callable[[list[Strokes], Integers], list[bool]]
Edit: TypeAlias = Callable[[Parts, float], "Parts | None"]  # the second argument is the x-height

# Lengths in cap heights.
_MIN_FORMS = 5  # of a letter, if this many are legible
_MAX_LOOP_WIDTH = 0.2  # a wider loop is not closed
_CONTACT_DISTANCE = 0.07  # an end nearer than this to another part of the letter touches it
# Of the pictures that are compared.
_X_HEIGHT, _LEAST_SCALE, _MOST_SCALE = 20, 36, 58  # pixels: of the x-height, and limits of the cap height
_WIDTH, _HEIGHT, _BASELINE = 88, 96, 60  # pixels: size of a picture, and from the top to the baseline
_CELL_PX = 4  # pictures are compared in cells of this size
_INKED, _NEAR_INK = 0.5, 0.2  # smallest shade of pixels that count as ink, with the usual pen and with a thick pen
_MIN_LEAD = 0.3  # a form must keep this share of the font's lead in similarity over each other letter


def forms_of(character: str, parts: Parts, x_height: float, joined: bool, legible: LegibilityTest) -> list[Parts]:
    """Return the legible forms of a letter; the form of the font comes first."""
    if not parts or min(map(len, parts)) < 3:
        return [parts]
    shapes = _SHAPE_EDITS if character.islower() else _TALL_SHAPE_EDITS if character.isalnum() else ()
    own = [edit for edit in _EDITS_OF_LETTER.get(character, ()) if not (joined and edit in _PRINT_EDITS)]
    changed = [(edit, edit([part.copy() for part in parts], x_height)) for edit in (*own, *shapes)]
    forms = [(edit, form) for edit, form in changed if form is not None]
    if not forms:
        return [parts]
    counters = np.array([_COUNTERS_ADDED.get(edit, 0) for edit, _ in forms])
    reads = legible([strokes_of(form) for _, form in forms], counters)
    good = [(edit, form) for (edit, form), is_good in zip(forms, reads, strict=True) if is_good]
    count = max(sum(edit in own for edit, _ in good), _MIN_FORMS - 1)
    return [parts, *(form for _, form in good[:count])]


def _contacts(parts: Parts) -> list[tuple[int, bool]]:
    """Return the ends (number of the part, whether at its end) that touch another part, or a far point of the same."""
    found = []
    for n, part in enumerate(parts):
        along = arc_lengths(part)
        for at_end in (False, True):
            point = part[-1] if at_end else part[0]
            distance = along[-1] - along if at_end else along
            rest = [*parts[:n], part[distance > 0.45], *parts[n + 1 :]]
            if any(len(other) and nearest(point, other)[1] < _CONTACT_DISTANCE for other in rest):
                found.append((n, at_end))
    return found


def _is_stem(part: Part) -> bool:
    x, y = part[-1, :2] - part[0, :2]
    return bool(abs(y) > 1.5 * abs(x) and x * x + y * y > (0.93 * arc_lengths(part)[-1]) ** 2)


def _open_bowl(parts: Parts, x_height: float) -> Parts | None:
    """Shorten a stroke that ends at another stroke: an open bowl, or an arch that does not meet the stem."""
    contacts = [(n, end) for n, end in _contacts(parts) if arc_lengths(parts[n])[-1] > 0.5 and not _is_stem(parts[n])]
    if not contacts:
        return None
    n, at_end = contacts[-1]
    parts[n] = shorten(parts[n], 0.19 * x_height, at_end)
    return parts


def _find_descender(parts: Parts) -> tuple[int, int, float] | None:
    """Turn the part with the descender to end there; return its number, its lowest point and the length after that."""
    n = min(range(len(parts)), key=lambda n: parts[n][:, 1].min())
    along, low = arc_lengths(parts[n]), int(parts[n][:, 1].argmin())
    if along[low] < along[-1] - along[low]:
        parts[n], low = parts[n][::-1], len(parts[n]) - 1 - low
        along = arc_lengths(parts[n])
    return (n, low, float(along[-1] - along[low])) if parts[n][low, 1] < -0.2 and low > 5 else None


def _change_tail(parts: Parts, x_height: float, to: Literal["straight", "open", "looped"]) -> Parts | None:
    """End the descender at its lowest point; open it with a short hook; or extend it upwards through the stem."""
    found = _find_descender(parts)
    if found is None:
        return None
    n, low, after = found
    if to == "straight" and after >= 0.15:
        parts[n] = parts[n][: low + 2]
    elif to == "open" and after >= 0.3:
        parts[n] = shorten(parts[n], 0.5 * after, True)
    elif to == "open" and after < 0.1 and direction(parts[n], True)[1] < -0.8:
        parts[n] = extend(parts[n], [(-0.13, -0.07), (-0.3, 0.0)], True)
    elif to == "looped" and after <= 0.45:
        rise = -float(parts[n][low, 1])
        points = [(-0.1, -0.04), (-0.2, 0.06), (-0.16, 0.3 * rise), (0.02, 0.7 * rise), (0.16, 0.95 * rise)]
        parts[n] = extend(parts[n][: low + 1], points, True)
    else:
        return None
    return parts


def _change_foot(parts: Parts, x_height: float) -> Parts | None:
    """Add a hook to the last stroke at the baseline, or remove the hook."""
    n = max(range(len(parts)), key=lambda n: parts[n][-1, 0])
    part = parts[n]
    if (n, True) in _contacts(parts):
        return None
    if abs(part[-1, 1]) < 0.13 and direction(part, True)[1] < -0.6:
        parts[n] = extend(part, [(0.08, -0.03), (0.22, 0.1)], True)
        return parts
    low = len(part) - 1 - int(part[::-1, 1].argmin())
    rise = arc_lengths(part)[-1] - arc_lengths(part)[low]
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


def _highest_point(parts: Parts) -> tuple[int, int]:
    """Return the number of the part with the highest point, and the index of this point."""
    n = max(range(len(parts)), key=lambda n: parts[n][:, 1].max())
    return n, int(parts[n][:, 1].argmax())


def _retraced_loop(parts: Parts, x_height: float) -> Parts | None:
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


def _retraced_stem(parts: Parts, x_height: float) -> Parts | None:
    """Write a stem and the branch without lifting the pen: it goes up along the stem again."""
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
    """Return the points along the stem from its end to the start of the branch; None if the branch is elsewhere."""
    at, distance = nearest(branch[0], stem)
    if abs(stem[-1, 1]) < 0.15 and direction(branch, False)[0] > 0 and branch[0, 1] > 0.15:
        return stem[at:-1][::-1].copy() if distance < 2 * _CONTACT_DISTANCE and at < len(stem) - 3 else None
    at, distance = nearest(stem[-1], branch)
    rises = 0 < at < len(branch) - 3 and bool((np.diff(branch[: at + 1, 1]) > 0).all())
    return branch[:at][::-1].copy() if distance < _CONTACT_DISTANCE and rises else None


def _move_bar(parts: Parts, x_height: float, by: float) -> Parts | None:
    """Move the bar of t or f, by x-heights."""
    n = bar_of(parts)
    if n is None:
        return None
    here, top = parts[n][:, 1].mean(), max(part[:, 1].max() for part in parts)
    # A bar at the top of the stem would make a capital.
    moved = min(here + by * x_height, 0.78 * top) - here
    parts[n][:, 1] += moved
    return parts if abs(moved) > 0.06 else None


def bar_of(parts: Parts) -> int | None:
    """Return the part that is a flat stroke at about the x-height, or None."""
    for n, part in enumerate(parts):
        width, height = np.ptp(part[:, 0]), np.ptp(part[:, 1])
        if len(parts) > 1 and width > 1.8 * height and width > 0.15 and 0.3 < part[:, 1].mean() < 1.1:
            return n
    return None


def _change_flag(parts: Parts, x_height: float) -> Parts | None:
    """Add a short upstroke to the start of a 1, or remove it."""
    n, top = _highest_point(parts)
    if top <= 2 and len(parts) == 1 and abs(direction(parts[0], False)[1]) > 0.8:
        parts[n] = extend(parts[n], [(-0.07, -0.06), (-0.24, -0.24)], False)
        return parts
    if top < len(parts[n]) // 2:
        parts[n] = parts[n][top:]
        return parts
    return None


def _bend_lower_half(parts: Parts, x_height: float, by: float) -> Parts:
    """Bend the lower half of a digit to one side."""
    top = max(part[:, 1].max() for part in parts)
    for part in parts:
        low = np.maximum(0.45 * top - part[:, 1], 0.0)
        part[:, 0] += by * low * low
    return parts


def _lean_top(parts: Parts, x_height: float, by: float) -> Parts:
    """Move the top of the first part, so that a 4 closes or opens."""
    parts[0][:, 0] += by * np.maximum(parts[0][:, 1] - 0.35, 0.0)
    return parts


def _move_waist(parts: Parts, x_height: float, by: float, width: float, is_tall: bool = False) -> Parts:
    """Move the middle of a letter up or down, by a share of the height, and scale the width."""
    height = max(part[:, 1].max() for part in parts) if is_tall else x_height
    middle = float(np.median(np.concatenate(parts)[:, 0]))
    for part in parts:
        share = np.minimum(np.maximum(part[:, 1] / height, 0.0), 1.0)
        part[:, 1] += 4 * by * height * share * (1 - share)
        part[:, 0] = middle + (part[:, 0] - middle) * width * (1 + by * (2 * share - 1))
    return parts


def _scale_extenders(parts: Parts, x_height: float, by: float) -> Parts | None:
    """Make ascenders and descenders longer or shorter."""
    rows = np.concatenate(parts)
    if rows[:, 1].max() < 1.25 * x_height and rows[:, 1].min() > -0.2:
        return None
    for part in parts:
        part[:, 1] += by * (np.maximum(part[:, 1] - x_height, 0.0) + np.minimum(part[:, 1], 0.0))
    return parts


def _lower_upper_half(parts: Parts, x_height: float) -> Parts:
    for part in parts:
        part[:, 1] -= 0.16 * np.maximum(part[:, 1] - 0.45 * x_height, 0.0)
    return parts


def _change_free_end(parts: Parts, x_height: float, by: float) -> Parts:
    """Lengthen or shorten the end of the last stroke, by x-heights; a leg changes less."""
    n = max(range(len(parts)), key=lambda n: parts[n][-1, 0])
    way = direction(parts[n], True)
    length = abs(by) * x_height * (0.4 if way[1] < -0.6 else 1.0)
    if by < 0:
        parts[n] = shorten(parts[n], length, True)
    else:
        parts[n] = extend(parts[n], [(float(way[0]) * length, float(way[1]) * length + 0.02)], True)
    return parts


# The later edits change less, for letters that soon become illegible.
_SHAPE_EDITS: tuple[Edit, ...] = (
    partial(_move_waist, by=0.15, width=1.1),
    partial(_move_waist, by=-0.17, width=0.93),
    partial(_scale_extenders, by=0.11),
    partial(_scale_extenders, by=-0.1),
    partial(_move_waist, by=0.08, width=1.1),
    partial(_move_waist, by=-0.08, width=0.9),
    partial(_move_waist, by=0.02, width=1.12),
    partial(_move_waist, by=-0.02, width=0.88),
)
_TALL_SHAPE_EDITS: tuple[Edit, ...] = tuple(
    partial(_move_waist, by=by, width=width, is_tall=True)
    for by, width in ((0.14, 1.1), (-0.14, 0.92), (0.02, 1.1), (-0.02, 0.9))
)
_STRAIGHT_TAIL, _OPEN_TAIL = partial(_change_tail, to="straight"), partial(_change_tail, to="open")
_LOOPED_TAIL = partial(_change_tail, to="looped")
_COUNTERS_ADDED: dict[Edit, int] = {
    **dict.fromkeys((_open_bowl, _STRAIGHT_TAIL, _OPEN_TAIL, _retraced_loop), -1), _LOOPED_TAIL: 1
}  # fmt: skip
_LONGER_END, _SHORTER_END = partial(_change_free_end, by=0.28), partial(_change_free_end, by=-0.25)
_A_LITTLE_LONGER_END, _BENT_L = partial(_change_free_end, by=0.14), partial(_bend_lower_half, by=0.5)
_LOWER_BAR = partial(_move_bar, by=-0.15)
#: Edits that do not suit joined hands.
_PRINT_EDITS: tuple[Edit, ...] = (
    _change_foot, _LOOPED_TAIL, _LONGER_END, _SHORTER_END, _A_LITTLE_LONGER_END, _BENT_L
)  # fmt: skip
_EDITS_OF_LETTERS: dict[str, tuple[Edit, ...]] = {
    "a": (_open_bowl, _change_foot, _LONGER_END, _SHORTER_END),
    "d": (_open_bowl, _change_foot, _retraced_loop),
    "es": (_lower_upper_half, _LONGER_END, _SHORTER_END),
    "f": (partial(_move_bar, by=0.2), _LOWER_BAR, _retraced_loop),
    "g": (_open_bowl, _OPEN_TAIL, _LOOPED_TAIL),
    "hk": (_retraced_loop, _change_foot, _retraced_stem, _LONGER_END, _SHORTER_END),
    "iu": (_change_foot,),
    "jy": (_STRAIGHT_TAIL, _OPEN_TAIL, _LOOPED_TAIL),
    "l": (_retraced_loop, _change_foot, _BENT_L),
    "m": (_change_foot, _retraced_stem),
    "n": (_change_foot, _retraced_stem, _LONGER_END, _SHORTER_END),
    "o0": (_open_bowl,),
    "p": (_retraced_stem,),
    "q": (_STRAIGHT_TAIL,),
    "r": (_retraced_stem, _LONGER_END, _A_LITTLE_LONGER_END),
    "t": (partial(_move_bar, by=0.3), _LOWER_BAR, _change_foot),
    "1": (_change_flag, partial(_bend_lower_half, by=-0.8), partial(_bend_lower_half, by=0.8)),
    "4": (partial(_lean_top, by=-0.35), partial(_lean_top, by=0.35), _open_bowl),
    "7": (partial(_bend_lower_half, by=1.0), partial(_bend_lower_half, by=-1.0)),
    "9": (_open_bowl, partial(_bend_lower_half, by=-0.9), partial(_bend_lower_half, by=0.8)),
}
_EDITS_OF_LETTER = {letter: edits for letters, edits in _EDITS_OF_LETTERS.items() for letter in letters}


def pictures_of(letters: Sequence[Strokes], nib: float, scale: float) -> tuple[Integers, Integers, Floats]:
    """Return of each letter the Euler number, also with a thick pen, and the shades of a small picture.

    The Euler number is the number of parts minus the number of counters. Shades have the shape (letters, cells).
    """
    placed = []
    for n, strokes in enumerate(letters):
        x = (strokes.x - np.median(strokes.x)) * scale + (n + 0.5) * _WIDTH
        placed.append(replace(strokes, x=np.clip(x, n * _WIDTH + 3, (n + 1) * _WIDTH - 3)))
    ink = Strokes.concatenate(placed)
    ink = replace(ink, y=_BASELINE - ink.y * scale, radius=ink.radius * nib * scale)
    row = coverage([ribbons(ink)], _WIDTH * len(letters), _HEIGHT) / 255
    shades = _blurred(row.reshape(_HEIGHT, len(letters), _WIDTH).transpose(1, 0, 2))
    cells = shades.reshape(len(letters), _HEIGHT // _CELL_PX, _CELL_PX, _WIDTH // _CELL_PX, _CELL_PX).sum(axis=(2, 4))
    flat = _blurred(cells).reshape(len(letters), -1)
    flat /= np.maximum(np.sqrt((flat * flat).sum(axis=1, keepdims=True)), 1e-9)
    return _euler_number(shades > _INKED), _euler_number(_blurred(shades) > _NEAR_INK), flat


def _blurred(shades: Floats) -> Floats:
    for _ in range(2):
        blurred = 0.5 * shades
        blurred[:, :, 1:] += 0.25 * shades[:, :, :-1]
        blurred[:, :, :-1] += 0.25 * shades[:, :, 1:]
        shades = blurred.transpose(0, 2, 1)
    return shades


def _euler_number(ink: Mask) -> Integers:
    """Return the number of parts minus the number of counters, from counts of the corners of the ink."""
    here, right, below, across = ink[:, :-1, :-1], ink[:, :-1, 1:], ink[:, 1:, :-1], ink[:, 1:, 1:]
    count = here.astype(np.int8) + right + below + across
    pinched = (count == 2) & (here == across)
    corners = (count == 1).sum(axis=(1, 2)) - (count == 3).sum(axis=(1, 2)) - 2 * pinched.sum(axis=(1, 2))
    parts: Integers = corners // 4
    return parts


class Alphabet:
    """The small letters and figures of a hand as its font draws them."""

    def __init__(self, letters: dict[str, Strokes], nib: float, x_height: float) -> None:
        self._pen = nib, min(max(_X_HEIGHT / x_height, _LEAST_SCALE), _MOST_SCALE)
        self._letters = list(letters)
        _, _, self._shades = pictures_of(list(letters.values()), *self._pen)

    def legible(self, character: str, font: Strokes, forms: Sequence[Strokes], counters: Integers) -> list[bool]:
        """Return for each of `forms` whether it is legible as `character`; `font` has the strokes of the font.

        A legible form has the same parts and counters, apart from the change in `counters` (with -1, a counter may
        open), and is more similar to `character` than to each other letter. A counter that a thick pen would close
        may be closed, but not the eye of an e.
        """
        plain = unicodedata.normalize("NFD", character.lower())[0]
        rivals = [
            n for n, letter in enumerate(self._letters) if letter != plain and letter.isdigit() == plain.isdigit()
        ]
        parts, thick_parts, shades = pictures_of([font, *forms], *self._pen)
        fewest, most = min(parts[0], thick_parts[0]) - np.maximum(counters, 0), max(parts[0], thick_parts[0]) - counters
        same = (fewest <= parts[1:]) & (parts[1:] <= most) & (fewest <= thick_parts[1:]) & (thick_parts[1:] <= most)
        if plain == "e":
            same &= parts[1:] <= parts[0]
        alike = shades @ np.concatenate([shades[:1], self._shades[rivals]]).T
        lead = alike[:, :1] - alike[:, 1:]
        return list(same & (lead[1:] > _MIN_LEAD * lead[0]).all(axis=1))
