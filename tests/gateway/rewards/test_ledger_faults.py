"""Whatever fails under moments: no stock is lost, no reward is given twice, and stock and decisions agree."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.gateway.rewards.ledgers import (
    HALF,
    UNLIMITED,
    Player,
    check_ledger,
    devices_online,
    moment,
    service_on,
    session,
)
from tests.gateway.stores.conftest import HookedRdict
from tests.gateway.stores.opened_stores import opened, opened_store, persist, run, until
from tests.redis_servers import RedisServer, fresh_cluster_url, is_linked, move_slot_of, wait_until
from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit_gateway.stores import embedded_database
from toolkit_gateway.stores.embedded import EmbeddedStore

# Two services have moments decided until the process is killed; it prints the decisions that were answered. Small
# buffers: RocksDB flushes and compacts all the time, so that a kill hits it in the middle of that too.
_WRITER = """
import asyncio, pathlib, sys, time
from tests.gateway.rewards.ledgers import HALF, Player, service_on
from toolkit_gateway.stores import embedded_database
from toolkit_gateway.stores.embedded import EmbeddedStore
embedded_database.WRITE_BUFFER = 64 << 10
class Printed(list):
    def append(self, name):
        print(name, flush=True)
async def main():
    store = EmbeddedStore(pathlib.Path(sys.argv[1]), lambda: time.time_ns() // 1_000_000)
    await store.open()
    services = [service_on(store, rules=HALF) for _ in range(2)]
    players = [Player(services[number % 2]) for number in range(8)]
    for player in players:
        player.answered = Printed()
    await asyncio.gather(*(player.play(100_000) for player in players))
asyncio.run(main())
"""


def decide_until_killed(folder: Path, answers: int) -> list[str]:
    """Return the decisions that were answered before the process was killed, with so many answers."""
    answered: list[str] = []
    command = [sys.executable, "-c", _WRITER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        for said in writer.stdout:
            if said.endswith("\n"):
                answered.append(said.strip())
            if len(answered) == answers:
                writer.send_signal(signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL, "it ran until it was killed"
    return answered


def on_disk(folder: Path, work: Callable[[EmbeddedStore], Awaitable[Any]]) -> Any:
    async def run_it() -> Any:
        store = EmbeddedStore(folder, lambda: 0)
        await store.open()
        try:
            return await asyncio.wait_for(work(store), 60)
        finally:
            await store.close()

    return asyncio.run(run_it())


def kill_again_and_again(folder: Path, times: int, seed: int) -> None:
    chance, answered = random.Random(seed), list[str]()
    for _ in range(times):
        answered += decide_until_killed(folder, chance.randrange(1, 400))
        on_disk(folder, partial(check_ledger, answered=answered))


def test_kills_under_moments_lose_no_stock(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 2, 1)


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_a_hundred_kills_under_moments_lose_no_stock(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 100, 2)


def test_full_disk_refuses_moments_and_recovers(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def work(store: EmbeddedStore) -> None:
        service = service_on(store, rules=HALF)
        devices = await devices_online(service, 20)
        answered: list[Any] = []
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
        try:
            while not any(isinstance(one, OutcomeUnknown) for one in answered):
                moments = [service.respond(moment(device)) for device in devices]
                answered += await asyncio.gather(*moments, return_exceptions=True)
            with pytest.raises(StoreUnavailable, match="free some room"):
                await service.respond(session(devices[0]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await persist(lambda: service.respond(moment(devices[0])))
        decided = [one.decision.partition(";")[0] for one in answered if not isinstance(one, BaseException)]
        assert len(await check_ledger(store, decided)) == len(decided) + 1, "what was refused left nothing"
        await service.close()

    on_disk(tmp_path, work)


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

    on_disk(tmp_path, work)


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


async def play_on(stores: list[Any], disturb: Callable[[], object], moments: int = 150) -> list[Player]:
    """Have moments decided by two gateways, disturb them in the middle, and check the ledger; return the players."""
    services = [service_on(store, rules=HALF) for store in stores]
    players = [Player(services[number % len(services)]) for number in range(8)]
    tasks = [asyncio.ensure_future(player.play(moments)) for player in players]
    await until(lambda: sum(len(player.answered) for player in players) > 100)
    await asyncio.to_thread(disturb)
    await asyncio.gather(*tasks)
    decisions = await check_ledger(stores[0], [name for player in players for name in player.answered])
    assert len(decisions) >= 8 * moments
    for service in services:
        await service.close()
    return players


async def test_cluster_that_reshards_under_moments_loses_nothing() -> None:
    url = fresh_cluster_url().replace("timeout=30", "timeout=5")
    async with opened(url, url) as stores:
        key = stores[0].topology.key("rewards", "journal:{rewards}decisions")
        await play_on(stores, lambda: [move_slot_of(key) for _ in range(2)])
