"""A gateway with one partner, and raw calls to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conftest import RawReply, raw_call
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import SteppedClock, Timings

DEVICE = "6c1f2a0e-5b9d-4c77-8a31-0d2e9b4f6a55"
PARTNER_KEY = "partner-key-of-acme"
TARGET = f"/2.0/web/moment/?r=1412359522&gatewaykey={PARTNER_KEY}"
JSON_HEADERS = "Accept: application/json\r\nContent-Type: application/json\r\n"
START = datetime(2014, 10, 3, 18, 5, 22, tzinfo=UTC)
COMMON = {"app_key": "demo-app", "device_id": DEVICE, "protocol": "http", "sdk_version": "1.0", "test": False}
MOMENT = {**COMMON, "moment_id": "finished_5k_run"}
SESSION = {**COMMON, "events": [{"id": "session_start", "start": "2014-10-03T18:05:22Z"}]}
PARTNERS = [
    {"gatewaykey": PARTNER_KEY, "company_token": "acme", "apps": ["demo-app", "second-app"]},
    {"gatewaykey": "partner-key-of-umbra", "company_token": "umbra", "apps": ["other-app"]},
]
ALWAYS = {"default": {"p": 1, "per_device_per_day": 100, "per_moment_per_day": 100, "min_gap_s": 0}}


def settings(rules: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"partners": PARTNERS, "rules": rules or ALWAYS, **more}


class Caller:
    """Calls one gateway with bodies typed by hand."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    def send(self, body: bytes, target: str = TARGET, headers: str = JSON_HEADERS, method: str = "POST") -> RawReply:
        return raw_call(self.gateway.base_url, method, target, body, headers)

    def post(self, fields: dict[str, Any], **changes: Any) -> RawReply:
        return self.send(json.dumps({**fields, **changes}).encode("utf-8"))

    def session(self, **changes: Any) -> RawReply:
        return self.post(SESSION, **changes)

    def reason(self, **changes: Any) -> str:
        reply = self.post(MOMENT, **changes)
        assert reply.status == 200, reply.body
        return reply.headers["x-reward-decision"].partition("reason=")[2]

    def reward(self, **changes: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.post(MOMENT, **changes).body)
        view: dict[str, Any] = answer["view"]
        return view


@pytest.fixture
def clock() -> SteppedClock:
    """The time of the specification's examples; each new fact takes a second."""
    return SteppedClock(START, timedelta(seconds=1))


@pytest.fixture
def started(clock: SteppedClock) -> Iterator[Callable[..., Caller]]:
    running: list[Gateway] = []

    def start(rules: dict[str, Any] | None = None, *, gateway: dict[str, Any] | None = None, **more: Any) -> Caller:
        config = {"rewards": settings(rules, **more), "gateway": gateway or {}}
        running.append(Gateway(config=config, clock=clock, seed=1, timings=Timings(key_interval=1e-6)))
        return Caller(running[-1])

    yield start
    for gateway in running:
        gateway.close()


@pytest.fixture
def caller(started: Callable[..., Caller]) -> Caller:
    return started()
