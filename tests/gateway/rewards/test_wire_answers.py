"""The responses to a session and a moment, byte for byte as in the specification."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tests.conftest import operator_of, raw_call, raw_exchange
from tests.reward_caller import DEVICE, JSON_HEADERS, MOMENT, TARGET, Caller


def test_session_response_has_its_start(caller: Caller) -> None:
    reply = caller.session()
    assert (reply.status, reply.body) == (200, b'{"date":"2014-10-03T18:05:22Z"}')
    assert "x-reward-decision" not in reply.headers


def test_session_start_is_answered_in_utc(caller: Caller) -> None:
    for start, date in (
        ("2014-10-02T18:05:22Z", "2014-10-02T18:05:22Z"),
        ("2014-10-03T20:05:22+02:00", "2014-10-03T18:05:22Z"),
        ("2014-10-03T18:05:22.5Z", "2014-10-03T18:05:22.500000Z"),
        ("2014-10-03T18:10:22z", "2014-10-03T18:10:22Z"),
    ):
        reply = caller.session(events=[{"id": "session_start", "start": start}])
        assert json.loads(reply.body) == {"date": date}


def test_rewarded_moment_byte_for_byte(caller: Caller) -> None:
    caller.session()
    reply = caller.post(MOMENT)
    form = (
        r'\{"date":"2014-10-03T18:05:24\.000000","view":\{"id":"([0-9a-f]{32})","modal":\{'
        r'"message":"You earned a reward\.","body_url":"http://127\.0\.0\.1/reward/\1\?k=[\w-]{22}",'
        r'"title":"A reward"\}\}\}'
    )
    assert re.fullmatch(form, reply.body.decode())
    assert reply.headers["x-reward-decision"] == "d-000001; reason=REWARDED"
    assert reply.headers["cache-control"] == "no-store"


def test_a_moment_that_earns_nothing_has_no_view(caller: Caller) -> None:
    reply = caller.post(MOMENT)
    assert (reply.status, reply.body) == (200, b'{"date":"2014-10-03T18:05:23.000000"}')
    assert reply.headers["x-reward-decision"] == "d-000001; reason=NO_SESSION"


def test_test_moment_is_marked_as_test(caller: Caller) -> None:
    modal = caller.reward(test=True)["modal"]
    assert (modal["title"], modal["message"]) == ("[TEST] A reward", "This is a test reward.")


def test_query_parameter_r_changes_nothing(caller: Caller) -> None:
    for second, query in enumerate(("", "r=1412359522&", "r=1412359522123&", "r=&"), start=23):
        target = f"/2.0/web/moment/?{query}gatewaykey=partner-key-of-acme"
        body = caller.send(json.dumps(MOMENT).encode(), target).body
        assert body == b'{"date":"2014-10-03T18:05:%d.000000"}' % second


def test_device_ids_in_both_forms_are_accepted(caller: Caller) -> None:
    for device in (DEVICE.upper(), f"acme-{DEVICE}"):
        caller.session(device_id=device.lower())
        assert caller.reason(device_id=device) == "REWARDED"


def test_any_moment_name_is_accepted(caller: Caller) -> None:
    caller.session()
    for name in ("m", "m" * 128, "Ünïcode ✓", "e\u0301" * 128):
        assert caller.reason(moment_id=name) == "REWARDED"


def test_reward_page_url_uses_the_host_of_the_request(started: Callable[..., Caller]) -> None:
    sent = json.dumps({**MOMENT, "test": True}).encode()
    head = f"POST {TARGET} HTTP/1.1\r\nContent-Length: {len(sent)}\r\n{JSON_HEADERS}Connection: close\r\n"
    allowed = started(gateway={"allow_hosts": ["rewards.example"]}).gateway.base_url
    for host in ("rewards.example:8443", "[::1]:80"):
        raw = raw_exchange(allowed, f"{head}Host: {host}\r\n\r\n".encode() + sent)
        assert f'"body_url":"http://{host}/reward/'.encode() in raw
    public = started(gateway={"public_url": "https://rewards.example"})
    assert public.reward(test=True)["modal"]["body_url"].startswith("https://rewards.example/reward/")


def test_no_error_shows_a_key(caller: Caller) -> None:
    for target in ("/2.0/web/moment/?gatewaykey=hidden-value&r=x", "/2.0/other?gatewaykey=hidden-value"):
        reply = raw_call(caller.gateway.base_url, "POST", target, b"{}", JSON_HEADERS)
        assert reply.status >= 400
        assert b"hidden-value" not in reply.body


def test_decisions_hold_labels_and_no_keys(caller: Caller) -> None:
    caller.session()
    caller.reward()
    operator = operator_of(caller.gateway)
    text = operator.decisions().to_string() + operator.reward_sessions().to_string()
    for hidden in (DEVICE, "demo-app", "partner-key-of-acme"):
        assert hidden not in text
