"""Reward services on a store, without HTTP, and the check that stock, decisions, pages and sessions agree."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson

from tests.reward_caller import COMMON, settings
from toolkit.errors import ServiceFailure, StoreUnavailable
from toolkit_gateway.configuration import configuration_of
from toolkit_gateway.rewards.ledger import RewardResponse
from toolkit_gateway.rewards.rewards import RewardRequest, RewardService
from toolkit_gateway.runtime import Clock, Runtime
from toolkit_gateway.stores import Store

UNLIMITED = {"per_device_per_day": 10_000, "per_moment_per_day": 10_000, "min_gap_s": 0}
HALF = {"default": {**UNLIMITED, "p": 0.5}, "rewards": [{"id": "drink", "title": "A drink", "stock": 100_000}]}
SCARCE = {
    "default": {"p": 1, **UNLIMITED},
    "rewards": [{"id": "drink", "title": "A cold drink", "stock": 100}],
}


def service_on(store: Store, clock: Clock | None = None, rules: dict[str, Any] = SCARCE) -> RewardService:
    rewards = configuration_of({"rewards": settings(rules)}).rewards
    assert rewards is not None
    return RewardService(store, Runtime(clock), rewards)


def moment(device: str, moment_id: str = "m") -> RewardRequest:
    body = orjson.dumps({**COMMON, "device_id": device, "moment_id": moment_id})
    return RewardRequest("partner-key-of-acme", None, body, "http://gateway")


def session(device: str) -> RewardRequest:
    event = {"id": "session_start", "start": datetime.now(UTC).isoformat()}
    body = orjson.dumps({**COMMON, "device_id": device, "events": [event]})
    return RewardRequest("partner-key-of-acme", None, body, "http://gateway")


async def devices_online(service: RewardService, count: int) -> list[str]:
    """Start a session for each of so many new devices."""
    devices = [str(uuid.uuid4()) for _ in range(count)]
    await asyncio.gather(*(service.respond(session(device)) for device in devices))
    return devices


class Player:
    """Sends moments of one device; a moment that failed is sent again, as a new one."""

    def __init__(self, service: RewardService) -> None:
        self.service = service
        #: The identifiers of the decisions that were answered.
        self.answered: list[str] = []
        self.failed = 0

    async def play(self, moments: int) -> None:
        device = str(uuid.uuid4())
        await self._persist(session(device))
        for _ in range(moments):
            response = await self._persist(moment(device))
            assert response.decision is not None
            self.answered.append(response.decision.partition(";")[0])

    async def _persist(self, request: RewardRequest) -> RewardResponse:
        while True:
            try:
                return await self.service.respond(request)
            except (StoreUnavailable, ServiceFailure):
                self.failed += 1


async def check_ledger(store: Store, answered: Sequence[str] = (), stock: int = 1_000_000) -> list[dict[str, Any]]:
    """Check that all reward state agrees and has every answered decision; return the decisions."""
    decisions = [orjson.loads(entry.data) for entry in await store.journals.after("{rewards}decisions", 0)]
    sessions = [orjson.loads(entry.data) for entry in await store.journals.after("{rewards}sessions", 0)]
    names = [line["decision_id"] for line in decisions]
    assert names == [f"d-{number:06d}" for number in range(1, len(names) + 1)], "in order, none lost, none twice"
    assert [line["session_id"] for line in sessions] == [f"s-{number:04d}" for number in range(1, len(sessions) + 1)]
    assert set(answered) <= set(names)
    assert len(set(answered)) == len(answered), "no decision was given to two callers"
    state = {key: msgspec.json.decode(value) for key, value in (await store.records.scan("{rewards}state")).items()}
    totals = state.pop("totals", {"spent": {}, "decisions": 0, "sessions": 0})
    assert (totals["decisions"], totals["sessions"]) == (len(decisions), len(sessions))
    rewarded = [line for line in decisions if line["reason"] == "REWARDED"]
    assert totals["spent"] == Counter(line["reward_id"] for line in rewarded), "no stock without its decision"
    assert len(rewarded) <= stock
    assert all(draws for _, draws in state.values())
    by_device = Counter(f"{line['app_key_sha256']} {line['device']}" for line in rewarded)
    assert {key: len(rewards) for key, (rewards, _) in state.items() if rewards} == by_device
    views = await store.records.scan("{rewards}views")
    assert set(views) == {line["view_id"] for line in decisions if line["view_id"]}, "no reward without its page"
    known = {line["session_id"] for line in sessions}
    assert {line["session_id"] for line in decisions} - {None} <= known
    live = [msgspec.json.decode(value)[0] for value in (await store.ephemeral.scan("{rewards}sessions")).values()]
    assert set(live) <= known
    return decisions
