"""Raw requests after the fixtures of llhttp, h11 and hyper, directly and through nginx and HAProxy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.conftest import raw_call, raw_exchange
from tests.end_to_end.test_behind_nginx import behind_haproxy, behind_nginx
from toolkit_gateway import Gateway
from toolkit_gateway.http.app import Application
from toolkit_gateway.http.exchange import Request

H = b"Host: localhost\r\n"
# Sent after each row: if the connection goes on, this is answered with 404, and ends it.
LAST = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def get(line: bytes = b"GET /get/stats HTTP/1.1", headers: bytes = b"", host: bytes = H, body: bytes = b"") -> bytes:
    return line + b"\r\n" + host + headers + b"\r\n" + body


def post(headers: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    return get(b"POST /dweet/for/raw HTTP/" + version, headers, body=body)


def chunked(body: bytes, coding: bytes = b"Transfer-Encoding: chunked\r\n") -> bytes:
    return post(coding, body)


TE, END = b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"
# By the status of the answer.
REQUEST_LINES = {
    "200": [
        b"GET /get/stats HTTP/1.1", b"GET  /get/stats HTTP/1.1", b"GET /get/stats  HTTP/1.1",
        b"GET /get/stats HTTP/1.0", b"GET /get/stats HTTP/1.2", b"GET /get/stats HTTP/1.9",
        b"HEAD /get/stats HTTP/1.1", b"OPTIONS * HTTP/1.1", b"OPTIONS * HTTP/1.0",
        b"GET http://localhost/get/stats HTTP/1.1", b"GET HTTP://localhost/get/stats HTTP/1.1",
        b"GET https://localhost:1/get/stats HTTP/1.1", b"GET /get/stats# HTTP/1.1",
        b"GET /get/stats?a=b%00 HTTP/1.1",
    ],
    "204": [
        b"OPTIONS /get/stats HTTP/1.1",
    ],
    "400": [
        b" GET /get/stats HTTP/1.1", b"GET\t/get/stats HTTP/1.1", b"GET /get/stats HTTP/1.1 ",
        b"GET /get/stats HTTP/1.1 x", b"GET /get/stats http/1.1", b"GET /get/stats HTTP/1",
        b"GET /get/stats HTTP/11", b"GET /get/stats HTTP/1.10", b"GET /get/stats HTTP/01.1",
        b"GET /get/stats HTTP/a.b", b"GET /get/stats HTTP/-1.1", b"GET /get/stats HTTPS/1.1",
        b"GET /get/stats HTP/1.1", b"get /get/stats HTTP/1.1", b"Get /get/stats HTTP/1.1",
        b"GETT /get/stats HTTP/1.1", b"G\x00T /get/stats HTTP/1.1", b"OPTIONS ** HTTP/1.1", b"GET * HTTP/1.1",
        b"CONNECT localhost:80 HTTP/1.1", b"CONNECT /get/stats HTTP/1.1", b"PRI * HTTP/2.0",
        b"DESCRIBE /get/stats RTSP/1.0", b"PLAY rtsp://localhost/get/stats RTSP/1.0",
        b"GET_PARAMETER /get/stats RTSP/1.0", b"OPTIONS /get/stats RTSP/1.0", b"OPTIONS * RTSP/1.0",
        b"GET /get/stats RTSP/1.0", b"GET /get/stats RTSP/1.1", b"SOURCE /get/stats ICE/1.0",
        b"SOURCE /get/stats HTTP/1.1", b"GET /get/stats ICE/1.0", b"GET get/stats HTTP/1.1",
        b"GET http:///get/stats HTTP/1.1", b"GET ftp://localhost/get/stats HTTP/1.1",
        b"GET /get/stats?a=\x7f HTTP/1.1", b"GET /get/st\x01ats HTTP/1.1", b"GET", b"\xff\xfe",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"HTTP/1.1 200 OK", b"hello world",
        b"GET /get/stats x HTTP/1.1", b"G\xc3\x89T /get/stats HTTP/1.1", b"* / HTTP/1.1",
        b"GET http:// HTTP/1.1",
    ],
    "404": [
        b"GET http://localhost?a HTTP/1.1", b"GET //get/stats HTTP/1.1", b"GET /get/./stats HTTP/1.1",
    ],
    "405": [
        b"MKCOL /get/stats HTTP/1.1", b"PUT /get/stats HTTP/1.1", b"DELETE /get/stats HTTP/1.1",
        b"TRACE /get/stats HTTP/1.1", b"PATCH /get/stats HTTP/1.1", b"M-SEARCH /get/stats HTTP/1.1",
        b"QUERY /get/stats HTTP/1.1",
    ],
    "505": [
        b"GET /get/stats HTTP/0.9", b"GET /get/stats HTTP/2.0", b"GET /get/stats HTTP/2.1",
        b"GET /get/stats HTTP/3.0", b"GET /get/stats HTTP/9.9", b"GET /get/stats",
    ],
}  # fmt: skip
HEADERS = {
    "200": [
        b"A: b\r\n", b"A:b\r\n", b"A:  b \t\r\n", b"A:\r\n", b"A: \xfc\xff\r\n", b"!#$%&'*+-.^_`|~: b\r\n",
        b"Connection: close\r\n", b"Connection: keep-alive\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n", b"Upgrade: h2c\r\n", b"Content-Length: 0\r\n",
        b"Content_Length: 5\r\n",
    ],
    "400": [
        b"A : b\r\n", b" A: b\r\n", b"A\r\n", b": b\r\n", b"A b: c\r\n", b"A: b\r\n c\r\n", b"A: b\x00c\r\n",
        b"A: b\x01c\r\n", b"A: b\rc\r\n", b"A\xfc: b\r\n", b"A(b): c\r\n", b"Host: localhost\r\n",
        b"host:localhost\r\n", b"Content-Length: \r\n", b"Content-Length: -1\r\n", b"Content-Length: +0\r\n",
        b"Content-Length: 0x0\r\n", b"Content-Length: 0, 0\r\n", b"Content-Length: 0 0\r\n",
        b"Content-Length: 0\r\nContent-Length: 0\r\n", b"Content-Length: 99999999999999999999999\r\n",
        b"Content-Length: \xb2\r\n", b"Content-Length: x\r\n",
    ],
    "431": [
        b"A: b\r\n" * 101,
    ],
}  # fmt: skip
BODIES = [
    (post(b"Content-Length: 1\r\n", b"1"), "200"),
    (post(b"Content-Length: 01\r\n", b"1"), "200"),
    (post(b"Content-Length: 0\r\nExpect: 100-continue\r\n"), "200"),
    (post(b"Expect: 100-continue\r\n" + TE, END), "200"),
    (post(b"Content-Length: 1\r\nExpect: 100-continue\r\n", b"1"), "200"),
    (chunked(b"1\r\n1\r\n" + END), "200"),
    (chunked(b"00001\r\n1\r\n" + END), "200"),
    (chunked(b"1;a=b\r\n1\r\n" + END), "200"),
    (chunked(b'1;a="b"\r\n1\r\n' + END), "200"),
    (chunked(b"1\r\n1\r\n0\r\nA: b\r\n\r\n"), "200"),
    (chunked(b"1\n1\n0\n\n"), "400"),
    (chunked(b"1 \r\n1\r\n" + END), "400"),
    (chunked(b"0x1\r\n1\r\n" + END), "400"),
    (chunked(b"-1\r\n1\r\n" + END), "400"),
    (chunked(b"g\r\n1\r\n" + END), "400"),
    (chunked(b"\r\n1\r\n" + END), "400"),
    (chunked(b"1\r\n12\r\n" + END), "400"),
    (chunked(b"1\r\n1" + END), "400"),
    (chunked(b"ffffffffffffffffff\r\n1\r\n" + END), "400"),
    (chunked(b"1;\x00\r\n1\r\n" + END), "400"),
    (chunked(END, b"Transfer-Encoding: Chunked\r\n"), "200"),
    (chunked(END, b"Transfer-Encoding: gzip, chunked\r\n"), "501"),
    (chunked(END, b"Transfer-Encoding: gzip\r\n" + TE), "501"),
    (chunked(END, b"Transfer-Encoding: identity, chunked\r\n"), "501"),
    (chunked(END, b"Transfer-Encoding: chunked, gzip\r\n"), "400"),
    (chunked(END, b"Transfer-Encoding: gzip\r\n"), "400"),
    (chunked(END, b"Transfer-Encoding: identity\r\n"), "400"),
    (chunked(END, b"Transfer-Encoding: chunke\r\n"), "400"),
    (chunked(END, b"Transfer-Encoding: xchunked\r\n"), "400"),
    (chunked(END, b"Transfer-Encoding: \x0bchunked\r\n"), "400"),
    (chunked(END, b"Transfer-Encoding : chunked\r\n"), "400"),
    (chunked(END, TE + b"Content-Length: 5\r\n"), "400"),
    (chunked(END, b"Content-Length: 5\r\n" + TE), "400"),
]
CONNECTIONS = [
    (get() + get(), "200 200"),
    (b"\r\n" + get(), "200"),
    (b"\r\n\r\n" + get(), "200"),
    (get() + b"\r\n" + get(), "200 200"),
    (get(headers=b"Connection: close\r\n") + get(), "200"),
    (get(b"GET /get/stats HTTP/1.0") + get(), "200"),
    (get(host=b""), "400"),
    (get(b"GET /get/stats HTTP/1.0", host=b""), "200"),
    (get(host=b"Host: evil.example\r\n"), "421"),
    (get(host=b"Host:\r\n"), "421"),
    (get(headers=b"Content-Length: 3\r\n", body=b"abc") + get(), "200 200"),
    (chunked(b"1\r\n1\r\n" + END) + get(), "200 200"),
    (chunked(END, b"Transfer-Encoding: gzip, chunked\r\n") + get(), "501"),
    (post(b"Content-Length: 0\r\nExpect: 100-continue\r\n") + get(), "200 200"),
    (get(b"GET /get/stats HTTP/1.2") + get(), "200 200"),
    (get(b"OPTIONS * HTTP/1.1") + get(), "200 200"),
    (get(headers=b"User-Agent: a RTSP/1.0 player\r\n"), "200"),
    (post(b"Content-Length: 25\r\n", b'"GET /get/stats RTSP/1.0"') + get(), "200 200"),
    (get().replace(b"\r\n", b"\n"), "400"),
    (get(b"GET /get/stats RTSP/1.0") + get(), "400"),
    (get(b"GET /get/stats HTTP/1.0", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"), "200"),
    (get(b"GET /get/stats?" + b"&".join([b"a"] * 10_000) + b" HTTP/1.1"), "200"),
    (get(b"GET /get/stats?" + b"&".join([b"a"] * 10_001) + b" HTTP/1.1"), "431"),
    (get(headers=b"Connection: close\r\n") + b"garbage", "200"),
    (get() + get() + b"garbage\r\n\r\n", "200 200 400"),
]
TABLES = {
    "request lines": [(get(line), status) for status, lines in REQUEST_LINES.items() for line in lines],
    "headers": [(get(headers=lines), status) for status, headers in HEADERS.items() for lines in headers],
    "bodies": BODIES,
    "connections": CONNECTIONS,
    # The proxies keep such a connection open.
    "keep-alive of HTTP/1.0": [(get(b"GET /get/stats HTTP/1.0", b"Connection: keep-alive\r\n") + get(), "200")],
}
ROWS = [row for name, table in TABLES.items() if "keep-alive" not in name for row in table]


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with Gateway() as gateway:
        yield gateway


@pytest.mark.parametrize("table", TABLES)
def test_a_raw_request_has_its_status(running: Gateway, table: str) -> None:
    for raw, expected in TABLES[table]:
        received = raw_exchange(running.base_url, raw + LAST)
        found = " ".join(re.findall(r"HTTP/1\.1 (\d\d\d) ", received.decode("latin-1")))
        is_refused = expected.split()[-1] in ("400", "431", "501", "505")  # then nothing after it is answered
        assert found in ([expected] if is_refused else [expected, f"{expected} 404"]), raw[:200]


class Proxied(NamedTuple):
    url: str
    #: The requests that reached the gateway behind the proxy.
    reached: list[Request]


_find_handler = Application.find_handler


@pytest.fixture(scope="module", params=["nginx", "haproxy"])
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    reached: list[Request] = []

    def find_handler(application: Application, request: Request, *, is_url: bool = False) -> int:
        reached.append(request)
        return _find_handler(application, request, is_url=is_url)

    start = {"nginx": behind_nginx, "haproxy": behind_haproxy}[request.param]
    with pytest.MonkeyPatch.context() as patch, Gateway() as gateway:
        patch.setattr(Application, "find_handler", find_handler)
        with start([gateway, gateway], tmp_path_factory.mktemp(request.param)) as url:
            yield Proxied(url, reached)


def test_a_gateway_answers_only_what_its_proxy_sent(proxied: Proxied) -> None:
    """Both proxies add X-Forwarded-For; a request that was hidden in another one would not have it."""
    for number, (raw, expected) in enumerate(ROWS):
        received = raw_exchange(proxied.url, raw + LAST, timeout=60.0)
        answers = re.findall(rb"HTTP/1\.1 [2-5]\d\d ", received)
        assert len(answers) <= len(expected.split()) + 1, raw[:200]
        # Whatever came before, the next caller gets the answer to the own request.
        probe = raw_call(proxied.url, "GET", f"/dweet/for/probe-{number}")
        assert b'"thing":"probe-%d"' % number in probe.body, raw[:200]
    hidden = [request for request in proxied.reached if b"x-forwarded-for" not in request.fields]
    checks = [request for request in hidden if request.raw_path == b"/get/stats" and b"host" not in request.fields]
    assert len(proxied.reached) - len(hidden) > len(ROWS)
    assert hidden == checks, "the health checks of HAProxy"
