"""dweepy, an old client from PyPI with only its two addresses changed, does all that its README shows."""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import requests

from tests.conftest import operator_of
from toolkit_gateway import Gateway

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import dweepy
    import dweepy.api
    import dweepy.streaming

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
CONDITION = (
    "if(dweet.alertValue > 10) return 'TEST: Greater than 10'; if(dweet.alertValue < 10) return 'TEST: Less than 10';"
)
CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def lock_and_key(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    monkeypatch.setattr(dweepy.api, "BASE_URL", gateway.base_url)
    monkeypatch.setattr(dweepy.streaming, "BASE_URL", gateway.base_url)
    issued = operator_of(gateway).issue_lock()
    return issued.lock, issued.master_key.reveal()


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as kept:
        yield kept


def test_dweepy_posts(lock_and_key: tuple[str, str], session: requests.Session) -> None:
    unnamed = dweepy.dweet({"some_key": "some_value"})
    assert unnamed["content"] == {"some_key": "some_value"}
    assert re.fullmatch(r"[a-z]+-[a-z]+-[0-9a-f]{4}", unnamed["thing"])
    named = dweepy.dweet_for("this_is_a_thing", {"some_key": "some_value"}, session=session)
    assert (named["thing"], named["content"]) == ("this_is_a_thing", {"some_key": "some_value"})
    assert CREATED.fullmatch(named["created"])
    assert dweepy.dweet({"some_key": "some_value"}, session=session)["thing"] != unnamed["thing"]


def test_dweepy_reads_dweets(lock_and_key: tuple[str, str]) -> None:
    for number in range(3):
        dweepy.dweet_for("this_is_a_thing", {"n": number})
    latest = dweepy.get_latest_dweet_for("this_is_a_thing")
    assert [sorted(dweet) for dweet in latest] == [["content", "created", "thing"]]
    assert [dweet["content"] for dweet in latest] == [{"n": 2}]
    assert [dweet["content"]["n"] for dweet in dweepy.get_dweets_for("this_is_a_thing")] == [2, 1, 0]


def test_dweepy_sets_alerts(lock_and_key: tuple[str, str]) -> None:
    lock, key = lock_and_key
    dweepy.lock("this_is_a_thing", lock, key)
    record = {
        "thing": "this_is_a_thing",
        "condition": CONDITION,
        "is_demo": False,
        "recipients": [
            {"type": "email", "address": "test@example.com"},
            {"type": "email", "address": "anothertest@example.com"},
        ],
    }
    who = ["test@example.com", "anothertest@example.com"]
    assert dweepy.set_alert("this_is_a_thing", who, CONDITION, key) == record
    status = {"message": "", "since": None, "open": False, "alerts_sent_today": 0, "alerts_allowed_today": 100}
    assert dweepy.get_alert("this_is_a_thing", key) == {"status": status, **record}
    assert dweepy.remove_alert("this_is_a_thing", key) == {"thing": "this_is_a_thing"}
    with pytest.raises(dweepy.DweepyError, match="we couldn't find this"):
        dweepy.get_alert("this_is_a_thing", key)


def test_dweepy_locks_and_unlocks(lock_and_key: tuple[str, str]) -> None:
    lock, key = lock_and_key
    assert dweepy.lock("my-thing", lock, key) == lock
    dweepy.dweet_for("my-thing", {"some": "data"}, key)
    assert dweepy.get_latest_dweet_for("my-thing", key)[0]["content"] == {"some": "data"}
    assert len(dweepy.get_dweets_for("my-thing", key)) == 1
    for work in (
        lambda: dweepy.dweet_for("my-thing", {"some": "data"}),
        lambda: dweepy.get_latest_dweet_for("my-thing"),
        lambda: dweepy.get_dweets_for("my-thing"),
    ):
        with pytest.raises(dweepy.DweepyError, match="this thing is locked and requires a key"):
            work()
    with pytest.raises(dweepy.DweepyError, match="the key you provided doesn't work with this thing"):
        dweepy.get_dweets_for("my-thing", "badkey")
    assert dweepy.unlock("my-thing", key) == "my-thing"
    assert dweepy.lock("my-thing", lock, key) == lock
    assert dweepy.remove_lock(lock, key) == lock
    with pytest.raises(dweepy.DweepyError, match="this lock is not in use"):
        dweepy.remove_lock(lock, key)


def test_dweepy_raises_its_errors(lock_and_key: tuple[str, str]) -> None:
    with pytest.raises(dweepy.DweepyError, match="we couldn't find this"):
        dweepy.get_latest_dweet_for("nobody")
    with pytest.raises(dweepy.DweepyError, match="the body is not valid JSON"):
        dweepy.dweet_for("this_is_a_thing", {"not": float("nan")})


@pytest.mark.parametrize("locked", [False, True])
def test_dweepy_listens_to_payloads_of_all_sizes(lock_and_key: tuple[str, str], locked: bool, session: Any) -> None:
    lock, key = lock_and_key
    given = key if locked else None
    if locked:
        dweepy.lock("this_is_a_thing", lock, key)
    sizes = [*range(10, 300, 14), *range(300, 1_900, 106), 1_900]
    contents = [{"n": "x" * size} for size in sizes] + [{"ü": 'a "quoted" \\ text ☃'}, {"nested": {"a": [1, None]}}]
    heard: list[Any] = []
    connected = threading.Event()
    send = session.send

    def noted(*args: Any, **kwargs: Any) -> Any:
        response = send(*args, **kwargs)
        connected.set()
        return response

    session.send = noted
    dweets = dweepy.listen_for_dweets_from("this_is_a_thing", key=given, session=session)
    listener = threading.Thread(target=lambda: heard.extend(islice(dweets, len(contents))))
    listener.start()
    assert connected.wait(60)
    for content in contents:
        dweepy.dweet_for("this_is_a_thing", content, given)
    listener.join(60)
    dweets.close()
    assert [dweet["content"] for dweet in heard] == json.loads(json.dumps(contents))
    assert all(sorted(dweet) == ["content", "created", "thing"] for dweet in heard)
