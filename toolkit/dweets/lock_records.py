"""The records of locks and locked things, and what they say together about a thing.

A locked thing has two records with the same bytes: one under the name of its lock, one under its own name. A fault of
a disk may damage either of them, or lose it. A thing with a damaged record stays locked, for everybody.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass, replace

from toolkit.dweets.stored_records import DamagedRecord, read_record

#: One space for locks, locked things, alerts and their mails: what belongs together changes together.
SPACE = "locked-things"

_SALT = re.compile(r"[0-9a-f]{32}")
_HASH = re.compile(r"[0-9a-f]{64}")


def lock_key(lock: str) -> str:
    """Return where the store keeps the record of a lock."""
    return f"lock:{lock}"


def thing_key(thing: str) -> str:
    """Return where the store keeps the record of a locked thing."""
    return f"thing:{thing}"


def alert_key(thing: str) -> str:
    """Return where the store keeps the alert of a thing."""
    return f"alert:{thing}"


@dataclass(frozen=True, slots=True)
class LockRecord:
    """What the store keeps of a lock: salted hashes of its keys, and the thing that uses it."""

    lock: str
    salt: str
    master: str
    read: str
    thing: str | None = None

    @classmethod
    def parse(cls, key: str, data: bytes) -> LockRecord:
        """Read the record at this key of the store, or raise DamagedRecord."""
        record = read_record(cls, data)
        if not (_SALT.fullmatch(record.salt) and _HASH.fullmatch(record.master) and _HASH.fullmatch(record.read)):
            raise DamagedRecord("its hashes cannot be")
        if key not in (lock_key(record.lock), record.thing is not None and thing_key(record.thing)):
            raise DamagedRecord("it is the record of another one")
        return record

    def bytes(self) -> bytes:
        """Write it for the store."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode("utf-8")

    def used_by(self, thing: str | None) -> LockRecord:
        """Return the same lock on another thing."""
        return replace(self, thing=thing)

    def is_master(self, key: str) -> bool:
        """Whether this is the master key; takes the same time for every wrong key."""
        return hmac.compare_digest(self.master, hash_of_key(self.salt, key))

    def is_reader(self, key: str) -> bool:
        """Whether this is the read key."""
        return hmac.compare_digest(self.read, hash_of_key(self.salt, key))


def hash_of_key(salt: str, key: str) -> str:
    """Return what is kept of a key."""
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=salt.encode("ascii"), digest_size=32).hexdigest()


@dataclass(frozen=True, slots=True)
class Damage:
    """Why nobody can use a locked thing, or a lock."""

    reason: str


def parsed(key: str, data: bytes | None) -> LockRecord | Damage | None:
    """Read the record at this key of the store; None where there is none."""
    if data is None:
        return None
    try:
        return LockRecord.parse(key, data)
    except DamagedRecord as damage:
        return Damage(str(damage))


class LockTable:
    """All records of locks and locked things, and the state of each thing that follows from them.

    The two records of a thing change together but are heard of one after the other. So a change only notes what it
    touches; the state of that is found when somebody asks.
    """

    def __init__(self) -> None:
        self._raw: dict[str, bytes] = {}
        self._read: dict[str, LockRecord | Damage] = {}
        self._claims: dict[str, set[str]] = {}  # thing -> the locks whose records name it
        self._states: dict[str, LockRecord | Damage] = {}
        self._damage: dict[str, Damage] = {}  # by key
        self._touched_things: set[str] = set()
        self._touched_locks: set[str] = set()

    def __len__(self) -> int:
        self._settle()
        return len(self._states)

    def raw(self, key: str) -> bytes | None:
        """Return a record as the store has it."""
        return self._raw.get(key)

    def read(self, key: str) -> LockRecord | Damage | None:
        """Return what one record says, whatever the others say; None where there is none."""
        return self._read.get(key)

    def change(self, key: str, value: bytes | None) -> None:
        """Take a record of a lock or a thing; None where it was removed."""
        before, after = self._read.pop(key, None), parsed(key, value)
        self._raw.pop(key, None)
        if value is not None and after is not None:
            self._raw[key], self._read[key] = value, after
        kind, _, name = key.partition(":")
        if kind == "thing":
            self._touched_things.add(name)
        else:
            self._touched_locks.add(name)
            self._claim(name, before, after)

    def state(self, thing: str) -> LockRecord | Damage | None:
        """Return the lock of a thing; None where it is not locked."""
        if self._touched_things:
            self._settle()
        return self._states.get(thing)

    def damage(self) -> dict[str, Damage]:
        """Return why nobody can use what is damaged, by the keys of things and locks."""
        self._settle()
        return dict(self._damage)

    def locks_of(self, thing: str) -> list[str]:
        """Return the locks that name the thing, and the one that the thing's own record names."""
        own = self._read.get(thing_key(thing))
        return sorted(self._claims.get(thing, set()) | ({own.lock} if isinstance(own, LockRecord) else set()))

    def things_of(self, lock: str) -> list[str]:
        """Return the things whose records name the lock."""
        records = [record for record in self._read.values() if isinstance(record, LockRecord)]
        return sorted({record.thing for record in records if record.lock == lock and record.thing is not None})

    def _claim(self, lock: str, before: LockRecord | Damage | None, after: LockRecord | Damage | None) -> None:
        if isinstance(before, LockRecord) and before.thing is not None:
            self._touched_things.add(before.thing)
            claims = self._claims[before.thing]
            claims.discard(lock)
            if not claims:
                del self._claims[before.thing]
        if isinstance(after, LockRecord) and after.thing is not None:
            self._touched_things.add(after.thing)
            self._claims.setdefault(after.thing, set()).add(lock)

    def _settle(self) -> None:
        while self._touched_things:
            thing = self._touched_things.pop()
            state = self._state_of(thing)
            self._states.pop(thing, None)
            if state is not None:
                self._states[thing] = state
            self._note(thing_key(thing), state)
            self._touched_locks |= self._claims.get(thing, set())
        while self._touched_locks:
            lock = self._touched_locks.pop()
            self._note(lock_key(lock), self._state_of_lock(lock))

    def _note(self, key: str, state: LockRecord | Damage | None) -> None:
        self._damage.pop(key, None)
        if isinstance(state, Damage):
            self._damage[key] = state

    def _state_of(self, thing: str) -> LockRecord | Damage | None:
        own = self._read.get(thing_key(thing))
        if own is None:
            claims = self._claims.get(thing)
            return Damage(f"its record is missing, and the lock {min(claims)!a} is on it") if claims else None
        if isinstance(own, Damage):
            return Damage(f"its record is damaged: {own.reason}")
        of_lock = self._read.get(lock_key(own.lock))
        if of_lock is None:
            return Damage(f"the record of its lock {own.lock!a} is missing")
        if isinstance(of_lock, Damage):
            return Damage(f"the record of its lock {own.lock!a} is damaged: {of_lock.reason}")
        if self._raw[lock_key(own.lock)] != self._raw[thing_key(thing)]:
            return Damage(f"the record of its lock {own.lock!a} says something else")
        return own

    def _state_of_lock(self, lock: str) -> LockRecord | Damage | None:
        record = self._read.get(lock_key(lock))
        if isinstance(record, LockRecord) and record.thing is not None:
            used = self._states.get(record.thing)
            if isinstance(used, LockRecord) and used.lock != lock:
                return Damage(f"it names the thing {record.thing!a}, which has another lock")
        return record
