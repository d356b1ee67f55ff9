"""Colours, sizes and number formats: one table that Python and the scripts of a browser both load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

LOOK: dict[str, Any] = json.loads((Path(__file__).parent / "static" / "look.json").read_text("utf-8"))
#: From the first on, each colour is as far from those before it as possible.
PALETTE: tuple[str, ...] = tuple(LOOK["palette"])


class Style(NamedTuple):
    """How the lines of a thing are drawn."""

    colour: str
    #: Lengths of dashes and spaces in pixels.
    dash: tuple[int, ...]
    #: Whether no other thing looks the same, so that it has an entry in the legend.
    is_distinct: bool


def style_at(place: int) -> Style:
    """Return the style of the thing at this place; the same as ``styleAt`` of lines.js."""
    rounds, index = divmod(place, len(PALETTE))
    if rounds < len(LOOK["dashes"]):
        return Style(PALETTE[index], tuple(LOOK["dashes"][rounds]), True)
    return Style(LOOK["rest"], (), False)
