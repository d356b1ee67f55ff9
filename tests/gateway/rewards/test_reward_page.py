"""The reward page over HTTP: who may see it, how long, its headers, and what is counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.conftest import RawReply, operator_of
from tests.reward_caller import Caller

HOUR = 3600


def target_of(view: dict[str, dict[str, str]]) -> str:
    parts = urlsplit(view["modal"]["body_url"])
    return f"{parts.path}?{parts.query}"


def get(caller: Caller, target: str, method: str = "GET") -> RawReply:
    return caller.send(b"", target, "", method)


@pytest.fixture
def target(caller: Caller) -> str:
    caller.session()
    return target_of(caller.reward())


def event(target: str, name: str) -> str:
    return target.replace("?", f"/{name}?")


def test_reward_page_shows_its_reward(caller: Caller, target: str) -> None:
    reply = get(caller, target)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert get(caller, target, "HEAD").status == 200
    text = reply.body.decode()
    assert re.search(r'<main id="unit" [^>]*data-state="open"[^>]* hidden>', text)
    assert '<h1 id="title">A reward</h1>' in text
    assert (reply.headers["referrer-policy"], reply.headers["cache-control"]) == ("no-referrer", "no-store")


def test_content_security_policy_allows_its_own_script_only(caller: Caller, target: str) -> None:
    first, second = get(caller, target), get(caller, target)
    policy = first.headers["content-security-policy"]
    nonce = re.search(r"script-src 'nonce-([\w-]{22})'", policy)
    assert nonce is not None
    assert first.body.count(f'nonce="{nonce[1]}"'.encode()) == 2
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert policy != second.headers["content-security-policy"]


def test_texts_of_a_reward_are_escaped(started: Callable[..., Caller]) -> None:
    title = '<img src=x onerror="alert(1)">'
    caller = started({"default": {"p": 1}, "rewards": [{"id": "a", "title": title, "message": "</script>'&"}]})
    caller.session()
    body = get(caller, target_of(caller.reward())).body
    assert b"<img" not in body
    assert b"&lt;img src=x onerror=&quot;alert(1)&quot;&gt;" in body
    assert b'<p id="message">&lt;/script&gt;&#x27;&amp;</p>' in body


def test_unknown_reward_page_is_404(caller: Caller, target: str) -> None:
    for change in (("?k=", "?k=x"), ("?k=", "?z="), ("/reward/", "/reward/0")):
        reply = get(caller, target.replace(*change))
        assert (reply.status, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert b'<p role="status">This reward does not exist.</p>' in reply.body
        assert caller.send(b"", event(target.replace(*change), "shown"), "").status == 404


def test_a_page_expires_after_a_day(caller: Caller, target: str) -> None:
    caller.gateway.clock.advance(seconds=24 * HOUR - 1)
    assert get(caller, target).status == 200
    caller.gateway.clock.advance(seconds=1)
    reply = get(caller, target)
    assert reply.status == 410
    assert b'<p role="status">This reward has expired.</p>' in reply.body
    assert caller.send(b"", event(target, "claimed"), "").status == 410
    caller.gateway.clock.advance(seconds=30 * 24 * HOUR)
    assert get(caller, target).status == 404


def test_each_event_counts_once_per_view(caller: Caller, target: str) -> None:
    assert caller.send(b"", event(target, "sold"), "").status == 404
    assert get(caller, event(target, "shown")).status == 405
    assert operator_of(caller.gateway).decisions()["shown_at"].isna().all()
    for _ in range(3):
        reply = caller.send(b"", event(target, "shown"), "")
        assert (reply.status, reply.body, reply.headers["access-control-allow-origin"]) == (204, b"", "*")
    first = operator_of(caller.gateway).decisions()["shown_at"].iloc[0]
    caller.send(b"", event(target, "claimed"), "")
    decision = operator_of(caller.gateway).decisions().iloc[0]
    assert decision["shown_at"] == first
    assert decision["claimed_at"] > first
    assert 'data-state="claimed"' in get(caller, target).body.decode()


def test_a_test_reward_is_never_counted(caller: Caller) -> None:
    target = target_of(caller.reward(test=True))
    assert get(caller, target).status == 200
    assert caller.send(b"", event(target, "shown"), "").status == 204
    assert operator_of(caller.gateway).decisions()["shown_at"].isna().all()
