"""The records of locks and locked things, in the store and in memory.

A locked thing has two records with the same bytes, one under the name of its lock and one under its own name. If one of
them cannot be read, or they differ, nobody can use the thing until the operator revokes its lock.
"""

import hashlib
import hmac
import re
from collections import Counter

import msgspec

from toolkit.errors import NotFound
from toolkit_gateway.dweets import stored_records
from toolkit_gateway.dweets.stored_records import DamagedRecord, alert_key, lock_key, thing_key
from toolkit_gateway.stores import Records

_HEX_32 = re.compile(r"[0-9a-f]{32}")
_HEX_64 = re.compile(r"[0-9a-f]{64}")


class LockRecord(stored_records.Record, frozen=True):
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
    """The records of all locks and locked things in memory."""

    def __init__(self) -> None:
        self._stored: dict[
            str, stored_records.Versioned[LockRecord | None]
        ] = {}  # the record is None if it cannot be read
        #: How many records lock each thing, for a fast check at each post. A lock that names the thing counts even if
        #: the record of the thing is lost: a lost record must not make a private thing public.
        self.locked: Counter[str] = Counter()

    def apply(self, key: str, value: bytes | None) -> str | None:
        """Apply the new value of a record (None: removed); return why it cannot be read, if it cannot."""
        record, damage = None, None
        if (before := self.locked_by(key)) is not None:
            self.locked[before] -= 1
            if not self.locked[before]:
                del self.locked[before]
        self._stored.pop(key, None)
        if value is not None:
            try:
                record = LockRecord.parse(key, value)
            except DamagedRecord as error:
                damage = str(error)
            self._stored[key] = stored_records.Versioned(record, value)
        if (after := self.locked_by(key)) is not None:
            self.locked[after] += 1
        return damage

    def locked_by(self, key: str) -> str | None:
        """Return the thing that the record of this key locks, if any."""
        kind, _, name = key.partition(":")
        if kind == "thing":
            return name if key in self._stored else None
        record = self._record(key)
        return None if record is None else record.thing

    def lock_on(self, thing: str) -> LockRecord | None:
        """Return the lock of a locked thing; None if nobody can use the thing, because its lock is damaged."""
        stored = self._stored.get(thing_key(thing))
        if stored is None or stored.record is None:
            return None
        lock = self._stored.get(lock_key(stored.record.lock))
        return stored.record if lock is not None and lock.version == stored.version else None

    def things_by_lock(self) -> dict[str, str | None]:
        """Return each lock and the thing that it is on, also where only one of the two records can be read."""
        things: dict[str, str | None] = {}
        for key in self._stored:
            kind, _, name = key.partition(":")
            if kind == "lock":
                thing = self.locked_by(key)
                has_other_lock = thing is not None and self._record(thing_key(thing)) is not None
                things.setdefault(name, None if has_other_lock else thing)
            elif (record := self._record(key)) is not None:  # the record of the thing decides
                things[record.lock] = name
        return things

    def things_without_lock(self) -> list[str]:
        """Return the locked things whose lock is unknown: their record cannot be read, and no lock names them."""
        known = set(self.things_by_lock().values())
        return sorted(set(self.locked) - known - {self.locked_by(key) for key in self._stored if self._record(key)})

    def rows(self) -> list[dict[str, str | None]]:
        """Return lock, thing and state of each lock, and of each thing whose lock is unknown."""
        rows: list[dict[str, str | None]] = []
        for lock, thing in sorted(self.things_by_lock().items()):
            record = self._record(lock_key(lock))
            is_sound = record is not None and record.thing == thing and (thing is None or self.lock_on(thing) == record)
            state = "damaged" if not is_sound else "free" if thing is None else "in use"
            rows.append({"lock": lock, "thing": thing, "state": state})
        return rows + [{"lock": None, "thing": thing, "state": "damaged"} for thing in self.things_without_lock()]

    def _record(self, key: str) -> LockRecord | None:
        stored = self._stored.get(key)
        return stored and stored.record


async def lock_rows(records: Records) -> list[dict[str, str | None]]:
    return (await _scan(records))[1].rows()


@stored_records.retry_while_changed
async def revoke(records: Records, name: str) -> str | None:
    """Delete a lock without its key, as the operator may; unlock its thing, remove the alert and return the thing.

    `name` is that of the lock, or of a thing whose lock is unknown because its record is damaged. Raises NotFound if
    there is no such lock.
    """
    stored, table = await _scan(records)
    things = table.things_by_lock()
    if name not in things and name not in table.things_without_lock():
        raise NotFound(f"there is no lock {name!a}")
    thing = things.get(name, name)
    keys = [lock_key(name)] if thing is None else [lock_key(name), thing_key(thing), alert_key(thing)]
    await stored_records.compare_and_set(records, {key: stored.get(key) for key in keys}, dict.fromkeys(keys))
    return thing


async def _scan(records: Records) -> tuple[dict[str, bytes], LockTable]:
    stored, table = await records.scan(stored_records.SPACE), LockTable()
    for key, value in stored.items():
        if key.startswith(("lock:", "thing:")):
            table.apply(key, value)
    return stored, table
