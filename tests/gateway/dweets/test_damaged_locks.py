"""Damaged records of locks: their things stay locked, all others work, and revoking the lock frees them."""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Caller
from tests.gateway.dweets.damaged_places import Changes, Place
from tests.gateway_parts import gateway_and_services
from tests.mail_server import eventually
from tests.redis_servers import shared_server
from toolkit.cli import main
from toolkit_gateway.dweets.lock_records import LockRecord, LockTable
from toolkit_gateway.dweets.stored_records import SPACE, encode_record

DAMAGED = {
    "this": "failed",
    "with": 403,
    "because": "this lock is damaged: the operator of the gateway can remove it with `toolkit lock revoke`",
}


def other(record: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(record), **fields}).encode()


# What a disk or a person does to the records of a thing and its lock, given the bytes that both of them hold.
DAMAGES: dict[str, Callable[[bytes], Changes]] = {
    "thing: no JSON": lambda record: {"thing": b"\x00\xff\x13"},
    "thing: empty": lambda record: {"thing": b""},
    "thing: cut off": lambda record: {"thing": record[:-9]},
    "thing: nested": lambda record: {"thing": b"[" * 100_000},
    "thing: a field more": lambda record: {"thing": other(record, more=1)},
    "thing: a wrong type": lambda record: {"thing": other(record, salt=1)},
    "thing: a salt that cannot be": lambda record: {"thing": other(record, salt="f" * 200)},
    "thing: of another thing": lambda record: {"thing": other(record, thing="cellar")},
    "thing: of no thing": lambda record: {"thing": other(record, thing=None)},
    "thing: of a lock that is not there": lambda record: {"thing": other(record, lock="nothing")},
    "thing: other keys": lambda record: {"thing": other(record, master="0" * 64)},
    "thing: lost": lambda record: {"thing": None},
    "lock: no JSON": lambda record: {"lock": b"\x00\xff\x13"},
    "lock: a wrong type": lambda record: {"lock": other(record, thing=["kitchen"])},
    "lock: of another lock": lambda record: {"lock": other(record, lock="cellar-lock")},
    "lock: of another thing": lambda record: {"lock": other(record, thing="cellar")},
    "lock: of no thing": lambda record: {"lock": other(record, thing=None)},
    "lock: lost": lambda record: {"lock": None},
    "both": lambda record: {"thing": b"{", "lock": b"}"},
}
# Each of the two records can be read, but they differ or one is lost.
READABLE = {
    *("thing: of a lock that is not there", "thing: other keys", "thing: lost"),
    *("lock: of another thing", "lock: of no thing", "lock: lost"),
}
GETS = [
    *("/get/latest/dweet/for/THING?", "/get/dweets/for/THING?", "/get/stored/dweets/for/THING?date=2026-01-01&"),
    *("/listen/for/dweets/from/THING?", "/dweet/for/THING?a=1&"),
    *("/lock/THING?lock=THING-lock&", "/lock/THING?lock=garage-lock&", "/unlock/THING?"),
    *("/alert/a@b.c/when/THING/true?", "/get/alert/for/THING?", "/remove/alert/for/THING?"),
]
POSTS = ["/dweet/for/THING?", "/dweets/for/THING?", "/dweet/quietly/for/THING?"]
CALLS = [*(("GET", target) for target in GETS), *(("POST", target) for target in POSTS)]

ROOMS = {f"room-{number:02}": name for number, name in enumerate(DAMAGES)}
THINGS = ["kitchen", "garage", *ROOMS]
LOCKS = {f"{thing}-lock": f"master-key-of-the-{thing}" for thing in THINGS}


@pytest.fixture
def folder(tmp_path: Path) -> Place:
    return locked_place("folder", tmp_path)


@pytest.fixture
def redis(tmp_path: Path) -> Place:
    return locked_place("redis", tmp_path)


def locked_place(kind: str, folder: Path) -> Place:
    """Return a place where all things are locked, with a dweet and an alert each."""
    place = Place(kind, folder)
    with place.gateway(locks=LOCKS) as gateway:
        call = Caller(gateway)
        for thing in THINGS:
            key = f"key=master-key-of-the-{thing}"
            assert call.get(f"/lock/{thing}?lock={thing}-lock&{key}")["this"] == "succeeded"
            assert call.post(thing, 1, f"?{key}")["this"] == "succeeded"
            assert call.get(f"/alert/a@b.c/when/{thing}/return%20true?{key}")["this"] == "succeeded"
    return place


def damage(place: Place, rooms: dict[str, str]) -> None:
    """Damage the records of things, each as named."""
    records = place.records()
    changes: dict[str, bytes | None] = {}
    for thing, name in rooms.items():
        keys = {"thing": f"thing:{thing}", "lock": f"lock:{thing}-lock"}
        changes |= {keys[kind]: value for kind, value in DAMAGES[name](records[keys["thing"]]).items()}
    place.change(changes)


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def lock_command(place: Place, command: str, *names: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["lock", command, *place.options, *names])
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize("kind", ["folder", "redis"])
def test_damaged_locks_shut_their_things_and_no_other(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = locked_place(kind, tmp_path)
    damage(place, ROOMS)
    with place.gateway() as gateway:
        call = Caller(gateway)
        for room, name in ROOMS.items():
            for method, target in CALLS:
                for key in ("", "key=wrong", f"key=master-key-of-the-{room}"):
                    answer = json.loads(call(method, target.replace("THING", room) + key, b"1").body)
                    assert answer == DAMAGED, (name, method, target, key)
            removed = call.get(f"/remove/lock/{room}-lock?key=master-key-of-the-{room}")
            assert removed["with"] == (404 if name == "lock: of no thing" else 403), name
        assert call.get("/get/latest/dweet/for/garage?")["with"] == 403
        assert call.get("/get/latest/dweet/for/garage?key=master-key-of-the-garage")["this"] == "succeeded"
        assert call.post("garage", 2, "?key=master-key-of-the-garage")["this"] == "succeeded"
        assert call.post("porch", 1)["this"] == "succeeded"
        assert [thing["thing"] for thing in call.get("/get/stats")["with"]["active_things"]] == ["porch"]
        call.locked("attic")
        assert call.post("attic", 1)["with"] == 403
        assert call.get("/unlock/garage?key=master-key-of-the-garage")["this"] == "succeeded"
        assert call.post("garage", 3)["this"] == "succeeded"
    for room, name in ROOMS.items():
        logged = [text for text in complaints(caplog) if room in text and "`toolkit lock revoke` removes it" in text]
        assert len(logged) == (0 if name in READABLE else 2 if name == "both" else 1), name
    assert {f"alert:{room}" for room in ROOMS} <= place.records().keys(), "nothing of them was changed"


def test_revoking_damaged_locks_unlocks_their_things(folder: Place, caplog: pytest.LogCaptureFixture) -> None:
    place = folder
    damage(place, ROOMS)
    listed = lock_command(place, "list")
    assert re.search("^garage-lock +in use +on garage$", listed, re.MULTILINE)
    for room, name in ROOMS.items():
        lock = f"{room}-lock"
        if name == "both":  # no record says which lock is on the thing
            assert re.search(f"^{lock} +damaged\n(?s:.*)^- +damaged +on {room}$", listed, re.MULTILINE)
            assert lock_command(place, "revoke", lock) == f"The lock {lock!r} is removed.\n"
            revoked = lock_command(place, "revoke", room)
        else:
            on_thing = "nothing" if name == "thing: of a lock that is not there" else lock
            assert re.search(f"^{on_thing} +damaged +on {room}$", listed, re.MULTILINE), name
            revoked = lock_command(place, "revoke", on_thing)
        assert f"The thing {room!r} is unlocked: everybody can read and write it" in revoked
        records = place.records()
        assert not {f"thing:{room}", f"alert:{room}"} & records.keys(), name
        if f"lock:{lock}" in records:  # another lock was revoked, and this one still names the thing
            lock_command(place, "revoke", lock)
    assert {"thing:garage", "alert:garage"} <= place.records().keys()
    with place.gateway() as gateway:
        call = Caller(gateway)
        for room in ROOMS:
            assert call.get(f"/get/latest/dweet/for/{room}")["this"] == "succeeded"
            call.locked(room)
            assert call.post(room, 1)["with"] == 403
        assert call.post("garage", 1, "?key=master-key-of-the-garage")["this"] == "succeeded"
    assert complaints(caplog) == []
    for gone in ("room-00-lock", "room-00"):
        assert f"there is no lock {gone!r}" in lock_command(place, "revoke", gone, code=1)


def test_damaged_lock_is_revoked_and_issued_again(folder: Place, caplog: pytest.LogCaptureFixture) -> None:
    """One that is free, and one of the settings with which the gateway starts."""
    folder.change({"lock:spare": b"{"})
    damage(folder, {"kitchen": "lock: no JSON"})
    with folder.gateway(locks=LOCKS) as gateway:
        call = Caller(gateway)
        assert call.get("/lock/cellar?lock=spare&key=key-of-the-spare-lock") == DAMAGED
        assert call.post("kitchen", 1, "?key=master-key-of-the-kitchen") == DAMAGED
        assert call.post("garage", 1, "?key=master-key-of-the-garage")["this"] == "succeeded"
        assert any(text.startswith("the lock 'spare' is damaged") for text in complaints(caplog))
        assert lock_command(folder, "revoke", "spare") == "The lock 'spare' is removed.\n"
        assert "The thing 'kitchen' is unlocked" in lock_command(folder, "revoke", "kitchen-lock")
        eventually(lambda: call.get("/dweet/for/kitchen?n=1")["this"] == "succeeded")
    with folder.gateway(locks={"spare": "key-of-the-spare-lock"}) as gateway:
        assert Caller(gateway).get("/lock/cellar?lock=spare&key=key-of-the-spare-lock")["this"] == "succeeded"


def test_damage_ends_the_streams_of_a_running_gateway(redis: Place) -> None:
    with redis.gateway() as gateway:
        call = Caller(gateway)
        for thing, name in (("kitchen", "lock: no JSON"), ("garage", "thing: no JSON")):
            key = f"key=master-key-of-the-{thing}"
            with call.stream(f"/listen/for/dweets/from/{thing}?{key}") as stream:
                damage(redis, {thing: name})
                assert stream.chunk() == b"", "the stream ends properly"
            assert call.post(thing, 1, f"?{key}") == DAMAGED


def test_redis_value_without_its_version_shuts_its_thing(redis: Place) -> None:
    with shared_server().client() as client:
        (key,) = [
            key
            for key in client.keys("*{locked-things}:records")
            if client.hexists(key, THING) and str(redis.url).split("prefix=")[1].split("&")[0].encode() in key
        ]
        for value in (b"", b"12", b"garbage", b"x:{}", b"12x:{}"):
            client.hset(key, THING, value)
            with redis.gateway() as gateway:
                assert Caller(gateway).post("kitchen", 1, "?key=master-key-of-the-kitchen") == DAMAGED, value
                assert Caller(gateway).post("garage", 1, "?key=master-key-of-the-garage")["this"] == "succeeded"
    assert "The thing 'kitchen' is unlocked" in lock_command(redis, "revoke", "kitchen-lock")


# -- the table of records ---------------------------------------------------------------------------------

THING, LOCK = "thing:kitchen", "lock:kitchen-lock"
RECORD = encode_record(LockRecord("kitchen-lock", "0" * 32, "1" * 64, "2" * 64, "kitchen"))
VALUES = st.sampled_from(
    [None, b"{", RECORD, other(RECORD, thing=None), other(RECORD, thing="a"), other(RECORD, lock="b")]
)
KEYS = st.sampled_from([THING, LOCK, "thing:a", "lock:b"])


@given(changes=st.lists(st.tuples(KEYS, VALUES)))
def test_lock_table_depends_on_the_newest_records_only(changes: list[tuple[str, bytes | None]]) -> None:
    table, fresh, records = LockTable(), LockTable(), dict[str, bytes]()
    for key, value in changes:
        table.apply(key, value)
        records.pop(key, None)
        if value is not None:
            records[key] = value
    for key, value in records.items():
        fresh.apply(key, value)
    assert table.locked == fresh.locked
    assert table.rows() == fresh.rows()
    assert [table.lock_on(thing) for thing in ("kitchen", "a")] == [fresh.lock_on(thing) for thing in ("kitchen", "a")]


def test_no_single_changed_byte_opens_a_thing() -> None:
    chance = random.Random(7)
    for key in (THING, LOCK):
        for at in range(len(RECORD)):
            damaged = bytearray(RECORD)
            damaged[at] ^= 1 << chance.randrange(8)
            table = LockTable()
            for name in (THING, LOCK):
                table.apply(name, bytes(damaged) if name == key else RECORD)
            assert "kitchen" in table.locked
            assert table.lock_on("kitchen") is None, (key, at)


def test_lock_that_others_keep_changing_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    async def compare_and_set(space: str, expected: Changes, changes: Changes) -> bool:
        nonlocal attempts
        attempts += space == SPACE
        return False

    kitchen, garage = "key=master-key-of-the-kitchen", "key=master-key-of-the-garage"
    gateway, services = gateway_and_services(locks=LOCKS)
    with gateway:
        call = Caller(gateway)
        assert call.get(f"/lock/kitchen?lock=kitchen-lock&{kitchen}")["this"] == "succeeded"
        monkeypatch.setattr(services.store.records, "compare_and_set", compare_and_set)
        for target in (
            *(f"/lock/garage?lock=garage-lock&{garage}", f"/unlock/kitchen?{kitchen}"),
            *(f"/remove/lock/kitchen-lock?{kitchen}", f"/alert/a@b.c/when/kitchen/true?{kitchen}"),
        ):
            attempts = 0
            assert call.get(target)["with"] == 503, target
            assert attempts == 20
        monkeypatch.undo()
