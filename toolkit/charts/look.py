"""Colours, sizes, and numbers as text, by one table that the scripts of a browser load too."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

LOOK: dict[str, Any] = json.loads((Path(__file__).parent / "static" / "look.json").read_text("utf-8"))
#: From the first on, each colour is as far from those before it as possible.
PALETTE: tuple[str, ...] = tuple(LOOK["palette"])
_FEWEST_DIGITS: int = LOOK["numbers"]["fewestDigits"]
_MOST_DIGITS: int = LOOK["numbers"]["mostDigits"]  # enough to tell any two floats apart
#: Numbers outside of this range get scientific notation, such as 1.5e-09.
_LEAST_PLAIN: float = LOOK["numbers"]["leastPlain"]
_GREATEST_PLAIN: float = LOOK["numbers"]["greatestPlain"]


class Style(NamedTuple):
    """How the lines of a thing are drawn."""

    colour: str
    #: Lengths of dashes and spaces in pixels.
    dash: tuple[int, ...]
    #: Whether no other thing looks the same, so that it has an entry in the legend.
    is_distinct: bool

    @property
    def dashes(self) -> Any:  # noqa: ANN401
        """The dashes as matplotlib takes them."""
        return (0, [length / 2 for length in self.dash]) if self.dash else "-"


def style_at(place: int) -> Style:
    """Return the style of the thing at this place; the same as ``styleAt`` of lines.js."""
    rounds, index = divmod(place, len(PALETTE))
    if rounds < len(LOOK["dashes"]):
        return Style(PALETTE[index], tuple(LOOK["dashes"][rounds]), True)
    return Style(LOOK["rest"], (), False)


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return labels for the ticks of an axis, all with the same number of decimals.

    >>> tick_labels([1234567885, 1234567887.5, 1234567890])
    ['1,234,567,885.0', '1,234,567,887.5', '1,234,567,890.0']
    >>> tick_labels([0, 2e-9, 4e-9])
    ['0', '2e-09', '4e-09']
    """
    if not len(ticks):
        return []
    steps = [abs(after - before) for before, after in zip(ticks, ticks[1:], strict=False)]
    step = min(steps, default=0.0) or abs(ticks[0]) or 1.0
    exact = [0.0 if abs(tick) < step / 100 else float(tick) for tick in ticks]
    scientific = not _is_plain(max(abs(tick) for tick in exact))
    for decimals in range(_MOST_DIGITS):
        texts = [_formatted(tick, decimals, scientific) for tick in exact]
        if all(abs(float(text.replace(",", "")) - tick) <= step / 100 for text, tick in zip(texts, exact, strict=True)):
            break
    return texts


def readable(value: float, span: float) -> str:
    """Return a value with the digits that matter if values like it differ by `span`; a missing value is empty.

    >>> readable(21.53217, 3.5), readable(1234567890.25, 3.5), readable(1234567890.25, 1e9)
    ('21.532', '1,234,567,890.25', '1,234,567,890')
    """
    if math.isnan(value):
        return ""
    if math.isinf(value) or value == 0:
        return f"{value:g}".replace("-0", "0")
    size = abs(value)
    smallest = span if 0 < span < size else size
    if not _is_plain(size):
        return f"{value:.{min(_MOST_DIGITS, math.ceil(math.log10(size / smallest)) + _FEWEST_DIGITS) - 1}e}"
    decimals = max(0, _FEWEST_DIGITS - 1 - math.floor(math.log10(smallest)))
    text = _formatted(value, min(decimals, _MOST_DIGITS), scientific=False)
    return text.rstrip("0").rstrip(".") if decimals else text


def _is_plain(size: float) -> bool:
    return size == 0 or _LEAST_PLAIN <= size < _GREATEST_PLAIN


def _formatted(value: float, decimals: int, scientific: bool) -> str:
    if value == 0 and scientific:
        return "0"
    return f"{value:.{decimals}e}" if scientific else f"{value:,.{decimals}f}"
