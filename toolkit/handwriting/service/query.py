"""From a query string to a listing or a rendering: everything is read, and all problems are reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from toolkit.endpoint import first_values
from toolkit.errors import MalformedRequest
from toolkit.handwriting import values, wire
from toolkit.handwriting.catalogue import Catalogue, Handwriting
from toolkit.handwriting.parameters import CMYK, DEFAULT_HEIGHT, DEFAULT_WIDTH, RGB, Format, Parameters
from toolkit.handwriting.wire import Problem

#: ``strict`` is the service of 2016: CMYK for a PDF and RGB for everything else.
Dialect = Literal["open", "strict"]

_BROKEN_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_Parsers: TypeAlias = Mapping[str, Callable[[str, str], Any]]


class Listing(NamedTuple):
    """Which handwritings to list, and in which order."""

    limit: int = wire.DEFAULT_LIMIT
    offset: int = 0
    order_by: str = "id"
    order_dir: str = "asc"


def decoded(query_string: bytes) -> dict[str, str]:
    r"""Return the first value of each name; bytes that are not UTF-8 become lone surrogates.

    Raises
    ------
    MalformedRequest
        Percent-encoding is broken, or the query is longer than any text can make it.

    Examples
    --------
    >>> decoded(b"text=a+b%0Ac&text=other&width=")
    {'text': 'a b\nc', 'width': ''}
    """
    if _BROKEN_PERCENT.search(query_string) or len(query_string) > wire.MAX_QUERY_BYTES:
        raise MalformedRequest(wire.QUERY_MALFORMED)
    try:
        pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True, errors="surrogateescape")
    except ValueError:
        raise MalformedRequest(wire.QUERY_MALFORMED) from None
    return first_values(pairs)


def listing_of(query: Mapping[str, str]) -> Listing:
    """Read what a listing is asked for.

    Raises
    ------
    InvalidParameters
        With all problems.

    Examples
    --------
    >>> listing_of({"limit": "2", "order_by": "title"})
    Listing(limit=2, offset=0, order_by='title', order_dir='asc')
    """
    problems: list[Problem] = []
    parsers: _Parsers = {
        "limit": values.limit,
        "offset": values.offset,
        "order_by": partial(values.one_of, words=wire.ORDERS),
        "order_dir": partial(values.one_of, words=wire.DIRECTIONS),
    }
    listing = Listing(**_parsed(query, parsers, problems))
    if problems:
        raise wire.InvalidParameters(problems)
    return listing


def parameters_of(
    query: Mapping[str, str], kind: Format, dialect: Dialect, hands: Catalogue
) -> tuple[Parameters | None, list[Problem]]:
    """Read the parameters of a rendering, and everything that is wrong with them.

    Returns
    -------
    tuple of Parameters or None, list of Problem
        Where there are problems, the parameters hold what could be read, and defaults; None without a handwriting.
    """
    problems: list[Problem] = []
    handwriting = _handwriting(query.get("handwriting_id", ""), hands, problems)
    text = query.get("text", "")
    if why := _text_problem(text):
        problems.append(Problem("text", why))
    black: RGB | CMYK = CMYK(0, 0, 0, 1) if kind == "pdf" else RGB(0, 0, 0)
    given = {"handwriting_color": black, **_parsed(query, _layout_parsers(kind, dialect), problems)}
    padding, sides = given.get("min_padding"), [given.get("width", DEFAULT_WIDTH), given.get("height", DEFAULT_HEIGHT)]
    if padding is not None and any(side is not None and padding > side / 2 for side in sides):
        problems.append(Problem("min_padding", wire.NO_ROOM))
    given |= _parsed(query, _VARIATION_PARSERS, problems)
    return (Parameters(handwriting, kind, text, **given) if handwriting else None), problems


def _layout_parsers(kind: Format, dialect: Dialect) -> _Parsers:
    return {
        "handwriting_size": partial(values.letter_size, kind=kind),
        "handwriting_color": partial(values.ink, kind=kind, strict=dialect == "strict"),
        "width": partial(values.side, kind=kind),
        "height": partial(values.side, kind=kind),
        "min_padding": partial(values.distance, kind=kind),
    }


_VARIATION_PARSERS: _Parsers = {
    "line_spacing": partial(values.number, most=wire.MAX_LINE_SPACING),
    "line_spacing_variance": partial(values.number, most=wire.MAX_VARIANCE),
    "word_spacing_variance": partial(values.number, most=wire.MAX_VARIANCE),
    "random_seed": values.seed,
}


def _parsed(query: Mapping[str, str], parsers: _Parsers, problems: list[Problem]) -> dict[str, Any]:
    """Return the values that are given and right; note what is wrong with the others."""
    parsed = {}
    for field, parse in parsers.items():
        if field in query:
            try:
                parsed[field] = parse(field, query[field])
            except values.Wrong as wrong:
                problems.append(Problem(field, str(wrong)))
    return parsed


def _handwriting(given: str, hands: Catalogue, problems: list[Problem]) -> Handwriting | None:
    found = hands.by_id(given)
    if found is None:
        problems.append(Problem("handwriting_id", wire.ID_NOT_FOUND if given else wire.required("handwriting_id")))
    return found


def _text_problem(text: str) -> str | None:
    if _SURROGATE.search(text):
        return wire.TEXT_NOT_UTF8
    if _CONTROL.search(text):
        return wire.TEXT_HAS_CONTROLS
    if not text.strip():
        return wire.required("text")
    return wire.TEXT_TOO_LONG if len(text) > wire.MAX_TEXT else None
