"""Repair what a damaged record of a lock has shut: the operator's way out, without a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from toolkit.dweets.lock_records import Damage, LockRecord, LockTable
from toolkit.dweets.stored_records import (
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
from toolkit.gateway.stores import Records


async def repair_thing(records: Records, thing: str) -> list[str]:
    """Unlock a thing whose lock is damaged, and return what was done, a sentence for each change.

    A lock whose own record can be read is free again, with its keys; a damaged record is removed.

    Raises
    ------
    Conflict
        The thing is not locked, or its lock is fine.
    StoreUnavailable
        The store cannot be written, or other callers change the lock all the time.
    """

    async def attempt() -> list[str]:
        found = await records.scan(SPACE)
        table = _table_of(found)
        state = table.state(thing)
        if state is None:
            raise Conflict(f"the thing {thing!a} is not locked: there is nothing to repair")
        if isinstance(state, LockRecord):
            raise Conflict(f"the lock of the thing {thing!a} is fine, its master key unlocks it: nothing was changed")
        changes: Changes = {thing_key(thing): None, alert_key(thing): None}
        said = [f"The lock of the thing {thing!a} was damaged: {state.reason}."]
        for lock in table.locks_of(thing):
            said += _free(table, lock, thing, changes)
        if alert_key(thing) in found:
            said.append("Its alert is removed.")
        said.append("The thing is unlocked: everybody can read and write it until it is locked again.")
        await compare_and_set(records, {key: found.get(key) for key in changes}, changes)
        return said

    return await retry_while_changed("this lock", attempt)


async def repair_lock(records: Records, lock: str) -> list[str]:
    """Free or remove a damaged lock that is on no thing, and return what was done.

    Raises
    ------
    Conflict
        There is no such lock, it is fine, or a thing has to be repaired instead.
    StoreUnavailable
        The store cannot be written, or other callers change the lock all the time.
    """

    async def attempt() -> list[str]:
        found = await records.scan(SPACE)
        table = _table_of(found)
        for thing in table.things_of(lock):
            if table.damage_at(thing_key(thing)):
                raise Conflict(f"the lock {lock!a} is on the thing {thing!a}: repair that thing")
        damage = table.damage_at(lock_key(lock))
        if damage is None:
            state = "is fine" if lock_key(lock) in found else "does not exist"
            raise Conflict(f"the lock {lock!a} {state}: there is nothing to repair")
        changes: Changes = {}
        said = [f"The lock {lock!a} was damaged: {damage.reason}."]
        said += _free(table, lock, None, changes)
        await compare_and_set(records, {key: found.get(key) for key in changes}, changes)
        return said

    return await retry_while_changed("this lock", attempt)


def _free(table: LockTable, lock: str, thing: str | None, changes: Changes) -> list[str]:
    """Add the change that frees a lock, and say what it does; only from this thing, where one is given."""
    record = table.record(lock_key(lock))
    if record is None:
        return [f"The record of its lock {lock!a} is lost: `toolkit lock new` issues another one."]
    if isinstance(record, Damage):
        changes[lock_key(lock)] = None
        return [f"The damaged record of the lock {lock!a} is removed: `toolkit lock new` issues another one."]
    if record.thing is None or thing not in (None, record.thing):
        return []
    changes[lock_key(lock)] = write_record(replace(record, thing=None))
    return [f"The lock {lock!a} is free again: its keys work."]


def _table_of(found: Mapping[str, bytes]) -> LockTable:
    table = LockTable()
    for key, value in found.items():
        if key.startswith(("lock:", "thing:")):
            table.change(key, value)
    return table
