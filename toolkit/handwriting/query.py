"""From a query string to a listing or a rendering: everything is read, and every problem is told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from toolkit.contract import first_values
from toolkit.errors import MalformedRequest
from toolkit.handwriting import values, wire
from toolkit.handwriting.catalogue import Catalogue, Handwriting
from toolkit.handwriting.parameters import CMYK, RGB, Format, Parameters
from toolkit.handwriting.wire import Problem

#: ``strict`` is the service of 2016: CMYK for a PDF and RGB for everything else.
Dialect = Literal["open", "strict"]

_BROKEN_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_Value = TypeVar("_Value")


class Listing(NamedTuple):
    """Which handwritings to list, and in which order."""

    limit: int = wire.DEFAULT_LIMIT
    offset: int = 0
    order_by: str = "id"
    order_dir: str = "asc"


@dataclass(frozen=True, slots=True)
class Asked:
    """A rendering as it was asked for: what could be read of it, and what is wrong with the rest."""

    handwriting: Handwriting | None
    parameters: Parameters
    problems: tuple[Problem, ...]

    @property
    def writable(self) -> bool:
        """Whether hand and text are known, so that its characters can be looked up."""
        return self.handwriting is not None and not any(problem.field == "text" for problem in self.problems)


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
    read = _Reader(query)
    limit = read.value("limit", wire.DEFAULT_LIMIT, values.limit)
    offset = read.value("offset", 0, values.offset)
    order_by = read.value("order_by", "id", values.one_of(wire.ORDERS))
    order_dir = read.value("order_dir", "asc", values.one_of(wire.DIRECTIONS))
    if read.problems:
        raise wire.InvalidParameters(read.problems)
    return Listing(limit, offset, order_by, order_dir)


def asked_of(query: Mapping[str, str], kind: Format, dialect: Dialect, hands: Catalogue) -> Asked:
    """Read what a rendering is asked for; problems are collected, nothing is raised."""
    read = _Reader(query)
    handwriting = read.handwriting(hands)
    text = read.text()
    default = Parameters(text)
    size = read.value("handwriting_size", default.handwriting_size, values.letter_size(kind))
    black: RGB | CMYK = CMYK(0, 0, 0, 1) if kind == "pdf" else RGB(0, 0, 0)
    colour = read.value("handwriting_color", black, values.ink(kind, strict=dialect == "strict"))
    width = read.value("width", default.width, values.side(kind))
    height = read.value("height", default.height, values.side(kind))
    padding = read.value("min_padding", None, values.padding(kind))
    if padding is not None and any(side is not None and padding > side / 2 for side in (width, height)):
        read.problems.append(Problem("min_padding", wire.NO_ROOM))
    parameters = Parameters(
        text,
        size,
        colour,
        width,
        height,
        read.value("line_spacing", default.line_spacing, values.between(0.0, wire.MAX_LINE_SPACING)),
        read.value("line_spacing_variance", 0.0, values.between(0.0, wire.MAX_VARIANCE)),
        read.value("word_spacing_variance", 0.0, values.between(0.0, wire.MAX_VARIANCE)),
        padding,
        read.value("random_seed", None, values.seed),
    )
    return Asked(handwriting, parameters, tuple(read.problems))


class _Reader:
    """Reads one value after the other and notes what is wrong."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self._query = query
        self.problems: list[Problem] = []

    def value(self, field: str, default: _Value, parse: Callable[[str, str], _Value]) -> _Value:
        """Return the parsed value; the default where it is not given or wrong."""
        given = self._query.get(field)
        if given is None:
            return default
        try:
            return parse(field, given)
        except values.Wrong as wrong:
            self.problems.append(Problem(field, str(wrong)))
            return default

    def handwriting(self, hands: Catalogue) -> Handwriting | None:
        given = self._query.get("handwriting_id", "")
        found = hands.by_id(given)
        if found is None:
            why = wire.ID_NOT_FOUND if given else wire.required("handwriting_id")
            self.problems.append(Problem("handwriting_id", why))
        return found

    def text(self) -> str:
        given = self._query.get("text", "")
        why = _text_problem(given)
        if why:
            self.problems.append(Problem("text", why))
        return given


def _text_problem(text: str) -> str | None:
    if _SURROGATE.search(text):
        return wire.TEXT_NOT_UTF8
    if _CONTROL.search(text):
        return wire.TEXT_HAS_CONTROLS
    if not text.strip():
        return wire.required("text")
    return wire.TEXT_TOO_LONG if len(text) > wire.MAX_TEXT else None
