"""Keys of callers and their rate limits."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

import toolkit
from tests.commands import called
from tests.conftest import raw_call
from tests.handwriting_service import Service, errors_of
from tests.mail_server import eventually
from toolkit.errors import KeyRejected, RateLimited
from toolkit.secret import Secret
from toolkit_gateway import Gateway
from toolkit_gateway.configuration import configuration_of
from toolkit_gateway.rate_limit import RateLimit

KEYS = [{"apikey": "apikey-of-letters", "apisecret": "letters-secret"}]


def basic(pair: str) -> str:
    return f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"


@pytest.fixture(scope="module")
def closed():
    with Gateway(config={"handwriting": {"apikeys": KEYS}}) as gateway:
        yield Service(gateway.base_url)


def test_only_configured_keys_are_accepted(closed: Service) -> None:
    for query, headers, status in (
        ("apikey=apikey-of-letters", "", 200),
        ("", basic("apikey-of-letters:letters-secret"), 200),
        ("apikey=apikey-of-letters", basic("foo:bar"), 200),
        ("", "", 401),
        ("apikey=", "", 401),
        ("apikey=other", "", 401),
        ("apikey=letters-secret", "", 401),
        ("", basic("apikey-of-letters:other"), 401),
        ("", basic("apikey-of-letters"), 401),
        ("", basic(":"), 401),
        ("", "Authorization: Basic !!!\r\n", 401),
        ("", "Authorization: Basic\r\n", 401),
        ("", "Authorization: Bearer apikey-of-letters\r\n", 401),
    ):
        reply = closed.get("/handwritings", query, headers=headers)
        assert reply.status == status, (query, headers)
        if status == 401:
            assert errors_of(reply) == [{"error": "unauthorized"}]
            assert reply.headers["www-authenticate"].startswith("Basic ")
            assert "x-ratelimit-limit" not in reply.headers


def test_without_configured_keys_any_key_is_accepted(service: Service) -> None:
    for key, status in (("whatever", 200), ("k" * 256, 200), ("k" * 257, 401), ("", 401)):
        assert service.get("/handwritings", f"apikey={key}").status == status
        assert service.get("/handwritings", "", headers=basic(f"{key}:secret")).status == status


def test_wrong_key_error_does_not_show_the_key(closed: Service) -> None:
    with toolkit.connect(closed.base_url, credentials={"apikey": "my-own-wrong-key"}) as tk:
        with pytest.raises(KeyRejected, match="unauthorized: use .*apikey.* or set .TOOLKIT_APIKEY") as caught:
            tk.handwriting.available()
        assert caught.value.status == 401
        assert "my-own-wrong-key" not in str(caught.value)
    with toolkit.connect(closed.base_url, credentials={"apikey": "apikey-of-letters"}) as tk:
        assert len(tk.handwriting.available()) >= 120


def test_the_command_sends_its_key_to_its_gateway_only(closed: Service, tmp_path: Path) -> None:
    letter = "write", "Dear Ada", "--hand=Molly", "-o", str(tmp_path / "letter.svg")
    called(*letter, TOOLKIT_URL=closed.base_url, TOOLKIT_APIKEY="apikey-of-letters")
    said = called(*letter, f"--url={closed.base_url}", code=1, TOOLKIT_APIKEY="apikey-of-letters").stderr
    assert "unauthorized: use " in said
    assert "$TOOLKIT_APIKEY together with $TOOLKIT_URL" in said


def test_rate_limit_of_a_key_empties_and_refills() -> None:
    limits = {"burst": 2, "calls_a_second": 0.001}
    with Gateway(config={"handwriting": limits}) as gateway, toolkit.connect(gateway) as tk:
        replies = [raw_call(gateway.base_url, "GET", "/handwritings?limit=1&apikey=a") for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 200, 429]
        assert [reply.headers["x-ratelimit-remaining"] for reply in replies] == ["1", "0", "0"]
        assert {reply.headers["x-ratelimit-limit"] for reply in replies} == {"2"}
        assert int(replies[0].headers["x-ratelimit-reset"]) < int(replies[2].headers["x-ratelimit-reset"]) <= 2000
        assert errors_of(replies[2]) == [{"error": "rate limit exceeded"}]
        refused = raw_call(gateway.base_url, "GET", "/handwritings?limit=0&apikey=c")
        assert (refused.status, refused.headers["x-ratelimit-remaining"]) == (400, "1"), "errors count"
        assert 0 < int(replies[2].headers["retry-after"]) <= 1000
        assert raw_call(gateway.base_url, "GET", "/handwritings?limit=1&apikey=b").status == 200
        tk.handwriting.available()  # asks for two pages, so the bucket of its key is dry
        with pytest.raises(RateLimited) as caught:
            tk.handwriting.available()
        assert caught.value.retryable
        assert 0 < caught.value.retry_after <= 1000


def test_empty_rate_limit_refills() -> None:
    with Gateway(config={"handwriting": {"burst": 1, "calls_a_second": 2.0}}) as gateway:
        target = "/handwritings?limit=1&apikey=a"
        eventually(lambda: raw_call(gateway.base_url, "GET", target).status == 429)
        eventually(lambda: raw_call(gateway.base_url, "GET", target).status == 200)


def test_unknown_keys_use_bounded_memory() -> None:
    now = 0.0
    limit = RateLimit(1, 1.0, lambda: now)
    for number in range(60_000):
        now = number / 100_000
        limit.take(Secret(str(number)))
    left = [limit.left(Secret(str(number))).remaining for number in (9_999, 10_000)]
    assert left == [1, 0], "only the last 50,000 are remembered"


def test_no_key_is_shown() -> None:
    assert "letters" not in repr(configuration_of({"handwriting": {"apikeys": KEYS}}))
