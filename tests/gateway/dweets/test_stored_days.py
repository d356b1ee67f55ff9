"""Stored days and CSV: the memory of a busy day, and cells that a spreadsheet would execute."""

from __future__ import annotations

import csv
import http.client
import io
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from urllib.parse import urlsplit

import psutil
import pytest

from tests.conftest import Caller, raw_call, raw_exchange
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


def whole(gateway: Gateway, target: str) -> tuple[http.client.HTTPMessage, bytes]:
    address = urlsplit(gateway.base_url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.request("GET", target)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.headers, body


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    """A gateway whose clock goes on a millisecond with each dweet, and a day of 24 MB in it."""
    clock = SteppedClock(DEMO_START, timedelta(milliseconds=1))
    with Gateway(clock=clock) as gateway:
        for number in range(0, 400, 100):
            batch(gateway, "busy", [{"n": n, "text": "\u2028" + "x" * 60_000} for n in range(number, number + 100)])
        yield gateway


def test_busy_day_is_complete_and_newest_first(running: Gateway) -> None:
    headers, body = whole(running, stored("busy"))
    answer = json.loads(body)
    assert (headers["transfer-encoding"], headers["content-type"]) == ("chunked", "application/json")
    assert [dweet["content"]["n"] for dweet in answer.pop("with")] == list(range(399, -1, -1))
    assert answer == {"this": "succeeded", "by": "getting", "the": "dweets"}


def test_busy_day_is_complete_over_http_1_0_and_jsonp(running: Gateway) -> None:
    raw = raw_exchange(running.base_url, f"GET {stored('busy')} HTTP/1.0\r\n\r\n".encode())
    assert len(json.loads(raw.partition(b"\r\n\r\n")[2])["with"]) == 400
    headers, body = whole(running, stored("busy") + "&callback=take")
    assert headers["content-type"] == "application/javascript; charset=utf-8"
    assert "\u2028".encode() not in body
    assert body.startswith(b'/**/take({"this":"succeeded"')
    assert len(json.loads(body.removeprefix(b"/**/take(").removesuffix(b");"))["with"]) == 400


def test_a_busy_day_as_csv_is_oldest_first(running: Gateway) -> None:
    _, body = whole(running, stored("busy", "csv"))
    rows = list(csv.reader(io.StringIO(body.decode(), newline="")))
    assert rows[0] == ["created", "n", "text"]
    assert [int(row[1]) for row in rows[1:]] == list(range(400))


def test_csv_ends_with_the_newest_dweet_at_its_start() -> None:
    """A name that comes while a caller reads has no column: its value would be missing in the row."""
    with Gateway(clock=SteppedClock(DEMO_START, timedelta(milliseconds=1))) as gateway, socket.socket() as reader:
        for _ in range(4):
            batch(gateway, "busy", [{"text": "x" * 60_000}] * 100)
        address = urlsplit(gateway.base_url)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        reader.settimeout(60)
        reader.connect((address.hostname, address.port))
        reader.sendall(f"GET {stored('busy', 'csv')} HTTP/1.0\r\n\r\n".encode())
        read = reader.recv(65_536)
        batch(gateway, "busy", [{"late": 1}])
        while piece := reader.recv(65_536):
            read += piece
    assert read.count(b"\r\n2026-01-01T") == 400


def test_a_head_of_a_busy_day_has_no_body(running: Gateway) -> None:
    raw = raw_exchange(running.base_url, f"HEAD {stored('busy')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert raw.startswith(b"HTTP/1.1 200 OK")
    assert raw.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_callers_that_do_not_read_use_little_memory(running: Gateway, kind: str) -> None:
    """On the first build each of them held the whole day: 64 of them 1.5 GB."""
    address = urlsplit(running.base_url)
    process = psutil.Process(os.getpid())
    request = f"GET {stored('busy', kind)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    before = process.memory_info().rss
    with ExitStack() as stack:
        callers = []
        for _ in range(64):
            caller = stack.enter_context(socket.socket())
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            caller.connect((address.hostname, address.port))
            caller.sendall(request)
            callers.append(caller)
        for caller in callers:  # each has been answered as far as it goes
            caller.settimeout(60)
            assert caller.recv(1)
        assert raw_call(running.base_url, "GET", "/get/latest/dweet/for/busy").status == 200
        assert process.memory_info().rss - before < 100 * MB


def test_caller_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "write_seconds", 0.5)
    clock = SteppedClock(DEMO_START, timedelta(milliseconds=1))
    with Gateway(clock=clock) as gateway, socket.socket() as caller:
        for _ in range(8):
            batch(gateway, "busy", ["x" * 60_000] * 100)
        address = urlsplit(gateway.base_url)
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.settimeout(60)
        caller.connect((address.hostname, address.port))
        caller.sendall(f"GET {stored('busy')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        port = caller.getsockname()[1]

        def is_open() -> bool:
            connections = psutil.Process().net_connections("tcp")
            return any(c.raddr and c.raddr.port == port and c.status == "ESTABLISHED" for c in connections)

        wait_until(lambda: not is_open(), "it is still held")


def test_a_stop_never_makes_a_partial_day_look_complete() -> None:
    clock = SteppedClock(DEMO_START, timedelta(milliseconds=1))
    with Gateway(clock=clock) as gateway, socket.socket() as caller:
        for _ in range(8):
            batch(gateway, "busy", ["x" * 60_000] * 100)
        address = urlsplit(gateway.base_url)
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.settimeout(60)
        caller.connect((address.hostname, address.port))
        caller.sendall(f"GET {stored('busy', 'csv')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        received = caller.recv(1000)
        stopping = threading.Thread(target=gateway.close)
        stopping.start()
        stopping.join(60)
        try:
            while piece := caller.recv(65536):
                received = (received + piece)[-100:]
        except ConnectionResetError:
            pass
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
    process = psutil.Process(os.getpid())
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


def test_csv_keeps_numbers_and_text_unchanged(call: Caller, thing: str) -> None:
    content = '{"n": 1.50, "big": 12345678901234567890, "text": "a\\u00e9\\"\\n", "no": null, "yes": true, "n": 2.50}'
    day = json.loads(call("POST", f"/dweet/for/{thing}", content.encode()).body)["with"]["created"][:10]
    body = call("GET", f"/get/stored/dweets/for/{thing}?date={day}&responseType=csv").body.decode()
    header, row = csv.reader(io.StringIO(body, newline=""))
    assert header[1:] == ["n", "big", "text", "no", "yes"]
    assert row[1:] == ["2.50", "12345678901234567890", 'aé"\n', "", "true"]
