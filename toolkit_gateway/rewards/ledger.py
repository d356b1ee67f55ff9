"""The ledger decides moments in batches, so that caps and stock are never overspent and no decision is lost.

Moments that arrive while a batch is decided form the next batch. One compare-and-set writes the devices, the ledger and
the records of a batch; if another gateway was faster, nothing is written and the batch is decided again. The records
are then appended to the journal. If the gateway dies in between, another gateway appends them. The journal may
therefore contain a record twice; readers drop the duplicates by id.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Container, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit.rewards import wire
from toolkit.rewards.configuration import Configuration
from toolkit.rewards.engine import Decision, DeviceState, Engine, Moment, record_of
from toolkit.system.nearest_name import MISSPELT, nearest_names
from toolkit_gateway.rewards.idempotency import ResponseRepository, StoredResponse
from toolkit_gateway.rewards.sessions import Session, SessionRepository
from toolkit_gateway.rewards.views import View, ViewRepository
from toolkit_gateway.runtime import OutsideWorld
from toolkit_gateway.stores import NewEntry, Store

#: The space of devices, ledger and batches: one compare-and-set changes all of them, and works in one space only.
LEDGER_SPACE = "rewards"
DECISIONS_JOURNAL = "rewards:decisions"
_LEDGER_KEY = "ledger"
_MAX_BATCH_MOMENTS = 256
# How many of the newest journal entries are searched for the records of an abandoned batch.
_ENTRIES_SEARCHED = 4_096

Record = dict[str, Any]
T = TypeVar("T")


class PendingMoment(NamedTuple):
    moment: Moment
    #: The URL at which the caller reaches the gateway.
    base_url: str
    #: The key of the stored response; empty without an idempotency key.
    key: str
    request_hash: str


class DecidedMoment(msgspec.Struct):
    """The record for the journal, and what is saved with the record; `key` is the key of the stored response."""

    record: Record
    response: StoredResponse
    key: str
    view: View | None
    session: Session | None


class LedgerState(msgspec.Struct):
    """Units spent by reward id, the next decision number, and the batches that are not in the journal yet."""

    spent: dict[str, int] = {}
    next: int = 1
    batches: list[str] = []


class Ledger:
    """Decides moments, atomically and durably; several gateways may share the store."""

    def __init__(self, store: Store, world: OutsideWorld, rules: Configuration) -> None:
        self._store = store
        self._world = world
        self._engine = Engine(rules)
        self._nearest_moment = lru_cache(1_000)(partial(_nearest_moment, rules))
        self.sessions = SessionRepository(store, rules.session_minutes)
        self.views = ViewRepository(store.records)
        self.responses = ResponseRepository(store, world.clock.now)
        self._waiting: list[tuple[PendingMoment, asyncio.Future[StoredResponse]]] = []
        self._decide_task: asyncio.Task[None] | None = None
        self._write_tasks: set[asyncio.Task[None]] = set()
        self._journaled_batches: list[str] = []
        self._poll_task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Journal the batches of gateways that have died, now and periodically."""
        await self._finish_batches((await self._read_state()).batches)
        self._poll_task = asyncio.ensure_future(self._finish_abandoned_batches())

    async def close(self) -> None:
        if self._poll_task is not None:
            self._poll_task.cancel()
        while self._decide_task is not None or self._write_tasks:
            await asyncio.gather(*self._write_tasks, *([self._decide_task] if self._decide_task else []))

    async def _finish_abandoned_batches(self) -> None:
        seen: set[str] = set()
        while True:
            await asyncio.sleep(self._world.timings.reward_takeover)
            try:
                unfinished = [key for key in (await self._read_state()).batches if key not in self._journaled_batches]
                await self._finish_batches([key for key in unfinished if key in seen])
                seen = set(unfinished)
            except StoreUnavailable:
                continue  # the next poll finds the same batches

    async def _read_state(self) -> LedgerState:
        return _decoded(await self._store.records.get(LEDGER_SPACE, _LEDGER_KEY), LedgerState)

    async def _finish_batches(self, batches: Sequence[str]) -> None:
        """Save the decisions of these batches; skip the records that the journal already has."""
        if not batches:
            return
        newest = await self._store.journals.last(DECISIONS_JOURNAL, _ENTRIES_SEARCHED)
        journaled_ids = {entry.id for entry in newest}
        for key in batches:
            data = await self._store.records.get(LEDGER_SPACE, key)
            await self._save(msgspec.json.decode(data or b"[]", type=list[DecidedMoment]), journaled_ids)
            self._journaled_batches.append(key)

    def decide(self, pending: PendingMoment) -> asyncio.Future[StoredResponse]:
        """Decide a moment; the future is done when the decision is durable."""
        future: asyncio.Future[StoredResponse] = asyncio.get_running_loop().create_future()
        self._waiting.append((pending, future))
        if self._decide_task is None:
            self._decide_task = asyncio.ensure_future(self._decide_all())
        return future

    async def records(self) -> list[Record]:
        entries = await self._store.journals.after(DECISIONS_JOURNAL, 0)
        data_by_id = {entry.id: entry.data for entry in entries}
        # In the order of the numbers, as in "d-000042".
        return [msgspec.json.decode(data_by_id[name]) for name in sorted(data_by_id, key=lambda name: int(name[2:]))]

    async def _decide_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MAX_BATCH_MOMENTS], self._waiting[_MAX_BATCH_MOMENTS:]
                futures = [future for _, future in batch]
                deciding = self._decide_batch([pending for pending, _ in batch])
                (decided,) = await asyncio.gather(deciding, return_exceptions=True)
                if isinstance(decided, BaseException):
                    # Every caller of this batch gets the error. After OutcomeUnknown the decisions may be stored.
                    _fail_futures(futures, decided)
                    continue
                # The next batch is decided while this batch is written to the journal.
                task = asyncio.ensure_future(self._write(*decided, futures))
                self._write_tasks.add(task)
                task.add_done_callback(self._write_tasks.discard)
        finally:
            self._decide_task = None

    async def _decide_batch(self, moments: Sequence[PendingMoment]) -> tuple[str, list[DecidedMoment]]:
        keys = list({_LEDGER_KEY, *(device_key(pending.moment) for pending in moments if not pending.moment.test)})
        while True:
            sessions, values = await asyncio.gather(
                self.sessions.live_sessions([pending.moment for pending in moments]),
                asyncio.gather(*(self._store.records.get(LEDGER_SPACE, key) for key in keys)),
            )
            before = dict(zip(keys, values, strict=True))
            key, batch, changes = self._decide_in_memory(moments, sessions, before)
            deleted = dict.fromkeys(self._journaled_batches)  # None deletes batches that are in the journal
            if await self._store.records.compare_and_set(LEDGER_SPACE, before, {**changes, **deleted}):
                self._journaled_batches = [key for key in self._journaled_batches if key not in deleted]
                return key, batch
            # Another gateway has changed the ledger or a device since it was read.

    def _decide_in_memory(
        self, moments: Sequence[PendingMoment], sessions: Sequence[Session | None], before: dict[str, bytes | None]
    ) -> tuple[str, list[DecidedMoment], dict[str, bytes]]:
        state = _decoded(before[_LEDGER_KEY], LedgerState)
        devices = {key: _decoded(data, DeviceState) for key, data in before.items() if key != _LEDGER_KEY}
        key, batch = f"batch:{state.next}", []
        for pending, session in zip(moments, sessions, strict=True):
            age = None if session is None else session.age_s(pending.moment.at)
            moment = replace(pending.moment, session_age_s=age)
            device = DeviceState() if moment.test else devices[device_key(moment)]
            decision = self._engine.decide(moment, device, state.spent)
            batch.append(self._decided_moment(f"d-{state.next:06d}", pending, session, decision))
            state.next += 1
        state.batches = [key for key in state.batches if key not in self._journaled_batches] + [key]
        changed = {**devices, key: batch, _LEDGER_KEY: state}
        return key, batch, {key: msgspec.json.encode(value) for key, value in changed.items()}

    async def _write(self, key: str, batch: list[DecidedMoment], futures: list[asyncio.Future[StoredResponse]]) -> None:
        (error,) = await asyncio.gather(self._save(batch), return_exceptions=True)
        if error is not None:
            # The batch stays in the store, and a later poll appends its records.
            _fail_futures(futures, OutcomeUnknown(str(error)) if isinstance(error, StoreUnavailable) else error)
            return
        self._journaled_batches.append(key)
        for decided, future in zip(batch, futures, strict=True):
            if not future.done():
                future.set_result(decided.response)

    async def _save(self, batch: Sequence[DecidedMoment], journaled_ids: Container[str] = ()) -> None:
        new = [decided.record for decided in batch if decided.record["decision_id"] not in journaled_ids]
        entries = [NewEntry(record["at"], record["decision_id"], msgspec.json.encode(record)) for record in new]
        saved: list[Awaitable[Any]] = [self._store.journals.append(DECISIONS_JOURNAL, entries)]
        for decided in batch:
            record, at = decided.record, decided.record["at"]
            if decided.view is not None:
                saved.append(self.views.save(decided.view))
            if decided.session is not None:
                saved.append(self.sessions.extend(record["app_key_sha256"], record["device"], decided.session, at))
            if decided.key:
                saved.append(self.responses.save(decided.key, decided.response, at))
        await asyncio.gather(*saved)

    def _decided_moment(
        self, decision_id: str, pending: PendingMoment, session: Session | None, decision: Decision
    ) -> DecidedMoment:
        moment, view = pending.moment, None
        if decision.reward is not None:
            view_id, token = self._world.fresh_id().replace("-", ""), secrets.token_urlsafe(16)
            view = View(view_id, token, decision.title or "", decision.message or "", moment.at, moment.test)
        record = record_of(decision_id, moment, session and session.id, decision)
        record |= {"trace": decision.trace, "view_id": view and view.id}
        body, header = _response_body(moment, view, pending.base_url), f"{decision_id}; reason={decision.reason}"
        if near := self._nearest_moment(moment.moment_id):
            header += f"{wire.NEAREST_MOMENT}{quote(near)}"
        response = StoredResponse(body, header, pending.request_hash)
        return DecidedMoment(record, response, pending.key, view, session)


def _nearest_moment(rules: Configuration, moment_id: str) -> str | None:
    """Return the moment with rules that `moment_id`, which has none, probably is, misspelt."""
    near = [] if moment_id in rules.moments else nearest_names(moment_id, rules.moments, likeness=MISSPELT)
    return near[0] if near else None


def _response_body(moment: Moment, view: View | None, base_url: str) -> bytes:
    seconds, milliseconds = divmod(moment.at, 1000)
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    body: dict[str, Any] = {"date": f"{date}.{milliseconds:03d}000"}
    if view is not None:
        path = wire.GET_REWARD_PAGE.path_for(view=view.id)
        body_url = f"{base_url}{path}?{wire.VIEW_TOKEN}={view.token}"
        modal = {"message": view.message, "body_url": body_url, "title": view.title}
        body["view"] = {"id": view.id, "modal": modal}
    return msgspec.json.encode(body)


def device_key(moment: Moment) -> str:
    # Without the length, app "ab" with device "c" would have the key of app "a" with device "bc".
    text = f"{len(moment.app)}:{moment.app}{moment.device}"
    return f"device:{hashlib.sha256(text.encode('utf-8')).hexdigest()[:32]}"


def _decoded(data: bytes | None, record_type: type[T]) -> T:
    return record_type() if data is None else msgspec.json.decode(data, type=record_type)


def _fail_futures(futures: Sequence[asyncio.Future[StoredResponse]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
