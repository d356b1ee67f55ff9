"""What callers hold counts by address and in total, and addresses take turns."""

from __future__ import annotations

import asyncio
import platform
import socket
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import cast

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.http.test_exhaustion import MEGABYTE, are_open
from tests.mail_server import eventually
from toolkit_gateway import Gateway
from toolkit_gateway.http import account
from toolkit_gateway.http.account import LATE_ANSWERS, REQUEST_BYTES, Accounts, Share
from toolkit_gateway.http.exchange import Request
from toolkit_gateway.http.key_attempts import KEYS_AT_ONCE
from toolkit_gateway.http.limits import LIMITS, Bound, OpenConnection
from toolkit_gateway.memory import give_back
from toolkit_gateway.runtime import Timings


class Opened:
    """A connection that is closed, or has this much to do."""

    def __init__(self, turns: int = 0, work: Callable[[Opened], None] = lambda _: None) -> None:
        self.is_aborted = False
        self.turns = turns
        self._work = work

    def abort(self) -> None:
        self.is_aborted = True

    def take_turn(self) -> bool:
        self.turns -= 1
        self._work(self)
        return self.turns > 0


def opened(accounts: Accounts, address: str, connection: Opened | None = None) -> tuple[Share, Opened]:
    connection = connection or Opened()
    return accounts.open(cast("OpenConnection", connection), address), connection


ADDRESSES = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"]
STEPS = st.lists(st.tuples(st.sampled_from(ADDRESSES), st.integers(0, 30), st.integers(0, 60), st.booleans()))


@given(STEPS)
def test_the_first_of_the_largest_account_is_closed(steps: list[tuple[str, int, int, bool]]) -> None:
    """A plain list of what is open, the oldest first, is compared with the accounts after every step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LIMITS, "connections", Bound(8, 4))
        patch.setattr(LIMITS, "request_bytes", Bound(100, 70))
        accounts = Accounts()
        expected: list[tuple[Share, Opened, str, int]] = []
        for address, chosen, amount, is_new in steps:
            if is_new or not expected:
                share, connection = opened(accounts, address)
                expected.append((share, connection, account.source_of(address), 0))
                _close(expected, lambda held: 1, LIMITS.connections)
            else:
                share, connection, source, _ = expected[chosen % len(expected)]
                expected[chosen % len(expected)] = share, connection, source, amount
                share.hold(REQUEST_BYTES, amount)
                _close(expected, lambda held: held, LIMITS.request_bytes)
            assert [share.account for share, *_ in expected].count(None) == 0
            assert not any(connection.is_aborted for _, connection, *_ in expected)
            assert [held for *_, held in expected] == [share.held[REQUEST_BYTES] for share, *_ in expected]
        for share, *_ in expected:
            accounts.close(share)
        assert accounts.is_empty


def _close(expected: list[tuple[Share, Opened, str, int]], size: Callable[[int], int], bound: Bound) -> None:
    """Forget what must have been closed: of the address that holds most, or of one of several, the first that holds."""
    while True:
        sums: dict[str, int] = {}
        for _, _, source, held in expected:
            sums[source] = sums.get(source, 0) + size(held)
        most = max(sums.values())
        if most <= bound.of_one and sum(sums.values()) <= bound.in_total:
            return
        first = {source: i for i, (_, _, source, held) in reversed([*enumerate(expected)]) if size(held)}
        (at,) = [
            first[source] for source, sum_ in sums.items() if sum_ == most and expected[first[source]][1].is_aborted
        ]
        del expected[at]


def test_late_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "late_answers", Bound(3, 2))
    accounts = Accounts()
    callers = [opened(accounts, address) for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1")]
    with ExitStack() as stack:
        for share, _ in callers:
            stack.enter_context(share.answering_late())
        assert [connection.is_aborted for _, connection in callers] == [True, False, False, False]
    assert [share.held[LATE_ANSWERS] for share, _ in callers] == [0] * 4


async def test_addresses_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand connections that are never done do not keep another address waiting."""
    now, order = 0.0, []

    def work(connection: Opened) -> None:
        nonlocal now
        now += LIMITS.turn_seconds / 10
        order.append(connection)

    monkeypatch.setattr(account, "perf_counter", lambda: now)
    accounts = Accounts()
    crowd = [opened(accounts, "192.0.2.1", Opened(1_000, work)) for _ in range(1_000)]
    for share, _ in crowd:
        accounts.run(share)
    assert len(order) <= 12, "the rest of the crowd waits"
    share, other = opened(accounts, "192.0.2.2", Opened(30, work))
    accounts.run(share)
    assert order[-1] is other, "at once"
    while other.turns > 0:
        await asyncio.sleep(0)
        accounts.run(share)  # more input changes nothing
    after = order[order.index(other) :]
    assert len(after) <= 62, "every other turn is that of the other address"
    for share, _ in crowd:
        accounts.close(share)


QUERIES = [b"", b"&".join(b"n%d=%d" % (n, n) for n in range(100, 9_000)), b"a=" + b"x" * 200_000]


@pytest.mark.parametrize("headers", [0, 99])
@pytest.mark.parametrize("query", QUERIES, ids=["none", "fields", "text"])
def test_a_request_counts_what_it_takes(headers: int, query: bytes) -> None:
    tracemalloc.start()
    fields = {b"name-%d" % number: bytes([65 + number % 50]) * 50 for number in range(headers)}
    head_bytes = len(query) + 60 * headers
    request = Request("GET", b"/", bytes(bytearray(query)), fields, body=bytes(50_000), head_bytes=head_bytes)
    assert len(request.pairs) < 10_000
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.7 * taken < request.size < 1.4 * taken


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give memory back by themselves")
def test_free_memory_is_given_back() -> None:
    process = psutil.Process()
    blocks = [bytes(20_000) for _ in range(4_000)]
    del blocks[::2]
    before = process.memory_info().rss
    give_back()
    assert before - process.memory_info().rss > 20_000_000, "half of 80 MB is free"
    del blocks


def connect(gateway: Gateway, address: str = "127.0.0.1") -> socket.socket:
    port = int(gateway.base_url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))


BATCH = b'"%b"\n' % (b"x" * 60_000) * 30


def batch(caller: str) -> bytes:
    fields = f"Host: localhost\r\nX-Forwarded-For: {caller}\r\nContent-Length: {len(BATCH)}"
    return f"POST /dweets/for/account HTTP/1.1\r\n{fields}\r\n\r\n".encode() + BATCH[:-1]


def test_requests_of_a_large_account_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that have not arrived: one of the first caller, then three of the second, and 6 MB fit."""
    monkeypatch.setattr(LIMITS, "request_bytes", Bound(6 * MEGABYTE, 6 * MEGABYTE))
    config = {"gateway": {"trusted_proxies": ["127.0.0.1"], "demo": True}}
    with Gateway(config=config) as gateway, ExitStack() as stack:
        connections = []
        for caller in ("192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2"):
            connection = stack.enter_context(connect(gateway))
            connections.append(connection)
            connection.sendall(batch(caller))
        eventually(lambda: are_open(connections) == [True, False, True, True])
        for connection in (connections[0], connections[3]):
            connection.sendall(BATCH[-1:])
            assert b'"this":"succeeded"' in connection.recv(65536)


def test_heads_of_waiting_requests_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late answers hold up the requests behind them; those have heads of 250 KiB."""
    monkeypatch.setattr(LIMITS, "request_bytes", Bound(2 * MEGABYTE, 2 * MEGABYTE))
    monkeypatch.setattr(LIMITS, "late_answers", Bound(1_000, 1_000))
    head = b"GET /alert/a@b.example/when/attic/true?key=wrong&x=%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
    timings = Timings(key_interval=3_600, longest_key_wait=60)
    with Gateway(locks={"l": "kV7mQ2xT9bLw4RzN"}, timings=timings) as gateway, ExitStack() as stack:
        with connect(gateway) as owner:
            owner.sendall(b"GET /lock/attic?lock=l&key=kV7mQ2xT9bLw4RzN HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b'"this":"succeeded"' in owner.recv(65536)
        guesser = stack.enter_context(connect(gateway))
        guesser.sendall(head % b"" * KEYS_AT_ONCE)
        received = b""
        while received.count(b'"with":403') < KEYS_AT_ONCE:
            received += guesser.recv(65536)
        crowd = [stack.enter_context(connect(gateway)) for _ in range(12)]
        for connection in crowd:
            connection.setblocking(False)
            with suppress(BlockingIOError, ConnectionError):
                while True:
                    connection.send(head % (b"x" * 250_000))
        eventually(lambda: not are_open(crowd)[0])
        other = stack.enter_context(connect(gateway))
        other.sendall(b"GET /get/stats HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in other.recv(65536)


def test_connections_of_an_address_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All addresses of this machine are one, since a program may call from any of them."""
    monkeypatch.setattr(LIMITS, "connections", Bound(100, 3))
    with Gateway() as gateway, ExitStack() as stack:
        connections = [stack.enter_context(connect(gateway, f"127.0.0.{last}")) for last in range(1, 5)]
        eventually(lambda: are_open(connections) == [False, True, True, True])
