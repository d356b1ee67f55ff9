"""The parameters of a rendering, as a person gives them in a notebook, and their form in a query."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias, TypedDict, cast

import numpy as np
from PIL import ImageColor

from toolkit.errors import InvalidArgument
from toolkit.handwriting.wire import MAX_PIXELS, Align, FileKind, Missing, Paper, Pen, points_of

#: ``"4 in"``, ``"12 cm"``, ``"30 mm"``, ``"20 pt"``, ``"504 px"``; a number is pixels; a pixel is a point, 72 per inch.
Distance: TypeAlias = float | str
#: ``"A4"`` and the other names of `PAGE_SIZES`, or width and height.
Page: TypeAlias = str | tuple[Distance, Distance]
#: One distance for all four edges, or four distances: top, right, bottom, left.
Margin: TypeAlias = Distance | tuple[Distance, Distance, Distance, Distance]
#: ``"#1b3a8a"``, ``"#13a"``, a CSS name such as ``"navy"``, or cyan, magenta, yellow, black from 0 to 1.
InkColour: TypeAlias = str | Sequence[float]


class InkStyle(TypedDict, total=False):
    """The parameters that all methods take, also `letter`; None means the default of the service."""

    handwriting_color: InkColour | None
    line_spacing: float | None
    line_spacing_variance: float | None
    word_spacing_variance: float | None
    random_seed: int | Decimal | None
    pen: Pen | None
    natural: bool | None
    paper: Paper | None
    missing: Missing | None


class PlacedStyle(InkStyle, total=False):
    """The parameters that place a text on its page."""

    handwriting_size: Distance | None
    margin: Margin | None
    align: Align | None


class LetterStyle(PlacedStyle, total=False):
    """The parameters of `letter`, except text and hand."""

    page: Page


class PageStyle(PlacedStyle, total=False):
    """The parameters of `animation`, except text, handwriting and height, which has another default there."""

    width: Distance | None
    min_padding: Distance | None


class Style(PageStyle, total=False):
    """The parameters of `png`, `pdf` and `svg`, except text and handwriting."""

    height: Distance | None


#: Parameters that imitate kinds of real writing: ``tk.handwriting.png("Dear Ada", "Molly", **PRESETS["note"])``.
PRESETS: dict[str, Style] = {
    "letter": Style(pen="fountain", natural=True, paper="blank", handwriting_color="#16265f", line_spacing=1.7),
    "note": Style(pen="ballpoint", natural=True, paper="ruled", handwriting_color="#1c2f7d", line_spacing=1.8),
    "card": Style(pen="gel", natural=True, handwriting_color="#17171c"),
    "sketch": Style(pen="pencil", natural=True, paper="grid", handwriting_color="#2b2b2f", line_spacing=2.0),
    "label": Style(pen="felt", natural=True, paper="kraft", handwriting_color="#1d1c1b", line_spacing=1.7),
}
PAGE_SIZES = {
    "A3": ("297mm", "420mm"), "A4": ("210mm", "297mm"), "A5": ("148mm", "210mm"), "A6": ("105mm", "148mm"),
    "Letter": ("8.5in", "11in"), "Legal": ("8.5in", "14in"),
}  # fmt: skip
#: The seed that is sent for `random_seed=0`: the service takes 0 for no seed.
SEED_FOR_ZERO = 2**63 - 1

_DISTANCE_NAMES = frozenset({"handwriting_size", "width", "height", "min_padding", "page", "margin"})
_NUMBER_PATTERN = re.compile(r"\+?[0-9.]+")


def query_of(style: Style | PlacedStyle, kind: FileKind) -> dict[str, str]:
    """Return the parameters that are not None as texts for a query; raise InvalidArgument for a wrong type."""
    unit = "pt" if kind == "pdf" else "px"
    given: dict[str, Any] = {name: value for name, value in style.items() if value is not None}
    margin = given.pop("margin", None)
    query = {name: _query_value(name, value, unit) for name, value in given.items()}
    if margin is not None:
        sides: Any = margin.split(",") if isinstance(margin, str) else [margin] if isinstance(margin, Real) else margin
        if len(sides) not in (1, 4):
            raise InvalidArgument(f"margin is one distance, or four (top, right, bottom, left), not {len(sides)}")
        query["margin"] = ",".join(_distances("margin", sides, unit))
    return query


def letter_query(style: LetterStyle, kind: FileKind, dpi: float = 72) -> dict[str, str]:
    """Return the query of a letter; a PNG has `dpi` pixels per inch."""
    placed: dict[str, Any] = {**style}
    sides = _distances("page", _page_sides(placed.pop("page")), "pt" if kind == "pdf" else "px")
    query = {**query_of(cast("PlacedStyle", placed), kind), "width": sides[0], "height": sides[1]}
    return _scale_query(query, dpi) if kind == "png" else query


def _scale_query(query: Mapping[str, str], dpi: float) -> dict[str, str]:
    """Return the query of a letter with all distances in pixels; raise InvalidArgument if `dpi` is out of range."""
    limit = MAX_PIXELS * 72 / max(1.0, *(points_of(query[side]) or 0.0 for side in ("width", "height")))
    if not 1 <= dpi <= limit:
        allowed = f"between 1 and {int(limit)} for this page ({MAX_PIXELS} pixels per side)"
        raise InvalidArgument(f"dpi is {allowed}, not {dpi}")
    scaled = dict(query)
    for name in _DISTANCE_NAMES.intersection(query):
        points = [points_of(text) for text in query[name].split(",")]
        if None not in points:  # otherwise the service reports the error
            scaled[name] = ",".join(_decimal_text(dpi / 72 * side) + "px" for side in points if side is not None)
    return scaled


def _query_value(name: str, value: Distance | InkColour | Decimal, unit: str) -> str:
    if isinstance(value, str):
        if name in _DISTANCE_NAMES and _NUMBER_PATTERN.fullmatch(value):
            return _checked_distance(name, value)  # raises an error that names a unit
        return _hexadecimal_colour(value) if name == "handwriting_color" else value
    if name == "natural" and isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, Real | Decimal):
        if isinstance(value, bool) or not math.isfinite(value):
            raise InvalidArgument(f"{name} cannot be {value}")
        if name == "random_seed" and value < 0:
            raise InvalidArgument("random_seed is 0 or above; with None, each call writes differently")
        if name == "random_seed" and value == 0:
            return str(SEED_FOR_ZERO)
        return _checked_distance(name, _decimal_text(value) + unit) if name in _DISTANCE_NAMES else str(value)
    if name == "handwriting_color" and isinstance(value, Iterable):
        return f"({', '.join(f'{ink:g}' for ink in value)})"
    raise InvalidArgument(f"{name} cannot be a {type(value).__name__}")


def _hexadecimal_colour(text: str) -> str:
    """Return a CSS colour as ``#rrggbb``, and any other text, such as four inks, unchanged for the service to check."""
    try:
        colour = ImageColor.getrgb(text.strip())
    except ValueError:
        return text
    return "#{:02x}{:02x}{:02x}".format(*colour) if len(colour) == 3 else text


def _page_sides(page: Page) -> Sequence[Distance]:
    if not isinstance(page, str):
        return page
    sides = PAGE_SIZES.get(page.strip().title())
    if sides is None:
        raise InvalidArgument(f"page {page!r} is unknown: give {', '.join(PAGE_SIZES)}, or a width and a height")
    return sides


def _distances(name: str, distances: Sequence[Distance], unit: str) -> list[str]:
    """Return distances as texts with a unit, or raise InvalidArgument if one is wrong."""
    if len({isinstance(distance, str) for distance in distances}) > 1:
        raise InvalidArgument(f"{name} mixes numbers with texts: give each distance its unit")
    return [_checked_distance(name, _query_value(name, distance, unit)) for distance in distances]


def _checked_distance(name: str, text: str) -> str:
    text = text.strip()
    if text.startswith("-"):
        raise InvalidArgument(f"{name} cannot be negative: {text}")
    if points_of(text) is None:
        advice = f"a unit, as in {text}mm" if _NUMBER_PATTERN.fullmatch(text) else "20mm, 2cm or 0.8in"
        raise InvalidArgument(f"{name} has {text!r}, which is no distance: write {advice}")
    return text


def _decimal_text(value: float | Decimal) -> str:
    """Write a number without an exponent, because the service parses no exponents in distances."""
    return f"{value:.12f}".rstrip("0").rstrip(".")
