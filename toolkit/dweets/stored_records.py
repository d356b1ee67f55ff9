"""Read records of the store, which a fault of a disk or a person may have damaged."""

from __future__ import annotations

import json
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


class DamagedRecord(Exception):
    """The record cannot be read; the message says why, and shows nothing of it."""


def read_record(kind: type[T], data: bytes) -> T:
    """Read a dataclass from its JSON, whose fields must have the names and types that it declares.

    Raises
    ------
    DamagedRecord
        It is not JSON, or not this record.
    """
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedRecord("it is not JSON") from None
    if not isinstance(fields, dict):
        raise DamagedRecord("it is not a JSON object")
    hints = _hints_of(kind)  # type: ignore[arg-type]  # a class is hashable
    try:
        record = kind(**fields)
    except TypeError:
        raise DamagedRecord("it has not the fields of such a record") from None
    for name, hint in hints.items():
        if not _is(getattr(record, name), hint):
            raise DamagedRecord(f"its field {name} has a wrong type")
    return record


@lru_cache
def _hints_of(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _is(value: object, hint: Any) -> bool:  # noqa: ANN401
    if get_origin(hint) is list:
        (inner,) = get_args(hint)
        return isinstance(value, list) and all(_is(item, inner) for item in value)
    if get_origin(hint) is UnionType:
        return any(_is(value, one) for one in get_args(hint))
    return type(value) is hint  # exactly: a JSON true is no number
