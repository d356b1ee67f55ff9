"""Locks: who may read and write a thing, as one table of states.

A lock is issued by whoever runs the gateway, with a master key (everything) and a read key (latest, history,
listen). It fits one thing at a time. The store keeps salted hashes of the keys only.

A thing whose record, or whose lock's record, cannot be read stays locked for everybody, until the operator repairs it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from toolkit.dweets import wire
from toolkit.dweets.lock_records import (
    SPACE,
    Damage,
    LockRecord,
    LockTable,
    alert_key,
    hash_of_key,
    lock_key,
    parsed,
    thing_key,
)
from toolkit.errors import Conflict, KeyRejected, NotFound, ServiceError, ThingAlreadyLocked, ThingNotLocked
from toolkit.gateway.stores import Records, StoreUnavailable
from toolkit.secret import Secret

log = logging.getLogger("toolkit.gateway")

# A change that loses to other callers this often in a row is given up.
ATTEMPTS = 20
_REPAIR = "`toolkit lock repair` frees it"


class IssuedLock(NamedTuple):
    """A new lock with its keys; the keys are shown to nobody again."""

    lock: str
    master_key: Secret
    read_key: Secret


class Fit(Enum):
    """How the lock and key of a call fit."""

    NO_KEY = "no key was given"
    WRONG = "no such lock, or the key is not its master key"
    IN_USE = "the key fits, and another thing uses the lock"
    FREE = "the key fits, and no thing uses the lock"
    FITS = "the key is the master key of the thing's lock"


class Step(NamedTuple):
    """What a call does: the state after it, and the refusal if there is one."""

    after: str
    refusal: Callable[[], ServiceError] | None = None


def _refused(state: str, kind: type[ServiceError], text: str) -> Step:
    return Step(state, lambda: kind(text))


#: (state of the thing, call, how the key fits) -> step. What is not listed cannot happen.
STEPS: dict[tuple[str, str, Fit], Step] = {
    ("unlocked", "lock", Fit.NO_KEY): _refused("unlocked", KeyRejected, wire.LOCK_OR_KEY_WRONG),
    ("unlocked", "lock", Fit.WRONG): _refused("unlocked", KeyRejected, wire.LOCK_OR_KEY_WRONG),
    ("unlocked", "lock", Fit.IN_USE): _refused("unlocked", Conflict, wire.LOCK_IN_USE),
    ("unlocked", "lock", Fit.FREE): Step("locked"),
    ("locked", "lock", Fit.NO_KEY): _refused("locked", KeyRejected, wire.LOCK_OR_KEY_WRONG),
    ("locked", "lock", Fit.WRONG): _refused("locked", KeyRejected, wire.LOCK_OR_KEY_WRONG),
    ("locked", "lock", Fit.IN_USE): _refused("locked", ThingAlreadyLocked, wire.THING_LOCKED),
    ("locked", "lock", Fit.FREE): _refused("locked", ThingAlreadyLocked, wire.THING_LOCKED),
    ("unlocked", "unlock", Fit.NO_KEY): _refused("unlocked", ThingNotLocked, wire.THING_NOT_LOCKED),
    ("unlocked", "unlock", Fit.WRONG): _refused("unlocked", ThingNotLocked, wire.THING_NOT_LOCKED),
    ("locked", "unlock", Fit.NO_KEY): _refused("locked", KeyRejected, wire.KEY_NEEDED),
    ("locked", "unlock", Fit.WRONG): _refused("locked", KeyRejected, wire.KEY_WRONG),
    ("locked", "unlock", Fit.FITS): Step("unlocked"),
    ("unlocked", "remove lock", Fit.NO_KEY): _refused("unlocked", KeyRejected, wire.LOCK_OR_KEY_WRONG),
    ("unlocked", "remove lock", Fit.WRONG): _refused("unlocked", KeyRejected, wire.LOCK_OR_KEY_WRONG),
    ("unlocked", "remove lock", Fit.FREE): _refused("unlocked", NotFound, wire.LOCK_NOT_IN_USE),
    ("locked", "remove lock", Fit.NO_KEY): _refused("locked", KeyRejected, wire.LOCK_OR_KEY_WRONG),
    ("locked", "remove lock", Fit.WRONG): _refused("locked", KeyRejected, wire.LOCK_OR_KEY_WRONG),
    ("locked", "remove lock", Fit.FITS): Step("unlocked"),
}


class Locks:
    """All locks of one gateway. The locked things are mirrored in memory, so that a check costs no wait.

    Parameters
    ----------
    records
        Where they are kept.
    on_lock
        Called with each thing that is locked from now on.
    """

    def __init__(self, records: Records, on_lock: Callable[[str], None] = lambda thing: None) -> None:
        self._records = records
        self._on_lock = on_lock
        self._table = LockTable()
        self._reported: dict[str, Damage] = {}
        self._is_review_due = False
        self._unwatch: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Mirror what is locked, now and from now on.

        Raises
        ------
        StoreUnavailable
            The records cannot be watched: without them nobody knows what is locked.
        """
        self._unwatch = await self._records.watch(SPACE, self._mirror)
        self._review()

    def close(self) -> None:
        """Mirror nothing any more."""
        self._unwatch()

    async def look(self, thing: str) -> None:
        """See in the store itself whether the thing is locked: another gateway may have done it just now."""
        for _ in range(ATTEMPTS):
            before = self._table.raw(thing_key(thing))
            value = await self._records.get(SPACE, thing_key(thing))
            if value == before:
                return
            # The lock too, as both change together; what was heard in between is newer than what was read.
            locks = [lock_key(lock) for lock in (_lock_in(thing, value), _lock_in(thing, before)) if lock is not None]
            found = dict(zip(locks, await self._read(*locks), strict=True)) | {thing_key(thing): value}
            if self._table.raw(thing_key(thing)) == before:
                for key, data in found.items():
                    self._mirror(key, data)
                return

    def _mirror(self, key: str, value: bytes | None) -> None:
        kind, _, name = key.partition(":")
        if kind not in ("lock", "thing"):
            return
        self._table.change(key, value)
        if kind == "thing" and value is not None:
            self._on_lock(name)
        if not self._is_review_due:  # once both records of a thing are here
            self._is_review_due = True
            asyncio.get_running_loop().call_soon(self._review)

    def _review(self) -> None:
        """Report what is damaged, once, and end the streams of things that are locked by damage."""
        self._is_review_due = False
        found = self._table.damage()
        for key, damage in found.items():
            kind, _, name = key.partition(":")
            if self._reported.get(key) == damage:
                continue
            if kind == "thing":
                log.error(
                    "the lock of the thing %a is damaged, so nobody can use the thing: %s; %s",
                    name,
                    damage.reason,
                    _REPAIR,
                )
                self._on_lock(name)
            else:
                log.error("the lock %a is damaged, so nobody can use the lock: %s; %s", name, damage.reason, _REPAIR)
        self._reported = found

    @property
    def locked_things(self) -> int:
        """How many things are locked."""
        return len(self._table)

    def is_locked(self, thing: str) -> bool:
        """Whether the thing is locked."""
        return self._table.state(thing) is not None

    def check_master(self, thing: str, key: str | None) -> None:
        """Raise KeyRejected unless the thing is unlocked or this is its master key."""
        record = self._table.state(thing)
        if record is not None and not _readable(record).is_master(_given(key)):
            raise KeyRejected(wire.KEY_WRONG)

    def check_reader(self, thing: str, key: str | None) -> None:
        """Raise KeyRejected unless the thing is unlocked or this is its read or master key."""
        state = self._table.state(thing)
        if state is not None:
            record, given = _readable(state), _given(key)
            if not (record.is_reader(given) or record.is_master(given)):
                raise KeyRejected(wire.KEY_WRONG)

    async def issue(self) -> IssuedLock:
        """Make a new lock with fresh keys."""
        lock, master, read = (
            f"lock-{secrets.token_hex(6)}",
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(24),
        )
        await self._keep(lock, master, read)
        return IssuedLock(lock, Secret(master), Secret(read))

    async def adopt(self, lock: str, master_key: str, read_key: str | None = None) -> None:
        """Keep a lock whose keys are given; once more with the same master key changes nothing.

        Raises
        ------
        Conflict
            A lock of this name exists with another master key.
        """
        if await self._keep(lock, master_key, read_key or secrets.token_urlsafe(24)):
            return
        record = parsed(lock_key(lock), await self._records.get(SPACE, lock_key(lock)))
        if isinstance(record, Damage):
            return  # reported; one damaged lock must not stop the gateway
        if record is None or not record.is_master(master_key):
            raise Conflict(f"the lock {lock!r} exists with another master key")

    async def _keep(self, lock: str, master_key: str, read_key: str) -> bool:
        salt = secrets.token_hex(16)
        record = LockRecord(lock, salt, hash_of_key(salt, master_key), hash_of_key(salt, read_key))
        return await self._records.swap(SPACE, {lock_key(lock): None}, {lock_key(lock): record.bytes()})

    async def lock(self, thing: str, lock: str, key: str | None) -> None:
        """Lock the thing with a free lock and its master key."""
        wire.checked_lock(lock)
        for _ in range(ATTEMPTS):
            self._refuse_damaged(thing, lock)
            known, used = await self._read(lock_key(lock), thing_key(thing))
            record = _readable_or_none(lock_key(lock), known)
            step = STEPS["locked" if used else "unlocked", "lock", _fit_of_lock(record, key)]
            if step.refusal is not None:
                raise step.refusal()
            assert record is not None
            new = record.used_by(thing).bytes()
            names = {lock_key(lock): known, thing_key(thing): used}
            if await self._records.swap(SPACE, names, dict.fromkeys(names, new)):
                return
        raise _outrun()

    async def unlock(self, thing: str, key: str | None) -> None:
        """Unlock the thing with its lock's master key; its alert goes with the lock."""
        for _ in range(ATTEMPTS):
            self._refuse_damaged(thing)
            (used,) = await self._read(thing_key(thing))
            record = _readable_or_none(thing_key(thing), used)
            step = STEPS["locked" if used else "unlocked", "unlock", _fit_of_thing(record, key)]
            if step.refusal is not None:
                raise step.refusal()
            assert record is not None
            assert used is not None
            if await self._detach(record, used):
                return
        raise _outrun()

    async def remove(self, lock: str, key: str | None) -> None:
        """Take the lock off whatever thing it is on, and free it."""
        wire.checked_lock(lock)
        for _ in range(ATTEMPTS):
            self._refuse_damaged(None, lock)
            (known,) = await self._read(lock_key(lock))
            record = _readable_or_none(lock_key(lock), known)
            fit = _fit_of_lock(record, key)
            state = "locked" if record is not None and record.thing is not None else "unlocked"
            step = STEPS[state, "remove lock", Fit.FITS if fit is Fit.IN_USE else fit]
            if step.refusal is not None:
                raise step.refusal()
            assert record is not None
            assert known is not None
            self._refuse_damaged(record.thing)
            if await self._detach(record, known):
                return
        raise _outrun()

    async def _read(self, *keys: str) -> list[bytes | None]:
        return [await self._records.get(SPACE, key) for key in keys]

    async def _detach(self, record: LockRecord, stored: bytes) -> bool:
        """Free a lock whose two records are still these bytes."""
        assert record.thing is not None
        of_lock, of_thing = lock_key(record.lock), thing_key(record.thing)
        changes = {of_lock: record.used_by(None).bytes(), of_thing: None, alert_key(record.thing): None}
        return await self._records.swap(SPACE, {of_lock: stored, of_thing: stored}, changes)

    def _refuse_damaged(self, thing: str | None, lock: str | None = None) -> None:
        damaged = thing is not None and isinstance(self._table.state(thing), Damage)
        if damaged or (lock is not None and lock_key(lock) in self._table.damage()):
            raise KeyRejected(wire.LOCK_DAMAGED)


def _readable(record: LockRecord | Damage) -> LockRecord:
    if isinstance(record, Damage):
        raise KeyRejected(wire.LOCK_DAMAGED)
    return record


def _readable_or_none(key: str, data: bytes | None) -> LockRecord | None:
    record = parsed(key, data)
    return None if record is None else _readable(record)


def _lock_in(thing: str, data: bytes | None) -> str | None:
    record = parsed(thing_key(thing), data)
    return record.lock if isinstance(record, LockRecord) else None


def _outrun() -> StoreUnavailable:
    return StoreUnavailable(
        f"other callers changed this lock {ATTEMPTS} times in a row, nothing was changed, try again"
    )


def _given(key: str | None) -> str:
    if not key:
        raise KeyRejected(wire.KEY_NEEDED)
    return key


def _fit_of_lock(record: LockRecord | None, key: str | None) -> Fit:
    if not key:
        return Fit.NO_KEY
    if record is None or not record.is_master(key):
        return Fit.WRONG
    return Fit.FREE if record.thing is None else Fit.IN_USE


def _fit_of_thing(record: LockRecord | None, key: str | None) -> Fit:
    if not key:
        return Fit.NO_KEY
    return Fit.FITS if record is not None and record.is_master(key) else Fit.WRONG
