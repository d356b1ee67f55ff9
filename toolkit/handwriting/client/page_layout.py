"""Pages and margins, as one gives them in a notebook."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from toolkit.errors import InvalidArgument
from toolkit.handwriting.distances import points_of

#: ``"4 in"``, ``"12 cm"``, ``"30 mm"``, ``"20 pt"``, ``"504 px"``; a number is pixels, which are points (72 an inch).
Distance: TypeAlias = float | str
#: ``"A4"`` and the other names of `PAGES`, or width and height.
Page: TypeAlias = str | tuple[Distance, Distance]
#: One distance for all four edges, or those of top, right, bottom, left.
Margin: TypeAlias = Distance | tuple[Distance, Distance, Distance, Distance]

PAGES = {
    "A3": ("297mm", "420mm"),
    "A4": ("210mm", "297mm"),
    "A5": ("148mm", "210mm"),
    "A6": ("105mm", "148mm"),
    "Letter": ("8.5in", "11in"),
    "Legal": ("8.5in", "14in"),
}
_SCALED = ("handwriting_size", "width", "height", "min_padding", "margin")
_NUMBER = re.compile(r"\s*[+-]?[0-9.]+\s*")


def page_sides(page: Page, unit: str) -> tuple[str, str]:
    """Return width and height as texts."""
    if isinstance(page, str):
        sides = {name.casefold(): sides for name, sides in PAGES.items()}.get(page.strip().casefold())
        if sides is None:
            raise InvalidArgument(f"page {page!r} is unknown: it is one of {', '.join(PAGES)}, or (width, height)")
        return sides
    width, height = _written("page", page, unit)
    return width, height


def margin_text(margin: Margin, unit: str) -> str:
    """Return one distance, or four with commas: top, right, bottom, left."""
    whole = margin.split(",") if isinstance(margin, str) else margin
    several: Sequence[Distance] = [whole] if isinstance(whole, float | int) else whole
    if len(several) not in (1, 4):
        raise InvalidArgument(f"margin is one distance, or four (top, right, bottom, left), not {len(several)}")
    return ",".join(_written("margin", several, unit))


def distance_text(value: float | Decimal, unit: str) -> str:
    """Write a distance as a plain decimal: it is not read with an exponent."""
    return f"{value:.12f}".rstrip("0").rstrip(".") + unit


def scaled(query: Mapping[str, str], factor: float) -> dict[str, str]:
    """Return the query with all distances multiplied, in pixels."""
    scaled = dict(query)
    for name in _SCALED:
        if name in query:
            points = [points_of(text) for text in query[name].split(",")]
            if None not in points:  # else the service says what is wrong
                scaled[name] = ",".join(distance_text(factor * each, "px") for each in points if each is not None)
    return scaled


def _written(name: str, distances: Sequence[Distance], unit: str) -> list[str]:
    if len({isinstance(distance, str) for distance in distances}) > 1:
        raise InvalidArgument(f"{name} mixes numbers, which are pixels, with texts: give each distance its unit")
    return [_distance(name, distance, unit) for distance in distances]


def _distance(name: str, value: Distance, unit: str) -> str:
    shown = str(value).strip()
    if shown.startswith("-"):
        raise InvalidArgument(f"{name} cannot be negative: {shown}")
    if isinstance(value, str):
        if points_of(value) is None:
            advice = f"write its unit, as {shown}mm" if _NUMBER.fullmatch(value) else "write one as 20mm, 2cm or 0.8in"
            raise InvalidArgument(f"{name} has {shown!r}, which is no distance: {advice}")
        return shown
    if isinstance(value, bool) or not math.isfinite(value):
        raise InvalidArgument(f"{name} cannot be {value!r}")
    return distance_text(value, unit)
