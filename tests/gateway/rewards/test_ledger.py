"""Nothing is overspent and no decision is lost: many callers, two gateways on one store."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import operator_of
from tests.gateway.rewards.ledgers import check_ledger, devices_online, moment, service_on, session
from tests.gateway.stores.conftest import HookedRdict
from tests.gateway.stores.opened_stores import with_store
from tests.gateway_parts import at_once
from tests.reward_caller import Caller
from toolkit.errors import ServiceFailure, StoreUnavailable
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import embedded_database
from toolkit_gateway.stores.embedded import EmbeddedStore
from toolkit_gateway.stores.group_commit import done_future, failed_future

OnStore = Callable[[Callable[[EmbeddedStore], Awaitable[Any]]], Any]


@pytest.fixture
def on_store(tmp_path: Path) -> OnStore:
    """Return a function that does a piece of work on a store in a folder, and checks the ledger at the end."""

    def do(work: Callable[[EmbeddedStore], Awaitable[Any]]) -> Any:
        async def work_and_check(store: EmbeddedStore) -> Any:
            result = await work(store)
            await check_ledger(store)
            return result

        return with_store(tmp_path, work_and_check, clock=Runtime().clock.now)

    return do


def test_moments_decided_together_are_one_commit_and_one_sync(
    on_store: OnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(embedded_database, "Rdict", HookedRdict)
    monkeypatch.setattr(HookedRdict, "on_sync", staticmethod(lambda: made.append("sync")))

    async def work(store: EmbeddedStore) -> None:
        commit, service = store.commit, service_on(store)

        def counted(*arguments: Any) -> Any:
            made.append("commit")
            return commit(*arguments)

        devices = await devices_online(service, 100)
        monkeypatch.setattr(store, "commit", counted)
        for requests in ([*map(moment, devices)], [*map(session, devices)], [moment(devices[0])]):
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
        store.commit = lambda *_: failed_future(StoreUnavailable("away"))  # type: ignore[method-assign]
        for request in (moment(devices[0]), session(devices[0])):
            with pytest.raises(StoreUnavailable):
                await service.respond(request)
        store.commit = commit  # type: ignore[method-assign]
        await asyncio.gather(*map(service.respond, map(moment, devices)))
        assert len(await service.decisions()) == len(await service.sessions()) == 3, "what was refused left nothing"

    on_store(work)


def test_a_cap_holds_for_many_moments_of_one_device_at_once(started: Callable[..., Caller]) -> None:
    caller = started({"default": {"p": 1, "per_device_per_day": 3, "per_moment_per_day": 9, "min_gap_s": 0}})
    caller.session()
    reasons = at_once(20, lambda _: caller.reason())
    assert Counter(reasons) == {"REWARDED": 3, "DEVICE_CAP": 17}


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
