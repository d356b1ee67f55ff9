"""Records of the store: reading them, and changing them only while nobody else has.

The version of a record is its bytes as they were read. A change compares them, never a record written again, which
has other bytes as soon as a record gets a new field.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from types import UnionType
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from toolkit.stores import Records, StoreUnavailable

T = TypeVar("T")
Changes = dict[str, bytes | None]

#: One space for locks, locked things, alerts and their mails: what belongs together changes together.
SPACE = "locked-things"
#: The keys of a lock, of a locked thing, and of the alert of a thing.
lock_key, thing_key, alert_key = "lock:{}".format, "thing:{}".format, "alert:{}".format
#: A change that loses to other callers this often in a row is given up.
ATTEMPTS = 20


class DamagedRecord(Exception):
    """The record cannot be read; the message says why, and shows nothing of it."""


class RecordChanged(Exception):
    """The record was changed after it was read; nothing was written."""


class Stored(NamedTuple, Generic[T]):
    """A record and its version, the bytes that the store has."""

    record: T
    version: bytes


async def compare_and_set(records: Records, expected: Mapping[str, bytes | None], changes: Changes) -> None:
    """Make all changes, or raise RecordChanged where one of the expected versions is no longer there."""
    if not await records.swap(SPACE, expected, changes):
        raise RecordChanged


async def retry_while_changed(what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Read and change records again as long as others change them in between, at most `ATTEMPTS` times.

    Raises
    ------
    StoreUnavailable
        It was changed each time.
    """
    for _ in range(ATTEMPTS):
        try:
            return await attempt()
        except RecordChanged:
            continue
    raise StoreUnavailable(f"other callers changed {what} {ATTEMPTS} times in a row, nothing was changed, try again")


def write_record(record: Any) -> bytes:  # noqa: ANN401
    """Write a dataclass for the store."""
    return json.dumps(asdict(record)).encode("utf-8")


def new_version(record: T) -> Stored[T]:
    """Return a record with the version that it has once it is written."""
    return Stored(record, write_record(record))


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
