"""Repair what a damaged record of a lock has shut: the operator's way out, without a key."""

from __future__ import annotations

from msgspec.structs import replace

from toolkit.dweets.service.lock_records import Damage, LockRecord, LockTable
from toolkit.dweets.service.stored_records import (
    SPACE,
    Changes,
    alert_key,
    compare_and_set,
    lock_key,
    retry_while_changed,
    thing_key,
    write_record,
)
from toolkit.errors import Conflict
from toolkit.stores import Records


async def repair(records: Records, *, thing: str | None = None, lock: str | None = None) -> list[str]:
    """Unlock a thing whose lock is damaged, or free a damaged lock that is on no thing.

    A lock whose own record can be read is free again, with its keys; a damaged record is removed. Returns what was
    done, a sentence for each change.

    Raises
    ------
    Conflict
        There is nothing to repair, or the thing has to be repaired instead of the lock.
    StoreUnavailable
        The store cannot be written, or other callers change the lock all the time.
    """

    async def attempt() -> list[str]:
        found = await records.scan(SPACE)
        table = LockTable()
        for key, value in found.items():
            if key.startswith(("lock:", "thing:")):
                table.change(key, value)
        changes, said = _repaired_thing(table, thing) if thing is not None else _repaired_lock(table, lock or "")
        if thing is not None and alert_key(thing) in found:
            changes[alert_key(thing)] = None
            said.append("Its alert is removed.")
        await compare_and_set(records, {key: found.get(key) for key in changes}, changes)
        return said

    return await retry_while_changed("this lock", attempt)


def _repaired_thing(table: LockTable, thing: str) -> tuple[Changes, list[str]]:
    state = table.state(thing)
    if state is None:
        raise Conflict(f"the thing {thing!a} is not locked: there is nothing to repair")
    if isinstance(state, LockRecord):
        raise Conflict(f"the lock of the thing {thing!a} is fine, its master key unlocks it: nothing was changed")
    changes: Changes = {thing_key(thing): None}
    said = [
        f"The lock of the thing {thing!a} was damaged: {state.reason}.",
        "The thing is unlocked: everybody can read and write it until it is locked again.",
    ]
    for lock in sorted(lock for lock, used_by in table.pairs() if used_by == thing):
        record = table.record(lock_key(lock))
        if not isinstance(record, LockRecord) or record.thing == thing:
            said.append(_free(record, lock, changes))
    return changes, said


def _repaired_lock(table: LockTable, lock: str) -> tuple[Changes, list[str]]:
    for thing in sorted(thing for used, thing in table.pairs() if used == lock):
        if table.damage_at(thing_key(thing)):
            raise Conflict(f"the lock {lock!a} is on the thing {thing!a}: repair that thing")
    record, damage = table.record(lock_key(lock)), table.damage_at(lock_key(lock))
    if damage is None:
        raise Conflict(f"the lock {lock!a} {'is fine' if record else 'does not exist'}: there is nothing to repair")
    changes: Changes = {}
    return changes, [f"The lock {lock!a} was damaged: {damage.reason}.", _free(record, lock, changes)]


def _free(record: LockRecord | Damage | None, lock: str, changes: Changes) -> str:
    """Add the change that frees a lock, and say what it does."""
    if record is None:
        return f"The record of its lock {lock!a} is lost: `toolkit lock new` issues another one."
    if isinstance(record, Damage):
        changes[lock_key(lock)] = None
        return f"The damaged record of the lock {lock!a} is removed: `toolkit lock new` issues another one."
    changes[lock_key(lock)] = write_record(replace(record, thing=None))
    return f"The lock {lock!a} is free again: its keys work."
