"""Colours and dashes of lines: a line keeps its style by its name. `stylesOf` of lines.js does the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

#: Colours that colour-blind people can tell apart, each with a contrast above 3 on white and on #111. A search made the
#: least difference between two colours as large as possible, both for normal and for colour-blind eyes.
PALETTE = (
    "#17A0CD", "#975D94", "#9A7CFA", "#9A4945", "#1C73E2",
    "#3C6C6A", "#C26C6B", "#6E7F36", "#7645C0", "#A28D16",
)  # fmt: skip
#: Lengths of dashes and spaces in pixels: with more than ten lines, they tell lines of the same colour apart.
_DASHES: tuple[tuple[int, ...], ...] = ((), (8, 4), (2, 3), (12, 3, 2, 3))


class Style(NamedTuple):
    """How a line is drawn."""

    colour: str
    dash: tuple[int, ...]


def styles_of(names: Iterable[str], known: dict[str, Style]) -> dict[str, Style]:
    """Return how lines that are drawn together look, and remember it in `known`.

    A name keeps its style. A new name, or one whose style another line has, gets the colour of its hash, or the next
    colour that fewer lines have.
    """
    found: dict[str, Style] = {}
    for name in sorted(dict.fromkeys(names), key=lambda name: name not in known):
        if name not in known or known[name] in found.values():
            uses = Counter(style.colour for style in found.values())
            least = min(uses[colour] for colour in PALETTE)
            place = _name_hash(name) % len(PALETTE)
            while uses[PALETTE[place]] > least:
                place = (place + 1) % len(PALETTE)
            known[name] = Style(PALETTE[place], _DASHES[least % len(_DASHES)])
        found[name] = known[name]
    return found


def _name_hash(name: str) -> int:
    # FNV-1a: the same in every process and in the browser, as Python's own hash is not.
    found = 2_166_136_261
    for byte in name.encode("utf-8", "replace"):
        found = (found ^ byte) * 16_777_619 & 0xFFFFFFFF
    return found
