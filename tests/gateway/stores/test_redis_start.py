"""What is wrong with a Redis is said before the gateway says that it runs; a password never."""

from __future__ import annotations

import logging
import re
import secrets
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.gateway.stores.opened_stores import follow_as_a_thing_does, line, opened, run, until
from tests.gateway.stores.test_redis_outages import CALLS, outcomes
from tests.redis_servers import RedisServer, cluster_of, shared_cluster, shared_server
from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores.redis.store import RedisStore


@pytest.mark.parametrize(
    ("url_of", "message"),
    [
        (lambda: "redis://127.0.0.1:1", "redis://127.0.0.1:1 cannot be used now: .* connecting"),
        (lambda: "redis+sentinel://127.0.0.1:1,127.0.0.1:2/m", "No master found for 'm'[^<]*check the addresses[^<]*$"),
        (lambda: "redis+cluster://127.0.0.1:1,127.0.0.1:2", "cluster://127.0.0.1:1,127.0.0.1:2 cannot be used now"),
        (lambda: shared_cluster()[0].url, r"give redis\+cluster://"),
        (lambda: shared_server().url.replace("redis:", "redis+cluster:"), "cannot be used"),
    ],
    ids=["no server", "no sentinels", "no cluster", "node of a cluster", "no node of a cluster"],
)
def test_missing_or_unsuitable_server_is_refused(url_of: Callable[[], str], message: str) -> None:
    with pytest.raises(StoreUnavailable, match=message):
        run(_open(url_of()))


def test_server_that_hangs_holds_it_for_the_timeout() -> None:
    with RedisServer() as server:
        server.pause()
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            run(_open(f"{server.url}?timeout=1"))
        server.resume()


def test_wrong_password_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    right, wrong = secrets.token_hex(8), secrets.token_hex(8)
    with RedisServer(requirepass=right) as server:
        urls = [server.url.replace("//", f"//:{password}@") for password in (right, wrong)]
        with pytest.raises(StoreUnavailable, match="(?i)password|wrongpass") as refused:
            run(_open(urls[1]))
        with pytest.raises(StoreUnavailable, match="(?i)auth") as unnamed:
            run(_open(server.url))
        run(_open(urls[0]))
        errors = "".join(line for error in (refused, unnamed) for line in traceback.format_exception(error.value))
        told = f"{errors} {caplog.text} {RedisStore(urls[0], lambda: 0)!r}"
        assert right not in told
        assert wrong not in told


def test_unknown_command_error_hides_its_arguments(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    password = secrets.token_hex(8)
    (tmp_path / "redis.conf").write_text("rename-command AUTH _AUTH\n")
    with RedisServer(include=tmp_path / "redis.conf") as server:
        with pytest.raises(StoreUnavailable, match="unknown command 'AUTH'$") as refused:
            run(_open(server.url.replace("//", f"//:{password}@")))
        assert password not in "".join(traceback.format_exception(refused.value)) + caplog.text


def test_documented_permissions_are_enough_and_needed() -> None:
    (rights,) = re.findall(r"`(~lab:\* .*?)`", (ROOT / "docs" / "how-to" / "redis.md").read_text())
    password = secrets.token_hex(8)

    async def use(url: str) -> None:
        async with opened(f"{url}?prefix=lab:") as (one,):
            assert set(await outcomes(one, CALLS)).isdisjoint({"StoreUnavailable"})
            heard = await follow_as_a_thing_does(one, "b")
            await one.journals.append("b", [line("1")])
            await until(lambda: len(heard) == 1)

    with RedisServer() as server, cluster_of(3, cluster_node_timeout=5000) as nodes:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        urls = [f"redis://me:{password}@127.0.0.1:{server.port}", f"redis+cluster://me:{password}@{hosts}"]
        for node in [server, *nodes]:
            with node.client() as client:
                client.execute_command("ACL SETUSER", "me", "on", f">{password}", *rights.split())
        for url in urls:
            run(use(url))
        for node in [server, *nodes]:
            with node.client() as client:
                client.execute_command("ACL SETUSER", "me", "-@write", "-@scripting")
        for url in urls:
            with pytest.raises(StoreUnavailable, match="NOPERM .* no permissions .*docs/how-to/redis.md"):
                run(_open(url))


def test_weak_durability_is_logged_and_a_replica_refused(caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer(maxmemory="100mb", maxmemory_policy="allkeys-lru", appendonly="yes") as server:
        with caplog.at_level(logging.WARNING, "toolkit_gateway"):
            run(_open(f"{server.url}?replicas=2"))
        with server.client() as client:
            client.replicaof("127.0.0.1", 1)
        with pytest.raises(StoreUnavailable, match="is a replica; give its master"):
            run(_open(server.url))
    assert "appendfsync is everysec" in caplog.text
    assert "forgets keys when its memory is full (allkeys-lru)" in caplog.text
    assert "2 replicas must confirm what is acknowledged, and it has 0 now" in caplog.text


async def _open(url: str) -> None:
    async with opened(url):
        pass
