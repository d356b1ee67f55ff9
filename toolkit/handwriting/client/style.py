"""The options of a rendering, as a person gives them in a notebook, and their form in a query."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from inspect import Parameter, Signature
from numbers import Real
from typing import Annotated, Any, TypeAlias, TypedDict, TypeVar

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
Seed: TypeAlias = int | Decimal


class Style(TypedDict, total=False):
    r"""The options that all calls of `tk.handwriting` take: as keywords, or together in the argument `style`.

    None means the default of the service. Only gateways of this toolkit know `pen`, `natural`, `paper`, `missing`,
    `margin` and `align`.

    Attributes
    ----------
    handwriting_size
        Height of a capital letter, as ``"20px"`` or ``"8 mm"``; a number is pixels (72 per inch). Default 20; in a
        letter 12.
    handwriting_color
        ``"#rrggbb"``, ``"#rgb"``, a CSS name such as ``"navy"``, or four inks (cyan, magenta, yellow, black) from 0 to
        1, which stay CMYK in a PDF. Default black.
    line_spacing
        Distance between two baselines as a multiple of `handwriting_size`, 0 to 5. Default 1.5; in a letter more if
        lines would touch.
    line_spacing_variance, word_spacing_variance
        Largest relative change of a line spacing or word gap: 0.1 is up to 10 % more or less. 0 to 1, default 0. On
        ``ruled`` and ``grid`` paper, the line spacing does not change; in a letter it only increases.
    pen
        ``plain`` (default), ``ballpoint``, ``gel``, ``fountain``, ``pencil`` or ``felt``.
    natural
        Vary what a person varies: forms of letters, joins, gaps, margins and the slope of lines. Default False: each
        letter has one form, and lines are almost straight; in a letter True.
    paper
        ``none`` (default, transparent), ``blank``, ``ruled``, ``grid`` or ``kraft``, as a scanner shows it.
    missing
        What happens to characters that no hand has: ``error`` (default), ``replace`` by a question mark, or ``skip``.
    margin
        One distance, or four: top, right, bottom, left. The text begins at the margins. Default 0; in a letter 2 cm.
    align
        ``top`` (default) or ``middle``, between top and bottom.
    min_padding
        Centre the text, with at least this distance to all edges; not with `margin` or `align`, nor in a letter.

    Examples
    --------
    >>> import toolkit
    >>> look = toolkit.handwriting.Style(pen="fountain", natural=True)
    >>> with toolkit.connect() as tk:
    ...     tk.handwriting.png("Dear Ada,\nhello", "Molly", look, line_spacing=2).lines
    2
    """

    handwriting_size: Distance | None
    handwriting_color: InkColour | None
    line_spacing: float | None
    line_spacing_variance: float | None
    word_spacing_variance: float | None
    pen: Pen | None
    natural: bool | None
    paper: Paper | None
    missing: Missing | None
    margin: Margin | None
    align: Align | None
    min_padding: Distance | None


# Tab in a notebook offers the options after ``Style(``.
_OPTIONS = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in Style.__annotations__]
Style.__signature__ = Signature(_OPTIONS)  # type: ignore[attr-defined]


class PageStyle(Style, total=False):
    """All parameters of a rendering, except the text and the hand."""

    width: Distance | None
    height: Distance | None
    random_seed: Seed | None


Value = TypeVar("Value")
#: One value, or a list of values.
OneOrMore: TypeAlias = Value | Sequence[Value]
#: One value or a list of values for options of `Style`.
SweptOption: TypeAlias = Annotated[Any, Style]

#: Styles that imitate kinds of real writing: ``tk.handwriting.png("Dear Ada", "Molly", PRESETS["note"])``.
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

LETTER_DEFAULTS = Style(handwriting_size=12, natural=True, margin="2cm")
_DISTANCE_NAMES = frozenset({"handwriting_size", "width", "height", "min_padding", "page", "margin"})
_NUMBER_PATTERN = re.compile(r"\+?[0-9.]+")


def letter_style(style: Style | None, options: Style, page: Page, random_seed: Seed | None) -> PageStyle:
    """Return the parameters of a letter; `options` take precedence over `style`, and both over the defaults."""
    width, height = _distances("page", _page_sides(page), "pt")
    chosen: Any = {name: value for name, value in {**(style or {}), **options}.items() if value is not None}
    return {**LETTER_DEFAULTS, **chosen, "width": width, "height": height, "random_seed": random_seed}


def query_of(style: PageStyle, kind: FileKind) -> dict[str, str]:
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


def scale_query(query: Mapping[str, str], dpi: float) -> dict[str, str]:
    """Return a query with all distances in pixels, `dpi` per inch; raise InvalidArgument if `dpi` is out of range."""
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
