"""The ledger decides moments in batches, so that caps and stock are never overspent and no decision is lost.

Moments that arrive while one batch is being decided form the next. A batch changes its devices, the ledger and its own
records in **one** conditional write; if another gateway was faster, nothing has changed and the batch is decided again.
The records then go to the journal. If a gateway dies in between, another one finds them in the batch and writes them.
So the journal may hold a record twice; it is read once, by its id.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit.rewards.engine import Decision, DeviceState, Engine, Moment, Session
from toolkit.rewards.service.sessions import Sessions
from toolkit.stores import NewEntry, Store

#: One space for devices, stock and unwritten batches: what belongs together changes together.
SPACE = "rewards"
JOURNAL = "rewards:decisions"
_LEDGER = "ledger"
_MOMENTS_A_BATCH = 256
# How far back a start looks for records that a gateway wrote before it died; more than any batch on its way.
_ENTRIES_SEARCHED = 4_096

Record = dict[str, Any]
T = TypeVar("T")
#: The part of a record that is kept in the batch, to repeat what was cut short, and never reaches the journal.
PRIVATE = "private"


class Ticket(NamedTuple):
    """A moment that waits for its decision, and the private part of its record."""

    moment: Moment
    private: Record


class Books(msgspec.Struct):
    """The ledger's own record: units spent by reward, the next number, and batches not yet in the journal."""

    spent: dict[str, int] = {}
    next: int = 1
    batches: list[str] = []


class Ledger:
    """Decides moments, atomically and durably; several gateways may share the store.

    `describe` makes the record of a decision. `keep` stores what belongs to records (views, answers) and is idempotent.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        sessions: Sessions,
        describe: Callable[[str, Ticket, Session | None, Decision], Record],
        keep: Callable[[Sequence[Record]], list[Awaitable[Any]]],
        seconds_between_looks: float,
    ) -> None:
        self._store = store
        self._engine = engine
        self._sessions = sessions
        self._describe = describe
        self._keep_with = keep
        self._seconds_between_looks = seconds_between_looks
        self._waiting: list[tuple[Ticket, asyncio.Future[Record]]] = []
        self._deciding: asyncio.Task[None] | None = None
        self._writing: set[asyncio.Task[None]] = set()
        self._journaled: list[str] = []
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Write down what gateways that died had decided, now and from time to time."""
        await self._take_up((await self._read_books()).batches)
        self._looking = asyncio.ensure_future(self._look_for_abandoned())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        while self._deciding is not None or self._writing:
            await asyncio.gather(*self._writing, *([self._deciding] if self._deciding else []))

    async def _look_for_abandoned(self) -> None:
        seen: set[str] = set()
        while True:
            await asyncio.sleep(self._seconds_between_looks)
            try:
                left = [key for key in (await self._read_books()).batches if key not in self._journaled]
                await self._take_up([key for key in left if key in seen])
                seen = set(left)
            except StoreUnavailable:
                continue  # a later look finds the same

    async def _read_books(self) -> Books:
        return _read(await self._store.records.get(SPACE, _LEDGER), Books)

    async def _take_up(self, batches: Sequence[str]) -> None:
        """Write batches to the journal whose gateway may have died before it did."""
        if not batches:
            return
        newest = await self._store.journals.last(JOURNAL, _ENTRIES_SEARCHED)
        written = {entry.id for entry in newest}
        for key in batches:
            records: list[Record] = msgspec.json.decode(await self._store.records.get(SPACE, key) or b"[]")
            await self._keep(records, written)
            self._journaled.append(key)

    def decide(self, ticket: Ticket) -> asyncio.Future[Record]:
        """Return the record of the decision as a future, done once it is durable."""
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._waiting.append((ticket, future))
        if self._deciding is None:
            self._deciding = asyncio.ensure_future(self._decide_all())
        return future

    async def records(self) -> list[Record]:
        entries = await self._store.journals.after(JOURNAL, 0)
        once = {entry.id: entry.data for entry in entries}
        return [msgspec.json.decode(once[name]) for name in sorted(once, key=lambda name: int(name[2:]))]

    async def _decide_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOMENTS_A_BATCH], self._waiting[_MOMENTS_A_BATCH:]
                futures = [future for _, future in batch]
                decided = asyncio.ensure_future(self._decide_batch([ticket for ticket, _ in batch]))
                await asyncio.wait([decided])
                if error := decided.exception():
                    # Every caller of this batch gets the error; none was acknowledged.
                    _fail(futures, error)
                    continue
                # Not waited for: the next batch is decided while this one is on its way to the journal.
                task = asyncio.ensure_future(self._write(*decided.result(), futures))
                self._writing.add(task)
                task.add_done_callback(self._writing.discard)
        finally:
            self._deciding = None

    async def _decide_batch(self, tickets: Sequence[Ticket]) -> tuple[str, list[Record]]:
        keys = list({_LEDGER, *(device_key(ticket.moment) for ticket in tickets if not ticket.moment.test)})
        while True:
            sessions, values = await asyncio.gather(
                self._sessions.live([ticket.moment for ticket in tickets]),
                asyncio.gather(*(self._store.records.get(SPACE, key) for key in keys)),
            )
            before = dict(zip(keys, values, strict=True))
            batch, records, changes = self._decide_in_memory(tickets, sessions, before)
            done = list(self._journaled)
            if await self._store.records.compare_and_set(SPACE, before, {**changes, **dict.fromkeys(done)}):
                self._journaled = [key for key in self._journaled if key not in done]
                return batch, records
            # Another gateway has changed the ledger or a device since it was read.

    def _decide_in_memory(
        self, tickets: Sequence[Ticket], sessions: Sequence[Session | None], before: dict[str, bytes | None]
    ) -> tuple[str, list[Record], dict[str, bytes]]:
        books = _read(before[_LEDGER], Books)
        devices = {key: _read(data, DeviceState) for key, data in before.items() if key != _LEDGER}
        batch, records = f"batch:{books.next}", []
        for ticket, session in zip(tickets, sessions, strict=True):
            age = None if session is None else session.age_s(ticket.moment.at)
            moment = replace(ticket.moment, session_age_s=age)
            device = DeviceState() if moment.test else devices[device_key(moment)]
            decision = self._engine.decide(moment, device, books.spent)
            records.append(self._describe(f"d-{books.next:06d}", ticket, session, decision))
            books.next += 1
        books.batches = [key for key in books.batches if key not in self._journaled] + [batch]
        changed = {**devices, batch: records, _LEDGER: books}
        return batch, records, {key: msgspec.json.encode(value) for key, value in changed.items()}

    async def _write(self, key: str, records: list[Record], futures: list[asyncio.Future[Record]]) -> None:
        written = asyncio.ensure_future(self._keep(records))
        await asyncio.wait([written])
        if error := written.exception():
            # What was decided stays in the batch, for a later look.
            _fail(futures, OutcomeUnknown(str(error)) if isinstance(error, StoreUnavailable) else error)
            return
        self._journaled.append(key)
        for record, future in zip(records, futures, strict=True):
            if not future.done():
                future.set_result(record)

    async def _keep(self, records: Sequence[Record], written: Container[str] = ()) -> None:
        drafts = [_draft(record) for record in records if record["decision_id"] not in written]
        await asyncio.gather(self._store.journals.append(JOURNAL, drafts), *self._keep_with(records))


def device_key(moment: Moment) -> str:
    # The length goes first, so that no two pairs of app and device share a record.
    text = f"{len(moment.app)}:{moment.app}{moment.device}"
    return f"device:{hashlib.sha256(text.encode('utf-8')).hexdigest()[:32]}"


def _read(data: bytes | None, kind: type[T]) -> T:
    return kind() if data is None else msgspec.json.decode(data, type=kind)


def _draft(record: Record) -> NewEntry:
    public = {name: value for name, value in record.items() if name != PRIVATE}
    return NewEntry(record["at"], record["decision_id"], msgspec.json.encode(public))


def _fail(futures: Sequence[asyncio.Future[Record]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
