"""Nothing is overspent and no decision is lost: many callers, two gateways on one store, SIGKILL."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.conftest import operator_of
from tests.gateway_process import Killer
from tests.reward_caller import COMMON, SESSION, Caller, settings
from toolkit.errors import Conflict, StoreUnavailable
from toolkit_gateway import Gateway
from toolkit_gateway.configuration import configuration_of
from toolkit_gateway.rewards.ledger import LEDGER_SPACE
from toolkit_gateway.rewards.rewards import RewardRequest, RewardService
from toolkit_gateway.runtime import Clock, OutsideWorld, SteppedClock, Timings
from toolkit_gateway.stores.embedded import EmbeddedStore

SCARCE = {
    "default": {"p": 1, "per_device_per_day": 1000, "per_moment_per_day": 1000, "min_gap_s": 0},
    "rewards": [{"id": "drink", "title": "A cold drink", "stock": 100}],
}
TARGET = "/2.0/web/moment/?gatewaykey=partner-key"


def submit(port: int, devices: list[str], moments: int, found: list[bool]) -> None:
    """Start a session for each device and send moments over one connection, until the gateway is gone."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(fields: dict[str, Any]) -> dict[str, Any]:
        connection.request("POST", TARGET, json.dumps(fields), {"Content-Type": "application/json"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer

    try:
        for device in devices:
            event = {"id": "session_start", "start": datetime.now(UTC).isoformat()}
            post({**COMMON, "device_id": device, "events": [event]})
        for number in range(moments):
            found.append("view" in post({**COMMON, "device_id": devices[number % len(devices)], "moment_id": "m"}))
    except (OSError, http.client.HTTPException):
        return  # killed; what was answered is in `found`
    finally:
        connection.close()


class Found(list[bool]):
    """Answers, of which a killer is told."""

    def __init__(self, killer: Killer | None) -> None:
        super().__init__()
        self._killer = killer

    def append(self, rewarded: bool) -> None:
        super().append(rewarded)
        if self._killer is not None:
            self._killer.answered()


def submit_at_once(port: int, threads: int, moments: int, victim: subprocess.Popen[str] | None = None) -> list[bool]:
    """Send moments from many threads; kill the victim in the middle of it."""
    killer = Killer(lambda: kill(victim), 60) if victim is not None else None
    found = Found(killer)
    workers = [
        threading.Thread(target=submit, args=(port, [str(uuid.uuid4())], moments, found)) for _ in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert killer is None or killer.is_done.is_set()
    return found


def test_a_stock_of_100_gives_100_rewards_to_50_threads() -> None:
    with Gateway(config={"rewards": settings(SCARCE)}) as gateway:
        found = submit_at_once(int(gateway.base_url.rpartition(":")[2]), threads=50, moments=20)
        decisions = operator_of(gateway).decisions()
    assert (len(found), sum(found)) == (1000, 100)
    assert Counter(decisions["reason"]) == {"REWARDED": 100, "NO_INVENTORY": 900}
    assert list(decisions["decision_id"]) == [f"d-{number:06d}" for number in range(1, 1001)]


GATEWAY_PROCESS = """
import json, sys, threading
from toolkit import Gateway
gateway = Gateway(sys.argv[1], config={"rewards": json.loads(sys.argv[2])})
print(gateway.base_url.rpartition(":")[2], flush=True)
threading.Event().wait()
"""


def start_process(folder: Path) -> tuple[subprocess.Popen[str], int]:
    given = {"partners": [{"gatewaykey": "partner-key", "company_token": "acme", "apps": ["demo-app"]}]}
    command = [sys.executable, "-c", GATEWAY_PROCESS, str(folder), json.dumps({**given, "rules": SCARCE})]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


def test_a_stock_of_100_gives_100_rewards_across_sigkill(tmp_path: Path) -> None:
    process, port = start_process(tmp_path)
    before = submit_at_once(port, threads=20, moments=50, victim=process)
    assert 60 <= len(before) < 1000
    process, port = start_process(tmp_path)
    after = submit_at_once(port, threads=20, moments=30)
    kill(process)
    with Gateway(tmp_path, config={"rewards": settings(SCARCE)}) as gateway:
        decisions = operator_of(gateway).decisions()
    # Every answer that was seen is a decision; one that was killed on its way to the caller is one, too.
    assert (decisions["reason"] == "REWARDED").sum() == 100
    assert sum(before) + sum(after) <= 100
    assert len(decisions) >= len(before) + len(after)
    numbers = [int(name[2:]) for name in decisions["decision_id"]]
    assert numbers == list(range(1, len(numbers) + 1))


def call(device: str, moment: str = "m") -> RewardRequest:
    body = orjson.dumps({**COMMON, "device_id": device, "moment_id": moment})
    return RewardRequest("partner-key", None, body, "", "http://gateway")


async def service_on(store: Any, clock: Clock | None = None, look: float = 20.0) -> RewardService:
    rewards = configuration_of({"rewards": settings(SCARCE)}).rewards
    assert rewards is not None
    service = RewardService(store, OutsideWorld(clock, timings=Timings(reward_takeover=look)), rewards)
    await service.open()
    return service


async def start_sessions(service: RewardService, devices: list[str]) -> None:
    for device in devices:
        event = {"id": "session_start", "start": datetime.now(UTC).isoformat()}
        body = orjson.dumps({**SESSION, "device_id": device, "events": [event]})
        await service.respond(RewardRequest("partner-key", None, body, "", ""))


async def test_two_gateways_on_one_store_never_overspend() -> None:
    store = EmbeddedStore(None, OutsideWorld().clock.now)
    await store.open()
    first, second = await service_on(store), await service_on(store)
    devices = [str(uuid.uuid4()) for _ in range(10)]
    await start_sessions(first, devices)
    calls = [service.respond(call(device)) for _ in range(15) for device in devices for service in (first, second)]
    await asyncio.gather(*calls)
    decisions = await second.decisions()
    for service in (first, second):
        await service.close()
    await store.close()
    reasons = Counter(line["reason"] for line in decisions)
    names = [line["decision_id"] for line in decisions]
    assert reasons == {"REWARDED": 100, "NO_INVENTORY": 200}
    assert names == [f"d-{number:06d}" for number in range(1, 301)]


def test_a_cap_holds_for_many_moments_of_one_device_at_once(started: Callable[..., Caller]) -> None:
    caller = started({"default": {"p": 1, "per_device_per_day": 3, "per_moment_per_day": 9, "min_gap_s": 0}})
    caller.session()
    reasons: list[str] = []
    threads = [threading.Thread(target=lambda: reasons.append(caller.reason())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(reasons) == {"REWARDED": 3, "DEVICE_CAP": 17}


class Dying:
    """Journals of a gateway that dies just before a batch reaches the journal."""

    def __init__(self, journals: Any) -> None:
        self._journals = journals
        self.dead = False

    def append(self, name: str, drafts: Any, keep: int | None = None, floor: int | None = None) -> Any:
        if self.dead and name == "rewards:decisions":
            raise StoreUnavailable("gone")
        return self._journals.append(name, drafts, keep, floor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journals, name)


async def test_decision_of_a_dead_gateway_is_written_at_the_start() -> None:
    store = EmbeddedStore(None, OutsideWorld().clock.now)
    await store.open()
    store.journals = journals = Dying(store.journals)
    service = await service_on(store)
    device = str(uuid.uuid4())
    await start_sessions(service, [device])
    await service.respond(call(device))
    journals.dead = True
    with pytest.raises(StoreUnavailable):
        await service.respond(call(device, "lost"))
    journals.dead = False
    later = await service_on(store)
    decisions = await later.decisions()
    lost = decisions[1]
    views = await store.records.scan("reward-views")
    await later.respond(call(device, "next"))
    left = await store.records.scan(LEDGER_SPACE)
    await store.close()
    assert [(line["decision_id"], line["moment_id"]) for line in decisions] == [("d-000001", "m"), ("d-000002", "lost")]
    assert lost["view_id"] in views
    assert "private" not in decisions[1]
    # The next compare_and_set took the finished batches away; only its own is left.
    assert [key for key in left if key.startswith("batch:")] == ["batch:3"]


async def test_decision_of_a_dead_gateway_is_written_by_another() -> None:
    clock = SteppedClock(datetime.now(UTC), timedelta(milliseconds=1))
    store = EmbeddedStore(None, clock.now)
    await store.open()
    living = await service_on(store, clock, look=0.05)
    journals = Dying(store.journals)
    its_store = SimpleNamespace(journals=journals, records=store.records, ephemeral=store.ephemeral)
    dying = await service_on(its_store, clock, look=0.05)
    device = str(uuid.uuid4())
    await start_sessions(dying, [device])
    await living.respond(call(device))
    journals.dead = True
    once = call(device, "lost")._replace(idempotency_key="once")
    with pytest.raises(StoreUnavailable):
        await dying.respond(once)
    async with asyncio.timeout(60):
        while len(await living.decisions()) < 2:
            await asyncio.sleep(0.01)
    with pytest.raises(Conflict):  # perhaps the other one still answers it
        await living.respond(once)
    clock.advance(seconds=60)
    again, once_more = await living.respond(once), await living.respond(once)
    names = [line["decision_id"] for line in await living.decisions()]
    await store.close()
    assert names == ["d-000001", "d-000002"], "the caller who asks again gets the decision that was made"
    assert again.body == once_more.body


async def test_session_restarted_at_another_gateway_counts() -> None:
    store = EmbeddedStore(None, OutsideWorld().clock.now)
    await store.open()
    first, second = await service_on(store), await service_on(store)
    device = str(uuid.uuid4())
    await start_sessions(first, [device])
    await first.respond(call(device))
    await start_sessions(second, [device])
    for service in (first, second):
        await service.respond(call(device))
    sessions = [line["session_id"] for line in await first.decisions()]
    await store.close()
    assert sessions == ["s-0001", "s-0002", "s-0002"]


async def test_unavailable_store_raises_and_spends_nothing() -> None:
    store = EmbeddedStore(None, OutsideWorld().clock.now)
    await store.open()
    service = await service_on(store)
    device = str(uuid.uuid4())
    await start_sessions(service, [device])
    compare_and_set = store.records.compare_and_set

    def away(*_: Any) -> Any:
        raise StoreUnavailable("away")

    store.records.compare_and_set = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await service.respond(call(device))
    store.records.compare_and_set = compare_and_set  # type: ignore[method-assign]
    await service.respond(call(device))
    reasons = [line["reason"] for line in await service.decisions()]
    await store.close()
    assert reasons == ["REWARDED"]


def test_sessions_live_30_minutes_after_their_last_call(caller: Caller) -> None:
    caller.session()
    for _ in range(3):
        caller.gateway.clock.advance(seconds=29 * 60)
        assert caller.reason() == "REWARDED"
    caller.gateway.clock.advance(seconds=30 * 60)
    assert caller.reason() == "NO_SESSION"
    assert list(operator_of(caller.gateway).decisions()["session_id"].fillna("-")) == ["s-0001"] * 3 + ["-"]


def test_apps_of_a_partner_are_kept_apart(started: Callable[..., Caller]) -> None:
    caller = started({"default": {"p": 1, "per_device_per_day": 1, "min_gap_s": 0}})
    for app in ("demo-app", "second-app"):
        caller.session(app_key=app)
        assert caller.reason(app_key=app) == "REWARDED"
        assert caller.reason(app_key=app) == "DEVICE_CAP"
