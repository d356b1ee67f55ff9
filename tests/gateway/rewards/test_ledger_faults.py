"""Whatever fails under moments: no stock is lost, no reward is given twice, and stock and decisions agree."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.rewards.ledgers import HALF, UNLIMITED, Player, check_ledger, devices_online, moment, service_on
from tests.gateway.stores.conftest import HookedRdict
from tests.gateway.stores.opened_stores import opened, opened_store, run, until, with_store
from tests.redis_servers import RedisServer, fresh_cluster_url, is_linked, migration_of, wait_until
from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit_gateway.stores import embedded_database
from toolkit_gateway.stores.embedded import EmbeddedStore


@pytest.mark.parametrize("is_written", [True, False])
def test_unknown_outcome_leaves_stock_and_decisions_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    monkeypatch.setattr(embedded_database, "Rdict", HookedRdict)

    def fail() -> None:
        raise OSError("IO error: it broke off")

    async def work(store: EmbeddedStore) -> None:
        once = {**HALF, "default": {**UNLIMITED, "p": 1, "per_moment_per_day": 1}}
        service = service_on(store, rules=once)
        (device,) = await devices_online(service, 1)
        with monkeypatch.context() as hooked:
            hooked.setattr(HookedRdict, "on_sync" if is_written else "on_write", staticmethod(fail))
            with pytest.raises(OutcomeUnknown):
                await service.respond(moment(device))
        await service.respond(moment(device))
        reasons = [decision["reason"] for decision in await check_ledger(store)]
        assert reasons == (["REWARDED", "MOMENT_CAP"] if is_written else ["REWARDED"]), "the device has one reward"
        await service.close()

    with_store(tmp_path, work)


@pytest.mark.parametrize(("part", "space"), [("records", "{rewards}state"), ("ephemeral", "{rewards}sessions")])
async def test_damaged_device_fails_alone(part: str, space: str) -> None:
    async with opened_store(None) as store:
        service = service_on(store, rules=HALF)
        devices = await devices_online(service, 4)
        await asyncio.gather(*(service.respond(moment(device)) for device in devices))
        records = getattr(store, part)
        key = next(key for key in await records.scan(space) if key != "totals")
        await records.put(space, key, b'{"cut')
        found = await asyncio.gather(*(service.respond(moment(device)) for device in devices), return_exceptions=True)
        (refused,) = [one for one in found if isinstance(one, BaseException)]
        assert isinstance(refused, StoreUnavailable)
        assert key in str(refused)
        assert len(await service.decisions()) == 7, "the other moments are decided"
        assert (await records.scan(space))[key] == b'{"cut', "it is left as it is"
        await service.close()


def test_failover_between_read_and_commit_doubles_nothing() -> None:
    settings = {"appendonly": "yes", "appendfsync": "always", "repl_diskless_sync_delay": 0}
    with RedisServer(**settings) as master, RedisServer(**settings, replicaof=f"127.0.0.1 {master.port}") as replica:
        wait_until(lambda: is_linked(replica), "the replica did not find its master")

        def fail_over() -> None:
            with replica.client() as client:
                client.replicaof("NO", "ONE")
            with master.client() as client:
                client.replicaof("127.0.0.1", replica.port)
            wait_until(lambda: is_linked(master), "the old master did not follow")

        async def work() -> None:
            async with opened(f"{master.url}?timeout=5&replicas=1") as (old,):
                service = service_on(old, rules=HALF)
                players = [Player(service) for _ in range(8)]
                await asyncio.gather(*(player.play(10) for player in players))
                commit = old.commit

                async def commit_late(*arguments: Any) -> bool:
                    await asyncio.to_thread(fail_over)
                    return await commit(*arguments)

                (device,) = await devices_online(service, 1)
                old.commit = commit_late  # type: ignore[method-assign, assignment]
                with pytest.raises(StoreUnavailable, match="READONLY"):
                    await service.respond(moment(device))
                await service.close()
            async with opened(f"{replica.url}?timeout=5&replicas=1") as (new,):
                service = service_on(new, rules=HALF)
                player = Player(service)
                await player.play(10)
                answered = [name for one in [*players, player] for name in one.answered]
                assert len(await check_ledger(new, answered)) == len(answered) == 90
                await service.close()

        run(work())


async def test_cluster_that_reshards_under_moments_loses_nothing() -> None:
    url = fresh_cluster_url().replace("timeout=30", "timeout=5")
    async with opened(url, url) as stores:
        services = [service_on(store, rules=HALF) for store in stores]
        players = [Player(services[number % 2]) for number in range(8)]
        tasks = [asyncio.ensure_future(player.play(100)) for player in players]
        await until(lambda: sum(len(player.answered) for player in players) > 100)
        for _ in range(2):
            with migration_of(stores[0].topology.key("rewards", "journal:{rewards}decisions")) as move:
                await asyncio.to_thread(move)
        await asyncio.gather(*tasks)
        decisions = await check_ledger(stores[0], [name for player in players for name in player.answered])
        assert len(decisions) >= 800
        for service in services:
            await service.close()
