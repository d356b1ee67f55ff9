"""Values as they are written in a query: distances, colours, numbers, seeds, words of a list.

Every parser takes the field's name and its text, and returns the value or raises `Wrong` with the text for the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from toolkit.handwriting import wire
from toolkit.handwriting.parameters import CMYK, LONGEST, POINTS_IN_AN_INCH, RGB, Format

_DISTANCE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(px|pt|in|cm|mm)\s*", re.IGNORECASE)
_NUMBER = re.compile(r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]{1,3})?)\s*", re.IGNORECASE)
_INTEGER = re.compile(r"\s*([+-]?[0-9]{1,18})\s*")
_HEXADECIMAL = re.compile(r"\s*#?([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})\s*")
_FOUR = re.compile(r"\s*\(([^,()]*),([^,()]*),([^,()]*),([^,()]*)\)\s*")

_INCH = POINTS_IN_AN_INCH
_POINTS = {"px": 1.0, "pt": 1.0, "in": _INCH, "cm": _INCH / 2.54, "mm": _INCH / 25.4}
_FINEST = 0.01  # points: what is smaller cannot be seen, and divides by zero further on
_LARGEST_SEED = 2**63 - 1
_LONGEST_SEED = 100  # characters; a seed is a key, not an essay


class Wrong(ValueError):
    """A value is wrong; the text says why."""


def side(kind: Format) -> Callable[[str, str], float | None]:
    """Return the parser of a width or a height: points, or None for ``auto``."""

    def parse(field: str, text: str) -> float | None:
        if text.strip().lower() == "auto":
            return None
        points = _distance(field, text, kind)
        if kind == "png":
            points = float(int(points + 0.5))  # whole pixels, half up
            if points < 1:
                raise Wrong(f"{field} must be at least 1px")
        elif points < _FINEST:
            raise Wrong(f"{field} must be at least {_FINEST}pt")
        return points

    return parse


def letter_size(kind: Format) -> Callable[[str, str], float]:
    """Return the parser of a handwriting size in points."""

    def parse(field: str, text: str) -> float:
        points = _distance(field, text, kind)
        if points < _FINEST:
            raise Wrong(f"{field} must be greater than 0{'in' if kind == 'pdf' else 'px'}")
        return points

    return parse


def padding(kind: Format) -> Callable[[str, str], float]:
    """Return the parser of a padding in points, 0 or more."""
    return lambda field, text: _distance(field, text, kind)


def between(least: float, most: float) -> Callable[[str, str], float]:
    """Return the parser of a number within bounds."""

    def parse(field: str, text: str) -> float:
        number = _number(field, text)
        if not least <= number <= most:
            raise Wrong(wire.outside(field, least, most))
        return float(number)

    return parse


def ink(kind: Format, *, strict: bool) -> Callable[[str, str], RGB | CMYK]:
    """Return the parser of a colour; `strict` takes CMYK for a PDF and RGB for everything else only."""
    rgb, cmyk = not strict or kind != "pdf", not strict or kind == "pdf"
    allowed = " or ".join(name for name, taken in (("RGB", rgb), ("CMYK", cmyk)) if taken)

    def parse(field: str, text: str) -> RGB | CMYK:
        if rgb and (hit := _HEXADECIMAL.fullmatch(text)):
            return RGB(*(int(channel, 16) for channel in hit.groups()))
        if cmyk and (hit := _FOUR.fullmatch(text)):
            inks = [_NUMBER.fullmatch(part) for part in hit.groups()]
            values = [float(number[1]) for number in inks if number]
            if len(values) == 4 and all(0 <= value <= 1 for value in values):
                return CMYK(*values)
        raise Wrong(f"{field} must be valid {allowed}")

    return parse


def seed(field: str, text: str) -> int | Decimal:
    """Parse a seed: an integer of 64 bits, or a decimal number, which is a key as it stands."""
    number = _number(field, text)
    if len(text) > _LONGEST_SEED or abs(number) > _LARGEST_SEED:
        raise Wrong(wire.SEED_OUT_OF_RANGE)
    return int(number) if number == number.to_integral_value() else number.normalize()


def limit(field: str, text: str) -> int:
    """Parse how many records to list."""
    number = _integer(field, text)
    if not 1 <= number <= wire.MAX_LIMIT:
        raise Wrong(wire.outside(field, 1, wire.MAX_LIMIT))
    return number


def offset(field: str, text: str) -> int:
    """Parse how many records to skip."""
    number = _integer(field, text)
    if number < 0:
        raise Wrong(f"{field} must be 0 or more")
    return number


def one_of(words: Sequence[str]) -> Callable[[str, str], str]:
    """Return the parser of a word of a list."""

    def parse(field: str, text: str) -> str:
        if text not in words:
            raise Wrong(wire.none_of(field, words))
        return text

    return parse


def _distance(field: str, text: str, kind: Format) -> float:
    hit = _DISTANCE.fullmatch(text)
    if hit is None:
        raise Wrong(wire.unreadable(field, text))
    points = float(hit[1]) * _POINTS[hit[2].lower()]
    longest, name = LONGEST[kind]
    if points > longest * (1 + 1e-9):  # 22.86cm is 9in, whatever the last bit says
        raise Wrong(f"{field} maximum is {name}")
    return min(points, longest)


def _number(field: str, text: str) -> Decimal:
    hit = _NUMBER.fullmatch(text)
    if hit is None:
        raise Wrong(wire.unreadable(field, text))
    return Decimal(hit[1])


def _integer(field: str, text: str) -> int:
    hit = _INTEGER.fullmatch(text)
    if hit is None:
        raise Wrong(wire.unreadable(field, text))
    return int(hit[1])
