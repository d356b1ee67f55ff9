"""Any request gets JSON with a status of 200 or 4xx, never a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from tests.reward_caller import DEVICE, JSON_HEADERS, MOMENT, SESSION, TARGET, Caller, settings
from toolkit_gateway import Gateway

FIELDS = sorted({*MOMENT, *SESSION, "app", "device", "colour"})
LATEST = "9999-12-31T23:59:59-23:59"
KEYS = st.sampled_from(["id", "start", "x"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=200)
    | st.sampled_from([DEVICE, f"acme-{DEVICE}", "demo-app", "1.0", "http", "session_start", LATEST]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
QUICK = effort(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with Gateway(config={"rewards": settings()}) as gateway:
        yield Caller(gateway)


def check(caller: Caller, body: bytes, target: str = TARGET) -> None:
    reply = caller.send(body, target, JSON_HEADERS)
    assert reply.status in (200, 400, 401, 403, 429), (reply, body)
    answer = json.loads(reply.body)
    assert set(answer) <= ({"date", "view"} if reply.status == 200 else {"error"})
    if reply.status != 200:
        assert set(answer["error"]) == {"code", "field", "message"}


@QUICK
@given(changes=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4), base=st.sampled_from([MOMENT, SESSION]))
def test_any_fields_never_cause_a_500(caller: Caller, changes: dict[str, Any], base: dict[str, Any]) -> None:
    check(caller, json.dumps({**base, **changes}).encode("utf-8"))


@QUICK
@given(name=st.text(min_size=1, max_size=130), r=st.text(max_size=20))
def test_any_moment_and_query_never_cause_a_500(caller: Caller, name: str, r: str) -> None:
    body = json.dumps({**MOMENT, "moment_id": name}).encode("utf-8")
    encoded = quote(r.encode("utf-8", "surrogatepass"))
    check(caller, body, f"/2.0/web/moment/?r={encoded}&gatewaykey=partner-key-of-acme")
