"""Records of the store: reading them, and changing them only while nobody else has.

The version of a record is its bytes as they were read. A change compares them, never a record written again, which
has other bytes as soon as a record gets a new field.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, NamedTuple, Self, TypeVar

import msgspec

from toolkit.errors import StoreUnavailable
from toolkit.stores import Records

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


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the records of the store."""

    @classmethod
    def parse(cls, key: str, data: bytes) -> Self:
        """Read a record from its JSON, or raise DamagedRecord, which shows nothing of it."""
        try:
            record = msgspec.json.decode(data, type=cls)
        except msgspec.ValidationError:
            raise DamagedRecord("it has not the fields of such a record, or one of a wrong type") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise DamagedRecord("it is not JSON") from None
        record.check(key)
        return record

    def check(self, key: str) -> None:
        """Raise DamagedRecord where this cannot be the record of `key`."""


R = TypeVar("R", bound=Record)


class Stored(NamedTuple, Generic[T]):
    """A record and its version, the bytes that the store has; None for a record that it does not have yet."""

    record: T
    version: bytes | None


async def read_stored(records: Records, kind: type[R], key: str) -> Stored[R] | None:
    data = await records.get(SPACE, key)
    return None if data is None else Stored(kind.parse(key, data), data)


async def compare_and_set(records: Records, expected: Mapping[str, bytes | None], changes: Changes) -> None:
    """Make all changes, or raise RecordChanged where one of the expected versions is no longer there."""
    if not await records.compare_and_set(SPACE, expected, changes):
        raise RecordChanged


async def retry_while_changed(what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Read and change records again while others change them in between, at most `ATTEMPTS` times."""
    for _ in range(ATTEMPTS):
        try:
            return await attempt()
        except RecordChanged:
            continue
    raise StoreUnavailable(f"other callers changed {what} {ATTEMPTS} times in a row, nothing was changed, try again")


def write_record(record: object) -> bytes:
    return msgspec.json.encode(record)


def new_version(record: T) -> Stored[T]:
    """Return a record with the version that it has once it is written."""
    return Stored(record, write_record(record))
