"""Parsers of the values in a query: distances, colours, numbers, seeds, words of a list.

Each takes the name of the field and its text, and returns the value or raises `Wrong` with the message for the caller.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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


def side(field: str, text: str, kind: Format) -> float | None:
    """Parse a width or a height: points, or None for ``auto``."""
    if text.strip().lower() == "auto":
        return None
    points = distance(field, text, kind)
    if kind == "png":
        points = float(int(points + 0.5))  # whole pixels, half up
        if points < 1:
            raise Wrong(f"{field} must be at least 1px")
    elif points < _FINEST:
        raise Wrong(f"{field} must be at least {_FINEST}pt")
    return points


def letter_size(field: str, text: str, kind: Format) -> float:
    """Parse a handwriting size in points."""
    points = distance(field, text, kind)
    if points < _FINEST:
        raise Wrong(f"{field} must be greater than 0{'in' if kind == 'pdf' else 'px'}")
    return points


def number(field: str, text: str, most: float) -> float:
    """Parse a number from 0 to `most`."""
    parsed = _decimal(field, text)
    if not 0 <= parsed <= most:
        raise Wrong(wire.outside(field, 0.0, most))
    return float(parsed)


def ink(field: str, text: str, kind: Format, *, strict: bool) -> RGB | CMYK:
    """Parse a colour; `strict` takes only CMYK for a PDF and only RGB for everything else."""
    rgb, cmyk = not strict or kind != "pdf", not strict or kind == "pdf"
    if rgb and (hit := _HEXADECIMAL.fullmatch(text)):
        return RGB(*(int(channel, 16) for channel in hit.groups()))
    if cmyk and (hit := _FOUR.fullmatch(text)):
        inks = [_NUMBER.fullmatch(part) for part in hit.groups()]
        values = [float(one[1]) for one in inks if one]
        if len(values) == 4 and all(0 <= value <= 1 for value in values):
            return CMYK(*values)
    raise Wrong(f"{field} must be valid {' or '.join(name for name, taken in (('RGB', rgb), ('CMYK', cmyk)) if taken)}")


def seed(field: str, text: str) -> int | Decimal | None:
    """Parse a seed: a positive integer of 64 bits or decimal number; None for zero and below."""
    parsed = _decimal(field, text)
    if len(text) > _LONGEST_SEED or abs(parsed) > _LARGEST_SEED:
        raise Wrong(wire.SEED_OUT_OF_RANGE)
    if parsed <= 0:
        return None
    return int(parsed) if parsed == parsed.to_integral_value() else parsed.normalize()


def limit(field: str, text: str) -> int:
    """Parse how many records to list."""
    count = _integer(field, text)
    if not 1 <= count <= wire.MAX_LIMIT:
        raise Wrong(wire.outside(field, 1, wire.MAX_LIMIT))
    return count


def offset(field: str, text: str) -> int:
    """Parse how many records to skip."""
    count = _integer(field, text)
    if count < 0:
        raise Wrong(f"{field} must be 0 or more")
    return count


def one_of(field: str, text: str, words: Sequence[str]) -> str:
    """Parse a word of a list."""
    if text not in words:
        raise Wrong(wire.none_of(field, words))
    return text


def distance(field: str, text: str, kind: Format) -> float:
    """Parse a distance in points, 0 or more."""
    hit = _DISTANCE.fullmatch(text)
    if hit is None:
        raise Wrong(wire.unreadable(field, text))
    points = float(hit[1]) * _POINTS[hit[2].lower()]
    longest, name = LONGEST[kind]
    if points > longest * (1 + 1e-9):  # 22.86cm is 9in, whatever the last bit says
        raise Wrong(f"{field} maximum is {name}")
    return min(points, longest)


def _decimal(field: str, text: str) -> Decimal:
    hit = _NUMBER.fullmatch(text)
    if hit is None:
        raise Wrong(wire.unreadable(field, text))
    return Decimal(hit[1])


def _integer(field: str, text: str) -> int:
    hit = _INTEGER.fullmatch(text)
    if hit is None:
        raise Wrong(wire.unreadable(field, text))
    return int(hit[1])
