"""Nothing is overspent and no decision is lost: many callers, two gateways on one store, SIGKILL."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import operator_of
from tests.gateway.rewards.ledgers import SCARCE, check_ledger, devices_online, moment, service_on, session
from tests.gateway.stores.conftest import HookedRdict
from tests.gateway_process import GatewayProcess, Killer
from tests.reward_caller import COMMON, Caller, settings
from toolkit.errors import ServiceFailure, StoreUnavailable
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import embedded_database
from toolkit_gateway.stores.embedded import EmbeddedStore
from toolkit_gateway.stores.group_commit import done_future, failed_future

TARGET = "/2.0/web/moment/?gatewaykey=partner-key-of-acme"


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


def submit_at_once(port: int, threads: int, moments: int, victim: GatewayProcess | None = None) -> list[bool]:
    """Send moments from many threads; kill the victim in the middle of it."""
    killer = Killer(victim.kill, 60) if victim is not None else None
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


def test_a_stock_of_100_gives_100_rewards_across_sigkill(tmp_path: Path) -> None:
    config = {"rewards": settings(SCARCE)}
    with GatewayProcess(tmp_path, config=config) as gateway:
        before = submit_at_once(gateway.port, threads=20, moments=50, victim=gateway)
    assert 60 <= len(before) < 1000
    with GatewayProcess(tmp_path, config=config) as gateway:
        after = submit_at_once(gateway.port, threads=20, moments=30)
    with Gateway(tmp_path, config=config) as last:
        decisions = operator_of(last).decisions()
    # Every answer that was seen is a decision; one that was killed on its way to the caller is one, too.
    assert (decisions["reason"] == "REWARDED").sum() == 100
    assert sum(before) + sum(after) <= 100
    assert len(decisions) >= len(before) + len(after)
    numbers = [int(name[2:]) for name in decisions["decision_id"]]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.fixture
def on_store(tmp_path: Path) -> Callable[[Callable[[EmbeddedStore], Awaitable[Any]]], Any]:
    """Return a function that does a piece of work on a store in a folder, and checks the ledger at the end."""

    def do(work: Callable[[EmbeddedStore], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            store = EmbeddedStore(tmp_path, Runtime().clock.now)
            await store.open()
            try:
                result = await asyncio.wait_for(work(store), 60)
                await check_ledger(store)
                return result
            finally:
                await store.close()

        return asyncio.run(run())

    return do


OnStore = Callable[[Callable[[EmbeddedStore], Awaitable[Any]]], Any]


@pytest.mark.parametrize("count", [1, 2, 100])
def test_moments_decided_together_are_one_commit_and_one_sync(
    on_store: OnStore, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    made: list[str] = []
    monkeypatch.setattr(embedded_database, "Rdict", HookedRdict)
    monkeypatch.setattr(HookedRdict, "on_sync", staticmethod(lambda: made.append("sync")))

    async def work(store: EmbeddedStore) -> None:
        commit, service = store.commit, service_on(store)

        def counted(*arguments: Any) -> Any:
            made.append("commit")
            return commit(*arguments)

        devices = await devices_online(service, count)
        monkeypatch.setattr(store, "commit", counted)
        for requests in ([moment(device) for device in devices], [session(device) for device in devices]):
            made.clear()
            await asyncio.gather(*map(service.respond, requests))
            assert made == ["commit", "sync"]

    on_store(work)


def test_moments_that_arrive_while_one_is_committed_are_the_next(on_store: OnStore) -> None:
    async def work(store: EmbeddedStore) -> None:
        commit, service, sizes = store.commit, service_on(store), list[int]()

        def counted(changes: Any, appends: Any) -> Any:
            sizes.append(sum(map(len, appends.values())))
            return commit(changes, appends)

        devices = await devices_online(service, 400)
        store.commit = counted  # type: ignore[method-assign]
        first = asyncio.ensure_future(service.respond(moment(devices[0])))
        while not sizes:
            await asyncio.sleep(0)
        await asyncio.gather(first, *(service.respond(moment(device)) for device in devices))
        assert sizes == [1, 256, 144], "no batch is larger than 256"

    on_store(work)


def test_two_gateways_on_one_store_never_overspend(on_store: OnStore) -> None:
    async def work(store: EmbeddedStore) -> list[dict[str, Any]]:
        services = service_on(store), service_on(store)
        devices = await devices_online(services[0], 10)
        moments = [service.respond(moment(device)) for _ in range(15) for device in devices for service in services]
        await asyncio.gather(*moments)
        return await services[1].decisions()

    decisions = on_store(work)
    assert Counter(line["reason"] for line in decisions) == {"REWARDED": 100, "NO_INVENTORY": 200}


def test_a_batch_that_loses_every_race_gets_a_503(on_store: OnStore) -> None:
    async def work(store: EmbeddedStore) -> None:
        commit, service = store.commit, service_on(store)
        devices = await devices_online(service, 3)
        store.commit = lambda *_: done_future(False)  # type: ignore[method-assign]
        for outcome in await asyncio.gather(*map(service.respond, map(moment, devices)), return_exceptions=True):
            assert isinstance(outcome, ServiceFailure)
            assert (outcome.code, outcome.status, outcome.retry_after) == ("too_busy", 503, 1)
        store.commit = commit  # type: ignore[method-assign]
        await asyncio.gather(*map(service.respond, map(moment, devices)))
        assert len(await service.decisions()) == 3, "what was refused left nothing"

    on_store(work)


def test_unavailable_store_raises_and_spends_nothing(on_store: OnStore) -> None:
    async def work(store: EmbeddedStore) -> None:
        commit, service = store.commit, service_on(store)
        (device,) = await devices_online(service, 1)
        store.commit = lambda *_: failed_future(StoreUnavailable("away"))  # type: ignore[method-assign]
        for request in (moment(device), session(device)):
            with pytest.raises(StoreUnavailable):
                await service.respond(request)
        store.commit = commit  # type: ignore[method-assign]
        await service.respond(moment(device))
        assert [line["reason"] for line in await service.decisions()] == ["REWARDED"]
        assert [line["session_id"] for line in await service.sessions()] == ["s-0001"]

    on_store(work)


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


def test_session_restarted_at_another_gateway_counts(on_store: OnStore) -> None:
    async def work(store: EmbeddedStore) -> list[str]:
        first, second = service_on(store), service_on(store)
        (device,) = await devices_online(first, 1)
        await first.respond(moment(device))
        await second.respond(session(device))
        for service in (first, second):
            await service.respond(moment(device))
        return [line["session_id"] for line in await first.decisions()]

    assert on_store(work) == ["s-0001", "s-0002", "s-0002"]


def test_a_moment_after_a_session_in_one_batch_has_that_session(on_store: OnStore) -> None:
    async def work(store: EmbeddedStore) -> list[tuple[str, str | None]]:
        service, device = service_on(store), str(uuid.uuid4())
        requests = [moment(device), session(device), moment(device), session(device), moment(device)]
        await asyncio.gather(*map(service.respond, requests))
        return [(line["reason"], line["session_id"]) for line in await service.decisions()]

    assert on_store(work) == [("NO_SESSION", None), ("REWARDED", "s-0001"), ("REWARDED", "s-0002")]


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
