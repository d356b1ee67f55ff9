"""Each row of the error table, its exact body typed from the design and not from the code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.conftest import operator_of
from tests.reward_caller import COMMON, DEVICE, MOMENT, SESSION, Caller

PATH = "/2.0/web/moment/"


def error(code: str, field: str | None, message: str) -> bytes:
    quoted = "null" if field is None else json.dumps(field)
    return f'{{"error":{{"code":"{code}","field":{quoted},"message":"{message}"}}}}'.encode()


def body(fields: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({**fields, **changes}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in MOMENT.items() if key != name}).encode()


def started_at(start: object) -> bytes:
    return body(SESSION, events=[{"id": "session_start", "start": start}])


BAD_START = error("bad_start", "events[0].start", "start must be ISO 8601 with a zone, within the last 24 hours.")
BAD_EVENTS = error("bad_events", "events", "A session has exactly one event, with id session_start.")
BAD_MOMENT = error("bad_moment_id", "moment_id", "moment_id must have 1 to 128 characters, and no control characters.")
BAD_DEVICE = error("bad_device_id", "device_id", "device_id must be 8-4-4-4-12 hexadecimal groups.")
OPTED_OUT = error(
    "empty_advertiser_id",
    "device_id",
    "The advertiser identifier is empty: the user opted out. Generate <company_token>-<uuid>.",
)
BAD_R = error("bad_r", "r", "r must be an integer number of seconds since the epoch.")
BAD_TEST = error("bad_test", "test", "test must be true or false.")
BAD_VERSION = error("bad_sdk_version", "sdk_version", "sdk_version must be the string 1.0.")
UNKNOWN_APP = error("unknown_app", "app_key", "This app_key is not registered for your key.")
NESTED = "This endpoint takes the flat web form: app_key and device_id at the top level."

BODIES = [
    (b'{"app_key": }', 400, error("malformed_json", None, "The body is not valid JSON: line 1 column 13.")),
    (b"", 400, error("malformed_json", None, "The body is not valid JSON: line 1 column 1.")),
    (b"[]", 400, error("not_an_object", None, "The body must be a JSON object.")),
    (b'"text"', 400, error("not_an_object", None, "The body must be a JSON object.")),
    *[
        (without(name), 400, error("missing_field", name, f"{name} is required."))
        for name in ("app_key", "device_id", "protocol", "sdk_version")
    ],
    (
        body(MOMENT, events=SESSION["events"]),
        400,
        error("ambiguous_form", "events", "Send either events (session) or moment_id (moment), not both."),
    ),
    (body(COMMON), 400, error("unknown_form", None, "Send events with a session_start element, or a moment_id.")),
    (b'{"app": {"app_key": "demo-app"}}', 400, error("server_form", "app", NESTED)),
    (body(MOMENT, device={"id": DEVICE}), 400, error("server_form", "device", NESTED)),
    (body(SESSION, events=[]), 400, BAD_EVENTS),
    (body(SESSION, events=SESSION["events"] * 2), 400, BAD_EVENTS),
    (body(SESSION, events={"id": "session_start"}), 400, BAD_EVENTS),
    (body(SESSION, events=[{"id": "session_end", "start": "2014-10-03T18:05:22Z"}]), 400, BAD_EVENTS),
    (started_at("yesterday"), 400, BAD_START),
    (started_at("2014-10-03"), 400, BAD_START),
    (started_at("2014-10-03T18:05:22"), 400, BAD_START),
    (started_at("2014-13-03T18:05:22Z"), 400, BAD_START),
    (started_at("2014-10-02T18:05:20Z"), 400, BAD_START),
    (started_at("2014-10-03T18:10:24Z"), 400, BAD_START),
    (started_at(None), 400, BAD_START),
    (started_at(1412359522), 400, BAD_START),
    (body(MOMENT, moment_id=""), 400, BAD_MOMENT),
    (body(MOMENT, moment_id="m" * 129), 400, BAD_MOMENT),
    (body(MOMENT, moment_id="a\x00b"), 400, BAD_MOMENT),
    (body(MOMENT, moment_id=7), 400, BAD_MOMENT),
    (body(MOMENT, protocol="https"), 400, error("bad_protocol", "protocol", "protocol must be http.")),
    (body(MOMENT, sdk_version="2.0"), 400, BAD_VERSION),
    (body(MOMENT, sdk_version=1.0), 400, BAD_VERSION),
    (body(MOMENT, test="true"), 400, BAD_TEST),
    (body(MOMENT, test=1), 400, BAD_TEST),
    (body(MOMENT, test=None), 400, BAD_TEST),
    (body(MOMENT, device_id="not-a-device"), 400, BAD_DEVICE),
    (body(MOMENT, device_id=7), 400, BAD_DEVICE),
    (body(MOMENT, device_id=DEVICE.replace("6c", "6g")), 400, BAD_DEVICE),
    (body(MOMENT, device_id=f"acme{DEVICE}"), 400, BAD_DEVICE),
    (body(MOMENT, device_id=""), 400, OPTED_OUT),
    (body(MOMENT, device_id=None), 400, OPTED_OUT),
    (body(MOMENT, device_id="00000000-0000-0000-0000-000000000000"), 400, OPTED_OUT),
    (
        body(MOMENT, device_id=f"umbra-{DEVICE}"),
        400,
        error("wrong_company_token", "device_id", "This company token is not assigned to your key."),
    ),
    (body(MOMENT, app_key="nobody"), 403, UNKNOWN_APP),
    (body(MOMENT, app_key="other-app"), 403, UNKNOWN_APP),
    (body(MOMENT, app_key=7), 400, error("bad_app_key", "app_key", "app_key must be a string.")),
    (b" " * 16_385, 413, error("too_large", None, "The body is larger than 16384 bytes.")),
]


def test_each_invalid_body_gets_its_error(started: Callable[..., Caller]) -> None:
    caller = started(calls_a_minute=1_000)
    for sent, status, expected in BODIES:
        reply = caller.send(sent)
        assert (reply.status, reply.body) == (status, expected), sent
        assert reply.headers["content-type"] == "application/json"
    assert len(operator_of(caller.gateway).decisions()) == 0


NO_KEY = "The partner key is missing or not valid."
NOT_ACCEPTABLE = error("not_acceptable", "Accept", "Accept must allow application/json.")
NOT_JSON = error("unsupported_media_type", "Content-Type", "Send application/json.")
#: What differs from a right call, the status, and the body of the response.
CALLS: list[tuple[dict[str, str], int, bytes]] = [
    *(
        ({"target": f"{PATH}?r={r}&gatewaykey=partner-key-of-acme"}, 400, BAD_R)
        for r in ("-1", "1.5", "now", "14123595221234", "%D9%A3")
    ),
    ({"target": f"{PATH}?r=1"}, 401, error("no_gatewaykey", "gatewaykey", NO_KEY)),
    ({"target": f"{PATH}?r=1&gatewaykey=wrong"}, 401, error("bad_gatewaykey", "gatewaykey", NO_KEY)),
    ({"method": "GET"}, 405, error("method_not_allowed", None, "Use a method that the header Allow names.")),
    (
        {"target": "/2.0/web/moment"},
        404,
        error("not_found", None, "There is nothing here. Sessions and moments go to /2.0/web/moment/."),
    ),
    *(
        ({"headers": f"Accept: {accept}\r\nContent-Type: application/json\r\n"}, 406, NOT_ACCEPTABLE)
        for accept in ("text/html", "application/xml, text/*", "a/b," * 1_000 + "application/json")
    ),
    ({"headers": ""}, 415, NOT_JSON),
    ({"headers": "Content-Type: text/plain\r\n"}, 415, NOT_JSON),
]


def test_each_invalid_call_gets_its_error(caller: Caller) -> None:
    for changed, status, expected in CALLS:
        reply = caller.send(b"" if "method" in changed else body(MOMENT), **changed)
        assert (reply.status, reply.body) == (status, expected), changed
        assert reply.headers.get("allow") == ("POST" if status == 405 else None)


def test_accept_header_must_allow_json(caller: Caller) -> None:
    for accept in ("*/*", "application/*", "text/html, application/json;q=0.1", "application/json;q=x"):
        headers = f"Accept: {accept}\r\nContent-Type: application/json; charset=utf-8\r\n"
        assert caller.send(body(MOMENT), headers=headers).status == 200, accept


def test_calls_of_a_device_are_rate_limited(started: Callable[..., Caller]) -> None:
    caller = started(calls_a_minute=2)
    assert [caller.post(MOMENT).status for _ in range(2)] == [200, 200]
    reply = caller.post(MOMENT)
    # One call comes back every 30 seconds, and each of the two calls took a second.
    assert (reply.status, reply.headers["retry-after"]) == (429, "28")
    assert reply.body == error("too_many_requests", None, "Too many calls for this device. Try again in 28 seconds.")
    assert caller.post(MOMENT, device_id=f"acme-{DEVICE}").status == 200
    caller.gateway.clock.advance(seconds=28)
    assert caller.post(MOMENT).status == 200


def test_unknown_fields_are_ignored_and_refused_in_strict_mode(started: Callable[..., Caller]) -> None:
    assert started().post(MOMENT, colour="red").status == 200
    reply = started(strict=True).post(MOMENT, colour="red")
    assert (reply.status, reply.body) == (
        400,
        error("unknown_field", "colour", "colour is not a field of this endpoint."),
    )
