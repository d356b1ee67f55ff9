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
_MIN_FORMS = 5  # of a letter, if so many are legible
_MAX_LOOP_WIDTH = 0.2  # of an ascender; a wider loop stays open
_CONTACT_DISTANCE = 0.07  # an end nearer than this to another part of the letter touches it
# Of the pictures of letters, which are compared.
_X_HEIGHT, _MIN_SCALE, _MAX_SCALE = 20, 36, 58  # in pixels: wanted x-height, limits of the cap height
_WIDTH, _HEIGHT, _BASELINE = 88, 96, 60  # pixels: size of a picture, and from the top to the baseline
_CELL_PX = 4  # pictures are compared in cells of this size
_INKED, _NEAR_INK = 0.5, 0.2  # smallest shade of pixels that count as ink, with the usual pen and with a thick pen
_MIN_LEAD = 0.3  # share of the font's lead in similarity (over other letters) that a form must keep


def forms_of(character: str, parts: Parts, x_height: float, joined: bool, legible: LegibilityTest) -> list[Parts]:
    """Return the form of the font, then legible changed forms: those of edits for this letter before all others."""
    if not parts or min(map(len, parts)) < 3:
        return [parts]
    shape_edits = _SHAPE_EDITS if character.islower() else _TALL_SHAPE_EDITS if character.isalnum() else ()
    letter_edits = [edit for edit in _EDITS_OF_LETTER.get(character, ()) if not (joined and edit in _PRINT_EDITS)]
    changed = [(edit, edit([part.copy() for part in parts], x_height)) for edit in (*letter_edits, *shape_edits)]
    forms = [(edit, form) for edit, form in changed if form is not None]
    if not forms:
        return [parts]
    counters = np.array([_COUNTERS_ADDED.get(edit, 0) for edit, _ in forms])
    are_legible = legible([strokes_of(form) for _, form in forms], counters)
    legible_forms = [(edit, form) for (edit, form), is_legible in zip(forms, are_legible, strict=True) if is_legible]
    max_changed = max(sum(edit in letter_edits for edit, _ in legible_forms), _MIN_FORMS - 1)
    return [parts, *(form for _, form in legible_forms[:max_changed])]


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


def _open_bowl(parts: Parts, x_height: float) -> Parts | None:
    """Shorten a stroke that ends at another stroke: an open bowl, or an arch that does not meet the stem."""
    contacts = [(n, end) for n, end in _contacts(parts) if arc_lengths(parts[n])[-1] > 0.5 and not _is_stem(parts[n])]
    if not contacts:
        return None
    n, at_end = contacts[-1]
    parts[n] = shorten(parts[n], 0.19 * x_height, at_end)
    return parts


def _find_descender(parts: Parts) -> tuple[int, int, float] | None:
    """Find the part with the descender, reverse it if needed; return its number, lowest point, length after that."""
    n = min(range(len(parts)), key=lambda n: parts[n][:, 1].min())
    along, low = arc_lengths(parts[n]), int(parts[n][:, 1].argmin())
    if along[low] < along[-1] - along[low]:
        parts[n], low = parts[n][::-1], len(parts[n]) - 1 - low
        along = arc_lengths(parts[n])
    return (n, low, float(along[-1] - along[low])) if parts[n][low, 1] < -0.2 and low > 5 else None


def _change_tail(parts: Parts, x_height: float, shape: Literal["straight", "open", "looped"]) -> Parts | None:
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


def _change_foot(parts: Parts, x_height: float) -> Parts | None:
    """Add a hook at the foot of the stroke that ends farthest to the right, or remove this hook."""
    n = max(range(len(parts)), key=lambda n: parts[n][-1, 0])
    part = parts[n]
    if (n, True) in _contacts(parts):
        return None
    if abs(part[-1, 1]) < 0.13 and direction(part, True)[1] < -0.6:
        parts[n] = extend(part, [(0.08, -0.03), (0.22, 0.1)], True)
        return parts
    low = len(part) - 1 - int(part[::-1, 1].argmin())
    rise = arc_lengths(part)[-1] - arc_lengths(part)[low]
    rises_right = 0.1 < rise < 0.4 and part[-1, 0] > part[low, 0] and part[-1, 1] < 0.5 * x_height
    if rises_right and abs(part[low, 1]) < 0.13 and low > len(part) // 3:
        parts[n] = part[: low + 1]
        return parts
    return None


def _highest_point(parts: Parts) -> tuple[int, int]:
    """Return the number of the part with the highest point, and the index of this point."""
    n = max(range(len(parts)), key=lambda n: parts[n][:, 1].max())
    return n, int(parts[n][:, 1].argmax())


def _close_loop(parts: Parts, x_height: float) -> Parts | None:
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


def _retrace_stem(parts: Parts, x_height: float) -> Parts | None:
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


def _move_bar(parts: Parts, x_height: float, by: float) -> Parts | None:
    """Move the bar of t or f up by `by` x-heights; return None without a bar, or if the bar hardly moves."""
    n = bar_of(parts)
    if n is None:
        return None
    height, top = parts[n][:, 1].mean(), max(part[:, 1].max() for part in parts)
    # A bar at the top of the stem would make a capital.
    moved = min(height + by * x_height, 0.78 * top) - height
    parts[n][:, 1] += moved
    return parts if abs(moved) > 0.06 else None


def bar_of(parts: Parts) -> int | None:
    """Return the number of the part that is a flat stroke at about the x-height, or None."""
    for n, part in enumerate(parts):
        width, height = np.ptp(part[:, 0]), np.ptp(part[:, 1])
        if len(parts) > 1 and width > 1.8 * height and width > 0.15 and 0.3 < part[:, 1].mean() < 1.1:
            return n
    return None


def _change_flag(parts: Parts, x_height: float) -> Parts | None:
    """Add a short upstroke at the start of a 1, or remove this upstroke."""
    n, top = _highest_point(parts)
    if top <= 2 and len(parts) == 1 and abs(direction(parts[0], False)[1]) > 0.8:
        parts[n] = extend(parts[n], [(-0.07, -0.06), (-0.24, -0.24)], False)
        return parts
    if top < len(parts[n]) // 2:
        parts[n] = parts[n][top:]
        return parts
    return None


def _bend_lower_half(parts: Parts, x_height: float, by: float) -> Parts:
    """Bend the lower half of a letter to the right (to the left if `by` is below 0)."""
    top = max(part[:, 1].max() for part in parts)
    for part in parts:
        low = np.maximum(0.45 * top - part[:, 1], 0.0)
        part[:, 0] += by * low * low
    return parts


def _lean_top(parts: Parts, x_height: float, by: float) -> Parts:
    """Move the top of the first part sideways, so that a 4 closes or opens."""
    parts[0][:, 0] += by * np.maximum(parts[0][:, 1] - 0.35, 0.0)
    return parts


def _move_waist(parts: Parts, x_height: float, by: float, width: float, is_tall: bool = False) -> Parts:
    """Move the waist up by `by` heights; scale the width by `width`, times 1 + `by` (top) to 1 - `by` (baseline)."""
    height = max(part[:, 1].max() for part in parts) if is_tall else x_height
    middle = float(np.median(np.concatenate(parts)[:, 0]))
    for part in parts:
        share = np.minimum(np.maximum(part[:, 1] / height, 0.0), 1.0)
        part[:, 1] += 4 * by * height * share * (1 - share)
        part[:, 0] = middle + (part[:, 0] - middle) * width * (1 + by * (2 * share - 1))
    return parts


def _scale_extenders(parts: Parts, x_height: float, by: float) -> Parts | None:
    """Make ascenders and descenders longer by the share `by` (below 0: shorter)."""
    y = np.concatenate(parts)[:, 1]
    if y.max() < 1.25 * x_height and y.min() > -0.2:
        return None
    for part in parts:
        part[:, 1] += by * (np.maximum(part[:, 1] - x_height, 0.0) + np.minimum(part[:, 1], 0.0))
    return parts


def _lower_upper_half(parts: Parts, x_height: float) -> Parts:
    for part in parts:
        part[:, 1] -= 0.16 * np.maximum(part[:, 1] - 0.45 * x_height, 0.0)
    return parts


def _change_free_end(parts: Parts, x_height: float, by: float) -> Parts:
    """Lengthen the stroke that ends farthest to the right by `by` x-heights (below 0: shorten); a leg changes less."""
    n = max(range(len(parts)), key=lambda n: parts[n][-1, 0])
    heading = direction(parts[n], True)
    length = abs(by) * x_height * (0.4 if heading[1] < -0.6 else 1.0)
    if by < 0:
        parts[n] = shorten(parts[n], length, True)
    else:
        parts[n] = extend(parts[n], [(float(heading[0]) * length, float(heading[1]) * length + 0.02)], True)
    return parts


# The later edits change less, for letters that become illegible after small changes.
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
_straighten_tail, _open_tail = partial(_change_tail, shape="straight"), partial(_change_tail, shape="open")
_loop_tail = partial(_change_tail, shape="looped")
_COUNTERS_ADDED: dict[Edit, int] = {  # below 0: removed
    **dict.fromkeys((_open_bowl, _straighten_tail, _open_tail, _close_loop), -1), _loop_tail: 1
}  # fmt: skip
_lengthen_end, _shorten_end = partial(_change_free_end, by=0.28), partial(_change_free_end, by=-0.25)
_lengthen_end_a_bit, _bend_l = partial(_change_free_end, by=0.14), partial(_bend_lower_half, by=0.5)
_lower_bar = partial(_move_bar, by=-0.15)
#: Edits that do not suit joined hands.
_PRINT_EDITS: tuple[Edit, ...] = (_change_foot, _loop_tail, _lengthen_end, _shorten_end, _lengthen_end_a_bit, _bend_l)
_EDITS_OF_LETTER_GROUPS: dict[str, tuple[Edit, ...]] = {
    "a": (_open_bowl, _change_foot, _lengthen_end, _shorten_end),
    "d": (_open_bowl, _change_foot, _close_loop),
    "es": (_lower_upper_half, _lengthen_end, _shorten_end),
    "f": (partial(_move_bar, by=0.2), _lower_bar, _close_loop),
    "g": (_open_bowl, _open_tail, _loop_tail),
    "hk": (_close_loop, _change_foot, _retrace_stem, _lengthen_end, _shorten_end),
    "iu": (_change_foot,),
    "jy": (_straighten_tail, _open_tail, _loop_tail),
    "l": (_close_loop, _change_foot, _bend_l),
    "m": (_change_foot, _retrace_stem),
    "n": (_change_foot, _retrace_stem, _lengthen_end, _shorten_end),
    "o0": (_open_bowl,),
    "p": (_retrace_stem,),
    "q": (_straighten_tail,),
    "r": (_retrace_stem, _lengthen_end, _lengthen_end_a_bit),
    "t": (partial(_move_bar, by=0.3), _lower_bar, _change_foot),
    "1": (_change_flag, partial(_bend_lower_half, by=-0.8), partial(_bend_lower_half, by=0.8)),
    "4": (partial(_lean_top, by=-0.35), partial(_lean_top, by=0.35), _open_bowl),
    "7": (partial(_bend_lower_half, by=1.0), partial(_bend_lower_half, by=-1.0)),
    "9": (_open_bowl, partial(_bend_lower_half, by=-0.9), partial(_bend_lower_half, by=0.8)),
}
_EDITS_OF_LETTER = {letter: edits for letters, edits in _EDITS_OF_LETTER_GROUPS.items() for letter in letters}


def pictures_of(letters: Sequence[Strokes], nib: float, scale: float) -> tuple[Integers, Integers, Floats]:
    """Return for each letter the Euler number, the Euler number with a thick pen, and the shades of a small picture.

    The Euler number is the number of parts minus the number of counters. Shades have the shape (letters, cells).
    """
    placed = []
    for n, strokes in enumerate(letters):
        x = (strokes.x - np.median(strokes.x)) * scale + (n + 0.5) * _WIDTH
        placed.append(replace(strokes, x=np.clip(x, n * _WIDTH + 3, (n + 1) * _WIDTH - 3)))
    ink = Strokes.concatenate(placed)
    ink = replace(ink, y=_BASELINE - ink.y * scale, radius=ink.radius * nib * scale)
    picture = coverage([ribbons(ink)], _WIDTH * len(letters), _HEIGHT) / 255
    shades = _blurred(picture.reshape(_HEIGHT, len(letters), _WIDTH).transpose(1, 0, 2))
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
    number: Integers = corners // 4
    return number


class Alphabet:
    """The small letters and figures of a hand as its font draws them."""

    def __init__(self, letters: dict[str, Strokes], nib: float, x_height: float) -> None:
        self._pen = nib, min(max(_X_HEIGHT / x_height, _MIN_SCALE), _MAX_SCALE)
        self._letters = list(letters)
        _, _, self._shades = pictures_of(list(letters.values()), *self._pen)

    def legible(self, character: str, drawn: Strokes, forms: Sequence[Strokes], counters: Integers) -> list[bool]:
        """Return for each of `forms` whether it is legible as `character`, which the font draws as `drawn`.

        A legible form has as many parts and counters as `drawn`, apart from the change in `counters` (-1: a counter
        may open), and is clearly more similar to `character` than to any other letter. A counter that a thick pen
        would close may be closed, but not the eye of an e.
        """
        plain = unicodedata.normalize("NFD", character.lower())[0]
        rivals = [n for n, c in enumerate(self._letters) if c != plain and c.isdigit() == plain.isdigit()]
        parts, thick_parts, shades = pictures_of([drawn, *forms], *self._pen)
        fewest, most = min(parts[0], thick_parts[0]) - np.maximum(counters, 0), max(parts[0], thick_parts[0]) - counters
        same = (fewest <= parts[1:]) & (parts[1:] <= most) & (fewest <= thick_parts[1:]) & (thick_parts[1:] <= most)
        if plain == "e":
            same &= parts[1:] <= parts[0]
        alike = shades @ np.concatenate([shades[:1], self._shades[rivals]]).T
        lead = alike[:, :1] - alike[:, 1:]
        return list(same & (lead[1:] > _MIN_LEAD * lead[0]).all(axis=1))
