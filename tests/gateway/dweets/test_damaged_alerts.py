"""Damaged records of alerts and mails are reported and skipped, and do not affect others."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import Caller, operator_of
from tests.gateway.dweets.damaged_places import Place, filled_place, in_places
from tests.mail_server import MailServer, eventually
from toolkit_gateway.dweets.mail import Mail
from toolkit_gateway.dweets.storage import encode_record

THINGS = ["attic", "garage", "kitchen"]
LOCKS = {f"{thing}-lock": "key-of-the-house" for thing in THINGS}
ALERT = "/alert/a@b.example/when/garage/return%20dweet?key=key-of-the-house"


def other(record: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(record), **fields}).encode()


ALERT_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no JSON": lambda record: b"\x00",
    "empty": lambda record: b"",
    "cut off": lambda record: record[:-5],
    "nested": lambda record: b"[" * 100_000,
    "a field more": lambda record: other(record, more=1),
    "a field less": lambda record: json.dumps({"thing": "garage"}).encode(),
    "who is a text": lambda record: other(record, who="a@b.example"),
    "a number as text": lambda record: other(record, position="1"),
    "a truth as number": lambda record: other(record, position=True),
    "of another thing": lambda record: other(record, thing="kitchen"),
}
MAIL = Mail("garage:1", 1_000, "garage", ["a@b.example"], "damaged", "text")
STORED = encode_record(MAIL)
MAIL_DAMAGES: dict[str, bytes] = {
    "no JSON": b"\xff",
    "cut off": STORED[:-7],
    "a field more": other(STORED, more=1),
    "addresses as text": other(STORED, to="a@b.example"),
    "of another mail": other(STORED, id="kitchen:1"),
    "before all time": other(STORED, at=-1),
    "after all time": other(STORED, at=10**17),
    "due after all time": other(STORED, due=10**400),
    "fewer attempts than none": other(STORED, attempts=-100),
    "a number too many": other(STORED, attempts="many"),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    set_alerts(Place("folder", folder))
    return folder


@pytest.fixture(params=["folder", "redis"])
def place(request: pytest.FixtureRequest, template: Path, tmp_path: Path) -> Place:
    return filled_place(request.param, tmp_path, template, set_alerts)


def set_alerts(place: Place) -> None:
    with place.gateway(locks=LOCKS) as gateway:
        call = Caller(gateway)
        for thing in THINGS:
            call.get(f"/lock/{thing}?lock={thing}-lock&key=key-of-the-house")
            assert call.get(ALERT.replace("garage", thing))["this"] == "succeeded"


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@in_places(ALERT_DAMAGES, ["no JSON", "of another thing"])
def test_a_damaged_alert_stops_no_other(place: Place, name: str, caplog: pytest.LogCaptureFixture) -> None:
    place.change({"alert:garage": ALERT_DAMAGES[name](place.records()["alert:garage"])})
    with MailServer() as server, place.gateway(smtp=server.url) as gateway:
        call = Caller(gateway)
        for thing in THINGS:
            assert call.post(thing, "fire", "?key=key-of-the-house")["this"] == "succeeded"
        damaged = "the record of this alert is damaged: remove the alert, or set it again"
        for _ in range(2):
            assert call.get("/get/alert/for/garage?key=key-of-the-house") == {
                "this": "failed",
                "with": 409,
                "because": damaged,
            }
        assert call.get("/get/alert/for/kitchen?key=key-of-the-house")["with"]["status"]["open"]
        eventually(lambda: len(server.mails) == 2)
        assert sorted(operator_of(gateway).outbox()["thing"]) == ["attic", "kitchen"]
        said = [text for text in complaints(caplog) if "alert of the thing 'garage' is damaged" in text]
        assert len(said) == 1
        assert call.get(ALERT)["this"] == "succeeded"
        call.post("garage", "fire", "?key=key-of-the-house")
        eventually(lambda: len(server.mails) == 3)
        assert call.get("/remove/alert/for/garage?key=key-of-the-house")["this"] == "succeeded"


def test_a_damaged_alert_can_be_removed(place: Place) -> None:
    place.change({"alert:garage": b"{"})
    with place.gateway() as gateway:
        call = Caller(gateway)
        assert call.get("/remove/alert/for/garage?key=key-of-the-house")["this"] == "succeeded"
        assert call.get("/get/alert/for/garage?key=key-of-the-house")["with"] == 404


def test_an_alert_stored_with_a_bad_address_mails_nobody(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    stored = place.records()["alert:garage"]
    place.change({"alert:garage": other(stored, who=["a@b.example", "=?utf-8?q?evil=40x.example?=@x..co"])})
    with MailServer() as server, place.gateway(smtp=server.url) as gateway:
        call = Caller(gateway)
        call.post("garage", "fire", "?key=key-of-the-house")
        call.post("kitchen", "fire", "?key=key-of-the-house")
        eventually(lambda: operator_of(gateway).outbox()["state"].tolist() == ["sent"])
        assert [mail.rcpt_tos for mail in server.mails] == [["a@b.example"]]
    assert any("is not an e-mail address" in complaint for complaint in complaints(caplog))


@in_places(MAIL_DAMAGES, ["no JSON", "of another mail"])
def test_a_damaged_mail_stops_no_other(place: Place, name: str, caplog: pytest.LogCaptureFixture) -> None:
    good = [Mail(f"{thing}:1", 1_000, thing, ["a@b.example"], thing, "text") for thing in ("attic", "kitchen")]
    place.change({mail.key: encode_record(mail) for mail in good} | {MAIL.key: MAIL_DAMAGES[name]})
    with MailServer() as server, place.gateway(smtp=server.url) as gateway:
        eventually(lambda: operator_of(gateway).outbox()["state"].tolist() == ["sent", "sent"])
        assert len(server.mails) == 2
    assert [text for text in complaints(caplog) if "'garage:1' is damaged" in text]
    assert place.records()[MAIL.key] == MAIL_DAMAGES[name]


def test_mail_in_an_unknown_state_is_finished(place: Place) -> None:
    states = {"garage:1": "uncertain", "garage:2": "waiting", "garage:3": "waiting"}
    mails = [replace(MAIL, id=mail, at=number, state=state) for number, (mail, state) in enumerate(states.items())]
    place.change({mail.key: encode_record(mail) for mail in mails})
    config = {"dweets": {"finished_mails": 2}}
    with MailServer() as server, place.gateway(smtp=server.url, config=config) as gateway:
        eventually(lambda: operator_of(gateway).outbox()["state"].tolist() == ["sent", "sent"])  # the newest two
        assert len(server.mails) == 2
