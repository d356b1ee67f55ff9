"""Guessing keys: limited and logged by address and thing, while the right key always works."""

from __future__ import annotations

import base64
import json
import logging
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.conftest import raw_call, raw_exchange
from tests.reward_caller import settings as reward_settings
from toolkit_gateway import Gateway
from toolkit_gateway.http import access as limits
from toolkit_gateway.http.access import WrongKeys
from toolkit_gateway.runtime import Timings

KEY = "the-right-key-of-the-attic"
GUESS = "a-guess-that-no-log-shows"
JSON = "Content-Type: application/json\r\n"


@pytest.fixture
def running() -> Iterator[Gateway]:
    keys = [{"apikey": "hand", "apisecret": KEY}]
    gateway = {"trusted_proxies": ["127.0.0.1"], "demo": True}
    config = {"gateway": gateway, "handwriting": {"apikeys": keys}, "rewards": reward_settings()}
    with Gateway(locks={"l": KEY}, config=config, timings=Timings(wrong_key=0.1)) as gateway:
        assert b'"this":"succeeded"' in raw_call(gateway.base_url, "GET", f"/lock/attic?lock=l&key={KEY}").body
        assert b'"this":"succeeded"' in raw_call(gateway.base_url, "POST", f"/dweet/for/attic?key={KEY}", b"1").body
        yield gateway


def guess_until_limited(gateway: Gateway, request: bytes, mark: bytes) -> int:
    """Send one wrong key after another until an answer has this mark; return how many had not."""
    address = urlsplit(gateway.base_url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        for number in range(limits.WRONG_KEYS_AT_ONCE * 10):
            connection.sendall(request)
            answer = connection.recv(65536)
            if mark in answer:
                return number
    raise AssertionError("42,000 guesses a second, as on the first build")


def get(target: str, headers: str = "") -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode()


def post(target: str, headers: str = JSON) -> bytes:
    return f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: 2\r\n\r\n{{}}".encode()


BASIC = base64.b64encode(f"hand:{GUESS}".encode()).decode()
ATTACKS: dict[str, tuple[bytes, bytes, str]] = {
    "reading": (get(f"/get/latest/dweet/for/attic?key={GUESS}"), b'"with":429', "the thing 'attic'"),
    "history": (get(f"/get/dweets/for/attic?key={GUESS}"), b'"with":429', "the thing 'attic'"),
    "stored": (get(f"/get/stored/dweets/for/attic?date=2026-01-01&key={GUESS}"), b'"with":429', "the thing 'attic'"),
    "posting": (post(f"/dweet/for/attic?key={GUESS}"), b'"with":429', "the thing 'attic'"),
    "a lock": (get(f"/remove/lock/l?key={GUESS}"), b'"with":429', "the lock 'l'"),
    "apikeys": (get(f"/handwritings?apikey={GUESS}"), b" 429 ", "handwriting"),
    "secrets": (get("/handwritings", f"Authorization: Basic {BASIC}\r\n"), b" 429 ", "handwriting"),
    "partners": (post(f"/2.0/web/moment/?gatewaykey={GUESS}"), b'"too_many_wrong_keys"', "mobile rewards"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_guesses_are_limited_and_logged(running: Gateway, name: str, caplog: pytest.LogCaptureFixture) -> None:
    request, mark, target = ATTACKS[name]
    request = request.replace(b"\r\nHost", b"\r\nX-Forwarded-For: 203.0.113.9\r\nHost", 1)
    with caplog.at_level(logging.INFO, "toolkit_gateway"):
        assert limits.WRONG_KEYS_AT_ONCE <= guess_until_limited(running, request, mark) < limits.WRONG_KEYS_AT_ONCE * 2
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert texts == [f"too many wrong keys: the last for {target} from 203.0.113.9, 1 refused in all"]
    assert f"wrong key for {target} from 203.0.113.9" in caplog.text
    assert GUESS not in caplog.text
    assert BASIC not in caplog.text


def test_right_key_works_at_once_after_many_wrong_ones(running: Gateway) -> None:
    for name in ("reading", "apikeys"):
        guess_until_limited(running, *ATTACKS[name][:2])
    for target in ("/get/latest/dweet/for/attic", "/get/dweets/for/attic", "/get/alert/for/attic"):
        assert b'"with":429' not in raw_call(running.base_url, "GET", f"{target}?key={KEY}").body
    assert b'"this":"succeeded"' in raw_call(running.base_url, "POST", f"/dweet/for/attic?key={KEY}", b"2").body
    assert raw_call(running.base_url, "GET", "/handwritings?apikey=hand").status == 200
    assert b'"this":"succeeded"' in raw_call(running.base_url, "POST", "/dweet/for/hall", b"2").body, "nor anybody else"


def test_long_unknown_lock_name_is_cut_in_the_log(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolkit_gateway"):
        raw_call(running.base_url, "GET", f"/remove/lock/{'l' * 5_000}?key={GUESS}")
    assert f"wrong key for the lock '{'l' * 256}' from" in caplog.text
    assert max(len(record.getMessage()) for record in caplog.records) < 1_100


def test_pipelined_guesses_are_delayed_one_by_one(running: Gateway) -> None:
    request, mark, _ = ATTACKS["reading"]
    guess_until_limited(running, request, mark)
    last = get("/get/latest/dweet/for/nothing", "Connection: close\r\n")
    answer = raw_exchange(running.base_url, request * 2 + last)
    assert answer.count(b'"with":4') == 3
    assert answer.index(b'"with":404') > answer.rindex(b'"with":4', 0, answer.index(b'"with":404'))


def test_a_missing_key_is_no_guess(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolkit_gateway"):
        for _ in range(limits.WRONG_KEYS_AT_ONCE + 5):
            answer = json.loads(raw_call(running.base_url, "GET", "/get/latest/dweet/for/attic").body)
            assert answer["with"] == 403
        assert raw_call(running.base_url, "GET", "/handwritings").status == 401
    assert "wrong key" not in caplog.text


def test_the_last_of_repeated_headers_is_logged(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """A proxy that adds a header of its own leaves the one that its caller made up before it."""
    lines = "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 198.51.100.7\r\n"
    with caplog.at_level(logging.INFO, "toolkit_gateway"):
        raw_call(running.base_url, "GET", f"/get/latest/dweet/for/attic?key={GUESS}", headers=lines)
    assert "wrong key for the thing 'attic' from 198.51.100.7" in caplog.text


@pytest.mark.parametrize(
    "guess",
    [
        lambda number: ("203.0.113.9", f"the lock {number}"),
        lambda number: (f"203.0.{number >> 8}.{number & 255}", "the thing 'attic'"),
        lambda number: (f"2001:db8::{number:x}", f"the lock {number}"),
    ],
    ids=["one address", "one thing", "one network"],
)
def test_guesses_from_many_names_or_addresses_are_limited(guess: Callable[[int], tuple[str, str]]) -> None:
    counted = WrongKeys(lambda: 0.0)
    assert [counted.is_too_many(*guess(number)) for number in range(200)] == [False] * 60 + [True] * 140


def test_guess_budget_refills_one_a_second() -> None:
    now = 0.0
    counted = WrongKeys(lambda: now)
    for _ in range(200):
        counted.is_too_many("203.0.113.9", "the thing 'attic'")
    now = 1.0
    assert [counted.is_too_many("203.0.113.9", "the thing 'attic'") for _ in range(2)] == [False, True]
