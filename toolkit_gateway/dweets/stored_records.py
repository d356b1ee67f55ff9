"""Read records of the store, and change them with compare_and_set.

The version of a record is the bytes that were read: if a release adds a field, encoding the record gives other bytes.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from typing import Any, Generic, NamedTuple, ParamSpec, Self, TypeVar

import msgspec

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import Records, Values

log = logging.getLogger("toolkit_gateway")

P = ParamSpec("P")
T = TypeVar("T")
Changes = dict[str, bytes | None]

#: Locks, locked things, alerts and their mails share a space, so that one call can change several of them.
SPACE = "locked-things"
lock_key, thing_key, alert_key, mail_key = "lock:{}".format, "thing:{}".format, "alert:{}".format, "mail:{}".format
#: The space of the locks, and the first characters of their keys.
LOCKS = SPACE, lock_key("")
encode_record = msgspec.json.encode
# Maximum number of attempts to change a record that other callers change at the same time.
_ATTEMPTS = 20


class DamagedRecord(Exception):
    """The record cannot be read; the message says why, without its content."""


class RecordChanged(Exception):
    """The record was changed after it was read; nothing was written."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    @classmethod
    def parse(cls, key: str, data: bytes) -> Self:
        """Decode the record of `key`, or raise DamagedRecord."""
        try:
            record = msgspec.json.decode(data, type=cls)
        except msgspec.ValidationError:
            raise DamagedRecord("a field is missing, unknown or of a wrong type") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise DamagedRecord("it is not JSON") from None
        record.check_for_key(key)
        return record

    def check_for_key(self, key: str) -> None:
        """Raise DamagedRecord if this cannot be the record of `key`."""


R = TypeVar("R", bound=Record)


class Versioned(NamedTuple, Generic[T]):
    """A record and its version: the bytes in the store."""

    record: T
    version: bytes


async def read(records: Records, record_type: type[R], key: str) -> Versioned[R] | None:
    data = await records.get(SPACE, key)
    return None if data is None else Versioned(record_type.parse(key, data), data)


async def mirror(
    records: Records,
    record_type: type[R],
    prefix: str,
    log_message: str,
    on_change: Callable[[str, Versioned[R] | None], None],
) -> Callable[[], None]:
    """Call `on_change` for each key that begins with `prefix`: with the rest of the key and its record, now and later.

    A removed or damaged record is None; damage is logged as `log_message`, with the rest of the key and the reason.
    Returns a function to stop.
    """

    def parse(key: str, value: bytes | None) -> None:
        if not key.startswith(prefix):
            return
        name, stored = key.removeprefix(prefix), None
        try:
            stored = None if value is None else Versioned(record_type.parse(key, value), value)
        except DamagedRecord as damage:
            log.error(log_message, name, damage)
        on_change(name, stored)

    return await records.subscribe(SPACE, parse)


async def compare_and_set(records: Records, expected: Values, changes: Values) -> None:
    """Make all changes, or raise RecordChanged if one of the versions is not the expected one."""
    if not await records.compare_and_set(SPACE, expected, changes):
        raise RecordChanged


def retry_while_changed(attempt: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Call a function again while it raises RecordChanged, `_ATTEMPTS` times in all; then raise StoreUnavailable."""

    @wraps(attempt)
    async def retried(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(_ATTEMPTS):
            with suppress(RecordChanged):
                return await attempt(*args, **kwargs)
        raise StoreUnavailable(f"others changed the record {_ATTEMPTS} times in a row, nothing was written, try again")

    return retried
