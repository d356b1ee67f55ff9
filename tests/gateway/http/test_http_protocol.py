"""The HTTP protocol: framing, order, limits, and misbehaving callers; bytes typed from RFC 9112."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl

import httptools
import psutil
import pytest

from tests.conftest import raw_call, raw_exchange
from tests.mail_server import eventually
from toolkit.endpoint import Endpoint
from toolkit.errors import ServiceError
from toolkit_gateway import Gateway
from toolkit_gateway.http import exchange
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


LOCAL = b"Host: localhost\r\n"
LAST = LOCAL + b"Connection: close\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
FIELDS = b"&".join([b"a"] * 10_000)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET /get/stats HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /get/stats HTTP/1.1\r\n" + LOCAL * 2 + b"\r\n", b"400"),
        (b"GET /get/stats HTTP/1.1\r\n" + LOCAL + b"host: b\r\n\r\n", b"400"),
        (b"GET /get/stats HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /get/stats HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 3, b"200"),
        (b"GET /get/stats HTTP/1.0\r\n" + UPGRADE + b"\r\n", b"200"),
        (b"GET /get/stats HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", b"421"),
        (b"GET /get/stats HTTP/2.0\r\n" + LOCAL + b"\r\n", b"505"),
        (b"GET /get/stats\r\n\r\n", b"505"),
        (b"GET ftp://a/get/stats HTTP/1.1\r\n" + LOCAL + b"\r\n", b"400"),
        (b"GET HTTP://a/get/stats HTTP/1.1\r\n" + LAST + b"\r\n", b"200"),
        (b"GET http://a?b=1 HTTP/1.1\r\n" + LAST + b"\r\n", b"404"),
        (b"GET /get/stats#part HTTP/1.1\r\n" + LAST + b"\r\n", b"200"),
        (b"GET /get/stats HTTP/1.1\r\n" + LOCAL + b"A: b\r\n c\r\n\r\n", b"400"),
        (b"GET /get/latest/dweet/for/nobody?" + FIELDS + b" HTTP/1.1\r\n" + LAST + b"\r\n", b"200"),
        (b"GET /get/latest/dweet/for/nobody?" + FIELDS + b"&a HTTP/1.1\r\n" + LAST + b"\r\n", b"431"),
        (post("last", b"1", b"Connection: close\r\n") + GET + b"garbage", b"200"),
        (post("order", b"1") + GET + post("order", b"2") + b"garbage\r\n\r\n", b"200 200 200 400"),
    ],
)
def test_requests_get_their_statuses_in_order(running: Gateway, sent: bytes, expected: bytes) -> None:
    assert statuses(raw_exchange(running.base_url, sent)) == expected.split()


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


def test_a_query_is_parsed_once(running: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str, **options: Any) -> list[tuple[str, str]]:
        parsed.append(text)
        return parse_qsl(text, **options)

    monkeypatch.setattr(exchange, "parse_qsl", parse)
    query = "celsius=21&key=none&callback=show&key=other"
    response = raw_call(running.base_url, "GET", f"/dweet/for/kitchen?{query}")
    assert b'"content":{"celsius":21}' in response.body
    assert parsed == [query]


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


def test_caller_that_never_reads_is_cut_off(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "write_seconds", 0.1)
    monkeypatch.setattr(LIMITS, "write_rate", 1e9)
    for _ in range(500):
        raw_call(gateway.base_url, "POST", "/dweet/for/big", b'"%b"' % (b"x" * 60_000))
    with connect(gateway.base_url) as connection:
        connection.sendall(b"GET /get/dweets/for/big HTTP/1.1\r\nHost: localhost\r\n\r\n")  # 30 MB
        ours = connection.getsockname()
        process = psutil.Process()
        eventually(lambda: not any(one.raddr == ours for one in process.net_connections("tcp")))


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
        self.begun = 0
        self.go_on: asyncio.Event | None = None

    async def _slow(self, request: Request) -> Response:
        self.started += 1
        if self.go_on is None:
            self.go_on = asyncio.Event()
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
    routes = Slow()
    application: list[Counting] = []

    loops: list[asyncio.AbstractEventLoop] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[Application]:
        loops.append(asyncio.get_running_loop())
        application.append(Counting([routes]))
        yield application[0]

    async def let_go() -> None:
        assert routes.go_on is not None
        routes.go_on.set()

    serving = ServerThread("127.0.0.1", 0, opened, stop_seconds=60.0)
    serving.start()
    pipeline = b"".join(b"GET /slow/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number for number in range(20_000))
    with socket.create_connection(("127.0.0.1", serving.port), timeout=60) as connection:
        sender = threading.Thread(target=connection.sendall, args=[pipeline])
        sender.start()
        eventually(lambda: routes.started == 1)
        other = b"GET /slow/0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        with socket.create_connection(("127.0.0.1", serving.port), timeout=60) as second:
            second.sendall(other)
            eventually(lambda: routes.started == 2)  # by now the first pipeline would have been parsed as well
        assert application[0].parsed <= 200, "16 wait, and what a slice of 4 KiB holds"
        assert routes.go_on is not None
        loops[0].call_soon_threadsafe(routes.go_on.set)
        received = b""
        while received.count(b"HTTP/1.1 200") < 20_000 or not received.endswith(b"19999"):
            received += connection.recv(1 << 20)
        sender.join(60)
    assert bodies(received) == [b"%d" % number for number in range(20_000)]
    serving.stop()
