"""Records that another version of the gateway wrote: read by their fields, compared by their bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Caller, operator_of
from tests.gateway.dweets.damaged_places import Place
from tests.mail_server import MailServer, eventually
from toolkit_gateway.dweets.mail import Mail
from toolkit_gateway.dweets.storage import encode_record

LOCKS = {"kitchen-lock": "key-of-the-house"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place("folder", tmp_path)
    with place.gateway(locks=LOCKS) as gateway:
        call = Caller(gateway)
        assert call.get("/lock/kitchen?lock=kitchen-lock&key=key-of-the-house")["this"] == "succeeded"
        assert call.get("/alert/a@b.example/when/kitchen/return%20dweet?key=key-of-the-house")["this"] == "succeeded"
    return place


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
