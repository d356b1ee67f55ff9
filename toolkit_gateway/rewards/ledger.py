"""The ledger starts sessions and decides moments, so that caps and stock are never overspent.

Requests that arrive while a batch is committed form the next batch. The state of a batch and its journal entries change
in one commit of the store. If another gateway has committed since the state was read, nothing changes, and the batch
reads the state and decides again.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from toolkit.errors import StoreUnavailable
from toolkit.rewards import wire
from toolkit.rewards.configuration import Configuration
from toolkit.rewards.engine import DeviceState, Engine, Moment, record_of
from toolkit.system.nearest_name import MISSPELT, nearest_names
from toolkit_gateway.rewards.batch import DECISIONS_JOURNAL, SESSIONS_JOURNAL, Batch, Session
from toolkit_gateway.rewards.refusals import refusal
from toolkit_gateway.rewards.views import View, ViewRepository
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import Store
from toolkit_gateway.stores.group_commit import GroupCommit, Request

# So many moments are decided in about ten milliseconds, while other requests wait.
_MAX_BATCH_REQUESTS = 256
# Of eight busy gateways on one store, one has to decide a batch this often once in a million batches.
_MAX_ATTEMPTS = 100

_DAMAGED = "what the store has of the reward device {!a} cannot be read: restore it from a backup"

Record = dict[str, Any]


class RewardResponse(NamedTuple):
    body: bytes
    #: The value of the decision header; None if there was no decision.
    decision: str | None


class LedgerRequest(Request[Any]):
    """A request for one device: `apply` changes the state of a batch, and returns what the caller gets."""

    __slots__ = ("apply", "device")

    def __init__(self, device: str, apply: Callable[[Batch], Any]) -> None:
        super().__init__()
        self.device, self.apply = device, apply


class Ledger:
    """Decides moments, atomically and durably; several gateways may share the store."""

    def __init__(self, store: Store, runtime: Runtime, rules: Configuration) -> None:
        self._store = store
        self._runtime = runtime
        self._engine = Engine(rules)
        self._nearest_moment = lru_cache(1_000)(partial(_nearest_moment, rules))
        self._session_ms = round(rules.session_minutes * 60_000)
        self.views = ViewRepository(store.records)
        self._requests: GroupCommit[LedgerRequest] = GroupCommit(self._process)

    async def close(self) -> None:
        await self._requests.close()

    def start_session(self, app: str, device: str, at: int, *, test: bool) -> asyncio.Future[None]:
        """Start a session, which replaces the device's earlier one; the future is done when it is durable."""

        def apply(batch: Batch) -> None:
            batch.totals.sessions += 1
            session = Session(f"s-{batch.totals.sessions:04d}", at, at)
            batch.sessions[_device_key(app, device)] = session
            record = {"session_id": session.id, "at": at, "app_key_sha256": app, "device": device, "test": test}
            batch.append(SESSIONS_JOURNAL, at, session.id, record)

        return self._requests.add_to_next_batch(LedgerRequest(_device_key(app, device), apply)).future

    def decide(self, moment: Moment, base_url: str, *, show_arm: bool = False) -> asyncio.Future[RewardResponse]:
        """Decide a moment; the future is done when the decision is durable. `show_arm` adds the arm to the response."""
        device = _device_key(moment.app, moment.device)
        request = LedgerRequest(device, lambda batch: self._decide(batch, device, moment, base_url, show_arm))
        return self._requests.add_to_next_batch(request).future

    async def decisions(self) -> list[Record]:
        return await self._records(DECISIONS_JOURNAL)

    async def sessions(self) -> list[Record]:
        return await self._records(SESSIONS_JOURNAL)

    async def _records(self, journal: str) -> list[Record]:
        return [msgspec.json.decode(entry.data) for entry in await self._store.journals.after(journal, 0)]

    async def _process(self, requests: Sequence[LedgerRequest]) -> None:
        for first in range(0, len(requests), _MAX_BATCH_REQUESTS):
            await self._process_batch(requests[first : first + _MAX_BATCH_REQUESTS])

    async def _process_batch(self, requests: Sequence[LedgerRequest]) -> None:
        devices = {request.device for request in requests}
        for _ in range(_MAX_ATTEMPTS):
            batch = Batch(self._store, self._session_ms)
            await batch.read(devices)
            sound = [request for request in requests if request.device not in batch.damaged]
            for request in sound:
                request.result = request.apply(batch)
            if not sound or await batch.commit():
                for request in requests:
                    if request.device in batch.damaged:
                        request.fail(StoreUnavailable(_DAMAGED.format(request.device)))
                    else:
                        request.settle()
                return
        raise refusal("too_busy", seconds=1)

    def _decide(self, batch: Batch, device: str, moment: Moment, base_url: str, show_arm: bool) -> RewardResponse:
        session, at = batch.live_session(device, moment.at), moment.at
        if session is not None:
            moment = replace(moment, session_age_s=session.age_s(at))
            batch.sessions[device] = session._replace(last_moment=max(at, session.last_moment))
        state = DeviceState() if moment.test else batch.devices[device]
        decision = self._engine.decide(moment, state, batch.totals.spent)
        view = None
        if decision.reward is not None:
            view_id, token = self._runtime.fresh_id().replace("-", ""), secrets.token_urlsafe(16)
            view = View(view_id, token, decision.title or "", decision.message or "", at, moment.test)
            batch.views.append(view)
        batch.totals.decisions += 1
        decision_id = f"d-{batch.totals.decisions:06d}"
        record = record_of(decision_id, moment, session and session.id, decision)
        record |= {"trace": decision.trace, "view_id": view and view.id}
        batch.append(DECISIONS_JOURNAL, at, decision_id, record)
        header = f"{decision_id}; reason={decision.reason}"
        if show_arm:
            header += f"{wire.ARM}{quote(decision.arm or '', safe='')}"
        if near := self._nearest_moment(moment.moment_id):
            header += f"{wire.NEAREST_MOMENT}{quote(near)}"
        return RewardResponse(_response_body(at, view, base_url), header)


def _nearest_moment(rules: Configuration, moment_id: str) -> str | None:
    """Return the moment with rules that `moment_id`, which has none, probably is, misspelt."""
    near = [] if moment_id in rules.moments else nearest_names(moment_id, rules.moments, likeness=MISSPELT)
    return near[0] if near else None


def _response_body(at: int, view: View | None, base_url: str) -> bytes:
    seconds, milliseconds = divmod(at, 1000)
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    body: dict[str, Any] = {"date": f"{date}.{milliseconds:03d}000"}
    if view is not None:
        path = wire.GET_REWARD_PAGE.path_for(view=view.id)
        body_url = f"{base_url}{path}?{wire.VIEW_TOKEN}={view.token}"
        modal = {"message": view.message, "body_url": body_url, "title": view.title}
        body["view"] = {"id": view.id, "modal": modal}
    return msgspec.json.encode(body)


def _device_key(app: str, device: str) -> str:
    # Both are hashes, so no two devices have the same key.
    return f"{app} {device}"
