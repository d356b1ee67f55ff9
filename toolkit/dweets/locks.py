"""Locks: who may read and write a thing, as one table of states.

A lock is issued by whoever runs the gateway, with a master key (everything) and a read key (latest, history,
listen). It fits one thing at a time. The store keeps salted hashes of the keys only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from toolkit.dweets import wire
from toolkit.errors import Conflict, KeyRejected, NotFound, ServiceError, ThingAlreadyLocked, ThingNotLocked
from toolkit.gateway.stores import Records
from toolkit.secret import Secret

#: One space for locks, locked things, alerts and their mails: what belongs together changes together.
SPACE = "locked-things"


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


@dataclass(frozen=True, slots=True)
class LockRecord:
    """What the store keeps of a lock: salted hashes of its keys, and the thing that uses it."""

    lock: str
    salt: str
    master: str
    read: str
    thing: str | None = None

    @classmethod
    def parse(cls, data: bytes) -> LockRecord:
        """Read a record of the store."""
        return cls(**json.loads(data))

    def bytes(self) -> bytes:
        """Write it for the store."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode("utf-8")

    def used_by(self, thing: str | None) -> LockRecord:
        """Return the same lock on another thing."""
        return LockRecord(self.lock, self.salt, self.master, self.read, thing)

    def is_master(self, key: str) -> bool:
        """Whether this is the master key; takes the same time for every wrong key."""
        return hmac.compare_digest(self.master, _hashed(self.salt, key))

    def is_reader(self, key: str) -> bool:
        """Whether this is the read key."""
        return hmac.compare_digest(self.read, _hashed(self.salt, key))


def _hashed(salt: str, key: str) -> str:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=salt.encode("ascii"), digest_size=32).hexdigest()


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
        self._locked: dict[str, LockRecord] = {}
        self._unwatch: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Mirror what is locked, now and from now on."""
        self._unwatch = await self._records.watch(SPACE, self._mirror)

    def close(self) -> None:
        """Mirror nothing any more."""
        self._unwatch()

    async def look(self, thing: str) -> None:
        """See in the store itself whether the thing is locked: another gateway may have done it just now."""
        key = f"thing:{thing}"
        value = await self._records.get(SPACE, key)
        known = self._locked.get(thing)
        if (LockRecord.parse(value) if value is not None else None) != known:
            self._mirror(key, value)

    def _mirror(self, key: str, value: bytes | None) -> None:
        kind, _, thing = key.partition(":")
        if kind == "thing":
            if value is None:
                self._locked.pop(thing, None)
            else:
                self._locked[thing] = LockRecord.parse(value)
                self._on_lock(thing)

    @property
    def locked_things(self) -> int:
        """How many things are locked."""
        return len(self._locked)

    def is_locked(self, thing: str) -> bool:
        """Whether the thing is locked."""
        return thing in self._locked

    def check_master(self, thing: str, key: str | None) -> None:
        """Raise KeyRejected unless the thing is unlocked or this is its master key."""
        record = self._locked.get(thing)
        if record is not None and not record.is_master(_given(key)):
            raise KeyRejected(wire.KEY_WRONG)

    def check_reader(self, thing: str, key: str | None) -> None:
        """Raise KeyRejected unless the thing is unlocked or this is its read or master key."""
        record = self._locked.get(thing)
        if record is not None and not (record.is_reader(_given(key)) or record.is_master(_given(key))):
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
        if not await self._keep(lock, master_key, read_key or secrets.token_urlsafe(24)):
            known = await self._records.get(SPACE, f"lock:{lock}")
            if known is None or not LockRecord.parse(known).is_master(master_key):
                raise Conflict(f"the lock {lock!r} exists with another master key")

    async def _keep(self, lock: str, master_key: str, read_key: str) -> bool:
        salt = secrets.token_hex(16)
        record = LockRecord(lock, salt, _hashed(salt, master_key), _hashed(salt, read_key))
        return await self._records.swap(SPACE, {f"lock:{lock}": None}, {f"lock:{lock}": record.bytes()})

    async def lock(self, thing: str, lock: str, key: str | None) -> None:
        """Lock the thing with a free lock and its master key."""
        wire.checked_lock(lock)
        while True:
            known, used = await self._read(f"lock:{lock}", f"thing:{thing}")
            record = LockRecord.parse(known) if known else None
            step = STEPS["locked" if used else "unlocked", "lock", _fit_of_lock(record, key)]
            if step.refusal is not None:
                raise step.refusal()
            assert record is not None
            new = record.used_by(thing).bytes()
            names = {f"lock:{lock}": known, f"thing:{thing}": used}
            if await self._records.swap(SPACE, names, dict.fromkeys(names, new)):
                return

    async def unlock(self, thing: str, key: str | None) -> None:
        """Unlock the thing with its lock's master key; its alert goes with the lock."""
        while True:
            (used,) = await self._read(f"thing:{thing}")
            record = LockRecord.parse(used) if used else None
            step = STEPS["locked" if used else "unlocked", "unlock", _fit_of_thing(record, key)]
            if step.refusal is not None:
                raise step.refusal()
            assert record is not None
            if await self._detach(record):
                return

    async def remove(self, lock: str, key: str | None) -> None:
        """Take the lock off whatever thing it is on, and free it."""
        wire.checked_lock(lock)
        while True:
            (known,) = await self._read(f"lock:{lock}")
            record = LockRecord.parse(known) if known else None
            fit = _fit_of_lock(record, key)
            state = "locked" if record is not None and record.thing is not None else "unlocked"
            step = STEPS[state, "remove lock", Fit.FITS if fit is Fit.IN_USE else fit]
            if step.refusal is not None:
                raise step.refusal()
            assert record is not None
            if await self._detach(record):
                return

    async def _read(self, *keys: str) -> list[bytes | None]:
        return [await self._records.get(SPACE, key) for key in keys]

    async def _detach(self, record: LockRecord) -> bool:
        expected: dict[str, bytes | None] = {f"lock:{record.lock}": record.bytes()}
        free = record.used_by(None).bytes()
        changes = {f"lock:{record.lock}": free, f"thing:{record.thing}": None, f"alert:{record.thing}": None}
        return await self._records.swap(SPACE, expected, changes)


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
