"""The records of locks and locked things, in the store and in memory, and their repair.

A locked thing has two records with the same bytes, one under the name of its lock and one under its own name. If either
is damaged or lost, the thing stays locked for everybody.
"""

import hashlib
import hmac
import re

import msgspec
from msgspec.structs import replace

from toolkit.dweets.service import storage
from toolkit.dweets.service.storage import DamagedRecord, alert_key, lock_key, thing_key
from toolkit.errors import Conflict, NotFound
from toolkit.stores import Records

_HEX_32 = re.compile(r"[0-9a-f]{32}")
_HEX_64 = re.compile(r"[0-9a-f]{64}")
#: Why a lock or a locked thing cannot be used.
LockDamage = str


class LockRecord(storage.Record, frozen=True):
    """A lock in the store: salted hashes of its keys, and the thing that uses it."""

    lock: str
    salt: str
    master_hash: str = msgspec.field(name="master")
    read_hash: str = msgspec.field(name="read")
    thing: str | None = None

    def check_for_key(self, key: str) -> None:
        hashes = self.master_hash, self.read_hash
        if not (_HEX_32.fullmatch(self.salt) and all(map(_HEX_64.fullmatch, hashes))):
            raise DamagedRecord("its hashes are not valid")
        if key not in (lock_key(self.lock), self.thing is not None and thing_key(self.thing)):
            raise DamagedRecord("it belongs to another lock or thing")

    def is_master(self, key: str) -> bool:
        return hmac.compare_digest(self.master_hash, hash_of_key(self.salt, key))

    def is_reader(self, key: str) -> bool:
        return hmac.compare_digest(self.read_hash, hash_of_key(self.salt, key))


def hash_of_key(salt: str, key: str) -> str:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=salt.encode("ascii"), digest_size=32).hexdigest()


class LockTable:
    """The records of all locks and locked things in memory, and the state of each thing."""

    def __init__(self) -> None:
        self._stored: dict[str, storage.Versioned[LockRecord | LockDamage]] = {}
        self._claims: dict[str, set[str]] = {}  # thing -> the locks whose records name it
        self.locked: set[str] = set()  # the things whose state is not None, for a fast check at each post

    def apply(self, key: str, value: bytes | None) -> set[str]:
        """Apply the new value of a record (None: removed); return the keys of records whose state may have changed."""
        things = set()
        kind, _, name = key.partition(":")
        if kind == "thing":
            things.add(name)
        elif (before := self._thing_of(key)) is not None:
            things.add(before)
            self._claims[before].discard(name)
            if not self._claims[before]:
                del self._claims[before]
        self._stored.pop(key, None)
        if value is not None:
            try:
                self._stored[key] = storage.Versioned(LockRecord.parse(key, value), value)
            except DamagedRecord as damage:
                self._stored[key] = storage.Versioned(str(damage), value)
        if kind == "lock" and (after := self._thing_of(key)) is not None:
            things.add(after)
            self._claims.setdefault(after, set()).add(name)
        for thing in things:
            (self.locked.discard if self.state_of_thing(thing) is None else self.locked.add)(thing)
        locks = {lock_key(lock) for thing in things for lock in self._claims.get(thing, ())}
        return {key, *locks, *map(thing_key, things)}

    def record(self, key: str) -> LockRecord | LockDamage | None:
        stored = self._stored.get(key)
        return stored and stored.record

    def state_of_thing(self, thing: str) -> LockRecord | LockDamage | None:
        stored = self._stored.get(thing_key(thing))
        if stored is None:
            claims = self._claims.get(thing)
            return f"its record is missing, and the lock {min(claims)!a} is on it" if claims else None
        if isinstance(stored.record, LockDamage):
            return f"its record is damaged: {stored.record}"
        lock = self._stored.get(lock_key(stored.record.lock))
        if lock is None or lock.version != stored.version:
            return f"the record of its lock {stored.record.lock!a} is missing, or is not the same"
        return stored.record

    def damage_at(self, key: str) -> LockDamage | None:
        kind, _, name = key.partition(":")
        state = self.state_of_thing(name) if kind == "thing" else self.record(key)
        if isinstance(state, LockRecord) and kind == "lock" and state.thing is not None:
            thing_state = self.state_of_thing(state.thing)
            if isinstance(thing_state, LockRecord) and thing_state.lock != name:
                return f"it names the thing {state.thing!a}, which has another lock"
        return state if isinstance(state, LockDamage) else None

    def locks_with_things(self) -> set[tuple[str, str]]:
        records = [stored.record for stored in self._stored.values() if isinstance(stored.record, LockRecord)]
        return {(record.lock, record.thing) for record in records if record.thing is not None}

    def rows(self) -> list[dict[str, str | None]]:
        """Return lock, thing, state and damage of each lock, and of each damaged thing whose lock is unknown."""
        rows: list[dict[str, str | None]] = []
        for key, (record, _) in sorted(self._stored.items()):
            kind, _, name = key.partition(":")
            if kind == "thing" and name in self._claims:
                continue  # the row of its lock shows it
            lock_record = record if isinstance(record, LockRecord) else None
            lock = name if kind == "lock" else lock_record.lock if lock_record else None
            thing = name if kind == "thing" else lock_record.thing if lock_record else None
            damage = self.damage_at(key) or (self.damage_at(thing_key(thing)) if thing is not None else None)
            state = "damaged" if damage else "free" if thing is None else "in use"
            rows.append({"lock": lock, "thing": thing, "state": state, "damage": damage})
        return rows

    def _thing_of(self, key: str) -> str | None:
        record = self.record(key)
        return record.thing if isinstance(record, LockRecord) else None


async def lock_rows(records: Records) -> list[dict[str, str | None]]:
    return (await _scan(records))[1].rows()


@storage.retry_while_changed
async def revoke(records: Records, lock: str) -> str | None:
    """Delete a lock without its key, as the operator may; unlock its thing, remove the alert and return the thing.

    Raises NotFound if there is no such lock, Conflict if the lock of its thing is damaged.
    """
    stored, table = await _scan(records)
    record = table.record(lock_key(lock))
    if record is None:
        raise NotFound(f"there is no lock {lock!a}")
    for thing in sorted(thing for name, thing in table.locks_with_things() if name == lock):
        if table.damage_at(thing_key(thing)):
            raise Conflict(f"the lock of the thing {thing!a} is damaged: `toolkit lock repair` unlocks the thing first")
    used_by = record.thing if isinstance(record, LockRecord) and not table.damage_at(lock_key(lock)) else None
    keys = [lock_key(lock)] if used_by is None else [lock_key(lock), thing_key(used_by), alert_key(used_by)]
    await storage.compare_and_set(records, {key: stored.get(key) for key in keys}, dict.fromkeys(keys))
    return used_by


async def _scan(records: Records) -> tuple[dict[str, bytes], LockTable]:
    stored, table = await records.scan(storage.SPACE), LockTable()
    for key, value in stored.items():
        if key.startswith(("lock:", "thing:")):
            table.apply(key, value)
    return stored, table


@storage.retry_while_changed
async def repair(records: Records, thing: str) -> list[str]:
    """Unlock a thing with a damaged lock and remove its alert; the operator needs no key.

    A lock with a readable record is free again and keeps its keys; a damaged record is removed. Returns sentences that
    say what was damaged and changed; raises Conflict if there is nothing to repair.
    """
    stored, table = await _scan(records)
    record_or_damage = table.state_of_thing(thing)
    if record_or_damage is None:
        raise Conflict(f"the thing {thing!a} is not locked: there is nothing to repair")
    if isinstance(record_or_damage, LockRecord):
        raise Conflict(f"the lock of the thing {thing!a} is fine, its master key unlocks it: nothing was changed")
    changes: storage.Changes = {thing_key(thing): None}
    report = [
        f"The lock of the thing {thing!a} was damaged: {record_or_damage}.",
        "The thing is unlocked: everybody can read and write it until it is locked again.",
    ]
    for lock in sorted(lock for lock, name in table.locks_with_things() if name == thing):
        record = table.record(lock_key(lock))
        if not isinstance(record, LockRecord) or record.thing == thing:
            report.append(_free_lock(record, lock, changes))
    if alert_key(thing) in stored:
        changes[alert_key(thing)] = None
        report.append("Its alert is removed.")
    await storage.compare_and_set(records, {key: stored.get(key) for key in changes}, changes)
    return report


def _free_lock(record: LockRecord | LockDamage | None, lock: str, changes: storage.Changes) -> str:
    """Add the change that frees a lock, and return a sentence about it."""
    if record is None:
        return f"The record of its lock {lock!a} is lost: `toolkit lock new` issues another one."
    if isinstance(record, LockDamage):
        changes[lock_key(lock)] = None
        return f"The damaged record of the lock {lock!a} is removed: `toolkit lock new` issues another one."
    changes[lock_key(lock)] = storage.encode_record(replace(record, thing=None))
    return f"The lock {lock!a} is free again: its keys work."
