"""Settings from a file or a dict, checked by type; an error names the key and what is allowed, never a secret."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import time
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from toolkit.argument_checks import absolute_path
from toolkit.errors import InvalidArgument
from toolkit.secret import Secret
from toolkit.system.nearest_name import nearest_names

T = TypeVar("T")

Text = Annotated[str, Meta(min_length=1, max_length=500)]

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`")
#: The start of an error message of our own that names the wrong key.
_OWN_MESSAGE = re.compile(r"[a-z_]+(\[\d+\]|\.[a-z_]+)*: ")
#: Our names for the types of msgspec and of Python in error messages.
_TYPE_NAMES = {
    **{"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"},
    **{"array": "a list", "object": "a table", "null": "nothing", "datetime": "a time with date and zone"},
    **{"list": "a list", "tuple": "a list", "dict": "a table", "NoneType": "nothing", "date": "a date"},
}


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of settings; its fields are the keys."""


class TimeOfDay(time):
    """A time without a zone, written as ``22:00`` or ``22:00:00``."""


def checked(value: object, kind: type[T]) -> T:
    """Convert a value to a type; InvalidArgument names a key that is unknown, missing or wrong."""
    try:
        return msgspec.convert(value, kind, dec_hook=_parse)
    except msgspec.ValidationError as error:
        message = str(error)
    except RecursionError:
        raise InvalidArgument("the configuration is nested too deeply") from None
    raise InvalidArgument(_error_text(message, value, kind))


def check_unique(key: str, tables: Sequence[Table], field: str) -> None:
    """Raise InvalidArgument if two of the `tables`, the value of `key`, have the same value in `field`."""
    first_index: dict[Hashable, int] = {}
    for index, table in enumerate(tables):
        value = getattr(table, field)
        if value in first_index:
            raise InvalidArgument(f"{key}[{index}].{field}: the same as {key}[{first_index[value]}].{field}")
        first_index[value] = index


def _error_text(message: str, value: Any, kind: Any, path: str = "") -> str:  # noqa: ANN401
    """Return a message about the first wrong part of a value, with its path: msgspec omits the keys of dicts."""
    kind = _bare_type(kind)
    for path_of_part, part, type_of_part in _parts(value, kind, path):
        try:
            msgspec.convert(part, type_of_part, dec_hook=_parse)
        except msgspec.ValidationError as error:
            return _error_text(str(error), part, type_of_part, path_of_part)
    what, _, where = message.partition(" - at `")
    if where.startswith("key` in "):
        return f"{path or 'the configuration'}: every key must be a text"
    if unknown := _UNKNOWN_FIELD.fullmatch(what):
        allowed = kind.__struct_fields__
        near = nearest_names(unknown[1], allowed, likeness=0.5)
        hint = f"; did you mean {near[0]}?" if near else ";"
        return f"{_joined_path(path, unknown[1])}: unknown key{hint} allowed: {', '.join(allowed)}"
    if missing := _MISSING_FIELD.fullmatch(what):
        return f"{_joined_path(path, missing[1])}: this key is missing"
    if get_origin(kind) is Literal:
        got = "another text" if isinstance(value, str) else _type_name(value)
        return f"{path}: expected one of {', '.join(get_args(kind))}, got {got}"
    if _OWN_MESSAGE.match(what):
        return _joined_path(path, what)
    what = re.sub(r"`([^`]*)`", lambda types: " or ".join(_TYPE_NAMES.get(t, t) for t in types[1].split(" | ")), what)
    # Show only numbers: a text may be a secret under the wrong key.
    if kind in (int, float) and isinstance(value, int | float) and " got " not in what and abs(value) < 1e12:
        what = f"{what}, got {value}"
    return f"{path or 'the configuration'}: {what[0].lower()}{what[1:]}"


def _parts(value: Any, kind: Any, path: str) -> Iterator[tuple[str, Any, Any]]:  # noqa: ANN401
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(value, Mapping) and origin is dict:
        yield from ((_joined_path(path, str(name)), part, arguments[1]) for name, part in value.items())
    elif isinstance(value, Mapping) and origin is None and issubclass(kind, Table):
        hints = get_type_hints(kind, include_extras=True)
        yield from ((_joined_path(path, name), part, hints[name]) for name, part in value.items() if name in hints)
    elif isinstance(value, list | tuple | frozenset) and origin in (tuple, frozenset):
        yield from ((f"{path}[{index}]", part, arguments[0]) for index, part in enumerate(value))


def _bare_type(kind: Any) -> Any:  # noqa: ANN401
    if get_origin(kind) is Annotated:
        return _bare_type(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return _bare_type(next(option for option in get_args(kind) if option is not NoneType))
    return kind


def _type_name(value: object) -> str:
    return "an empty text" if value == "" else _TYPE_NAMES.get(type(value).__name__, type(value).__name__)


def _joined_path(path: str, key: str) -> str:
    shown = key if key.isprintable() and len(key) <= 300 else f"{key[:60]!a}..."
    return f"{path}.{shown}" if path else shown


def _parse(kind: type, value: Any) -> object:  # noqa: ANN401
    """Parse a value for a class that msgspec does not know; msgspec adds the path of the key to the error."""
    if isinstance(value, kind):
        return value
    if kind not in _PARSERS:
        raise ValueError(f"expected a {kind.__name__}, got {_type_name(value)}")
    parse, expected = _PARSERS[kind]
    try:
        return parse(value)
    # AttributeError, TypeError: the value is not even a text.
    except (ZoneInfoNotFoundError, AttributeError, OSError, TypeError, ValueError):
        raise ValueError(f"expected {expected}, got {_type_name(value)}") from None


def _parse_secret(value: str) -> Secret:
    if not value:
        raise ValueError
    return Secret(value)


def _parse_time_of_day(value: object) -> TimeOfDay:
    parsed = TimeOfDay.fromisoformat(str(value))
    if parsed.tzinfo is not None:
        raise ValueError
    return parsed


_PARSERS: dict[type, tuple[Callable[[Any], object], str]] = {
    Secret: (_parse_secret, "a text, not an empty one"),
    Path: (absolute_path, "the path of a folder"),
    ZoneInfo: (ZoneInfo, "a time zone such as Europe/Berlin"),
    TimeOfDay: (_parse_time_of_day, "a time of the day without a zone, such as 22:00"),
}
