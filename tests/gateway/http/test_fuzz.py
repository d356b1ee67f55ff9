"""Spoilt requests of every route: every response is valid HTTP, no failure is logged, and no memory is kept.

A new route belongs into one of the two lists.
"""

from __future__ import annotations

import gc
import itertools
import json
import logging
import os
import random
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import psutil
import pytest

from tests.conftest import raw_call
from tests.identity_lab import ACCOUNT, DONE, MOBILE, PHONE, SHOP
from tests.redis_servers import wait_until
from tests.reward_caller import MOMENT, SESSION, TARGET, settings
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import Timings

KEY = "master-key-of-the-fuzzer"


@dataclass(frozen=True)
class Raw:
    method: str
    target: bytes
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = field(default=((b"Content-Type", b"application/json"),))

    def written(self) -> bytes:
        length = ((b"Content-Length", b"%d" % len(self.body)),) if self.body or self.method == "POST" else ()
        lines = b"".join(b"%b: %b\r\n" % header for header in ((b"Host", b"localhost"), *self.headers, *length))
        return b"%b %b HTTP/1.1\r\n%b\r\n%b" % (self.method.encode(), self.target, lines, self.body)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _identity(path: str, **fields: object) -> Raw:
    return Raw("POST", path.encode(), _json({"RequestId": "r-1", "ApiClientId": SHOP, **fields}))


_PAIR = {"ServiceAlias": "918dabaf-876a-59ff-83bc-1985074aff14", "AuthenticationCode": "h0Qm"}
_LIGHT = [
    Raw("POST", b"/dweet/for/attic", b'{"celsius": 21.50, "on": true, "list": [1, {"a": null}]}'),
    Raw("POST", b"/dweet/for/form", b"a=1&b=x%20y", ((b"Content-Type", b"application/x-www-form-urlencoded"),)),
    Raw("POST", b"/dweets/for/attic", b'{"n":1}\n{"n":2}\n[3]'),
    Raw("POST", b"/dweet", b'"unnamed"'),
    Raw("POST", b"/dweet/quietly/for/attic", b"7"),
    Raw("GET", b"/dweet/for/attic?a=1&b=x&callback=take&_=1"),
    Raw("GET", b"/dweet?a=1"),
    Raw("GET", b"/dweet/quietly/for/attic?a=1"),
    Raw("GET", b"/get/latest/dweet/for/attic?callback=take"),
    Raw("GET", b"/get/dweets/for/locked?key=" + KEY.encode()),
    Raw("GET", b"/get/stats"),
    Raw("GET", b"/lock/attic-2?lock=other&key=" + KEY.encode()),
    Raw("GET", b"/unlock/attic-2?key=" + KEY.encode()),
    Raw("GET", b"/remove/lock/other?key=" + KEY.encode()),
    Raw("GET", b"/get/alert/for/locked?key=" + KEY.encode()),
    Raw("GET", b"/remove/alert/for/hall?key=" + KEY.encode()),
    Raw("GET", b"/handwritings?apikey=k&limit=2&offset=1&order_by=title&order_dir=desc"),
    Raw("GET", b"/handwritings/2D5QW0F80001", headers=((b"Authorization", b"Basic azpz"),)),
    _identity(ACCOUNT + "accountEcho", EchoMessage="hello"),
    _identity(MOBILE + "authenticateByRedirect", DeviceIp=PHONE, FinalTargetUrl=DONE),
    _identity(MOBILE + "authenticateByRedirectFinish", VerificationFingerprint="Vb9d"),
    _identity(ACCOUNT + "getEligibility", **_PAIR),
    _identity(
        ACCOUNT + "getPaymentList", **_PAIR, ChallengeId="c2a7c2de-8a3e-4b8e-9f5b-9a3f6a0c7e21", ChallengeAnswer="1"
    ),
    _identity(ACCOUNT + "getPaymentDetails", **_PAIR, PaymentIds=["a58f2e0a-3f8e-5a43-8c43-2f2f4a0b5d10"]),
    Raw("GET", f"{MOBILE}deviceAuthenticate?vfp=abc&r=f".encode()),
    Raw("POST", TARGET.encode(), _json(MOMENT)),
    Raw("POST", TARGET.encode(), _json(SESSION)),
    Raw("GET", b"/reward/some-view?k=token"),
    Raw("POST", b"/reward/some-view/shown?k=token"),
    Raw("OPTIONS", b"/dweet/for/attic"),
    Raw("GET", b"/"),
]
# Requests that cost more, or that are the last one of their connection: one in many.
_HEAVY = [
    Raw("GET", b"/listen/for/dweets/from/attic?since=0"),
    Raw("GET", b"/get/stored/dweets/for/attic?date=2026-01-01&hour=09&responseType=csv"),
    Raw("GET", b"/alert/a@example.com,b@example.com/when/locked/if(dweet.n>1)%20return%20'x/y'?key=" + KEY.encode()),
    *(
        Raw(
            "GET",
            f"/render/{kind}?apikey=k&handwriting_id=2D5QW0F80001&text=a&width=80px&height=60px&random_seed=7".encode(),
        )
        for kind in ("png", "pdf", "svg", "replay")
    ),
]

_NASTY = [
    *(b"%00", b"%0d%0a", b"%2e%2e/", b"%2F", b"%", b"%zz", b"%ff%fe", b"%ED%A0%80"),
    *(b"//", b"?", b"&", b"=", b"#", b";", b"+", b"'", b'"', b"\\", b"{", b"[", b"}", b"]", b","),
    *(b"\x00", b"\xff", b"\t", b" ", b"\r", b"\n", b"\r\n", b"\xc3\xa9", "\U0001f600".encode()),
    *(b"-1", b"0", b"9" * 30, b"1e400", b"NaN", b"true", b"null", b"a" * 300, b"__proto__"),
]
_FRAMING = [
    *((b"Host", b"evil.example"), (b"Content-Length", b"5"), (b"Content-Length", b"-1")),
    *((b"Transfer-Encoding", b"chunked"), (b"Transfer-Encoding", b"gzip, chunked")),
    *((b"Expect", b"100-continue"), (b"Connection", b"close")),
]
_HEADERS = [
    *((b"Connection", b"Upgrade"), (b"Upgrade", b"h2c")),
    *((b"Content-Type", b"text/plain"), (b"Content-Type", b"application/x-www-form-urlencoded")),
    *((b"Accept", b"text/event-stream"), (b"Accept", b"text/html"), (b"Last-Event-ID", b"7")),
    *((b"If-None-Match", b'"x"'), (b"Authorization", b"Basic !!!"), (b"Cookie", b"a" * 2_000)),
    *((b"X-Forwarded-For", b"6.6.6.6, 203.0.113.9"), (b"Forwarded", b'for="[2001:db8::1]:1";proto=https')),
    (b"X-Simulated-Device-Ip", b"203.0.113.7"),
]


def mutated(draw: random.Random) -> bytes:
    """Return a request of the corpus with some of its parts spoilt; now and then the bytes of the whole."""
    raw = draw.choice(_HEAVY if draw.random() < 0.01 else _LIGHT)
    for _ in range(draw.choice((1, 1, 2, 3))):
        raw = draw.choice((_in_target, _in_headers, _in_body, _in_method))(raw, draw)
    written = raw.written()
    return _spoilt(written, draw) if draw.random() < 0.02 else written


def _in_target(raw: Raw, draw: random.Random) -> Raw:
    target = _spoilt(raw.target, draw)
    if draw.random() < 0.97:  # else the parser refuses it, and what comes behind it in the connection is not read
        target = b"/" + bytes(byte for byte in target if 0x21 <= byte <= 0x7E).lstrip(b"/")
    return replace(raw, target=target or b"/")


def _in_headers(raw: Raw, draw: random.Random) -> Raw:
    headers = list(raw.headers)
    if headers and draw.random() < 0.3:
        headers.pop()
    # Framing that is wrong ends a connection: seldom, so that the others behind it are read.
    choices = _HEADERS if draw.random() < 0.98 else _FRAMING
    return replace(raw, headers=(*headers, draw.choice(choices)))


def _in_body(raw: Raw, draw: random.Random) -> Raw:
    body = _spoilt(raw.body, draw)
    return replace(raw, body=body * draw.choice((1, 1, 1, 500)) if len(body) < 100 else body)


def _in_method(raw: Raw, draw: random.Random) -> Raw:
    methods = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH")
    return replace(raw, method=draw.choice(methods)) if draw.random() < 0.3 else _in_target(raw, draw)


def _spoilt(data: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(data) + 1)
    end = min(len(data), start + draw.randrange(12))
    kind = draw.randrange(5)
    if kind == 0:
        return data[:start] + draw.choice(_NASTY) + data[start:]
    if kind == 1:
        return data[:start] + data[end:]
    if kind == 2:
        return data[:end] + data[start:]
    if kind == 3:
        return data[:start] + draw.randbytes(end - start) + data[end:]
    other = draw.choice(_LIGHT)
    return data[:start] + (other.target if draw.random() < 0.5 else other.body)[: draw.randrange(1, 60)] + data[end:]


# -- sending them --------------------------------------------------------------------------------

PIPELINE = 16
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
#: Statuses that say what was wrong with a request, and none that says that the gateway failed.
EXPECTED = {
    *(100, 200, 204, 302, 304, 503, 505),
    *(400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 421, 422, 429, 431),
}
MB = 1024 * 1024


@pytest.fixture
def running() -> Iterator[Gateway]:
    config = {"gateway": {"demo": True, "trusted_proxies": ["127.0.0.1"]}, "rewards": settings()}
    timings = Timings(key_interval=1e-6)  # many wrong keys come here
    with Gateway(config=config, locks={"l": KEY, "other": KEY}, timings=timings) as gateway:
        assert raw_call(gateway.base_url, "GET", f"/lock/locked?lock=l&key={KEY}").status == 200
        yield gateway


def exchange(gateway: Gateway, data: bytes) -> bytes:
    """Send bytes while reading what comes, and return all that came until the gateway closed."""
    address = urlsplit(gateway.base_url)
    received = b""
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                received += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # it was closed with some of the bytes unread
    return received


def fuzz(gateway: Gateway, seed: int, requests: int) -> Counter[int]:
    found: Counter[int] = Counter()
    counting = threading.Lock()

    def one(number: int) -> None:
        draw = random.Random(f"{seed}-{number}")
        data = b"".join(mutated(draw) for _ in range(PIPELINE))
        statuses = Counter(int(status) for status in STATUS.findall(exchange(gateway, data)))
        wrong = statuses.keys() - EXPECTED
        assert not wrong, f"{wrong} in pipeline {number} of seed {seed}"
        with counting:
            found.update(statuses)

    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(one, range(-(-requests // PIPELINE))):
            pass  # what a pipeline raised is raised here
    return found


def held() -> tuple[int, int, int]:
    gc.collect()
    process = psutil.Process(os.getpid())
    # The files of the store grow in number with what is kept.
    return process.memory_info().rss, process.num_threads(), process.num_fds() - len(process.open_files())


def check(gateway: Gateway, caplog: pytest.LogCaptureFixture, seed: int, requests: int, growth: int) -> Counter[int]:
    with caplog.at_level(logging.ERROR):
        fuzz(gateway, seed + 1, 1_000)  # what is made once is there: worker processes, caches
        memory, threads, descriptors = held()
        found = fuzz(gateway, seed, requests)
    assert [record.getMessage() for record in caplog.records] == []
    wait_until(lambda: held()[2] <= descriptors + 2, "descriptors are left open")
    assert held()[1] <= threads + 4
    assert held()[0] - memory < growth
    assert b'"this":"succeeded"' in raw_call(gateway.base_url, "POST", "/dweet/for/after", b'{"ok":true}').body
    return found


def test_mutated_requests_get_http_responses(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    found = check(running, caplog, 20_261_122, 1_000, 100 * MB)
    assert {200, 204, 400, 401, 404, 405, 421} <= found.keys(), "they reach the handlers"
    assert found.total() > 500, "a spoilt request ends its connection, and so few of them are"


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_half_a_million_mutated_requests_get_responses(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """Half a million are answered: what comes behind the end of a connection does not count."""
    answered: Counter[int] = Counter()
    for seed in itertools.count(1):
        answered += check(running, caplog, seed * 1_000, 100_000, 300 * MB)
        if answered.total() >= 500_000:
            break
