"""Gateways on one Redis, over HTTP and on the command line: shared data, clear errors during outages, no password."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import toolkit
from tests.commands import called
from tests.conftest import Caller, RawStream, operator_of, raw_call
from tests.redis_servers import RedisServer, fresh_url, wait_until
from toolkit.errors import InvalidArgument, ServiceFailure, StoreUnavailable
from toolkit_gateway import Gateway


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer(appendonly="yes", appendfsync="always") as running:
        yield running


def content(frame: bytes) -> Any:
    return json.loads(json.loads(frame.split(b"\r\n")[1]))["content"]


def test_two_gateways_answer_503_until_redis_returns(server: RedisServer) -> None:
    with Gateway(store=server.url) as one, Gateway(store=server.url) as other:
        here, there = toolkit.connect(one), toolkit.connect(other)
        here.dweets.post("kitchen", 1)
        assert there.dweets.latest("kitchen")["content"].tolist() == [1]
        with RawStream(other.base_url, "/listen/for/dweets/from/kitchen?since=0") as stream:
            assert content(stream.chunk()) == 1
            device = here.rewards.new_device_id("acme")
            server.kill()
            calls: list[Callable[[], object]] = [
                lambda: here.dweets.post("kitchen", 2),
                lambda: there.dweets.latest("kitchen"),
                lambda: there.dweets.history("kitchen"),
                lambda: here.dweets.things(),
                lambda: here.rewards.start_session(device),
                lambda: here.identity.session().authenticate(one.handset("happy")),
            ]
            for call in calls:
                refused = wait_until_refused(call)
                assert (refused.status, refused.retryable) == (503, True)
            reply = raw_call(other.base_url, "GET", "/get/latest/dweet/for/kitchen")
            assert (reply.status, reply.headers["retry-after"]) == (200, "1")
            assert json.loads(reply.body)["with"] == 503
            server.start()
            wait_until(lambda: is_answered(lambda: here.dweets.post("kitchen", "back")))
            # The other gateway answers from memory until it hears of the dweet, some milliseconds later.
            assert content(stream.chunk()) == "back"
            assert there.dweets.history("kitchen")["content"].tolist()[-1] == "back"
        assert here.rewards.start_session(device) is not None
        with here.identity.session() as session:
            session.authenticate(one.handset("happy"))


def wait_until_refused(call: Callable[[], object]) -> ServiceFailure:
    # A gateway that has not heard of the end yet answers from memory for that moment.
    wait_until(lambda: not is_answered(call))
    with pytest.raises(ServiceFailure) as refused:
        call()
    return refused.value


def is_answered(call: Callable[[], object]) -> bool:
    try:
        call()
    except ServiceFailure:
        return False
    return True


def test_a_wrong_store_url_is_refused_and_not_shown() -> None:
    for url in (
        "localhost:6379",
        "http://:SECRET@localhost",
        "redis://",
        "redis://:SECRET@one:1,two:2",
        "redis://:SECRET@localhost:port",
        "redis://:SECRET/with/slashes@localhost",
        "redis://:SECRET@localhost?prefix={x}",
        "redis://:SECRET@localhost?replicas=-1",
        "redis://:SECRET@localhost?timeout=soon",
        "redis://:SECRET@localhost?colour=red",
        "unix://:SECRET@",
        "redis+sentinel://:SECRET@localhost:26379",
        "redis+cluster://:SECRET@localhost/3",
    ):
        with pytest.raises(InvalidArgument, match="the URL of the store cannot be") as refused:
            Gateway(store=url)
        assert "SECRET" not in str(refused.value)


def test_decoding_options_of_the_url_change_no_dweet() -> None:
    with Gateway(store=f"{fresh_url()}&decode_responses=true&encoding=latin-1") as gateway:
        with toolkit.connect(gateway) as tk:
            tk.dweets.post("kitchen", {"name": "Öfen"})
            assert tk.dweets.history("kitchen")["name"].tolist() == ["Öfen"]
            assert len(tk.dweets.latest("kitchen")) == 1


def test_logs_and_repr_hold_no_redis_password() -> None:
    password = secrets.token_hex(8)
    with RedisServer(requirepass=password) as server:
        with Gateway(store=f"redis://:{password}@127.0.0.1:{server.port}/1?prefix=lab:") as gateway:
            assert repr(gateway).endswith(f"running, kept in redis://127.0.0.1:{server.port}/1>")
            operator_of(gateway).issue_lock()
        with pytest.raises(StoreUnavailable) as refused:
            Gateway(store=f"redis://:{password}x@127.0.0.1:{server.port}")
        assert password not in str(refused.value)
        with server.client(password=password, db=1) as client:
            assert all(key.startswith(b"lab:") for key in client.keys("*"))


def test_store_option_on_the_command_line() -> None:
    away = called("gateway", "--port", "0", "--store", "redis://:SECRET@127.0.0.1:1", code=1)
    assert away.stderr.count("\n") == 1
    assert "redis://127.0.0.1:1 cannot be used now" in away.stderr
    bad = called("gateway", "--port", "0", code=2, TOOLKIT_STORE="http://:SECRET@127.0.0.1:1")
    both = called("gateway", "--data", "unused", "--store", "redis://127.0.0.1:1", code=2)
    assert "a folder or a store, not both" in both.stderr
    called("lock", "new", code=2)
    assert "SECRET" not in away.output + bad.output
    with pytest.raises(InvalidArgument, match="a folder or a store, not both"):
        Gateway("unused", store="redis://localhost")
    assert not Path("unused").exists()


def test_a_lock_issued_beside_the_gateway_works_at_once() -> None:
    store = fresh_url()
    with Gateway(store=store) as gateway:
        issued = called("lock", "new", TOOLKIT_STORE=store)
        lock, master, _ = (line.split()[-1] for line in issued.stdout.splitlines())
        call = Caller(gateway)
        assert call.get(f"/lock/vault?lock={lock}&key={master}")["this"] == "succeeded"
        assert call.post("vault", 1)["with"] == 403
