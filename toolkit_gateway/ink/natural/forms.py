"""Allographs: the forms in which one writer writes a letter, made by edits of the letter's strokes."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from toolkit_gateway.ink.natural import edits
from toolkit_gateway.ink.natural.edits import Parts
from toolkit_gateway.ink.natural.parts import strokes_of
from toolkit_gateway.ink.random_streams import Integers
from toolkit_gateway.ink.ribbons import Strokes

LegibilityTest: TypeAlias = Callable[[list[Strokes], Integers], list[bool]]
Edit: TypeAlias = Callable[[Parts, float], Parts | None]  # the second argument is the x-height

_MIN_FORMS = 5  # of a letter, if so many are legible

# The later edits change less, for letters that become illegible after small changes.
_SHAPE_EDITS: tuple[Edit, ...] = (
    partial(edits.move_waist, by=0.15, width=1.1),
    partial(edits.move_waist, by=-0.17, width=0.93),
    partial(edits.scale_extenders, by=0.11),
    partial(edits.scale_extenders, by=-0.1),
    partial(edits.move_waist, by=0.08, width=1.1),
    partial(edits.move_waist, by=-0.08, width=0.9),
    partial(edits.move_waist, by=0.02, width=1.12),
    partial(edits.move_waist, by=-0.02, width=0.88),
)
_TALL_SHAPE_EDITS: tuple[Edit, ...] = tuple(
    partial(edits.move_waist, by=by, width=width, is_tall=True)
    for by, width in ((0.14, 1.1), (-0.14, 0.92), (0.02, 1.1), (-0.02, 0.9))
)
_straighten_tail, _open_tail = partial(edits.change_tail, shape="straight"), partial(edits.change_tail, shape="open")
_loop_tail = partial(edits.change_tail, shape="looped")
_COUNTERS_ADDED: dict[Edit, int] = {  # below 0: removed
    **dict.fromkeys((edits.open_bowl, _straighten_tail, _open_tail, edits.close_loop), -1), _loop_tail: 1
}  # fmt: skip
_lengthen_end, _shorten_end = partial(edits.change_free_end, by=0.28), partial(edits.change_free_end, by=-0.25)
_lengthen_end_a_bit, _bend_l = partial(edits.change_free_end, by=0.14), partial(edits.bend_lower_half, by=0.5)
_lower_bar = partial(edits.move_bar, by=-0.15)
#: Edits that do not suit joined hands.
_PRINT_EDITS: tuple[Edit, ...] = (
    edits.change_foot,
    _loop_tail,
    _lengthen_end,
    _shorten_end,
    _lengthen_end_a_bit,
    _bend_l,
)
_EDITS_OF_LETTER_GROUPS: dict[str, tuple[Edit, ...]] = {
    "a": (edits.open_bowl, edits.change_foot, _lengthen_end, _shorten_end),
    "d": (edits.open_bowl, edits.change_foot, edits.close_loop),
    "es": (edits.lower_upper_half, _lengthen_end, _shorten_end),
    "f": (partial(edits.move_bar, by=0.2), _lower_bar, edits.close_loop),
    "g": (edits.open_bowl, _open_tail, _loop_tail),
    "hk": (edits.close_loop, edits.change_foot, edits.retrace_stem, _lengthen_end, _shorten_end),
    "iu": (edits.change_foot,),
    "jy": (_straighten_tail, _open_tail, _loop_tail),
    "l": (edits.close_loop, edits.change_foot, _bend_l),
    "m": (edits.change_foot, edits.retrace_stem),
    "n": (edits.change_foot, edits.retrace_stem, _lengthen_end, _shorten_end),
    "o0": (edits.open_bowl,),
    "p": (edits.retrace_stem,),
    "q": (_straighten_tail,),
    "r": (edits.retrace_stem, _lengthen_end, _lengthen_end_a_bit),
    "t": (partial(edits.move_bar, by=0.3), _lower_bar, edits.change_foot),
    "1": (edits.change_flag, partial(edits.bend_lower_half, by=-0.8), partial(edits.bend_lower_half, by=0.8)),
    "4": (partial(edits.lean_top, by=-0.35), partial(edits.lean_top, by=0.35), edits.open_bowl),
    "7": (partial(edits.bend_lower_half, by=1.0), partial(edits.bend_lower_half, by=-1.0)),
    "9": (edits.open_bowl, partial(edits.bend_lower_half, by=-0.9), partial(edits.bend_lower_half, by=0.8)),
}
_EDITS_OF_LETTER = {letter: edits for letters, edits in _EDITS_OF_LETTER_GROUPS.items() for letter in letters}


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
