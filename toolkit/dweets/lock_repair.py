"""Repair what a damaged record of a lock has shut: the operator's way out, without a key."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.dweets.lock_records import SPACE, Damage, LockRecord, LockTable, alert_key, lock_key, thing_key
from toolkit.dweets.locks import ATTEMPTS
from toolkit.errors import Conflict
from toolkit.gateway.stores import Records, StoreUnavailable

Changes = dict[str, bytes | None]


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
    for _ in range(ATTEMPTS):
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
        if await _made(records, found, changes):
            return said
    raise _outrun()


async def repair_lock(records: Records, lock: str) -> list[str]:
    """Free or remove a damaged lock that is on no thing, and return what was done.

    Raises
    ------
    Conflict
        There is no such lock, it is fine, or a thing has to be repaired instead.
    StoreUnavailable
        The store cannot be written, or other callers change the lock all the time.
    """
    for _ in range(ATTEMPTS):
        found = await records.scan(SPACE)
        table = _table_of(found)
        damaged = table.damage()
        for thing in table.things_of(lock):
            if thing_key(thing) in damaged:
                raise Conflict(f"the lock {lock!a} is on the thing {thing!a}: repair that thing")
        if lock_key(lock) not in damaged:
            state = "is fine" if table.read(lock_key(lock)) else "does not exist"
            raise Conflict(f"the lock {lock!a} {state}: there is nothing to repair")
        changes: Changes = {}
        said = [f"The lock {lock!a} was damaged: {damaged[lock_key(lock)].reason}."]
        said += _free(table, lock, None, changes)
        if await _made(records, found, changes):
            return said
    raise _outrun()


def _free(table: LockTable, lock: str, thing: str | None, changes: Changes) -> list[str]:
    """Add the change that frees a lock, and say what it does; only from this thing, where one is given."""
    read = table.read(lock_key(lock))
    if read is None:
        return [f"The record of its lock {lock!a} is lost: `toolkit lock new` issues another one."]
    if isinstance(read, Damage):
        changes[lock_key(lock)] = None
        return [f"The damaged record of the lock {lock!a} is removed: `toolkit lock new` issues another one."]
    if read.thing is None or thing not in (None, read.thing):
        return []
    changes[lock_key(lock)] = read.used_by(None).bytes()
    return [f"The lock {lock!a} is free again: its keys work."]


async def _made(records: Records, found: Mapping[str, bytes], changes: Changes) -> bool:
    return await records.swap(SPACE, {key: found.get(key) for key in changes}, changes)


def _table_of(found: Mapping[str, bytes]) -> LockTable:
    table = LockTable()
    for key, value in found.items():
        if key.startswith(("lock:", "thing:")):
            table.change(key, value)
    return table


def _outrun() -> StoreUnavailable:
    return StoreUnavailable(
        f"other callers changed this lock {ATTEMPTS} times in a row: nothing was changed, try again"
    )
