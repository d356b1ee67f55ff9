"""Locks: who may read and write a thing.

The operator of the gateway issues locks, each with a master key (everything) and a read key (latest, history, listen).
A lock fits one thing at a time. The store keeps only salted hashes of the keys. If a record cannot be read, its thing
stays locked for everybody until the operator repairs it.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from toolkit.dweets import wire
from toolkit.dweets.service.lock_records import LockRecord, LockRepository, hash_of_key
from toolkit.dweets.service.stored_records import (
    DamagedRecord,
    RecordChanged,
    StoredRecord,
    lock_key,
    retry_while_changed,
    thing_key,
)
from toolkit.errors import Conflict, KeyRejected, NotFound, ServiceError, ThingAlreadyLocked, ThingNotLocked
from toolkit.secret import Secret
from toolkit.stores import Records

T = TypeVar("T")


class Fit(Enum):
    """How the lock and the key of a request fit together."""

    NO_KEY = "no key was given"
    WRONG = "no such lock, or the key is not its master key"
    IN_USE = "the key fits, and another thing uses the lock"
    FREE = "the key fits, and no thing uses the lock"
    FITS = "the key is the master key of the thing's lock"


_LOCK_OR_KEY_WRONG = KeyRejected, wire.LOCK_OR_KEY_WRONG
_THING_LOCKED = ThingAlreadyLocked, wire.THING_LOCKED
_THING_NOT_LOCKED = ThingNotLocked, wire.THING_NOT_LOCKED
#: (state of the thing, request, fit of the key) -> the refusal, or None if the request changes the state. Other
#: combinations cannot occur.
REFUSALS: dict[tuple[str, str, Fit], tuple[type[ServiceError], str] | None] = {
    ("unlocked", "lock", Fit.NO_KEY): _LOCK_OR_KEY_WRONG,
    ("unlocked", "lock", Fit.WRONG): _LOCK_OR_KEY_WRONG,
    ("unlocked", "lock", Fit.IN_USE): (Conflict, wire.LOCK_IN_USE),
    ("unlocked", "lock", Fit.FREE): None,
    ("locked", "lock", Fit.NO_KEY): _LOCK_OR_KEY_WRONG,
    ("locked", "lock", Fit.WRONG): _LOCK_OR_KEY_WRONG,
    ("locked", "lock", Fit.IN_USE): _THING_LOCKED,
    ("locked", "lock", Fit.FREE): _THING_LOCKED,
    ("unlocked", "unlock", Fit.NO_KEY): _THING_NOT_LOCKED,
    ("unlocked", "unlock", Fit.WRONG): _THING_NOT_LOCKED,
    ("locked", "unlock", Fit.NO_KEY): (KeyRejected, wire.KEY_NEEDED),
    ("locked", "unlock", Fit.WRONG): (KeyRejected, wire.KEY_WRONG),
    ("locked", "unlock", Fit.FITS): None,
    ("unlocked", "remove lock", Fit.NO_KEY): _LOCK_OR_KEY_WRONG,
    ("unlocked", "remove lock", Fit.WRONG): _LOCK_OR_KEY_WRONG,
    ("unlocked", "remove lock", Fit.FREE): (NotFound, wire.LOCK_NOT_IN_USE),
    ("locked", "remove lock", Fit.NO_KEY): _LOCK_OR_KEY_WRONG,
    ("locked", "remove lock", Fit.WRONG): _LOCK_OR_KEY_WRONG,
    ("locked", "remove lock", Fit.FITS): None,
}


class Locks:
    def __init__(self, records: Records, on_lock: Callable[[str], None] = lambda thing: None) -> None:
        self._repository = LockRepository(records, on_lock)
        self._table = self._repository.table
        self.open, self.close = self._repository.open, self._repository.close

    def is_locked(self, thing: str) -> bool:
        return thing in self._table.locked

    def check_master(self, thing: str, key: str | None) -> None:
        if thing in self._table.locked and not self._lock_on(thing).is_master(_required_key(key)):
            raise KeyRejected(wire.KEY_WRONG)

    def check_reader(self, thing: str, key: str | None) -> None:
        if thing in self._table.locked:
            record, given = self._lock_on(thing), _required_key(key)
            if not (record.is_reader(given) or record.is_master(given)):
                raise KeyRejected(wire.KEY_WRONG)

    async def issue(self) -> wire.IssuedLock:
        lock, master, read = f"lock-{secrets.token_hex(6)}", secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        await self._repository.add(_new_record(lock, master, read))
        return wire.IssuedLock(lock, Secret(master), Secret(read))

    async def adopt(self, lock: str, master_key: str) -> None:
        """Add a lock with this master key, or raise Conflict if the lock exists with another key."""
        try:
            await self._repository.add(_new_record(lock, master_key, secrets.token_urlsafe(24)))
        except RecordChanged:
            try:
                found = await self._repository.read(lock_key(lock))
            except DamagedRecord:
                return  # already logged; one damaged lock must not stop the gateway
            if found is None or not found.record.is_master(master_key):
                raise Conflict(f"the lock {lock!r} exists with another master key") from None

    async def lock(self, thing: str, lock: str, key: str | None) -> None:
        wire.checked_lock(lock)

        async def attempt() -> None:
            self._refuse_damaged(thing_key(thing), lock_key(lock))
            known = await self._repository.read(lock_key(lock))
            used = await self._repository.read(thing_key(thing))
            _raise_refusal("locked" if used else "unlocked", "lock", _fit_of(known, key, Fit.IN_USE))
            assert known is not None
            await self._repository.attach(known, thing)

        await _refusing_damage(retry_while_changed("this lock", attempt))

    async def unlock(self, thing: str, key: str | None) -> None:
        """Unlock the thing and remove its alert."""

        async def attempt() -> None:
            self._refuse_damaged(thing_key(thing))
            used = await self._repository.read(thing_key(thing))
            _raise_refusal("locked" if used else "unlocked", "unlock", _fit_of(used, key, Fit.FITS))
            assert used is not None
            await self._repository.detach(used)

        await _refusing_damage(retry_while_changed("this lock", attempt))

    async def remove(self, lock: str, key: str | None) -> None:
        """Take the lock off its thing, so that it can lock another one."""
        wire.checked_lock(lock)

        async def attempt() -> None:
            self._refuse_damaged(lock_key(lock))
            known = await self._repository.read(lock_key(lock))
            thing = known.record.thing if known is not None else None
            _raise_refusal("unlocked" if thing is None else "locked", "remove lock", _fit_of(known, key, Fit.FITS))
            assert known is not None
            assert thing is not None
            self._refuse_damaged(thing_key(thing))
            await self._repository.detach(known)

        await _refusing_damage(retry_while_changed("this lock", attempt))

    async def lock_of(self, thing: str, key: str | None) -> StoredRecord[LockRecord]:
        """Read the lock of a thing from the store, because another gateway may just have changed it; check the key."""
        self._refuse_damaged(thing_key(thing))
        used = await _refusing_damage(self._repository.read(thing_key(thing)))
        if used is None:
            raise ThingNotLocked(wire.ALERT_NEEDS_LOCK)
        if not used.record.is_master(_required_key(key)):
            raise KeyRejected(wire.KEY_WRONG)
        return used

    def _lock_on(self, thing: str) -> LockRecord:
        state = self._table.state_of_thing(thing)
        if not isinstance(state, LockRecord):
            raise KeyRejected(wire.LOCK_DAMAGED)
        return state

    def _refuse_damaged(self, *keys: str) -> None:
        if any(map(self._table.damage_at, keys)):
            raise KeyRejected(wire.LOCK_DAMAGED)


async def _refusing_damage(work: Awaitable[T]) -> T:
    try:
        return await work
    except DamagedRecord:
        raise KeyRejected(wire.LOCK_DAMAGED) from None


def _raise_refusal(state: str, call: str, fit: Fit) -> None:
    if (refusal := REFUSALS[state, call, fit]) is not None:
        kind, text = refusal
        raise kind(text)


def _new_record(lock: str, master_key: str, read_key: str) -> LockRecord:
    salt = secrets.token_hex(16)
    return LockRecord(lock, salt, hash_of_key(salt, master_key), hash_of_key(salt, read_key))


def _required_key(key: str | None) -> str:
    if not key:
        raise KeyRejected(wire.KEY_NEEDED)
    return key


def _fit_of(lock: StoredRecord[LockRecord] | None, key: str | None, if_used: Fit) -> Fit:
    if not key:
        return Fit.NO_KEY
    if lock is None or not lock.record.is_master(key):
        return Fit.WRONG
    return Fit.FREE if lock.record.thing is None else if_used
