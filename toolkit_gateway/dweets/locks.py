"""Locks: who may read and write a thing.

The operator of the gateway issues locks, each with a master key (everything) and a read key (latest, history, listen).
A lock fits one thing at a time. The store keeps only salted hashes of the keys. If a record cannot be read, its thing
stays locked for everybody until the operator revokes the lock.
"""

import contextlib
import logging
import secrets
from collections.abc import Callable
from enum import Enum

from msgspec.structs import replace

from toolkit.dweets import wire
from toolkit.errors import Conflict, KeyRejected, NotFound, ServiceError, ThingAlreadyLocked, ThingNotLocked
from toolkit.secret import Secret
from toolkit_gateway.dweets import refusals, stored_records
from toolkit_gateway.dweets.lock_records import LockRecord, LockTable, hash_of_key
from toolkit_gateway.dweets.stored_records import DamagedRecord, RecordChanged, alert_key, lock_key, thing_key
from toolkit_gateway.stores import Records

log = logging.getLogger("toolkit_gateway")


class KeyMatch(Enum):
    """How the lock and the key of a request fit together."""

    NO_KEY = "no key was given"
    WRONG = "no such lock, or the key is not its master key"
    IN_USE = "the key fits, and another thing uses the lock"
    FREE = "the key fits, and no thing uses the lock"
    FITS = "the key is the master key of the thing's lock"


_LOCK_OR_KEY_WRONG = KeyRejected, refusals.LOCK_OR_KEY_WRONG
_THING_LOCKED = ThingAlreadyLocked, wire.THING_LOCKED
_THING_NOT_LOCKED = ThingNotLocked, wire.THING_NOT_LOCKED
#: (state of the thing, request, fit of the key) -> the refusal, or None if the request changes the state. Other
#: combinations cannot occur.
REFUSALS: dict[tuple[str, str, KeyMatch], tuple[type[ServiceError], str] | None] = {
    ("unlocked", "lock", KeyMatch.NO_KEY): _LOCK_OR_KEY_WRONG,
    ("unlocked", "lock", KeyMatch.WRONG): _LOCK_OR_KEY_WRONG,
    ("unlocked", "lock", KeyMatch.IN_USE): (Conflict, refusals.LOCK_IN_USE),
    ("unlocked", "lock", KeyMatch.FREE): None,
    ("locked", "lock", KeyMatch.NO_KEY): _LOCK_OR_KEY_WRONG,
    ("locked", "lock", KeyMatch.WRONG): _LOCK_OR_KEY_WRONG,
    ("locked", "lock", KeyMatch.IN_USE): _THING_LOCKED,
    ("locked", "lock", KeyMatch.FREE): _THING_LOCKED,
    ("unlocked", "unlock", KeyMatch.NO_KEY): _THING_NOT_LOCKED,
    ("unlocked", "unlock", KeyMatch.WRONG): _THING_NOT_LOCKED,
    ("locked", "unlock", KeyMatch.NO_KEY): (KeyRejected, wire.KEY_NEEDED),
    ("locked", "unlock", KeyMatch.WRONG): (KeyRejected, refusals.KEY_WRONG),
    ("locked", "unlock", KeyMatch.FITS): None,
    ("unlocked", "remove lock", KeyMatch.NO_KEY): _LOCK_OR_KEY_WRONG,
    ("unlocked", "remove lock", KeyMatch.WRONG): _LOCK_OR_KEY_WRONG,
    ("unlocked", "remove lock", KeyMatch.FREE): (NotFound, refusals.LOCK_NOT_IN_USE),
    ("locked", "remove lock", KeyMatch.NO_KEY): _LOCK_OR_KEY_WRONG,
    ("locked", "remove lock", KeyMatch.WRONG): _LOCK_OR_KEY_WRONG,
    ("locked", "remove lock", KeyMatch.FITS): None,
}


class Locks:
    """The locks of a store, mirrored in memory so that posts and reads do not wait for the store.

    Methods that take the name of a thing, except `is_locked`, raise MalformedRequest if the name is not valid.
    `on_lock` is called with each thing that is or becomes locked, by a caller or by damage.
    """

    def __init__(self, records: Records, on_lock: Callable[[str], None] = lambda thing: None) -> None:
        self._records = records
        self._on_lock = on_lock
        self._table = LockTable()
        self._unsubscribe: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Load the records, or raise StoreUnavailable: without them no gateway knows which things are locked."""
        self._unsubscribe = await self._records.subscribe(stored_records.SPACE, self._mirror)

    def close(self) -> None:
        self._unsubscribe()

    def is_locked(self, thing: str) -> bool:
        return thing in self._table.locked

    def lock_of_thing(self, thing: str) -> str | None:
        """Return the name of the lock on a thing; None if the thing is not locked, or its lock is damaged."""
        record = self._table.lock_on(thing)
        return None if record is None else record.lock

    def check_master(self, thing: str, key: str | None) -> None:
        if wire.checked_thing(thing) in self._table.locked and not self._lock_on(thing).is_master(_required_key(key)):
            raise KeyRejected(refusals.KEY_WRONG)

    def check_reader(self, thing: str, key: str | None) -> None:
        if wire.checked_thing(thing) in self._table.locked:
            record, given = self._lock_on(thing), _required_key(key)
            if not (record.is_reader(given) or record.is_master(given)):
                raise KeyRejected(refusals.KEY_WRONG)

    async def issue(self) -> wire.IssuedLock:
        lock, master, read = f"lock-{secrets.token_hex(6)}", secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        await self._create(lock, master, read)
        return wire.IssuedLock(lock, Secret(master), Secret(read))

    async def adopt(self, lock: str, master_key: str) -> None:
        """Add a lock with this master key, or raise Conflict if the lock exists with another key."""
        try:
            await self._create(lock, master_key, secrets.token_urlsafe(24))
        except RecordChanged:
            with contextlib.suppress(DamagedRecord):  # logged; one damaged lock must not stop the gateway
                stored = await stored_records.read(self._records, LockRecord, lock_key(lock))
                if stored is None or not stored.record.is_master(master_key):
                    raise Conflict(f"the lock {lock!r} exists with another master key") from None

    @stored_records.retry_while_changed
    async def lock(self, thing: str, lock: str, key: str | None) -> None:
        thing_record, lock_record = thing_key(thing), lock_key(lock)
        thing_lock, given_lock = await self._read_thing(thing), await self._read_lock(lock)
        free = _checked_lock("locked" if thing_lock else "unlocked", "lock", given_lock, key, KeyMatch.IN_USE)
        locked = stored_records.encode_record(replace(free.record, thing=thing))
        expected = {lock_record: free.version, thing_record: None}
        await stored_records.compare_and_set(self._records, expected, {lock_record: locked, thing_record: locked})

    @stored_records.retry_while_changed
    async def unlock(self, thing: str, key: str | None) -> str:
        """Unlock the thing and remove its alert; return the thing."""
        stored = await self._read_thing(thing)
        checked = _checked_lock("locked" if stored else "unlocked", "unlock", stored, key, KeyMatch.FITS)
        await self._detach(checked, thing)
        return thing

    @stored_records.retry_while_changed
    async def remove(self, lock: str, key: str | None) -> str:
        """Take the lock off its thing and remove the thing's alert; return the lock, which is free now."""
        stored = await self._read_lock(lock)
        thing = stored.record.thing if stored is not None else None
        checked = _checked_lock("unlocked" if thing is None else "locked", "remove lock", stored, key, KeyMatch.FITS)
        assert thing is not None
        await self._read_thing(thing)  # raises KeyRejected if its record is damaged
        await self._detach(checked, thing)
        return lock

    async def lock_of(self, thing: str, key: str | None) -> stored_records.Versioned[LockRecord]:
        """Return the lock of a thing after checking the master key."""
        stored = await self._read_thing(thing)
        if stored is None:
            raise ThingNotLocked(wire.ALERT_NEEDS_LOCK)
        if not stored.record.is_master(_required_key(key)):
            raise KeyRejected(refusals.KEY_WRONG)
        return stored

    def _lock_on(self, thing: str) -> LockRecord:
        record = self._table.lock_on(thing)
        if record is None:
            raise KeyRejected(refusals.LOCK_DAMAGED)
        return record

    async def _read_thing(self, thing: str) -> stored_records.Versioned[LockRecord] | None:
        """Return the lock on a thing, from the store, because another gateway may just have changed it."""
        if wire.checked_thing(thing) in self._table.locked:
            self._lock_on(thing)  # raises KeyRejected if it is damaged
        return await self._read(thing_key(thing))

    async def _read_lock(self, lock: str) -> stored_records.Versioned[LockRecord] | None:
        return await self._read(lock_key(lock)) if wire.is_name(lock) else None

    async def _read(self, key: str) -> stored_records.Versioned[LockRecord] | None:
        try:
            return await stored_records.read(self._records, LockRecord, key)
        except DamagedRecord:
            raise KeyRejected(refusals.LOCK_DAMAGED) from None

    async def _create(self, lock: str, master_key: str, read_key: str) -> None:
        """Add a lock, or raise RecordChanged if its name exists."""
        key, salt = lock_key(lock), secrets.token_hex(16)
        record = LockRecord(lock, salt, hash_of_key(salt, master_key), hash_of_key(salt, read_key))
        await stored_records.compare_and_set(self._records, {key: None}, {key: stored_records.encode_record(record)})

    async def _detach(self, lock: stored_records.Versioned[LockRecord], thing: str) -> None:
        """Take a lock off its thing and remove the alert, or raise RecordChanged."""
        lock_record, thing_record = lock_key(lock.record.lock), thing_key(thing)
        free = stored_records.encode_record(replace(lock.record, thing=None))
        expected = {lock_record: lock.version, thing_record: lock.version}
        changes = {lock_record: free, thing_record: None, alert_key(thing): None}
        await stored_records.compare_and_set(self._records, expected, changes)

    def _mirror(self, key: str, value: bytes | None) -> None:
        kind, _, name = key.partition(":")
        if kind not in ("lock", "thing"):
            return
        thing = name if kind == "thing" else self._table.locked_by(key)
        damage = self._table.apply(key, value)
        if damage is not None:
            subject = f"the lock of the thing {name!a}" if kind == "thing" else f"the lock {name!a}"
            log.error("%s is damaged, so nobody can use it: %s; `toolkit lock revoke` removes it", subject, damage)
        if thing is not None and (damage is not None or (kind == "thing" and value is not None)):
            self._on_lock(thing)


def _checked_lock(
    state: str, call: str, lock: stored_records.Versioned[LockRecord] | None, key: str | None, match_if_used: KeyMatch
) -> stored_records.Versioned[LockRecord]:
    """Return the lock if the call may change its state, or raise the refusal."""
    if not key:
        match = KeyMatch.NO_KEY
    elif lock is None or not lock.record.is_master(key):
        match = KeyMatch.WRONG
    else:
        match = KeyMatch.FREE if lock.record.thing is None else match_if_used
    if (refusal := REFUSALS[state, call, match]) is not None:
        error_type, text = refusal
        raise error_type(text)
    assert lock is not None
    return lock


def _required_key(key: str | None) -> str:
    if not key:
        raise KeyRejected(wire.KEY_NEEDED)
    return key
