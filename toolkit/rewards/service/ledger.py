"""The ledger decides moments in batches, so that caps and stock are never overspent and no decision is lost.

Moments that arrive while a batch is decided form the next batch. One compare-and-set writes the devices, the ledger and
the records of a batch; if another gateway was faster, nothing is written and the batch is decided again. The records
are then appended to the journal. If the gateway dies in between, another gateway appends them. The journal may
therefore contain a record twice; readers drop the duplicates by id.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit.rewards.engine import Decision, DeviceState, Engine, Moment, Session
from toolkit.rewards.service.sessions import Sessions
from toolkit.stores import NewEntry, Store

#: The space of devices, ledger and batches: one compare-and-set changes all of them, and works in one space only.
LEDGER_SPACE = "rewards"
DECISIONS_JOURNAL = "rewards:decisions"
_LEDGER_KEY = "ledger"
_MAX_BATCH_MOMENTS = 256
# How many of the newest journal entries are searched for the records of an abandoned batch.
_ENTRIES_SEARCHED = 4_096

Record = dict[str, Any]
T = TypeVar("T")
#: A field of records with values that `save` needs; it is stored in the batch, but not in the journal.
PRIVATE_FIELD = "private"


class PendingMoment(NamedTuple):
    """A moment without a decision, and the private part of the later record."""

    moment: Moment
    private: Record


class LedgerState(msgspec.Struct):
    """Units spent by reward id, the next decision number, and the batches that are not in the journal yet."""

    spent: dict[str, int] = {}
    next: int = 1
    batches: list[str] = []


class Ledger:
    """Decides moments, atomically and durably; several gateways may share the store.

    `describe` makes the record of a decision. `save` stores the views and responses of records; it is idempotent.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        sessions: Sessions,
        describe: Callable[[str, PendingMoment, Session | None, Decision], Record],
        save: Callable[[Sequence[Record]], list[Awaitable[Any]]],
        poll_seconds: float,
    ) -> None:
        self._store = store
        self._engine = engine
        self._sessions = sessions
        self._describe = describe
        self._save_with = save
        self._poll_seconds = poll_seconds
        self._waiting: list[tuple[PendingMoment, asyncio.Future[Record]]] = []
        self._deciding: asyncio.Task[None] | None = None
        self._writing: set[asyncio.Task[None]] = set()
        self._journaled: list[str] = []
        self._polling: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Journal the batches of gateways that have died, now and periodically."""
        await self._finish_batches((await self._read_state()).batches)
        self._polling = asyncio.ensure_future(self._finish_abandoned_batches())

    async def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
        while self._deciding is not None or self._writing:
            await asyncio.gather(*self._writing, *([self._deciding] if self._deciding else []))

    async def _finish_abandoned_batches(self) -> None:
        seen: set[str] = set()
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                left = [key for key in (await self._read_state()).batches if key not in self._journaled]
                await self._finish_batches([key for key in left if key in seen])
                seen = set(left)
            except StoreUnavailable:
                continue  # the next poll finds the same batches

    async def _read_state(self) -> LedgerState:
        return _decoded(await self._store.records.get(LEDGER_SPACE, _LEDGER_KEY), LedgerState)

    async def _finish_batches(self, batches: Sequence[str]) -> None:
        """Append the records of these batches to the journal, unless the journal has them."""
        if not batches:
            return
        newest = await self._store.journals.last(DECISIONS_JOURNAL, _ENTRIES_SEARCHED)
        written = {entry.id for entry in newest}
        for key in batches:
            records: list[Record] = msgspec.json.decode(await self._store.records.get(LEDGER_SPACE, key) or b"[]")
            await self._save(records, written)
            self._journaled.append(key)

    def decide(self, waiting: PendingMoment) -> asyncio.Future[Record]:
        """Decide a moment; the future is done when the decision is durable."""
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._waiting.append((waiting, future))
        if self._deciding is None:
            self._deciding = asyncio.ensure_future(self._decide_all())
        return future

    async def records(self) -> list[Record]:
        entries = await self._store.journals.after(DECISIONS_JOURNAL, 0)
        once = {entry.id: entry.data for entry in entries}
        return [msgspec.json.decode(once[name]) for name in sorted(once, key=lambda name: int(name[2:]))]

    async def _decide_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MAX_BATCH_MOMENTS], self._waiting[_MAX_BATCH_MOMENTS:]
                futures = [future for _, future in batch]
                decided = asyncio.ensure_future(self._decide_batch([waiting for waiting, _ in batch]))
                await asyncio.wait([decided])
                if error := decided.exception():
                    # Every caller of this batch gets the error, since no decision of the batch was stored.
                    _fail_futures(futures, error)
                    continue
                # The next batch is decided while this batch is written to the journal.
                task = asyncio.ensure_future(self._write(*decided.result(), futures))
                self._writing.add(task)
                task.add_done_callback(self._writing.discard)
        finally:
            self._deciding = None

    async def _decide_batch(self, pending: Sequence[PendingMoment]) -> tuple[str, list[Record]]:
        keys = list({_LEDGER_KEY, *(device_key(waiting.moment) for waiting in pending if not waiting.moment.test)})
        while True:
            sessions, values = await asyncio.gather(
                self._sessions.live_sessions([waiting.moment for waiting in pending]),
                asyncio.gather(*(self._store.records.get(LEDGER_SPACE, key) for key in keys)),
            )
            before = dict(zip(keys, values, strict=True))
            batch, records, changes = self._decide_in_memory(pending, sessions, before)
            done = list(self._journaled)
            if await self._store.records.compare_and_set(LEDGER_SPACE, before, {**changes, **dict.fromkeys(done)}):
                self._journaled = [key for key in self._journaled if key not in done]
                return batch, records
            # Another gateway has changed the ledger or a device since it was read.

    def _decide_in_memory(
        self, pending: Sequence[PendingMoment], sessions: Sequence[Session | None], before: dict[str, bytes | None]
    ) -> tuple[str, list[Record], dict[str, bytes]]:
        state = _decoded(before[_LEDGER_KEY], LedgerState)
        devices = {key: _decoded(data, DeviceState) for key, data in before.items() if key != _LEDGER_KEY}
        batch, records = f"batch:{state.next}", []
        for waiting, session in zip(pending, sessions, strict=True):
            age = None if session is None else session.age_s(waiting.moment.at)
            moment = replace(waiting.moment, session_age_s=age)
            device = DeviceState() if moment.test else devices[device_key(moment)]
            decision = self._engine.decide(moment, device, state.spent)
            records.append(self._describe(f"d-{state.next:06d}", waiting, session, decision))
            state.next += 1
        state.batches = [key for key in state.batches if key not in self._journaled] + [batch]
        changed = {**devices, batch: records, _LEDGER_KEY: state}
        return batch, records, {key: msgspec.json.encode(value) for key, value in changed.items()}

    async def _write(self, key: str, records: list[Record], futures: list[asyncio.Future[Record]]) -> None:
        written = asyncio.ensure_future(self._save(records))
        await asyncio.wait([written])
        if error := written.exception():
            # The records stay in the batch, and a later poll appends them.
            _fail_futures(futures, OutcomeUnknown(str(error)) if isinstance(error, StoreUnavailable) else error)
            return
        self._journaled.append(key)
        for record, future in zip(records, futures, strict=True):
            if not future.done():
                future.set_result(record)

    async def _save(self, records: Sequence[Record], written: Container[str] = ()) -> None:
        drafts = [_journal_entry(record) for record in records if record["decision_id"] not in written]
        await asyncio.gather(self._store.journals.append(DECISIONS_JOURNAL, drafts), *self._save_with(records))


def device_key(moment: Moment) -> str:
    # The length keeps apart pairs of app and device whose concatenated texts are equal.
    text = f"{len(moment.app)}:{moment.app}{moment.device}"
    return f"device:{hashlib.sha256(text.encode('utf-8')).hexdigest()[:32]}"


def _decoded(data: bytes | None, kind: type[T]) -> T:
    return kind() if data is None else msgspec.json.decode(data, type=kind)


def _journal_entry(record: Record) -> NewEntry:
    public = {name: value for name, value in record.items() if name != PRIVATE_FIELD}
    return NewEntry(record["at"], record["decision_id"], msgspec.json.encode(public))


def _fail_futures(futures: Sequence[asyncio.Future[Record]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
