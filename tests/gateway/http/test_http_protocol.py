"""The HTTP protocol: framing, order, limits, and misbehaving callers; bytes typed from RFC 9112."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httptools
import pytest

from tests.conftest import raw_call, raw_exchange
from tests.mail_server import eventually
from toolkit.endpoint import Endpoint
from toolkit.errors import ServiceError
from toolkit_gateway import Gateway
from toolkit_gateway.http.app import Application
from toolkit_gateway.http.exchange import Header, Request, Response, Route
from toolkit_gateway.http.limits import LIMITS
from toolkit_gateway.http.server import ServerThread

GET = b"GET /get/latest/dweet/for/nobody HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with Gateway() as gateway:
        yield gateway


def connect(base_url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(base_url.rpartition(":")[2])), timeout=60)


def post(thing: str, body: bytes, headers: bytes = b"") -> bytes:
    head = b"POST /dweet/for/%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%b\r\n"
    return head % (thing.encode(), len(body), headers) + body


def bodies(received: bytes) -> list[bytes]:
    return [part.partition(b"\r\n\r\n")[2] for part in re.split(rb"HTTP/1\.1 \d\d\d ", received)[1:]]


def statuses(received: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d\d\d) ", received)


def received_until_end(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


HEAD = b"GET /get/stats HTTP/1.0\r\nHost: localhost\r\n%b\r\n"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"a:b\r\n" * 99, b"200"),
        (b"a:b\r\n" * 100, b"431"),
        (b"a:b\r\n" * 60_000, b"431"),
        (b"a:%b\r\n" % (b"x" * 300_000), b"431"),
    ],
    ids=["most headers", "one too many", "many", "large"],
)
def test_the_head_of_a_request_is_bounded(running: Gateway, headers: bytes, status: bytes) -> None:
    with connect(running.base_url) as connection:
        connection.sendall(HEAD % headers)
        assert connection.recv(12)[9:] == status


EXPECTING = b"POST /dweet/for/a HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"


@pytest.mark.parametrize("more", [post("never", b"1") + GET * 5_000, EXPECTING], ids=["requests", "100-continue"])
def test_requests_after_a_stream_are_dropped(running: Gateway, more: bytes) -> None:
    with connect(running.base_url) as connection:
        connection.sendall(b"GET /listen/for/dweets/from/behind HTTP/1.1\r\nHost: localhost\r\n\r\n" + more)
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        connection.sendall(GET * 5_000)
        assert b'"succeeded"' in raw_call(running.base_url, "POST", "/dweet/for/behind", b'"heard"').body
        received = b""
        while b"heard" not in received:
            received += connection.recv(65536)
        assert b"HTTP/1.1" not in received
    assert b'"with":404' in raw_call(running.base_url, "GET", "/get/latest/dweet/for/never").body


def test_a_stream_of_http_1_0_is_not_chunked(running: Gateway) -> None:
    raw_call(running.base_url, "POST", "/dweet/for/old", b"1")
    with connect(running.base_url) as connection:
        connection.sendall(b"GET /listen/for/dweets/from/old?since=0 HTTP/1.0\r\n\r\n")
        received = b""
        while not received.endswith(b'"\r\n'):
            received += connection.recv(65536)
    head, _, frame = received.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    length, text, _ = frame.split(b"\r\n")
    assert int(length, 16) == len(text)


@pytest.mark.parametrize("last", [GET, b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", b"broken\r\n\r\n"])
def test_responses_reach_a_half_closed_caller(running: Gateway, last: bytes) -> None:
    with connect(running.base_url) as connection:
        connection.sendall(b"".join(post("half", b"%d" % number) for number in range(100)) + last)
        connection.shutdown(socket.SHUT_WR)
        assert len(bodies(received_until_end(connection))) == 101


@pytest.mark.parametrize("host", [b"", b"Host: localhost\r\nHost: localhost\r\n"])
def test_a_refused_upgrade_gets_its_reason(running: Gateway, host: bytes) -> None:
    upgrade = b"GET /get/stats HTTP/1.1\r\n%bConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" % host
    assert b"names its host once" in raw_exchange(running.base_url, upgrade)


def test_a_body_behind_an_upgrade_is_read(running: Gateway) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    received = raw_exchange(running.base_url, post("up", b'"upgraded"', upgrade))
    assert b'"content":"upgraded"' in received


def test_repeated_upgrade_headers_are_removed_at_once(running: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    parsers: list[object] = []
    parser = httptools.HttpRequestParser
    monkeypatch.setattr(httptools, "HttpRequestParser", lambda reader: parsers.append(reader) or parser(reader))
    upgrade = b"GET /get/stats HTTP/1.1\r\nHost: [::1]\r\nConnection: Upgrade, close\r\n%b\r\n" % (
        b"Upgrade: h2c\r\n" * 50
    )
    assert statuses(raw_exchange(running.base_url, upgrade)) == [b"200"]
    assert len(parsers) == 2, "one for the connection, one for the request without its upgrade"


def test_a_trailer_is_no_header(running: Gateway) -> None:
    head = b"POST /dweet/for/trailer HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"1\r\n7\r\n0\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n"
    assert b'"content":7' in raw_exchange(running.base_url, head + chunks)


@pytest.mark.parametrize("endless", [b"0\r\n" + b"A: b\r\n" * 60_000, b"1;" + b"x" * 300_000])
def test_trailers_and_chunk_extensions_are_bounded(running: Gateway, endless: bytes) -> None:
    head = b"POST /dweet/for/endless HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(running.base_url) as connection:
        connection.sendall(head + endless)
        assert connection.recv(12)[9:] == b"431"


def test_continue_response_keeps_pipeline_order(running: Gateway) -> None:
    with connect(running.base_url) as connection:
        patient = b"POST /dweet/for/turn HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
        connection.sendall(post("turn", b"1") + patient)
        received = b""
        while b"100 Continue\r\n\r\n" not in received:
            received += connection.recv(65536)
        assert statuses(received) == [b"200", b"100"]
        connection.sendall(b"2")
        assert b'"content":2' in connection.recv(65536)


def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "idle_seconds", 0.1)
    with Gateway() as gateway, connect(gateway.base_url) as silent, connect(gateway.base_url) as used:
        used.sendall(GET)
        assert statuses(received_until_end(used)) == [b"200"]
        assert silent.recv(1) == b""


class Slow:
    """Routes with one handler, whose responses wait until they are let go."""

    first_segments = frozenset({b"slow"})
    headers: tuple[Header, ...] = ()
    cross_origin = False

    def __init__(self) -> None:
        self.table = [Route(Endpoint("GET", "/slow/{number}"), self._slow)]
        self.started = 0
        self.go_on = asyncio.Event()

    async def _slow(self, request: Request) -> Response:
        self.started += 1
        await self.go_on.wait()
        return Response(200, request.values["number"].encode())

    def error_response(self, error: ServiceError, request: Request) -> Response:
        return Response(error.status, b"")


class Counting(Application):
    parsed = 0

    def find_handler(self, request: Request, *, is_url: bool = False) -> int:
        self.parsed += 1
        return super().find_handler(request, is_url=is_url)


def test_a_pipeline_is_not_parsed_while_many_wait() -> None:
    routes, requests = Slow(), 5_000
    application = Counting([routes])
    loops: list[asyncio.AbstractEventLoop] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[Application]:
        loops.append(asyncio.get_running_loop())
        yield application

    serving = ServerThread("127.0.0.1", 0, opened, stop_seconds=60.0)
    serving.start()
    url = f"http://127.0.0.1:{serving.port}"
    pipeline = b"".join(b"GET /slow/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number for number in range(requests))
    with connect(url) as connection, connect(url) as second:
        sender = threading.Thread(target=connection.sendall, args=[pipeline])
        sender.start()
        eventually(lambda: routes.started == 1)
        second.sendall(b"GET /slow/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: routes.started == 2)  # by now the first pipeline would have been parsed as well
        assert application.parsed <= 200, "16 wait, and what a slice of 4 KiB holds"
        loops[0].call_soon_threadsafe(routes.go_on.set)
        received = b""
        while received.count(b"HTTP/1.1 200") < requests or not received.endswith(b"4999"):
            received += connection.recv(1 << 20)
        sender.join(60)
    assert bodies(received) == [b"%d" % number for number in range(requests)]
    serving.stop()
