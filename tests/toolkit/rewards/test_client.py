"""The rewards client in a notebook, against the real gateway and against literal responses."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest

import toolkit
from tests.conftest import operator_of
from tests.literal_server import LiteralServer, Reply
from tests.reward_caller import ALWAYS, DEVICE, settings
from toolkit.errors import (
    InvalidArgument,
    KeyRejected,
    MalformedRequest,
    NotFound,
    RateLimited,
    ServiceFailure,
    UnexpectedReply,
)
from toolkit.rewards.client import MOMENT_COLUMNS, RewardPage
from toolkit_gateway import Gateway

KEYS = {"gatewaykey": "partner-key-of-acme", "app_key": "demo-app"}
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.fixture
def connected() -> Iterator[toolkit.Connection]:
    with Gateway(config={"rewards": settings()}) as gateway, toolkit.connect(gateway, credentials=KEYS) as tk:
        yield tk


def test_session_and_moments_give_frames(connected: toolkit.Connection) -> None:
    device = connected.rewards.new_device_id("acme")
    assert re.fullmatch(f"acme-{UUID}", device)
    with pytest.raises(InvalidArgument, match="company token"):
        connected.rewards.new_device_id("no token")
    early = connected.rewards.moment(device, "finished_5k_run")
    assert (early["rewarded"].iloc[0], early["reason"].iloc[0]) == (False, "NO_SESSION")
    assert early[["view_id", "title", "message", "body_url"]].isna().all(axis=None)
    with pytest.raises(InvalidArgument, match="earned no reward"):
        connected.rewards.page(early)
    start = datetime.now().astimezone()
    session = connected.rewards.start_session(device, start=start)
    assert session["date"].iloc[0] == pd.Timestamp(start)
    assert session["device"].tolist() == [device]
    moment = connected.rewards.moment(device, "finished_5k_run")
    assert list(moment.columns) == list(MOMENT_COLUMNS)
    (row,) = moment.to_dict("records")
    assert (row["rewarded"], row["reason"], row["title"]) == (True, "REWARDED", "A reward")
    assert row["body_url"].startswith(connected.base_url)


def test_frame_of_moments_is_sent_row_by_row(connected: toolkit.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    connected.rewards.start_session(DEVICE)
    given = pd.DataFrame({"device": DEVICE, "moment_id": ["a", "b", "c"], "test": [False, True, False]})
    answered = connected.rewards.moments(given, progress=False)
    assert capsys.readouterr().err == ""
    assert list(answered["reason"]) == ["REWARDED", "TEST", "REWARDED"]
    assert answered.dtypes.to_dict() == connected.rewards.moments(given.head(0), progress=False).dtypes.to_dict()


def test_a_frame_is_checked_before_the_first_is_sent(connected: toolkit.Connection) -> None:
    with pytest.raises(InvalidArgument, match="1 to 128"):
        connected.rewards.moments(pd.DataFrame({"device": [DEVICE] * 2, "moment_id": ["a", ""]}))
    with pytest.raises(InvalidArgument, match="no column device"):
        connected.rewards.moments(pd.DataFrame({"moment_id": ["a"]}))
    for odd in ("False", float("nan"), None):  # as read from a CSV file, where every text counts as true
        with pytest.raises(InvalidArgument, match="the column test must be true or false in every row"):
            connected.rewards.moments(pd.DataFrame({"device": DEVICE, "moment_id": "a", "test": [False, odd]}))
    assert connected.gateway is not None
    assert len(operator_of(connected.gateway).decisions()) == 0


def test_a_moment_has_the_name_that_the_service_stores(connected: toolkit.Connection) -> None:
    row = connected.rewards.moment(DEVICE, "cafe\N{COMBINING ACUTE ACCENT}")
    assert connected.gateway is not None
    assert row["moment_id"].tolist() == operator_of(connected.gateway).decisions()["moment_id"].tolist() == ["caf\xe9"]


def test_reward_page_is_read(connected: toolkit.Connection) -> None:
    page = connected.rewards.page(connected.rewards.moment(DEVICE, "run", test=True))
    assert "[TEST] A reward" in page.html
    bundle = page._repr_mimebundle_()
    assert bundle["text/plain"] == "<RewardPage '[TEST] A reward': This is a test reward.>"
    assert set(bundle) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert base64.b64decode(bundle["image/png"]) == page.picture()
    assert page.body_url.partition("?k=")[2] not in str(bundle), "the token stays out of saved notebooks"
    assert 'sandbox="allow-scripts"' in page.frame
    assert page.body_url + "#show" in page.frame


def test_page_with_emoji_is_drawn_without_a_warning(connected: toolkit.Connection) -> None:
    page = RewardPage("A cold drink \N{CUP WITH STRAW}", "\u4f60\u597d", "http://127.0.0.1/reward/1")
    assert page.picture().startswith(b"\x89PNG")
    moment = connected.rewards.moment(DEVICE, "run", test=True).iloc[0]
    for words in ({}, {"title": float("nan"), "message": None}):
        page = connected.rewards.page({"body_url": moment["body_url"], **words})
        assert (page.title, page.message) == ("", "")


def test_missing_page_is_an_error(connected: toolkit.Connection) -> None:
    with pytest.raises(NotFound) as caught:
        RewardPage("t", "m", f"{connected.base_url}/reward/nothing?k=wrong").fetch()
    assert (caught.value.status, caught.value.code) == (404, "unknown_reward")
    assert "wrong" not in str(caught.value)


def test_errors_keep_their_class_over_http() -> None:
    with (
        Gateway(config={"rewards": settings(calls_a_minute=1)}) as gateway,
        toolkit.connect(gateway, credentials=KEYS) as tk,
        toolkit.connect(gateway, credentials={**KEYS, "gatewaykey": "wrong"}) as stranger,
        toolkit.connect(gateway, credentials={**KEYS, "app_key": "other-app"}) as other,
    ):
        with pytest.raises(MalformedRequest) as malformed:
            tk.rewards.moment("00000000-0000-0000-0000-000000000000", "run")
        assert (malformed.value.code, malformed.value.field) == ("empty_advertiser_id", "device_id")
        with pytest.raises(KeyRejected) as rejected:
            stranger.rewards.moment(DEVICE, "run")
        assert (rejected.value.status, rejected.value.code) == (401, "bad_gatewaykey")
        with pytest.raises(KeyRejected) as unknown:
            other.rewards.moment(DEVICE, "run")
        assert (unknown.value.status, unknown.value.code) == (403, "unknown_app")
        tk.rewards.moment(DEVICE, "run")
        with pytest.raises(RateLimited) as limited:
            tk.rewards.moment(DEVICE, "run")
        assert 0 < limited.value.retry_after <= 60
        for error in (malformed, rejected, unknown, limited):
            assert error.value.request == "POST /2.0/web/moment/"
            assert "partner-key-of-acme" not in str(error.value)


def test_hint_for_a_missing_key_works_when_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Gateway(tmp_path) as gateway:
        monkeypatch.setenv("TOOLKIT_URL", gateway.base_url)
        with toolkit.connect() as tk:
            for call, variable in (
                (lambda: tk.rewards.start_session(DEVICE), "TOOLKIT_GATEWAYKEY"),
                (lambda: tk.identity.echo("hello"), "TOOLKIT_APICLIENTID"),
            ):
                with pytest.raises(InvalidArgument) as told:
                    call()
                assert f"${variable}" in str(told.value)
                assert "toolkit.connect(toolkit.Gateway.demo())" in str(told.value)


def test_simulation_of_real_decisions_decides_the_same(connected: toolkit.Connection) -> None:
    rules = {"default": {"p": 0.5, "min_gap_s": 0}}
    with Gateway(config={"rewards": settings(rules)}) as gateway, toolkit.connect(gateway, credentials=KEYS) as tk:
        devices = [tk.rewards.new_device_id("acme") for _ in range(6)]
        for device in devices[:5]:
            tk.rewards.start_session(device)
        given = pd.DataFrame({"device": devices * 6, "moment_id": [f"m{n // 12}" for n in range(36)]})
        tk.rewards.moments(given, progress=False)
        recorded = operator_of(gateway).decisions()
    columns = ["decision_id", "at", "device", "reason", "reward_id", "p"]
    assert toolkit.rewards.simulate(rules, recorded)[columns].equals(recorded[columns])
    assert set(recorded["reason"]) >= {"REWARDED", "DRAW", "NO_SESSION"}


def test_live_decisions_are_joined_with_users() -> None:
    arms = {"arms": {"A": {"p": 0}, "B; 50 %": {"p": 1}}}
    config = settings({**ALWAYS, "moments": {"run": arms}})
    acme, umbra = config["partners"]
    config["partners"] = [{**acme, "show_arms": True}, umbra]
    others = {"gatewaykey": "partner-key-of-umbra", "app_key": "other-app"}
    with (
        Gateway(config={"rewards": config}) as gateway,
        toolkit.connect(gateway, credentials=KEYS) as tk,
        toolkit.connect(gateway, credentials=others) as umbra_tk,
    ):
        users = pd.DataFrame({"user": range(8), "device": [tk.rewards.new_device_id("acme") for _ in range(8)]})
        for device in users["device"]:
            tk.rewards.start_session(device)
        sent = tk.rewards.moments(users.assign(moment_id="run"), progress=False)
        plain = tk.rewards.moment(users["device"][0], "walk")
        stranger = umbra_tk.rewards.moment(umbra_tk.rewards.new_device_id("umbra"), "run")
        upper = users["device"].str.replace(r"(?<=acme-).*", lambda match: match[0].upper(), regex=True)
        known = tk.operator.decisions(devices=users.assign(device=upper))
        with pytest.raises(InvalidArgument, match="devices are device ids, not an int"):
            tk.operator.decisions(devices=users["user"])
    assert (known["device_id"].isna() == (known["device"] == known["device"].iloc[-1])).all(), "one is of a stranger"
    assert known["device_id"].dropna().tolist() == [*upper, upper[0]]
    assert known["arm"].head(8).tolist() == sent["arm"].tolist()
    assert set(sent["arm"]) == {"A", "B; 50 %"}
    assert known["decision_id"].head(9).tolist() == [*sent["decision_id"], *plain["decision_id"]]
    assert plain["arm"].isna().all()
    assert stranger[["arm", "decision_id"]].isna().all(axis=None)
    assert stranger["reason"].tolist() == ["NO_SESSION"]


# -- the other judge: literal replies ----------------------------------------------------------------------


@contextmanager
def literal(status: int, body: bytes) -> Iterator[str]:
    """Answer every POST with this response, and every GET with its own target as a page."""

    def answer(path: str, sent: bytes) -> Reply:
        return (status, {}, body) if sent else (200, {"Content-Type": "text/html"}, path.encode())

    server = LiteralServer(answer)
    yield server.base_url
    server.stop()


def test_response_of_the_specification_is_read() -> None:
    body = (
        b'{"date": "2014-10-03T18:07:10.114233", "view": {"id": "v1", "modal": {"message": "You finished.",'
        b' "body_url": "http://rewards.example/p?x=1", "title": "A cold drink on us"}}}'
    )
    with literal(200, body) as url, toolkit.connect(url, credentials=KEYS) as tk:
        (row,) = tk.rewards.moment(DEVICE, "run").to_dict("records")
    assert row["date"] == pd.Timestamp("2014-10-03T18:07:10.114233Z")
    assert (row["view_id"], row["title"], row["rewarded"]) == ("v1", "A cold drink on us", True)
    assert pd.isna(row["reason"])


@pytest.mark.parametrize(("status", "kind"), [(200, UnexpectedReply), (500, ServiceFailure), (502, ServiceFailure)])
def test_a_response_that_cannot_be_read_is_an_error(status: int, kind: type[Exception]) -> None:
    bodies = [b"", b"<html>", b"[]", b"{}", b'{"date":7}', b'{"date":"?"}', b'{"date":"2014-10-03T18:07:10","view":{}}']
    for body in (*bodies, b'{"date":"\xff"}', b'{"x":' + b"[" * 100_000):
        with literal(status, body) as url, toolkit.connect(url, credentials=KEYS) as tk, pytest.raises(kind):
            tk.rewards.moment(DEVICE, "run")


def test_a_page_of_another_server_is_fetched_from_its_own_url() -> None:
    with literal(200, b"") as url:
        for path in ("/", "/p?x=1", "/pages/%7B7%7D?id=a%20b&empty=", "/reward/7/page?k=v"):
            page = RewardPage("t", "m", f"{url}{path}#part")
            page.fetch()
            assert page.html == path
