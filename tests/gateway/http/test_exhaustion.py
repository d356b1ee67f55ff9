"""The gateway runs out of memory, file descriptors or disk, reports it, and recovers."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import os
import socket
import subprocess
import sys
import tracemalloc
from contextlib import ExitStack

import psutil
import pytest

from tests.conftest import ROOT, raw_call, raw_exchange
from tests.mail_server import eventually
from toolkit.errors import StoreUnavailable
from toolkit_gateway import Gateway
from toolkit_gateway.http import app
from toolkit_gateway.http.limits import LIMITS
from toolkit_gateway.stores.embedded_journals import EmbeddedJournals

MEGABYTE = 1024 * 1024


def connect(base_url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(base_url.rpartition(":")[2])), timeout=60)


def fill(gateway: Gateway, thing: str, megabytes: int) -> None:
    batch = b'"%b"\n' % (b"x" * 60_000) * 17
    for _ in range(megabytes):
        raw_call(gateway.base_url, "POST", f"/dweets/for/{thing}", batch)
    raw_call(gateway.base_url, "GET", f"/get/dweets/for/{thing}")


def history(thing: str) -> bytes:
    return b"GET /get/dweets/for/%b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % thing.encode()


def are_open(connections: list[socket.socket]) -> list[bool]:
    peers = {one.raddr for one in psutil.Process().net_connections("tcp") if one.raddr}
    return [connection.getsockname() in peers for connection in connections]


def is_open(connection: socket.socket) -> bool:
    return are_open([connection])[0]


# -- memory -----------------------------------------------------------------------------------------------


def test_callers_that_do_not_read_share_one_response(gateway: Gateway) -> None:
    fill(gateway, "shared", 16)
    gc.collect()
    before = psutil.Process().memory_info().rss
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(gateway.base_url)) for _ in range(64)]
        for connection in connections:
            connection.sendall(history("shared"))
        for connection in connections:
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        assert psutil.Process().memory_info().rss - before < 200 * MEGABYTE, "a copy for each would take 1 GB"
        assert all(are_open(connections))


def test_all_callers_that_do_not_read_are_cut_off(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "write_seconds", 0.1)
    monkeypatch.setattr(LIMITS, "write_rate", 1e9)
    fill(gateway, "unread", 8)
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(gateway.base_url)) for _ in range(64)]
        for connection in connections:
            connection.sendall(history("unread"))
        eventually(lambda: not any(are_open(connections)))


def test_the_slowest_reader_is_cut_off_above_the_bound(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for thing in "abc":
        fill(gateway, thing, 12)
    monkeypatch.setattr(LIMITS, "unread_bytes", 30 * MEGABYTE)
    with ExitStack() as stack:
        first, again, second, third = (stack.enter_context(connect(gateway.base_url)) for _ in range(4))
        for connection, thing in ((first, "a"), (again, "a"), (second, "b")):
            connection.sendall(history(thing))
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        assert is_open(first), "what two readers share counts once"
        third.sendall(history("c"))
        assert third.recv(15) == b"HTTP/1.1 200 OK"
        eventually(lambda: not is_open(first) and not is_open(again))
        for connection in (second, third):
            received = 0
            while piece := connection.recv(MEGABYTE):
                received += len(piece)
            assert received > 12_000_000


def test_slow_listeners_are_cut_off_above_the_bound(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "unread_bytes", 2 * MEGABYTE)
    with ExitStack() as stack:
        listeners = [stack.enter_context(connect(gateway.base_url)) for _ in range(4)]
        for number, listener in enumerate(listeners):
            listener.sendall(b"GET /listen/for/dweets/from/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number)
            assert listener.recv(15) == b"HTTP/1.1 200 OK"
        for number in range(4):
            for _ in range(6):  # 6 MB: the kernel's buffers hold the most of it
                raw_call(gateway.base_url, "POST", f"/dweets/for/{number}", b'"%b"\n' % (b"x" * 60_000) * 17)
        eventually(lambda: not is_open(listeners[0]))
        assert is_open(listeners[3])


def test_a_body_in_tiny_chunks_takes_no_more_memory(gateway: Gateway) -> None:
    gc.collect()
    before = psutil.Process().memory_info().rss
    with connect(gateway.base_url) as connection:
        head = b"POST /dweets/for/tiny HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"2\r\n1\n\r\n" * (2 * MEGABYTE))
        taken = psutil.Process().memory_info().rss - before
        connection.sendall(b"0\r\n\r\n")
        assert b"send 1 to 10000 dweets" in connection.recv(65536)
    assert taken < 50 * MEGABYTE, "a list of the chunks would take 100 MB"


def test_a_refused_request_leaves_no_garbage(gateway: Gateway) -> None:
    gc.collect()
    gc.disable()  # `toolkit gateway` lets it run seldom
    tracemalloc.start()
    try:
        for _ in range(20):
            answer = raw_call(gateway.base_url, "POST", "/dweets/for/garbage", b"x" * MEGABYTE)
            assert b"line 1: a dweet holds at most 65536 bytes" in answer.body
        eventually(lambda: tracemalloc.get_traced_memory()[0] < 5 * MEGABYTE, 10, "20 MB are kept")
    finally:
        tracemalloc.stop()
        gc.enable()


# -- file descriptors -------------------------------------------------------------------------------------

_FEW_DESCRIPTORS = """
import os, resource, sys
from toolkit.errors import StoreUnavailable
from toolkit_gateway import Gateway
from toolkit_gateway.http import app
with Gateway() as gateway:
    few = len(os.listdir("/proc/self/fd")) + 10
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))
    print(gateway.base_url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts file descriptors where Linux lists them")
def test_a_gateway_without_descriptors_recovers() -> None:
    program = [sys.executable, "-c", _FEW_DESCRIPTORS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(program, text=True, cwd=ROOT, **pipes) as child:  # type: ignore[call-overload]
        base_url = child.stdout.readline().strip()
        with ExitStack() as stack:
            connections = [stack.enter_context(connect(base_url)) for _ in range(60)]
            accepted = [connection for connection in connections if _is_answered(connection)]
            assert 0 < len(accepted) < 60
            assert all(_is_answered(connection) for connection in accepted)
        eventually(lambda: b'"succeeded"' in _posted(base_url))
        _, errors = child.communicate()
    assert (child.returncode, errors) == (0, "")


def _is_answered(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"GET /get/stats HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return bool(connection.recv(65536))
    except OSError:
        return False


def _posted(base_url: str) -> bytes:
    try:
        return raw_exchange(base_url, b"GET /dweet/for/a?b=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("number", "status", "retry"), [(errno.EMFILE, 503, "1"), (errno.ENFILE, 503, "1"), (errno.EACCES, 500, None)]
)
def test_handler_without_descriptors_is_answered(
    gateway: Gateway, number: int, status: int, retry: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(EmbeddedJournals, "append", fail)
    reply = raw_call(gateway.base_url, "POST", "/dweet/for/kitchen", b"1")
    assert (json.loads(reply.body)["with"], reply.headers.get("retry-after")) == (status, retry)


# -- a full disk ------------------------------------------------------------------------------------------


def test_a_store_that_is_away_is_one_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(app, "monotonic", lambda: now[0])
    caplog.set_level(logging.ERROR, "toolkit_gateway")

    def fail(*_: object, **__: object) -> asyncio.Future[object]:
        raise StoreUnavailable("the disk is full")

    with Gateway() as gateway:
        monkeypatch.setattr(EmbeddedJournals, "append", fail)
        for seconds in (0.0, 0.0, 59.0, 61.0, 61.0):
            now[0] = 1_000.0 + seconds
            assert b"503" in raw_call(gateway.base_url, "POST", "/dweet/for/roof", b"1").body
    assert [record.getMessage() for record in caplog.records] == [
        "the disk is full",
        "the disk is full (2 more errors before)",
    ]
