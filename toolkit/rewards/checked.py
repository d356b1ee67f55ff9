"""Tables of a configuration, checked against a class: the message names the key and what is allowed there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import time
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from toolkit.errors import InvalidArgument
from toolkit.secret import Secret

T = TypeVar("T")

_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a configuration; its fields are the keys."""


class TimeOfDay(time):
    """A time without a zone, written as ``22:00`` or ``22:00:00``."""


def checked(value: object, kind: type[T], place: str = "") -> T:
    """Convert what a file holds at `place` (``moments.run``; empty for the whole file); refuse unknown keys.

    The message names the key and what is allowed, never the value: it may be a secret.

    Examples
    --------
    >>> checked({"p": "a half"}, dict[str, float], "default")
    Traceback (most recent call last):
    ...
    toolkit.errors.InvalidArgument: default[...]: expected `float`, got `str`
    """
    try:
        return msgspec.convert(value, kind, dec_hook=_parsed)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
    where = (place + path.rstrip("`")).removeprefix(".")
    if unknown := _UNKNOWN_KEY.fullmatch(what):
        key = unknown[1]
        near = difflib.get_close_matches(key, set(_keys(Table)), n=1, cutoff=0.5)
        hint = f": did you mean {near[0]}?" if near else ""
        raise InvalidArgument(f"unknown key {where}{'.' if where else ''}{key}{hint}")
    raise InvalidArgument(f"{where or 'the configuration'}: {what[0].lower()}{what[1:]}")


def _keys(table: type[Table]) -> Iterator[str]:
    yield from table.__struct_fields__
    for kind in table.__subclasses__():
        yield from _keys(kind)


def _parsed(kind: type, value: Any) -> object:  # noqa: ANN401
    """Parse a value of a class that msgspec does not know; it adds the path to the error."""
    if kind is Secret:
        if not isinstance(value, str) or not value:
            raise ValueError("Expected a text that is not empty")
        return Secret(value)
    if kind is ZoneInfo:
        try:
            return ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
            raise ValueError("Expected a time zone such as Europe/Berlin") from None
    try:
        at = TimeOfDay.fromisoformat(str(value))
    except ValueError:
        at = None
    if at is None or at.tzinfo is not None:
        raise ValueError("Expected a time of the day without a zone, such as 22:00")
    return at
