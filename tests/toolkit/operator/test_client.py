"""`tk.operator` against real gateways: its frames, its keys, and the same data over HTTP and in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
import pytest

import toolkit
from tests.conftest import operator_of
from tests.literal_server import LiteralServer
from tests.reward_caller import DEVICE, settings
from toolkit.errors import (
    Conflict,
    DataWarning,
    InvalidArgument,
    KeyRejected,
    NotAuthenticated,
    NotFound,
    UnexpectedReply,
)
from toolkit.identity.client.transaction import AuthenticatedUser
from toolkit.operator import wire
from toolkit.rewards.analysis.rates import DECISION_COLUMNS, SESSION_COLUMNS
from toolkit.rewards.configuration import Configuration
from toolkit.secret import Secret
from toolkit_gateway import Gateway

FRAMES = {
    "locks": wire.LOCK_FIELDS,
    "outbox": wire.MAIL_FIELDS,
    "decisions": DECISION_COLUMNS,
    "reward_sessions": SESSION_COLUMNS,
}


CONFIGURATION = {
    "seed": 7,
    "quiet_hours": {"start": "22:00", "end": "06:30", "zone": "Europe/Berlin"},
    "pacing": {"start": "2026-01-01T00:00:00Z", "end": "2027-01-01T00:00:00+01:00", "slack": 5},
    "default": {"p": 0.5},
    "moments": {"run": {"arms": {"a": {"p": 1}, "b": {"p": 0}}, "message": "Done"}},
    "rewards": [{"id": "tea", "title": "Tea", "stock": 10}, {"id": "cup", "title": "Cup", "weight": 0.5}],
}


def columns_of(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in frame.dtypes.items()}


def test_an_empty_frame_has_its_columns_and_dtypes(tk: toolkit.Connection) -> None:
    for name, columns in FRAMES.items():
        frame = getattr(tk.operator, name)()
        assert len(frame) == 0
        assert columns_of(frame) == columns


def test_a_lock_is_issued_used_listed_and_revoked(gateway: Gateway, tk: toolkit.Connection) -> None:
    issued, spare = tk.operator.issue_lock(), tk.operator.issue_lock()
    assert isinstance(issued.master_key, Secret)
    assert isinstance(issued.read_key, Secret)
    tk.dweets.lock("kitchen", lock=issued.lock, key=issued.master_key)
    tk.dweets.post("kitchen", 1, key=issued.master_key)
    with pytest.warns(DataWarning, match="no mail server"):
        tk.dweets.set_alert("kitchen", who="a@b.c", condition="return true", key=issued.master_key)
    locks = tk.operator.locks().set_index("lock")
    assert columns_of(tk.operator.locks()) == wire.LOCK_FIELDS
    assert locks.loc[issued.lock, ["thing", "state"]].tolist() == ["kitchen", "in use"]
    assert locks.loc[spare.lock, "state"] == "free"
    assert pd.isna(locks.loc[spare.lock, "thing"])
    assert tk.operator.revoke_lock(issued.lock) == "kitchen"
    assert tk.operator.revoke_lock(spare.lock) is None
    assert tk.operator.locks().empty
    tk.dweets.post("kitchen", 2)
    assert tk.dweets.latest("kitchen")["content"].tolist() == [2], "everybody reads and writes it"
    with pytest.raises(KeyRejected):
        tk.dweets.lock("kitchen", lock=issued.lock, key=issued.master_key)
    with pytest.raises(NotFound, match="there is no lock"):
        tk.operator.revoke_lock(issued.lock)


def test_lock_name_must_be_text(tk: toolkit.Connection) -> None:
    for method, wrong, message in [
        ("revoke_lock", [], "lock is a str, not a list"),
        ("revoke_lock", "", "must not be empty"),
        ("reset_user", "", "must not be empty"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            getattr(tk.operator, method)(wrong)


def test_decisions_sessions_and_rules_are_read_by_url() -> None:
    with Gateway(config={"rewards": settings(CONFIGURATION | {"quiet_hours": None, "pacing": None})}) as gateway:
        credentials = {"gatewaykey": "partner-key-of-acme", "app_key": "demo-app"}
        url, key = gateway.base_url, gateway.operator_key
        with toolkit.connect(url, credentials=credentials, operator_key=key) as tk:
            tk.rewards.start_session(DEVICE)
            tk.rewards.moment(DEVICE, "run")
            decisions, sessions = tk.operator.decisions(), tk.operator.reward_sessions()
            again = toolkit.rewards.simulate(tk.operator.reward_configuration(), decisions)
        assert columns_of(decisions) == DECISION_COLUMNS
        assert columns_of(sessions) == SESSION_COLUMNS
        assert sessions["session_id"].tolist() == decisions["session_id"].tolist()
        assert again["reason"].tolist() == decisions["reason"].tolist()


def test_rules_are_returned_as_configured() -> None:
    with Gateway(config={"rewards": settings(CONFIGURATION)}) as gateway:
        assert operator_of(gateway).reward_configuration() == Configuration.parse(CONFIGURATION)


def test_the_clock_of_the_demo_gateway_is_read_and_advanced(demo: Gateway) -> None:
    operator = operator_of(demo)
    before = operator.clock()
    assert before == pd.Timestamp(demo.clock.now(), unit="ms", tz="UTC")
    assert operator.advance(300.5) == before + pd.Timedelta(seconds=300.5) == operator.clock()
    for wrong in (-1, float("nan"), float("inf"), "soon", None, [1]):
        with pytest.raises(InvalidArgument, match="seconds (is a number|must be 0 or more)"):
            operator.advance(wrong)  # type: ignore[arg-type]


def test_the_real_clock_cannot_be_advanced(tk: toolkit.Connection) -> None:
    before = pd.Timestamp.now("UTC").floor("ms")
    assert before <= tk.operator.clock() <= pd.Timestamp.now("UTC")
    with pytest.raises(Conflict, match="real clock"):
        tk.operator.advance(1)


# -- users ------------------------------------------------------------------------------------------------


def test_a_reset_revokes_the_code_and_forgets_answers(demo: Gateway) -> None:
    with toolkit.connect(demo) as tk:
        phone = demo.handset("locked_challenge")

        def user() -> AuthenticatedUser:
            transaction = tk.identity.start_authentication(phone)
            return tk.identity.finish_authentication(tk.identity.authenticate_device(transaction, phone))

        first = user()
        assert tk.identity.eligibility(first)["attempts_left"].tolist() == [0]
        assert tk.operator.reset_user(first) == ["the code is revoked", "the wrong answers are forgotten"]
        assert first.state == "revoked"
        with pytest.raises(NotAuthenticated, match="revoked"):
            tk.identity.eligibility(first)
        with pytest.raises(NotFound, match="no user with this alias"):
            tk.operator.reset_user(first.service_alias)
        assert tk.identity.eligibility(user())["attempts_left"].tolist() == [3]


# -- keys -------------------------------------------------------------------------------------------------


def test_missing_key_error_says_where_to_find_it(gateway: Gateway) -> None:
    with toolkit.connect(gateway.base_url) as tk, pytest.raises(InvalidArgument) as caught:
        tk.operator.locks()
    for part in ("operator.key", "data folder", "operator_key=", "$TOOLKIT_OPERATOR_KEY"):
        assert part in str(caught.value)


def test_invalid_key_is_not_shown(gateway: Gateway) -> None:
    for key in ("", " ", "two words", "line\nline", "k\u00fcy"):
        with toolkit.connect(gateway.base_url, operator_key=key) as tk, pytest.raises(InvalidArgument) as caught:
            tk.operator.locks()
        assert "operator key" in str(caught.value)
        assert not key.strip() or key not in str(caught.value)
    with toolkit.connect(gateway.base_url, operator_key=gateway.operator_key.reveal() + "\n") as tk:
        assert tk.operator.locks().empty, "as it is read from its file"


def test_environment_keys_are_sent_to_their_gateway_only(monkeypatch: pytest.MonkeyPatch, gateway: Gateway) -> None:
    monkeypatch.setenv("TOOLKIT_URL", gateway.base_url)
    monkeypatch.setenv("TOOLKIT_OPERATOR_KEY", gateway.operator_key.reveal())
    monkeypatch.setenv("TOOLKIT_APIKEY", "key-of-the-lab")
    with answering(b"{}") as server, toolkit.connect(server.base_url) as tk:
        with pytest.raises(InvalidArgument, match="operator key is missing"):
            tk.operator.locks()
        assert server.requests == []
        with pytest.raises(UnexpectedReply):
            tk.handwriting.available()
        with toolkit.connect(base_urls={"handwriting": server.base_url}) as elsewhere, pytest.raises(UnexpectedReply):
            elsewhere.handwriting.available()
        assert len(server.requests) == 2
        assert not [sent for sent in server.requests if "key-of-the-lab" in str(sent) or "earer" in str(sent)]
    with toolkit.connect() as tk, toolkit.connect(f"{gateway.base_url}/") as named:
        assert tk.operator.locks().empty
        assert named.operator.locks().empty


@contextmanager
def answering(body: bytes) -> Iterator[LiteralServer]:
    server = LiteralServer(lambda _path, _body: (200, {}, body))
    yield server
    server.stop()


def test_response_of_another_server_is_unexpected() -> None:
    for answer in (b"", b"[]", b"null", b'{"locks":{}}', b'{"locks":[1]}', b"<html>", b"\xff"):
        with answering(answer) as server, toolkit.connect(server.base_url, operator_key="k") as tk:
            for call in (tk.operator.locks, tk.operator.issue_lock, tk.operator.outbox, tk.operator.clock):
                with pytest.raises(UnexpectedReply, match="operator API"):
                    call()
            assert server.requests[0][1]["Authorization"] == "Bearer k"
