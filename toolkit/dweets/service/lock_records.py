"""The records of locks and locked things, in the store and in memory, and their repair.

A locked thing has two records with the same bytes, one under the name of its lock and one under its own name. If either
is damaged or lost, the thing stays locked for everybody.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from toolkit.dweets.service.stored_records import (
    SPACE,
    Changes,
    DamagedRecord,
    Record,
    StoredRecord,
    alert_key,
    compare_and_set,
    encode_record,
    lock_key,
    read_stored,
    retry_while_changed,
    thing_key,
)
from toolkit.errors import Conflict, NotFound
from toolkit.stores import Records

log = logging.getLogger("toolkit.gateway")

_HEX_32 = re.compile(r"[0-9a-f]{32}")
_HEX_64 = re.compile(r"[0-9a-f]{64}")
_REPAIR_ADVICE = "`toolkit lock repair` frees it"


class LockRecord(Record, frozen=True):
    """A lock in the store: salted hashes of its keys, and the thing that uses it."""

    lock: str
    salt: str
    master: str
    read: str
    thing: str | None = None

    def check_for_key(self, key: str) -> None:
        if not (_HEX_32.fullmatch(self.salt) and _HEX_64.fullmatch(self.master) and _HEX_64.fullmatch(self.read)):
            raise DamagedRecord("its hashes are not valid")
        if key not in (lock_key(self.lock), self.thing is not None and thing_key(self.thing)):
            raise DamagedRecord("it belongs to another lock or thing")

    def is_master(self, key: str) -> bool:
        return hmac.compare_digest(self.master, hash_of_key(self.salt, key))

    def is_reader(self, key: str) -> bool:
        return hmac.compare_digest(self.read, hash_of_key(self.salt, key))


def hash_of_key(salt: str, key: str) -> str:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=salt.encode("ascii"), digest_size=32).hexdigest()


@dataclass(frozen=True, slots=True)
class LockDamage:
    """Why a lock or a locked thing cannot be used."""

    reason: str


class LockTable:
    """The records of all locks and locked things in memory, and the state of each thing."""

    def __init__(self) -> None:
        self._stored: dict[str, StoredRecord[LockRecord | LockDamage]] = {}
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
                self._stored[key] = StoredRecord(LockRecord.parse(key, value), value)
            except DamagedRecord as damage:
                self._stored[key] = StoredRecord(LockDamage(str(damage)), value)
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
        own = self._stored.get(thing_key(thing))
        if own is None:
            claims = self._claims.get(thing)
            return LockDamage(f"its record is missing, and the lock {min(claims)!a} is on it") if claims else None
        if isinstance(own.record, LockDamage):
            return LockDamage(f"its record is damaged: {own.record.reason}")
        lock = self._stored.get(lock_key(own.record.lock))
        if lock is None or lock.version != own.version:
            return LockDamage(f"the record of its lock {own.record.lock!a} is missing, or is not the same")
        return own.record

    def state_of_lock(self, lock: str) -> LockRecord | LockDamage | None:
        record = self.record(lock_key(lock))
        if isinstance(record, LockRecord) and record.thing is not None:
            used = self.state_of_thing(record.thing)
            if isinstance(used, LockRecord) and used.lock != lock:
                return LockDamage(f"it names the thing {record.thing!a}, which has another lock")
        return record

    def damage_at(self, key: str) -> LockDamage | None:
        kind, _, name = key.partition(":")
        state = self.state_of_thing(name) if kind == "thing" else self.state_of_lock(name)
        return state if isinstance(state, LockDamage) else None

    def locks_with_things(self) -> set[tuple[str, str]]:
        records = [stored.record for stored in self._stored.values() if isinstance(stored.record, LockRecord)]
        return {(record.lock, record.thing) for record in records if record.thing is not None}

    def rows(self) -> list[dict[str, str | None]]:
        """Return lock, thing, state and damage of each lock, and of each damaged thing whose lock is unknown."""
        rows: list[dict[str, str | None]] = []
        lock: str | None
        thing: str | None
        for key in sorted(self._stored):
            kind, _, name = key.partition(":")
            if kind == "lock":
                lock, thing = name, self._thing_of(key)
            elif name not in self._claims:  # other things are in the row of their lock
                record = self.record(key)
                lock, thing = record.lock if isinstance(record, LockRecord) else None, name
            else:
                continue
            damage = self.damage_at(key) or (self.damage_at(thing_key(thing)) if thing is not None else None)
            state = "damaged" if damage else "free" if thing is None else "in use"
            rows.append({"lock": lock, "thing": thing, "state": state, "damage": damage.reason if damage else None})
        return rows

    def _thing_of(self, key: str) -> str | None:
        record = self.record(key)
        return record.thing if isinstance(record, LockRecord) else None


class LockRepository:
    """The locks of a store, mirrored in memory so that checking a key does not wait for the store.

    `on_lock` is called with each thing that becomes locked, by a caller or by damage.
    """

    def __init__(self, records: Records, on_lock: Callable[[str], None] = lambda thing: None) -> None:
        self._records = records
        self._on_lock = on_lock
        self._changed: set[str] = set()
        self._reported: dict[str, LockDamage] = {}
        self._unsubscribe: Callable[[], None] = lambda: None
        self.table = LockTable()

    async def open(self) -> None:
        """Load the records, or raise StoreUnavailable: without them no gateway knows which things are locked."""
        self._unsubscribe = await self._records.subscribe(SPACE, self._mirror)
        self._report()

    def close(self) -> None:
        self._unsubscribe()

    async def read(self, key: str) -> StoredRecord[LockRecord] | None:
        return await read_stored(self._records, LockRecord, key)

    async def add(self, record: LockRecord) -> None:
        """Add a lock, or raise RecordChanged if its name exists."""
        key = lock_key(record.lock)
        await compare_and_set(self._records, {key: None}, {key: encode_record(record)})

    async def attach(self, lock: StoredRecord[LockRecord], thing: str) -> None:
        """Put a free lock on an unlocked thing, or raise RecordChanged."""
        expected = {lock_key(lock.record.lock): lock.version, thing_key(thing): None}
        used = encode_record(replace(lock.record, thing=thing))
        await compare_and_set(self._records, expected, dict.fromkeys(expected, used))

    async def detach(self, lock: StoredRecord[LockRecord]) -> None:
        """Take a lock off its thing and remove the alert, or raise RecordChanged."""
        thing = lock.record.thing
        assert thing is not None
        of_lock, of_thing = lock_key(lock.record.lock), thing_key(thing)
        free = encode_record(replace(lock.record, thing=None))
        expected = {of_lock: lock.version, of_thing: lock.version}
        await compare_and_set(self._records, expected, {of_lock: free, of_thing: None, alert_key(thing): None})

    def _mirror(self, key: str, value: bytes | None) -> None:
        kind, _, name = key.partition(":")
        if kind not in ("lock", "thing"):
            return
        if not self._changed:  # report later, when both records of a thing have arrived
            asyncio.get_running_loop().call_soon(self._report)
        self._changed |= self.table.apply(key, value)
        if kind == "thing" and value is not None:
            self._on_lock(name)

    def _report(self) -> None:
        """Log new damage, and call `on_lock` with the things that are locked by damage."""
        changed, self._changed = self._changed, set()
        for key in changed:
            damage = self.table.damage_at(key)
            if damage is None:
                self._reported.pop(key, None)
            elif self._reported.get(key) != damage:
                self._reported[key] = damage
                kind, _, name = key.partition(":")
                what = f"the lock of the thing {name!a}" if kind == "thing" else f"the lock {name!a}"
                log.error("%s is damaged, so nobody can use the %s: %s; %s", what, kind, damage.reason, _REPAIR_ADVICE)
                if kind == "thing":
                    self._on_lock(name)


async def lock_rows(records: Records) -> list[dict[str, str | None]]:
    _, table = await _scan(records)
    return table.rows()


async def revoke(records: Records, lock: str) -> str | None:
    """Delete a lock, unlock its thing and remove the alert; return the thing. For the operator, without a key.

    Raises NotFound if there is no such lock, Conflict if it is damaged.
    """

    async def attempt() -> str | None:
        found, table = await _scan(records)
        record = table.record(lock_key(lock))
        if record is None:
            raise NotFound(f"there is no lock {lock!a}")
        thing = record.thing if isinstance(record, LockRecord) else None
        keys = [lock_key(lock)] if thing is None else [lock_key(lock), thing_key(thing)]
        if any(map(table.damage_at, keys)):
            raise Conflict(f"the lock {lock!a} is damaged: {_REPAIR_ADVICE}")
        changes: Changes = dict.fromkeys(keys if thing is None else [*keys, alert_key(thing)])
        await compare_and_set(records, {key: found.get(key) for key in changes}, changes)
        return thing

    return await retry_while_changed("this lock", attempt)


async def _scan(records: Records) -> tuple[dict[str, bytes], LockTable]:
    found, table = await records.scan(SPACE), LockTable()
    for key, value in found.items():
        if key.startswith(("lock:", "thing:")):
            table.apply(key, value)
    return found, table


async def repair(records: Records, *, thing: str | None = None, lock: str | None = None) -> list[str]:
    """Unlock a thing with a damaged lock, or free a damaged lock that is on no thing. For the operator, without a key.

    A lock with a readable record is free again and keeps its keys; a damaged record is removed. Returns a sentence for
    each change; raises Conflict if there is nothing to repair.
    """

    async def attempt() -> list[str]:
        found, table = await _scan(records)
        changes, done = _plan_thing_repair(table, thing) if thing is not None else _plan_lock_repair(table, lock or "")
        if thing is not None and alert_key(thing) in found:
            changes[alert_key(thing)] = None
            done.append("Its alert is removed.")
        await compare_and_set(records, {key: found.get(key) for key in changes}, changes)
        return done

    return await retry_while_changed("this lock", attempt)


def _plan_thing_repair(table: LockTable, thing: str) -> tuple[Changes, list[str]]:
    state = table.state_of_thing(thing)
    if state is None:
        raise Conflict(f"the thing {thing!a} is not locked: there is nothing to repair")
    if isinstance(state, LockRecord):
        raise Conflict(f"the lock of the thing {thing!a} is fine, its master key unlocks it: nothing was changed")
    changes: Changes = {thing_key(thing): None}
    done = [
        f"The lock of the thing {thing!a} was damaged: {state.reason}.",
        "The thing is unlocked: everybody can read and write it until it is locked again.",
    ]
    for lock in sorted(lock for lock, used_by in table.locks_with_things() if used_by == thing):
        record = table.record(lock_key(lock))
        if not isinstance(record, LockRecord) or record.thing == thing:
            done.append(_free_lock(record, lock, changes))
    return changes, done


def _plan_lock_repair(table: LockTable, lock: str) -> tuple[Changes, list[str]]:
    for thing in sorted(thing for used, thing in table.locks_with_things() if used == lock):
        if table.damage_at(thing_key(thing)):
            raise Conflict(f"the lock {lock!a} is on the thing {thing!a}: repair that thing")
    record, damage = table.record(lock_key(lock)), table.damage_at(lock_key(lock))
    if damage is None:
        raise Conflict(f"the lock {lock!a} {'is fine' if record else 'does not exist'}: there is nothing to repair")
    changes: Changes = {}
    return changes, [f"The lock {lock!a} was damaged: {damage.reason}.", _free_lock(record, lock, changes)]


def _free_lock(record: LockRecord | LockDamage | None, lock: str, changes: Changes) -> str:
    """Add the change that frees a lock, and return a sentence about it."""
    if record is None:
        return f"The record of its lock {lock!a} is lost: `toolkit lock new` issues another one."
    if isinstance(record, LockDamage):
        changes[lock_key(lock)] = None
        return f"The damaged record of the lock {lock!a} is removed: `toolkit lock new` issues another one."
    changes[lock_key(lock)] = encode_record(replace(record, thing=None))
    return f"The lock {lock!a} is free again: its keys work."
