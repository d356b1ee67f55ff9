"""Damaged records of alerts and mails are skipped and affect no other; those of other versions are read."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import Caller, operator_of
from tests.gateway.dweets.damaged_places import Place
from tests.mail_server import MailServer, eventually
from toolkit_gateway.dweets.mail import Mail
from toolkit_gateway.dweets.stored_records import encode_record


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
MAIL_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no JSON": lambda record: b"\xff",
    "cut off": lambda record: record[:-7],
    "a field more": lambda record: other(record, more=1),
    "addresses as text": lambda record: other(record, to="a@b.example"),
    "an ambiguous address": lambda record: other(record, to=["a@b.example", "a@x..co"]),
    "no address": lambda record: other(record, to=[]),
    "of another mail": lambda record: other(record, id="kitchen:1"),
    "before all time": lambda record: other(record, at=-1),
    "after all time": lambda record: other(record, at=10**17),
    "due after all time": lambda record: other(record, due=10**400),
    "fewer attempts than none": lambda record: other(record, attempts=-100),
    "a number too many": lambda record: other(record, attempts="many"),
}
DAMAGED_THINGS = {f"garage-{number}": damage for number, damage in enumerate(ALERT_DAMAGES.values())}
THINGS = ["attic", "garage", "kitchen", *DAMAGED_THINGS]
LOCKS = {f"{thing}-lock": "key-of-the-house" for thing in THINGS}
ALERT = "/alert/a@b.example/when/garage/return%20dweet?key=key-of-the-house"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder where each thing is locked and has an alert."""
    place = Place("folder", tmp_path)
    with place.gateway(locks=LOCKS) as gateway:
        call = Caller(gateway)
        for thing in THINGS:
            call.get(f"/lock/{thing}?lock={thing}-lock&key=key-of-the-house")
            assert call.get(ALERT.replace("garage", thing))["this"] == "succeeded"
    return place


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_damaged_alerts_stop_no_other(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    records = place.records()
    place.change({f"alert:{thing}": damage(records[f"alert:{thing}"]) for thing, damage in DAMAGED_THINGS.items()})
    with MailServer() as server, place.gateway(smtp=server.url) as gateway:
        call = Caller(gateway)
        for thing in [*DAMAGED_THINGS, "attic", "kitchen"]:
            assert call.post(thing, "fire", "?key=key-of-the-house")["this"] == "succeeded"
        damaged = "the record of this alert is damaged: remove the alert, or set it again"
        refused = {"this": "failed", "with": 409, "because": damaged}
        for thing in [*DAMAGED_THINGS, *DAMAGED_THINGS]:
            assert call.get(f"/get/alert/for/{thing}?key=key-of-the-house") == refused, thing
        assert call.get("/get/alert/for/kitchen?key=key-of-the-house")["with"]["status"]["open"]
        eventually(lambda: len(server.mails) == 2)
        assert sorted(operator_of(gateway).outbox()["thing"]) == ["attic", "kitchen"]
        for thing in DAMAGED_THINGS:
            said = [text for text in complaints(caplog) if f"alert of the thing '{thing}' is damaged" in text]
            assert len(said) == 1, thing
        removed, *set_again = DAMAGED_THINGS
        assert call.get(f"/remove/alert/for/{removed}?key=key-of-the-house")["this"] == "succeeded"
        assert call.get(f"/get/alert/for/{removed}?key=key-of-the-house")["with"] == 404
        for thing in set_again:
            assert call.get(ALERT.replace("garage", thing))["this"] == "succeeded"
            call.post(thing, "fire", "?key=key-of-the-house")
        eventually(lambda: len(server.mails) == 2 + len(set_again))


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


def test_damaged_mails_stop_no_other(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    good = [Mail(f"{thing}:1", 1_000, thing, ["a@b.example"], thing, "text") for thing in ("attic", "kitchen")]
    damaged = {}
    for number, damage in enumerate(MAIL_DAMAGES.values()):
        mail = replace(MAIL, id=f"garage:{number}")
        damaged[mail.key] = damage(encode_record(mail))
    place.change({mail.key: encode_record(mail) for mail in good} | damaged)
    with MailServer() as server, place.gateway(smtp=server.url) as gateway:
        eventually(lambda: operator_of(gateway).outbox()["state"].tolist() == ["sent", "sent"])
        assert len(server.mails) == 2
    for number, name in enumerate(MAIL_DAMAGES):
        assert [text for text in complaints(caplog) if f"'garage:{number}' is damaged" in text], name
    assert any("'a@x..co' is not an e-mail address" in text for text in complaints(caplog))
    assert damaged.items() <= place.records().items()


def test_mail_in_an_unknown_state_is_finished(place: Place) -> None:
    states = {"garage:1": "uncertain", "garage:2": "waiting", "garage:3": "waiting"}
    mails = [replace(MAIL, id=mail, at=number, state=state) for number, (mail, state) in enumerate(states.items())]
    place.change({mail.key: encode_record(mail) for mail in mails})
    config = {"dweets": {"finished_mails": 2}}
    with MailServer() as server, place.gateway(smtp=server.url, config=config) as gateway:
        eventually(lambda: operator_of(gateway).outbox()["state"].tolist() == ["sent", "sent"])  # the newest two
        assert len(server.mails) == 2


# -- records that another version of the gateway wrote ----------------------------------------------------


def otherwise(record: bytes, *left_out: str) -> bytes:
    """Write a record with other spaces, in another order, and without some fields."""
    fields = json.loads(record)
    return json.dumps({name: fields[name] for name in sorted(fields) if name not in left_out}, indent=1).encode()


def test_locks_of_another_encoding_are_changed(place: Place) -> None:
    place.change({key: otherwise(value) for key, value in place.records().items()})
    with place.gateway() as gateway:
        call = Caller(gateway)
        assert call.post("kitchen", 1)["with"] == 403
        assert call.get("/unlock/kitchen?key=key-of-the-house")["this"] == "succeeded"
    place.change({key: otherwise(value, "thing") for key, value in place.records().items()})
    with place.gateway(locks=LOCKS) as gateway:
        assert Caller(gateway).get("/lock/kitchen?lock=kitchen-lock&key=key-of-the-house")["this"] == "succeeded"


def test_alerts_of_another_encoding_are_evaluated(place: Place) -> None:
    stored = place.records()["alert:kitchen"]
    place.change({"alert:kitchen": otherwise(stored, "is_open", "message", "since")})
    with place.gateway() as gateway:
        call = Caller(gateway)
        for number in range(3):
            call.post("kitchen", str(number), "?key=key-of-the-house")
        status = call.get("/get/alert/for/kitchen?key=key-of-the-house")["with"]["status"]
        assert (status["message"], status["alerts_sent_today"]) == ("2", 3)
        assert len(operator_of(gateway).outbox()) == 3


def test_mails_of_another_encoding_are_sent_once(tmp_path: Path) -> None:
    place = Place("folder", tmp_path)
    mail = Mail("kitchen:1", 1_000, "kitchen", ["a@b.example"], "subject", "text")
    place.change({mail.key: otherwise(encode_record(mail), "lease", "due", "attempts", "error", "state")})
    with MailServer() as server, place.gateway(smtp=server.url) as gateway:
        eventually(lambda: operator_of(gateway).outbox()["state"].tolist() == ["sent"])
        assert len(server.mails) == 1


def test_a_damaged_count_of_mails_starts_at_0(place: Place) -> None:
    with place.gateway() as gateway:
        Caller(gateway).post("kitchen", "one", "?key=key-of-the-house")
        assert len(operator_of(gateway).outbox()) == 1
    (count,) = [key for key in place.records() if key.startswith("mails-today:")]
    place.change({count: b"{"})
    with place.gateway() as gateway:
        call = Caller(gateway)
        call.post("kitchen", "two", "?key=key-of-the-house")
        assert call.get("/get/alert/for/kitchen?key=key-of-the-house")["with"]["status"]["alerts_sent_today"] == 1
        assert len(operator_of(gateway).outbox()) == 2
