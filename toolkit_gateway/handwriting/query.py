"""Parse the query of a request for the list or for a rendering, and report all problems at once."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from toolkit.errors import InvalidParameters, MalformedRequest, Problem
from toolkit.handwriting import wire
from toolkit.handwriting.wire import FileKind
from toolkit_gateway.handwriting import refusals
from toolkit_gateway.ink.catalogue import catalogue
from toolkit_gateway.ink.parameters import CMYK, DEFAULT_HEIGHT, DEFAULT_WIDTH, LENGTH_LIMITS, RGB, Margin, Parameters

_DIRECTIONS = ("asc", "desc")
_SWITCH_VALUES = ("true", "false")
_MAX_LINE_SPACING = 5.0
_MAX_VARIANCE = 1.0
MAX_QUERY_BYTES = 256 * 1024

#: Accepted colours. ``strict`` (HTTP Basic): CMYK for a PDF, else RGB, as in 2016. ``open`` (apikey): always both.
Dialect = Literal["open", "strict"]

_BROKEN_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SIDES = ("width", "height")
_Parsers: TypeAlias = Mapping[str, Callable[[str], Any]]


class ListingQuery(NamedTuple):
    limit: int = wire.DEFAULT_LIMIT
    offset: int = 0
    order_by: str = "id"
    order_dir: str = "asc"


def check_query(query_string: bytes) -> None:
    """Raise MalformedRequest if the percent-encoding is broken or the query is longer than any valid query."""
    if _BROKEN_PERCENT.search(query_string) or len(query_string) > MAX_QUERY_BYTES:
        raise MalformedRequest(refusals.QUERY_MALFORMED)


def parse_listing_query(query: Mapping[str, str]) -> ListingQuery:
    """Return the requested part and order of the list, or raise InvalidParameters with all problems."""
    problems: list[Problem] = []
    parsers: _Parsers = {
        "limit": partial(_parse_integer, minimum=1, maximum=wire.MAX_LIMIT),
        "offset": partial(_parse_integer, minimum=0),
        "order_by": partial(_parse_choice, choices=wire.HANDWRITING_FIELDS),
        "order_dir": partial(_parse_choice, choices=_DIRECTIONS),
    }
    listing = ListingQuery(**_parse_fields(query, parsers, problems))
    if problems:
        raise InvalidParameters(problems)
    return listing


def parse_render_query(
    query: Mapping[str, str], kind: FileKind, dialect: Dialect, *, is_multipage: bool = False
) -> tuple[Parameters | None, list[Problem]]:
    """Return the parameters (defaults for wrong values; None if the handwriting is unknown), and all problems."""
    problems: list[Problem] = []
    handwriting = catalogue().get(query.get("handwriting_id", ""))
    if handwriting is None:
        error = refusals.ID_NOT_FOUND if query.get("handwriting_id") else "handwriting_id is required"
        problems.append(Problem("handwriting_id", error))
    text = query.get("text", "")
    if text_problem := _text_problem(text, wire.MAX_LETTER_LENGTH if is_multipage else wire.MAX_TEXT_LENGTH):
        problems.append(Problem("text", text_problem))
    black: RGB | CMYK = CMYK(0, 0, 0, 1) if kind == "pdf" else RGB(0, 0, 0)
    parsers = _parsers_of(kind, is_strict=dialect == "strict", is_multipage=is_multipage)
    given = {"handwriting_color": black, **_parse_fields(query, parsers, problems)}
    # A side that cannot be parsed counts as ``auto``: no margin is too large for it.
    problems += _margin_problems({**dict.fromkeys(side for side in _SIDES if side in query), **given})
    if is_multipage:
        automatic = [side for side in _SIDES if given.get(side, 1.0) is None]
        problems += [Problem(side, refusals.LETTER_SIDE.format(side)) for side in automatic]
        first_page = {} if kind == "pdf" else {"page_number": 1}
        margin = {} if "min_padding" in given else {"margin": Margin(0.0, 0.0, 0.0, 0.0)}
        given = {"line_spacing": None, **first_page, **margin, **given, "is_multipage": True}
    return (Parameters(handwriting, kind, text, **given) if handwriting else None), problems


def _margin_problems(given: Mapping[str, Any]) -> list[Problem]:
    """Return a problem if min_padding or margin leaves no room, or if min_padding excludes margin or align."""
    problems = []
    padding, margin = given.get("min_padding"), given.get("margin")
    width, height = given.get("width", DEFAULT_WIDTH), given.get("height", DEFAULT_HEIGHT)
    if padding is not None and any(side is not None and padding > side / 2 for side in (width, height)):
        problems.append(Problem("min_padding", refusals.NO_ROOM))
    if margin is not None:
        pairs = ((margin.left + margin.right, width), (margin.top + margin.bottom, height))
        if any(side is not None and margins >= side for margins, side in pairs):
            problems.append(Problem("margin", refusals.MARGIN_TOO_LARGE))
    if padding is not None and (margin is not None or "align" in given):
        problems.append(Problem("min_padding", refusals.PADDING_CENTRES))
    return problems


def _parse_fields(query: Mapping[str, str], parsers: _Parsers, problems: list[Problem]) -> dict[str, Any]:
    parsed = {}
    for field, parse in parsers.items():
        if field in query:
            try:
                parsed[field] = parse(query[field])
            except WrongValue as wrong:
                problems.append(Problem(field, f"{field} {wrong}"))
    return parsed


def _text_problem(text: str, max_length: int) -> str | None:
    if _SURROGATE.search(text):
        return wire.TEXT_NOT_UTF8
    if _CONTROL_CHARACTERS.search(text):
        return refusals.TEXT_HAS_CONTROLS
    if not text.strip():
        return "text is required"
    if len(text) > max_length:
        return wire.TEXT_TOO_LONG if max_length == wire.MAX_TEXT_LENGTH else wire.LETTER_TOO_LONG
    return None


# -- parsers of values; an error message is the name of the field and the text of `WrongValue` --

_NUMBER_PATTERN = re.compile(r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]{1,3})?)\s*", re.IGNORECASE)
_INTEGER_PATTERN = re.compile(r"\s*([+-]?[0-9]{1,18})\s*")
_RGB_PATTERN = re.compile(r"\s*#?([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})\s*")
_CMYK_PATTERN = re.compile(r"\s*\(([^,()]*),([^,()]*),([^,()]*),([^,()]*)\)\s*")

_MIN_POINTS = 0.01  # a smaller size is invisible and would lead to a division by zero
_MAX_SEED = 2**63 - 1
_MAX_SEED_CHARACTERS = 100
_MAX_SHOWN_CHARACTERS = 80


class WrongValue(ValueError):
    pass


def _unparsable(text: str) -> WrongValue:
    shown = text.encode("utf-8", "replace").decode("utf-8")
    shown = shown if len(shown) <= _MAX_SHOWN_CHARACTERS else shown[:_MAX_SHOWN_CHARACTERS] + "..."
    return WrongValue(f"unable to parse: {json.dumps(shown, ensure_ascii=False)}")


def _parse_side(text: str, kind: FileKind, *, is_whole: bool) -> float | None:
    """Parse a width or height; None is ``auto``."""
    if text.strip().lower() == "auto":
        return None
    if is_whole:  # rounded to whole pixels, a half upwards
        return float(int(_parse_distance(text, kind, 0.5, "must be at least 1px") + 0.5))
    return _parse_distance(text, kind, _MIN_POINTS, f"must be at least {_MIN_POINTS}pt")


def _parse_margin(text: str, kind: FileKind) -> Margin:
    parts = text.split(",")
    if len(parts) not in (1, 4):
        raise _unparsable(text)
    distances = [_parse_distance(part, kind) for part in parts]
    return Margin(*(distances if len(parts) == 4 else distances * 4))


def _parse_number(text: str, maximum: float) -> float:
    parsed = Decimal(_match(_NUMBER_PATTERN, text)[1])
    if not 0 <= parsed <= maximum:
        raise WrongValue(f"must be between 0.0 and {maximum}")
    return float(parsed)


def _parse_colour(text: str, kind: FileKind, *, is_strict: bool) -> RGB | CMYK:
    """Parse a colour; if `is_strict`, accept only CMYK for a PDF and only RGB for other kinds of files."""
    models = ("RGB", "CMYK") if not is_strict else ("CMYK",) if kind == "pdf" else ("RGB",)
    if "RGB" in models and (match := _RGB_PATTERN.fullmatch(text)):
        return RGB(*(int(channel, 16) for channel in match.groups()))
    if "CMYK" in models and (match := _CMYK_PATTERN.fullmatch(text)):
        numbers = [_NUMBER_PATTERN.fullmatch(part) for part in match.groups()]
        inks = [float(number[1]) for number in numbers if number]
        if len(inks) == 4 and all(0 <= ink <= 1 for ink in inks):
            return CMYK(*inks)
    raise WrongValue(f"must be valid {' or '.join(models)}")


def _parse_seed(text: str) -> int | Decimal | None:
    """Parse a seed: a whole or decimal number up to ``2**63 - 1``; return None for zero and below."""
    parsed = Decimal(_match(_NUMBER_PATTERN, text)[1])
    if len(text) > _MAX_SEED_CHARACTERS or abs(parsed) > _MAX_SEED:
        raise WrongValue("is out of range")
    if parsed <= 0:
        return None
    return int(parsed) if parsed == parsed.to_integral_value() else parsed.normalize()


def _parse_integer(text: str, minimum: int, maximum: int | None = None) -> int:
    number = int(_match(_INTEGER_PATTERN, text)[1])
    if number < minimum or (maximum is not None and number > maximum):
        allowed = f"{minimum} or more" if maximum is None else f"between {minimum} and {maximum}"
        raise WrongValue(f"must be {allowed}")
    return number


def _parse_choice(text: str, choices: Sequence[str]) -> str:
    if text not in choices:
        raise WrongValue(f"must be one of: {', '.join(choices)}")
    return text


def _parse_distance(text: str, kind: FileKind, minimum: float = 0.0, too_small: str = "") -> float:
    points = wire.points_of(text)
    if points is None:
        raise _unparsable(text)
    if points < minimum:
        raise WrongValue(too_small)
    maximum, limit_text = LENGTH_LIMITS[kind]
    if points > maximum * (1 + 1e-9):  # 254cm must be accepted as 100in despite rounding
        raise WrongValue(f"maximum is {limit_text}")
    return min(points, maximum)


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise _unparsable(text)
    return match


def _parsers_of(kind: FileKind, *, is_strict: bool, is_multipage: bool) -> _Parsers:
    # The sides of a letter are not rounded, so that the lines are the same in every format.
    parse_side = partial(_parse_side, kind=kind, is_whole=kind == "png" and not is_multipage)
    too_small = f"must be greater than 0{'in' if kind == 'pdf' else 'px'}"
    parsers: dict[str, Callable[[str], Any]] = {
        "handwriting_size": partial(_parse_distance, kind=kind, minimum=_MIN_POINTS, too_small=too_small),
        "handwriting_color": partial(_parse_colour, kind=kind, is_strict=is_strict),
        "width": parse_side,
        "height": parse_side,
        "min_padding": partial(_parse_distance, kind=kind),
        "margin": partial(_parse_margin, kind=kind),
        "align": partial(_parse_choice, choices=wire.ALIGNS),
        "line_spacing": partial(_parse_number, maximum=_MAX_LINE_SPACING),
        "line_spacing_variance": partial(_parse_number, maximum=_MAX_VARIANCE),
        "word_spacing_variance": partial(_parse_number, maximum=_MAX_VARIANCE),
        "random_seed": _parse_seed,
        "pen": partial(_parse_choice, choices=wire.PENS),
        "natural": lambda text: _parse_choice(text, _SWITCH_VALUES) == "true",
        "paper": partial(_parse_choice, choices=wire.PAPERS),
        "missing": partial(_parse_choice, choices=wire.MISSING_CHOICES),
    }
    if is_multipage:
        parsers["page_number"] = partial(_parse_integer, minimum=1)
    return parsers
