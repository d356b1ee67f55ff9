"""Stored days and CSV: the memory of a busy day, and cells that a spreadsheet would execute."""

from __future__ import annotations

import csv
import io
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
import pytest

from tests.conftest import raw_call, raw_exchange
from tests.redis_servers import wait_until
from toolkit_gateway import Gateway
from toolkit_gateway.gateway import DEMO_START
from toolkit_gateway.http.limits import LIMITS
from toolkit_gateway.runtime import SteppedClock

MB = 1024 * 1024
DAY = "date=2026-01-01"


def stored(thing: str, kind: str = "json") -> str:
    return f"/get/stored/dweets/for/{thing}?{DAY}&responseType={kind}"


def batch(gateway: Gateway, thing: str, contents: list[object]) -> None:
    body = "\n".join(json.dumps(content, ensure_ascii=False) for content in contents).encode()
    assert b'"this":"succeeded"' in raw_call(gateway.base_url, "POST", f"/dweets/for/{thing}", body).body


def whole(gateway: Gateway, target: str) -> tuple[dict[str, str], bytes]:
    with urlopen(gateway.base_url + target, timeout=60) as response:
        return dict(response.headers), response.read()


def slow_caller(gateway: Gateway, target: str, receive_bytes: int = 4096) -> socket.socket:
    """Send a request from a socket with a small buffer, which reads only what a test reads."""
    address = urlsplit(gateway.base_url)
    caller = socket.socket()
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    caller.settimeout(60)
    caller.connect((address.hostname, address.port))
    caller.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return caller


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    """A gateway whose clock goes on a millisecond with each dweet, and a day of 10 MB in it: no socket buffers that."""
    clock = SteppedClock(DEMO_START, timedelta(milliseconds=1))
    with Gateway(clock=clock) as gateway:
        for number in range(0, 400, 100):
            batch(gateway, "busy", [{"n": n, "text": "\u2028" + "x" * 25_000} for n in range(number, number + 100)])
        yield gateway


def test_busy_day_is_complete_and_newest_first(running: Gateway) -> None:
    headers, body = whole(running, stored("busy"))
    answer = json.loads(body)
    assert (headers["transfer-encoding"], headers["content-type"]) == ("chunked", "application/json")
    assert [dweet["content"]["n"] for dweet in answer.pop("with")] == list(range(399, -1, -1))
    assert answer == {"this": "succeeded", "by": "getting", "the": "dweets"}
    old = raw_exchange(running.base_url, f"GET {stored('busy')} HTTP/1.0\r\n\r\n".encode())
    assert old.partition(b"\r\n\r\n")[2] == body
    headers, script = whole(running, stored("busy") + "&callback=take")
    assert headers["content-type"] == "application/javascript; charset=utf-8"
    assert script == b"/**/take(" + body.replace("\u2028".encode(), b"\\u2028") + b");"
    head = raw_exchange(running.base_url, f"HEAD {stored('busy')} HTTP/1.0\r\n\r\n".encode())
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert head.endswith(b"\r\n\r\n")


def test_a_busy_day_as_csv_is_oldest_first(running: Gateway) -> None:
    _, body = whole(running, stored("busy", "csv"))
    rows = list(csv.reader(io.StringIO(body.decode(), newline="")))
    assert rows[0] == ["created", "n", "text"]
    assert [int(row[1]) for row in rows[1:]] == list(range(400))


def test_csv_ends_with_the_newest_dweet_at_its_start(running: Gateway) -> None:
    """A name that comes while a caller reads has no column: its value would be missing in the row."""
    for _ in range(4):
        batch(running, "growing", [{"text": "x" * 25_000}] * 100)
    with slow_caller(running, stored("growing", "csv"), 65_536) as caller:
        read = caller.recv(65_536)
        batch(running, "growing", [{"late": 1}])
        while piece := caller.recv(65_536):
            read += piece
    assert read.count(b"\r\n2026-01-01T") == 400


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_callers_that_do_not_read_use_little_memory(running: Gateway, kind: str) -> None:
    """If each of them held the whole day, 32 of them would take 320 MB."""
    process = psutil.Process()
    before = process.memory_info().rss
    with ExitStack() as stack:
        callers = [stack.enter_context(slow_caller(running, stored("busy", kind))) for _ in range(32)]
        for caller in callers:  # each has been answered as far as it goes
            assert caller.recv(1)
        assert raw_call(running.base_url, "GET", "/get/latest/dweet/for/busy").status == 200
        assert process.memory_info().rss - before < 100 * MB


def test_caller_that_does_not_read_is_cut_off(running: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "write_seconds", 0.5)
    with slow_caller(running, stored("busy")) as caller:
        port = caller.getsockname()[1]

        def is_open() -> bool:
            connections = psutil.Process().net_connections("tcp")
            return any(c.raddr and c.raddr.port == port and c.status == "ESTABLISHED" for c in connections)

        wait_until(lambda: not is_open(), "it is still held")


def test_a_stop_never_makes_a_partial_day_look_complete() -> None:
    gateway = Gateway(clock=SteppedClock(DEMO_START, timedelta(milliseconds=1)))
    for _ in range(4):
        batch(gateway, "busy", ["x" * 25_000] * 100)
    with slow_caller(gateway, stored("busy", "csv")) as caller:
        received = caller.recv(1000)
        gateway.close()
        with suppress(ConnectionResetError):
            while piece := caller.recv(65536):
                received = (received + piece)[-100:]
        assert not received.endswith(b"0\r\n\r\n")


# -- CSV ---------------------------------------------------------------------------------------------------


def test_a_csv_has_at_most_200_columns(running: Gateway) -> None:
    batch(running, "wide", [{f"c{n}": n} for n in range(200)])
    _, body = whole(running, stored("wide", "csv"))
    assert len(body.split(b"\r\n")[0].split(b",")) == 201
    assert body.count(b"\r\n") == 201
    batch(running, "wide", [{"c200": 1}])
    answer = json.loads(whole(running, stored("wide", "csv"))[1])
    assert answer["with"] == 400
    assert answer["because"] == "a CSV has at most 200 columns: ask for json, or for an hour"
    assert len(json.loads(whole(running, stored("wide"))[1])["with"]) == 201


def test_csv_of_a_million_columns_blocks_no_caller(running: Gateway) -> None:
    """Two posts and one GET held everybody up for 28 seconds, in 1.6 GB."""
    for half in range(2):
        batch(running, "names", [{f"{half}-{row}-{n}": 1 for n in range(8)} for row in range(5_000)])
    process = psutil.Process()
    worked, before = sum(process.cpu_times()[:2]), process.memory_info().rss
    assert b'"with":400' in whole(running, stored("names", "csv"))[1]
    assert sum(process.cpu_times()[:2]) - worked < 5.0
    assert process.memory_info().rss - before < 100 * MB


FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]


def test_csv_formulas_become_text_and_numbers_stay(running: Gateway) -> None:
    batch(running, "cells", [{"=name": text, "n": -1.50, "e": -2e-7, "list": ["=1"]} for text in FORMULAS])
    batch(running, "cells", [{"=name": text, "n": 1} for text in ("a=b", "'=quoted", "5-3", "", " =1")])
    _, body = whole(running, stored("cells", "csv"))
    header, *rows = csv.reader(io.StringIO(body.decode(), newline=""))
    assert header == ["created", "'=name", "n", "e", "list"]
    assert [row[1] for row in rows] == [f"'{text}" for text in FORMULAS] + ["a=b", "'=quoted", "5-3", "", " =1"]
    assert {tuple(row[2:]) for row in rows[:6]} == {("-1.5", "-2e-07", '["=1"]')}
    content = '{"n": 1.50, "big": 12345678901234567890, "text": "a\\u00e9\\"\\n", "no": null, "yes": true, "n": 2.50}'
    raw_call(running.base_url, "POST", "/dweet/for/kinds", content.encode())
    header, row = csv.reader(io.StringIO(whole(running, stored("kinds", "csv"))[1].decode(), newline=""))
    assert header[1:] == ["n", "big", "text", "no", "yes"]
    assert row[1:] == ["2.50", "12345678901234567890", 'aé"\n', "", "true"]
