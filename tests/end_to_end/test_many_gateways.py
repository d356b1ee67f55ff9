"""Several gateways on one Redis behave as one."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conftest import Caller, operator_of
from tests.gateway.rewards.ledgers import SCARCE
from tests.gateway_parts import at_once
from tests.identity_lab import CLIENTS, Wire
from tests.mail_server import MailServer, eventually
from tests.redis_servers import fresh_url
from tests.reward_caller import COMMON, settings
from tests.reward_caller import Caller as RewardCaller
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import SteppedClock

THREADS = 40
LOCK, KEY = "garage-lock", "master-of-the-garage"


@pytest.fixture(scope="module")
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture(scope="module")
def pair(mail_server: MailServer) -> Iterator[tuple[Gateway, Gateway]]:
    store = fresh_url()
    limits = {"calls_a_minute": 100_000, "failures_a_minute": 100_000}
    options: dict[str, Any] = {
        "store": store,
        "locks": {LOCK: KEY},
        "smtp": mail_server.url,
        "config": {"rewards": settings(SCARCE), "identity": {"clients": CLIENTS, **limits}},
    }
    with Gateway(**options) as first, Gateway(**options) as second:
        yield first, second


@pytest.fixture
def calls(pair: tuple[Gateway, Gateway]) -> tuple[Caller, Caller]:
    return Caller(pair[0]), Caller(pair[1])


def content_of_frame(chunk: bytes) -> Any:
    return json.loads(json.loads(chunk.split(b"\r\n")[1]))["content"]


# -- thing messaging --------------------------------------------------------------------------------------


def test_listeners_of_all_gateways_get_one_order(calls: tuple[Caller, Caller]) -> None:
    targets = [(call, headers) for call in calls for headers in ("", "Accept: text/event-stream\r\n")]
    streams = [call.stream("/listen/for/dweets/from/heard", headers) for call, headers in targets]
    try:
        for number in range(20):
            assert calls[number % 2].post("heard", number)["this"] == "succeeded"
        for stream, (_, headers) in zip(streams, targets, strict=True):
            if headers:
                text = b""
                while text.count(b"\ndata: ") < 20:
                    text += stream.chunk()
                dweets = [event for event in text.decode().split("\n\n") if "data: " in event]
                found = [(re.findall(r"id: (\d+)", one), re.findall(r'"content":(\d+)', one)) for one in dweets]
                assert found == [([str(number + 1)], [str(number)]) for number in range(20)]
            else:
                assert [content_of_frame(stream.chunk()) for _ in range(20)] == list(range(20))
    finally:
        for stream in streams:
            stream.close()


def test_a_stream_resumes_exactly_at_another_gateway(calls: tuple[Caller, Caller]) -> None:
    heard: list[Any] = []
    for turn in range(6):  # each time at the other one, right after the newest dweet
        with calls[turn % 2].stream(f"/listen/for/dweets/from/moving?since={len(heard)}") as stream:
            for number in range(10):
                calls[(turn + number) % 2].post("moving", [turn, number])
            heard += [content_of_frame(stream.chunk()) for _ in range(10)]
    assert heard == [[turn, number] for turn in range(6) for number in range(10)]


def test_acknowledged_dweets_are_read_at_the_other_gateway(calls: tuple[Caller, Caller]) -> None:
    first, second = calls
    for number in range(5):
        first.post("shared", number)
    eventually(lambda: second.get("/get/latest/dweet/for/shared")["with"][0]["content"] == 4)
    history = second.get("/get/dweets/for/shared")["with"]
    assert [dweet["content"] for dweet in history] == [4, 3, 2, 1, 0]
    day = history[0]["created"][:10]
    stored = second.get(f"/get/stored/dweets/for/shared?date={day}")
    assert len(stored["with"]) in (0, 5)  # 0 only where midnight passed between two dweets
    eventually(lambda: "shared" in {one["thing"] for one in second.get("/get/stats")["with"]["active_things"]})


def test_a_lock_holds_and_ends_streams_at_both_gateways(calls: tuple[Caller, Caller]) -> None:
    first, second = calls
    streams = [call.stream("/listen/for/dweets/from/cellar") for call in calls]
    lock, master, read = first.lock()
    # Known at once: locking asks the store.
    assert second.get(f"/lock/cellar?lock={lock}&key={master}")["this"] == "succeeded"
    for stream in streams:
        assert stream.chunk() == b"", "both ended properly"
        stream.close()
    for call in calls:
        eventually(lambda call=call: call.get("/get/latest/dweet/for/cellar")["with"] == 403)
        assert call.post("cellar", 1)["with"] == 403
        assert call.post("cellar", 1, f"?key={master}")["this"] == "succeeded"
        assert call.get(f"/get/latest/dweet/for/cellar?key={read}")["this"] == "succeeded"
    # An alert is set at the other one right after the lock, and gone with it.
    assert first.get(f"/alert/a@b.example/when/cellar/return%20false?key={master}")["this"] == "succeeded"
    assert second.get(f"/get/alert/for/cellar?key={master}")["with"]["condition"] == "return false"
    assert second.get(f"/unlock/cellar?key={master}")["this"] == "succeeded"
    eventually(lambda: first.post("cellar", 2)["this"] == "succeeded")


def test_each_alert_mails_once_and_every_dweet_is_evaluated(
    calls: tuple[Caller, Caller], mail_server: MailServer
) -> None:
    first, second = calls
    assert first.get(f"/lock/garage?lock={LOCK}&key={KEY}")["this"] == "succeeded"
    assert second.get(f"/alert/a@b.example/when/garage/return%20dweet?key={KEY}")["this"] == "succeeded"
    for number in range(10):
        assert calls[number % 2].post("garage", f"message {number}", f"?key={KEY}")["this"] == "succeeded"
        if number % 5 == 4:
            status = calls[(number + 1) % 2].get(f"/get/alert/for/garage?key={KEY}")["with"]["status"]
            assert (status["message"], status["alerts_sent_today"]) == (f"message {number}", number + 1)
    for gateway in (first.gateway, second.gateway):
        eventually(lambda gateway=gateway: operator_of(gateway).outbox()["state"].tolist() == ["sent"] * 10)
    assert len(mail_server.mails) == 10


def test_post_rate_limit_counts_in_each_gateway() -> None:
    """Said in the README: a limit that all share would cost each post a call to the store."""
    store, config = fresh_url(), {"dweets": {"rate": 1}}
    clock = SteppedClock(datetime(2026, 1, 1, tzinfo=UTC), timedelta(0))  # all within one second
    with Gateway(store=store, config=config, clock=clock) as first:
        with Gateway(store=store, config=config, clock=clock) as second:
            codes = [Caller(one).post("kitchen", 1).get("with") for one in (first, first, second, second)]
    assert [code == 429 for code in codes] == [False, True, False, True]


# -- identity ---------------------------------------------------------------------------------------------


def test_fingerprint_and_code_work_once_across_gateways(pair: tuple[Gateway, Gateway]) -> None:
    wires = [Wire(gateway.base_url) for gateway in pair]
    first = wires[0].first()
    opened = at_once(THREADS, lambda number: wires[number % 2].open(first))
    assert Counter(answer.http for answer in opened) == {200: 1, 410: THREADS - 1}
    (final,) = [answer.json["vfp"] for answer in opened if answer.http == 200]
    finished = at_once(THREADS, lambda number: wires[number % 2].finish(final))
    assert Counter(answer.status for answer in finished) == {0: 1, 2003: THREADS - 1}
    # Used twice, it was stolen once: its code is revoked, at both.
    (response,) = [answer.response for answer in finished if answer.status == 0]
    stolen = {name: response[name] for name in ("ServiceAlias", "AuthenticationCode")}
    assert [wire.eligibility(stolen).status for wire in wires] == [2012, 2012]
    # A code issued by one is good at the other, with the same alias, until the first issues a newer one.
    code = wires[0].pair()
    assert wires[1].eligibility(code).status == 0
    newer = wires[1].pair()
    assert newer["ServiceAlias"] == code["ServiceAlias"]
    assert [wire.eligibility(code).status for wire in wires] == [2012, 2012]


def test_wrong_answers_are_counted_across_gateways(pair: tuple[Gateway, Gateway]) -> None:
    wires = [Wire(gateway.base_url) for gateway in pair]
    codes, challenge_id = wires[0].challenged()
    guess = {"ChallengeId": challenge_id, "ChallengeAnswer": "00000"}
    answers = at_once(20, lambda number: wires[number % 2].payment_list(codes, **guess))
    counted = Counter(answer.status for answer in answers)
    assert counted[2022] <= 3, "no more than three guesses were judged"
    assert counted[2022] + counted[2023] == 20


# -- rewards ----------------------------------------------------------------------------------------------


def session_start() -> dict[str, Any]:
    return {**COMMON, "events": [{"id": "session_start", "start": datetime.now(UTC).isoformat()}]}


def test_a_stock_of_100_gives_100_rewards_across_gateways(pair: tuple[Gateway, Gateway]) -> None:
    callers = [RewardCaller(gateway) for gateway in pair]

    def earn(number: int) -> int:
        """Start a session at one and send moments to both in turn; return how many were rewarded."""
        device = {"device_id": str(uuid.uuid4())}
        callers[number % 2].post(session_start(), **device)
        return [callers[(number + turn) % 2].reason(**device) for turn in range(6)].count("REWARDED")

    assert sum(at_once(THREADS, earn)) == 100
    decisions = [operator_of(gateway).decisions() for gateway in pair]
    assert Counter(decisions[0]["reason"]) == {"REWARDED": 100, "NO_INVENTORY": THREADS * 6 - 100}
    assert list(decisions[0]["decision_id"]) == [f"d-{number:06d}" for number in range(1, THREADS * 6 + 1)]
    assert decisions[1].equals(decisions[0])


def test_a_session_means_the_same_at_both(pair: tuple[Gateway, Gateway]) -> None:
    callers = [RewardCaller(gateway) for gateway in pair]
    device = {"device_id": str(uuid.uuid4())}
    callers[0].post(session_start(), **device)
    callers[1].reason(**device)
    # A session that is started anew at the other is the one that the first goes on with.
    callers[1].post(session_start(), **device)
    for caller in callers:
        caller.reason(**device)
    numbers = operator_of(pair[0]).decisions().tail(3)["session_id"].str.removeprefix("s-").astype(int).tolist()
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 1]
