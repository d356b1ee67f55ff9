"""Guessing keys: limited by address, whatever they are tried on, while keys that have worked go on to work."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import raw_call, raw_exchange
from tests.reward_caller import PARTNER_KEY
from tests.reward_caller import settings as reward_settings
from toolkit_gateway import Gateway
from toolkit_gateway.http.app import shown_path
from toolkit_gateway.http.exchange import KeyAttempt, Request
from toolkit_gateway.http.key_attempts import KEYS_AT_ONCE, KeyAttempts
from toolkit_gateway.runtime import Timings

KEY = "the-right-key-of-the-attic"
GUESS = "a-guess-that-no-log-shows"
JSON = "Content-Type: application/json\r\n"
ATTACKER = "X-Forwarded-For: 203.0.113.9\r\n"


@pytest.fixture
def running() -> Iterator[Gateway]:
    """Return a gateway with a locked thing, on which no address gets a further try within the test."""
    keys = [{"apikey": "the-apikey-of-the-hand", "apisecret": KEY}]
    gateway = {"trusted_proxies": ["127.0.0.1"], "demo": True}
    config = {"gateway": gateway, "handwriting": {"apikeys": keys}, "rewards": reward_settings()}
    timings = Timings(key_interval=3_600, longest_key_wait=0.05)
    with Gateway(locks={"l": KEY, "m": KEY}, config=config, timings=timings) as gateway:
        assert b'"this":"succeeded"' in raw_call(gateway.base_url, "GET", f"/lock/attic?lock=l&key={KEY}").body
        assert b'"this":"succeeded"' in raw_call(gateway.base_url, "POST", f"/dweet/for/attic?key={KEY}", b"1").body
        yield gateway


def answers(gateway: Gateway, request: bytes, count: int) -> list[bytes]:
    """Send a request again and again over one connection."""
    address = urlsplit(gateway.base_url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        received = []
        for _ in range(count):
            connection.sendall(request)
            received.append(connection.recv(65536))
    return received


def get(target: str, headers: str = ATTACKER) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode()


def post(target: str, body: str = "{}") -> bytes:
    length = f"Content-Length: {len(body)}\r\n"
    return f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{ATTACKER}{JSON}{length}\r\n{body}".encode()


BASIC = base64.b64encode(f"the-apikey-of-the-hand:{GUESS}".encode()).decode()
ECHO = json.dumps({"RequestId": "r", "ApiClientId": GUESS, "EchoMessage": "m"})
#: A wrong key in each service, the mark of a refused try, and what the log says that the key was tried on.
ATTACKS: dict[str, tuple[bytes, bytes, str]] = {
    "reading": (get(f"/get/latest/dweet/for/attic?key={GUESS}"), b'"with":429', "the lock 'l'"),
    "stored": (get(f"/get/stored/dweets/for/attic?date=2026-01-01&key={GUESS}"), b'"with":429', "the lock 'l'"),
    "listening": (get(f"/listen/for/dweets/from/attic?key={GUESS}"), b'"with":429', "the lock 'l'"),
    "posting": (post(f"/dweet/for/attic?key={GUESS}"), b'"with":429', "the lock 'l'"),
    "locking": (get(f"/lock/cellar?lock=m&key={GUESS}"), b'"with":429', "the lock 'm'"),
    "removing": (get(f"/remove/lock/l?key={GUESS}"), b'"with":429', "the lock 'l'"),
    "apikeys": (get(f"/handwritings?apikey={GUESS}"), b" 429 ", "handwriting"),
    "secrets": (get("/handwritings", f"{ATTACKER}Authorization: Basic {BASIC}\r\n"), b" 429 ", "handwriting"),
    "partners": (post(f"/2.0/web/moment/?gatewaykey={GUESS}"), b'"too_many_wrong_keys"', "mobile rewards"),
    "clients": (post("/account/2014/07/25/accountEcho", ECHO), b'"Status":2040', "mobile identity"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_guesses_are_limited_and_logged(running: Gateway, name: str, caplog: pytest.LogCaptureFixture) -> None:
    request, mark, target = ATTACKS[name]
    with caplog.at_level(logging.INFO, "toolkit_gateway"):
        received = answers(running, request, KEYS_AT_ONCE + 2)
    assert [mark in answer for answer in received] == [False] * KEYS_AT_ONCE + [True] * 2
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert texts == [f"too many wrong keys: the last for {target} from 203.0.113.9"]
    assert caplog.text.count(f"wrong key for {target} from 203.0.113.9") == KEYS_AT_ONCE
    assert GUESS not in caplog.text
    assert BASIC not in caplog.text


def test_other_targets_and_right_keys_get_no_further_try(running: Gateway) -> None:
    known = get(f"/get/latest/dweet/for/attic?key={KEY}")
    assert b'"this":"succeeded"' in answers(running, known, 1)[0]
    answers(running, ATTACKS["reading"][0], KEYS_AT_ONCE)
    for name, (request, mark, _) in ATTACKS.items():
        assert mark in answers(running, request, 1)[0], name
    assert b'"with":429' in answers(running, get(f"/lock/hall?lock=m&key={KEY}"), 1)[0], "a right key says nothing"
    moment = f"/2.0/web/moment/?gatewaykey={PARTNER_KEY}"
    assert b'"too_many_wrong_keys"' in answers(running, post(moment), 1)[0]
    assert b'"this":"succeeded"' in answers(running, known, 1)[0], "it has worked from this address before"
    elsewhere = get(f"/lock/hall?lock=m&key={KEY}", "X-Forwarded-For: 203.0.113.8\r\n")
    assert b'"this":"succeeded"' in answers(running, elsewhere, 1)[0], "other addresses are not slowed"
    assert b'"this":"succeeded"' in answers(running, post("/dweet/for/hall2"), 1)[0], "nor calls without a key"


def test_a_key_that_nobody_looked_at_is_not_known(running: Gateway) -> None:
    """Errors before the check, and things that need no key, give no free tries."""
    for request in (
        post(f"/dweet/for/attic?key={GUESS}", "{"),
        post(f"/dweet/for/hall?key={GUESS}"),
        get(f"/get/latest/dweet/for/attic?callback=%28&key={GUESS}"),
    ):
        assert b'"with":429' not in answers(running, request, 1)[0]
    assert [b'"with":403' in one for one in answers(running, ATTACKS["reading"][0], 61)] == [True] * 60 + [False]


def test_a_missing_key_is_no_guess(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolkit_gateway"):
        for target, mark in (("/get/latest/dweet/for/attic", b'"with":403'), ("/handwritings", b" 401 ")):
            assert all(mark in one for one in answers(running, get(target), KEYS_AT_ONCE + 5))
    assert "wrong key" not in caplog.text


def test_long_unknown_lock_name_is_cut_in_the_log(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolkit_gateway"):
        raw_call(running.base_url, "GET", f"/remove/lock/{'l' * 5_000}?key={GUESS}")
    assert f"wrong key for the lock '{'l' * 256}' from" in caplog.text
    assert max(len(record.getMessage()) for record in caplog.records) < 1_100


def test_pipelined_guesses_are_answered_in_order(running: Gateway) -> None:
    request, _, _ = ATTACKS["reading"]
    answers(running, request, KEYS_AT_ONCE - 1)
    last = get("/get/latest/dweet/for/nothing", "Connection: close\r\n")
    answer = raw_exchange(running.base_url, request * 2 + last)
    codes = [answer.index(b'"with":%d' % code) for code in (403, 429, 404)]
    assert codes == sorted(codes)


def test_the_last_of_repeated_headers_is_logged(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """A proxy that adds a header of its own leaves the one that its caller made up before it."""
    lines = "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 198.51.100.7\r\n"
    with caplog.at_level(logging.INFO, "toolkit_gateway"):
        raw_call(running.base_url, "GET", f"/get/latest/dweet/for/attic?key={GUESS}", headers=lines)
    assert "wrong key for the lock 'l' from 198.51.100.7" in caplog.text


async def tries(keys: KeyAttempts, address: str, key: str, *, is_right: bool = False) -> bool:
    """Return whether the key was looked at."""
    if not (keys.take(address) or await keys.wait(address)):
        return False
    await asyncio.sleep(0)  # as while the store is read
    keys.settle(address, KeyAttempt("the lock 'l'", key), is_right=is_right)
    return True


async def looked_at(keys: KeyAttempts, count: int, address: str = "203.0.113.{0}", **options: Any) -> int:
    """Return how many keys were looked at of so many that arrive at once."""
    found = await asyncio.gather(*(tries(keys, address.format(n), f"{n}", **options) for n in range(count)))
    return sum(found)


@pytest.mark.parametrize("address", ["203.0.113.9", "2001:db8::{0:x}"])
async def test_guesses_that_arrive_together_are_limited(address: str) -> None:
    now = 0.0
    keys = KeyAttempts(0.5, 0.0, lambda: now)
    assert await looked_at(keys, 200, address) == KEYS_AT_ONCE
    assert await looked_at(keys, 200, "198.51.100.7", is_right=True) == KEYS_AT_ONCE, "they are tried one by one"
    assert await looked_at(keys, KEYS_AT_ONCE, "198.51.100.7", is_right=True) == KEYS_AT_ONCE, "right ones cost nothing"
    now = 3.0
    assert await looked_at(keys, 200, address) == 6, "two a second"


async def test_a_call_above_the_limit_waits_for_its_try() -> None:
    keys = KeyAttempts(0.001, 60)
    assert await looked_at(keys, KEYS_AT_ONCE + 50, "203.0.113.9") == KEYS_AT_ONCE + 50


async def test_guesses_at_one_lock_from_many_addresses_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    keys = KeyAttempts(0.5, 0.0, lambda: 0.0)
    assert await looked_at(keys, KEYS_AT_ONCE + 1) == KEYS_AT_ONCE + 1
    assert caplog.messages == ["too many wrong keys: the last for the lock 'l' from 203.0.113.60"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"/lock/vault%3fkey=secret&lock=l", "/lock/vault%3fkey=***"),
        (b"/dweet/for/vault%3Fa=1%26KEY%3Dsecret/more", "/dweet/for/vault%3Fa=1%26KEY%3D***"),
        (b"/dweet/for/vault%253Fkey%253Dsecret", "/dweet/for/vault%253Fkey%253D***"),
        (b"/handwritings&apikey=secret", "/handwritings&apikey=***"),
        (b"/2.0/web/moment/%3Fgatewaykey%3dsecret", "/2.0/web/moment/%3Fgatewaykey%3d***"),
        (b"/get/latest/dweet/for/key", "/get/latest/dweet/for/key"),
    ],
)
def test_a_key_in_a_path_is_masked_in_the_log(path: bytes, shown: str) -> None:
    assert shown_path(Request("GET", path, b"", {})) == shown
