"""The operator API answers only to the operator, on the gateway's own machine."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator

import psutil
import pytest

from tests.conftest import operator_of, raw_call, raw_exchange
from tests.gateway.http.test_key_attempts import answers
from toolkit.endpoint import Endpoint
from toolkit.operator import wire
from toolkit_gateway import Gateway
from toolkit_gateway.http.access import is_from_this_machine
from toolkit_gateway.http.exchange import Request
from toolkit_gateway.http.key_attempts import KEYS_AT_ONCE
from toolkit_gateway.routes.operator import KEY_WRONG
from toolkit_gateway.runtime import Timings

GUESS = "a-guess-that-no-log-shows-0123456789abcdefgh"
FORWARDED = [
    "Forwarded: for=127.0.0.1",
    "X-Forwarded-For: 127.0.0.1",
    "X-Forwarded-Proto: http",
    "X-Real-IP: ::1",
    "Via: 1.1 p",
]
FOREIGN = ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"]


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with Gateway(
        config={"gateway": {"trusted_proxies": ["127.0.0.1"], "allow_hosts": ["gateway.example"], "demo": True}}
    ) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def another() -> Iterator[Gateway]:
    with Gateway() as gateway:
        yield gateway


@pytest.fixture(scope="module")
def unlimited() -> Iterator[Gateway]:
    """A gateway where any number of wrong keys is answered at once."""
    with Gateway(timings=Timings(key_interval=1e-6)) as gateway:
        yield gateway


def bearer(key: str) -> str:
    return f"Authorization: Bearer {key}\r\n"


def target_of(endpoint: Endpoint) -> str:
    return endpoint.path_for(lock="any", alias="any")


@pytest.mark.parametrize("endpoint", wire.ENDPOINTS, ids=lambda endpoint: f"{endpoint.method} {endpoint.template}")
def test_every_call_needs_the_key_of_its_gateway(endpoint: Endpoint, unlimited: Gateway, another: Gateway) -> None:
    own = bearer(unlimited.operator_key.reveal())
    cut_off, basic = own[:-3] + "\r\n", own.replace("Bearer", "Basic")
    foreign = bearer(another.operator_key.reveal())
    for headers in ("", foreign, bearer(GUESS), bearer(""), cut_off, basic, "Authorization:\r\n"):
        refused = raw_call(unlimited.base_url, endpoint.method, target_of(endpoint), b'{"seconds":1}', headers)
        assert refused.status == 401, headers
        assert refused.headers["www-authenticate"] == 'Bearer realm="operator"'
        assert json.loads(refused.body) == {"error": KEY_WRONG}


@pytest.mark.parametrize("header", [*FORWARDED, *FOREIGN])
def test_the_right_key_from_elsewhere_is_refused(header: str, running: Gateway) -> None:
    own = bearer(running.operator_key.reveal())
    for endpoint in wire.ENDPOINTS:
        refused = raw_call(running.base_url, endpoint.method, target_of(endpoint), b"", f"{own}{header}\r\n")
        assert refused.status == 403, endpoint
        assert "access-control-allow-origin" not in refused.headers
    assert operator_of(running).locks().empty


def test_a_host_that_is_not_loopback_is_refused(running: Gateway) -> None:
    own = bearer(running.operator_key.reveal())
    hosts = ("evil.example", "gateway.example", "127.0.0.1.evil.example", "0.0.0.0", "")
    for lines in ("HTTP/1.0\r\n", *(f"HTTP/1.1\r\nHost: {host}\r\n" for host in hosts)):
        request = f"GET /operator/clock {lines}{own}Connection: close\r\n\r\n"
        assert raw_exchange(running.base_url, request.encode()).split()[1] == b"421", lines


def test_a_page_of_the_gateway_itself_may_call(running: Gateway) -> None:
    headers = f"{bearer(running.operator_key.reveal())}Origin: http://127.0.0.1\r\nSec-Fetch-Site: same-origin\r\n"
    assert raw_call(running.base_url, "GET", "/operator/clock", b"", headers).status == 200


def test_a_preflight_is_not_allowed(running: Gateway) -> None:
    answer = raw_call(running.base_url, "OPTIONS", "/operator/locks", b"", "Origin: http://evil.example\r\n")
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_only_connections_of_this_machine_are_answered() -> None:
    def is_answered(client: str) -> bool:
        return is_from_this_machine(Request("GET", b"/operator/clock", b"", {b"host": b"localhost"}, client))

    assert all(map(is_answered, ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]))
    assert not any(map(is_answered, ["10.0.0.5", "192.168.1.2", "2001:db8::1", "", "unknown"]))


def test_an_exposed_gateway_answers_on_loopback_only() -> None:
    with Gateway(host="0.0.0.0", exposed=True) as gateway:
        assert operator_of(gateway).locks().empty, "its own connection goes to 127.0.0.1"
        key = bearer(gateway.operator_key.reveal())
        request = f"GET /operator/clock HTTP/1.1\r\nHost: localhost\r\n{key}Connection: close\r\n\r\n"
        port = int(gateway.base_url.rpartition(":")[2])
        own = [a.address for names in psutil.net_if_addrs().values() for a in names if a.family == socket.AF_INET]
        for address in own:
            status = raw_exchange(f"http://{address}:{port}", request.encode()).split()[1]
            assert status == (b"200" if address.startswith("127.") else b"403"), address


def test_wrong_keys_are_counted_and_limited(caplog: pytest.LogCaptureFixture) -> None:
    timings = Timings(key_interval=3_600, longest_key_wait=0.05)
    with Gateway(timings=timings) as gateway, caplog.at_level(logging.INFO, "toolkit_gateway"):
        assert operator_of(gateway).locks().empty
        request = f"GET /operator/locks HTTP/1.1\r\nHost: localhost\r\n{bearer(GUESS)}\r\n".encode()
        refused = [b"retry-after: 1\r\n" in answer for answer in answers(gateway, request, KEYS_AT_ONCE + 1)]
        assert refused == [False] * KEYS_AT_ONCE + [True]
        assert operator_of(gateway).locks().empty, "the key that has worked before is answered at once"
        assert gateway.operator_key.reveal() not in caplog.text
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert texts == ["too many wrong keys: the last for the operator API from 127.0.0.1"]
    assert GUESS not in caplog.text


def test_a_bad_advance_is_a_400_and_leaves_the_clock(demo: Gateway) -> None:
    before = demo.clock.now()
    wrong = (b'"5"', b"-1", b"1e400", b"1e300", b"1e18")
    for body in (b"", b"[]", b"5", b'{"x":1}', b"\xff", b"{" * 1000, *(b'{"seconds":%b}' % value for value in wrong)):
        refused = raw_call(demo.base_url, "POST", "/operator/clock", body, bearer(demo.operator_key.reveal()))
        assert (refused.status, *json.loads(refused.body)) == (400, "error"), body
    assert demo.clock.now() == before


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [("GET", "/operator/nothing", 404), ("PUT", "/operator/locks", 405), ("POST", "/operator/clock", 413)],
)
def test_other_mistakes_are_answered_in_json(method: str, target: str, status: int, running: Gateway) -> None:
    body = b"x" * 5000 if status == 413 else b""
    refused = raw_call(running.base_url, method, target, body, bearer(running.operator_key.reveal()))
    assert refused.status == status
    assert set(json.loads(refused.body)) == {"error"}
