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
from tests.gateway.dweets.damaged_places import Changes, Place, filled_place, in_places
from tests.mail_server import eventually
from toolkit.cli import main
from toolkit.errors import StoreUnavailable
from toolkit_gateway.dweets.dweets import DweetService, DweetSettings
from toolkit_gateway.dweets.lock_records import LockRecord, LockTable
from toolkit_gateway.dweets.storage import SPACE, encode_record
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores.embedded import EmbeddedStore

DAMAGED = {
    "this": "failed",
    "with": 403,
    "because": "this lock is damaged: the operator of the gateway can remove it with `toolkit lock revoke`",
}
THING, LOCK = "thing:kitchen", "lock:kitchen-lock"
LOCKS = {"kitchen-lock": "key-of-the-kitchen", "garage-lock": "key-of-the-garage"}


def other(record: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(record), **fields}).encode()


# What a disk or a person does to the records of the kitchen, given the bytes that both of them hold.
DAMAGES: dict[str, Callable[[bytes], Changes]] = {
    "thing: no JSON": lambda record: {THING: b"\x00\xff\x13"},
    "thing: empty": lambda record: {THING: b""},
    "thing: cut off": lambda record: {THING: record[:-9]},
    "thing: a list": lambda record: {THING: b"[1]"},
    "thing: nested": lambda record: {THING: b"[" * 100_000},
    "thing: a field more": lambda record: {THING: other(record, more=1)},
    "thing: a wrong type": lambda record: {THING: other(record, salt=1)},
    "thing: a hash that cannot be": lambda record: {THING: other(record, master="ü")},
    "thing: a salt that cannot be": lambda record: {THING: other(record, salt="f" * 200)},
    "thing: of another thing": lambda record: {THING: other(record, thing="cellar")},
    "thing: of no thing": lambda record: {THING: other(record, thing=None)},
    "thing: of a lock that is not there": lambda record: {THING: other(record, lock="nothing")},
    "thing: other keys": lambda record: {THING: other(record, master="0" * 64)},
    "thing: lost": lambda record: {THING: None},
    "lock: no JSON": lambda record: {LOCK: b"\x00\xff\x13"},
    "lock: a wrong type": lambda record: {LOCK: other(record, thing=["kitchen"])},
    "lock: of another lock": lambda record: {LOCK: other(record, lock="cellar-lock")},
    "lock: of another thing": lambda record: {LOCK: other(record, thing="cellar")},
    "lock: of no thing": lambda record: {LOCK: other(record, thing=None)},
    "lock: lost": lambda record: {LOCK: None},
    "both": lambda record: {THING: b"{", LOCK: b"}"},
}
IN_REDIS = ["thing: no JSON", "thing: lost", "lock: lost", "lock: of another thing", "both"]
# Each of the two records can be read, but they differ or one is lost.
READABLE = {
    *("thing: of a lock that is not there", "thing: other keys", "thing: lost"),
    *("lock: of another thing", "lock: of no thing", "lock: lost"),
}
CALLS = [
    ("GET", "/get/latest/dweet/for/kitchen?"),
    ("GET", "/get/dweets/for/kitchen?"),
    ("GET", "/get/stored/dweets/for/kitchen?date=2026-01-01&"),
    ("GET", "/listen/for/dweets/from/kitchen?"),
    ("GET", "/dweet/for/kitchen?a=1&"),
    ("POST", "/dweet/for/kitchen?"),
    ("POST", "/dweets/for/kitchen?"),
    ("POST", "/dweet/quietly/for/kitchen?"),
    ("GET", "/lock/kitchen?lock=kitchen-lock&"),
    ("GET", "/lock/kitchen?lock=garage-lock&"),
    ("GET", "/unlock/kitchen?"),
    ("GET", "/alert/a@b.c/when/kitchen/return%20true?"),
    ("GET", "/get/alert/for/kitchen?"),
    ("GET", "/remove/alert/for/kitchen?"),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where kitchen and garage are locked."""
    folder = tmp_path_factory.mktemp("template")
    lock_both(Place("folder", folder))
    return folder


@pytest.fixture(params=["folder", "redis"])
def place(request: pytest.FixtureRequest, template: Path, tmp_path: Path) -> Place:
    """Such a folder, or the same in a Redis."""
    return filled_place(request.param, tmp_path, template, lock_both)


def lock_both(place: Place) -> None:
    """Lock kitchen and garage, with a dweet and an alert each."""
    with place.gateway(locks=LOCKS) as gateway:
        call = Caller(gateway)
        for thing in ("kitchen", "garage"):
            assert call.get(f"/lock/{thing}?lock={thing}-lock&key=key-of-the-{thing}")["this"] == "succeeded"
            assert call.post(thing, 1, f"?key=key-of-the-{thing}")["this"] == "succeeded"
            assert call.get(f"/alert/a@b.c/when/{thing}/return%20true?key=key-of-the-{thing}")["this"] == "succeeded"


def damage(place: Place, name: str) -> None:
    place.change(DAMAGES[name](place.records()[THING]))


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def lock_command(place: Place, command: str, *names: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["lock", command, *place.options, *names])
    assert done.exit_code == code, done.output
    return done.output


@in_places(DAMAGES, IN_REDIS)
def test_damaged_lock_shuts_its_thing_and_no_other(place: Place, name: str, caplog: pytest.LogCaptureFixture) -> None:
    damage(place, name)
    with place.gateway() as gateway:
        call = Caller(gateway)
        for method, target in CALLS:
            for key in ("", "key=wrong", "key=key-of-the-kitchen"):
                assert json.loads(call(method, target + key, b"1").body) == DAMAGED, (method, target, key)
        removed = call.get("/remove/lock/kitchen-lock?key=key-of-the-kitchen")
        assert removed["with"] == (404 if name == "lock: of no thing" else 403)
        assert call.get("/get/latest/dweet/for/garage?")["with"] == 403
        assert call.get("/get/latest/dweet/for/garage?key=key-of-the-garage")["this"] == "succeeded"
        assert call.post("garage", 2, "?key=key-of-the-garage")["this"] == "succeeded"
        assert call.post("porch", 1)["this"] == "succeeded"
        assert [thing["thing"] for thing in call.get("/get/stats")["with"]["active_things"]] == ["porch"]
        call.locked("attic")
        assert call.post("attic", 1)["with"] == 403
        assert call.get("/unlock/garage?key=key-of-the-garage")["this"] == "succeeded"
        assert call.post("garage", 3)["this"] == "succeeded"
    logged = [text for text in complaints(caplog) if "kitchen" in text and "`toolkit lock revoke` removes it" in text]
    assert len(logged) == (0 if name in READABLE else 2 if name == "both" else 1)
    assert place.records()["alert:kitchen"], "nothing of it was changed"


@in_places(DAMAGES, IN_REDIS)
def test_revoking_a_damaged_lock_unlocks_its_thing(place: Place, name: str, caplog: pytest.LogCaptureFixture) -> None:
    damage(place, name)
    listed = lock_command(place, "list")
    assert re.search("^garage-lock +in use +on garage$", listed, re.MULTILINE)
    if name == "both":  # no record says which lock is on the thing
        assert re.search("^kitchen-lock +damaged\n(?s:.*)^- +damaged +on kitchen$", listed, re.MULTILINE)
        assert lock_command(place, "revoke", "kitchen-lock") == "The lock 'kitchen-lock' is removed.\n"
        revoked = lock_command(place, "revoke", "kitchen")
    else:
        lock = "nothing" if name == "thing: of a lock that is not there" else "kitchen-lock"
        assert re.search(f"^{lock} +damaged +on kitchen$", listed, re.MULTILINE)
        revoked = lock_command(place, "revoke", lock)
    assert "The thing 'kitchen' is unlocked: everybody can read and write it" in revoked
    assert not {THING, "alert:kitchen"} & place.records().keys()
    assert {"thing:garage", "alert:garage"} <= place.records().keys()
    if LOCK in place.records():  # another lock was revoked, and this one still names the thing
        lock_command(place, "revoke", "kitchen-lock")
    with place.gateway() as gateway:
        call = Caller(gateway)
        assert call.get("/get/latest/dweet/for/kitchen")["this"] == "succeeded"
        call.locked("kitchen")
        assert call.post("kitchen", 1)["with"] == 403
        assert call.post("garage", 1, "?key=key-of-the-garage")["this"] == "succeeded"
    assert complaints(caplog) == []
    assert "there is no lock 'kitchen-lock'" in lock_command(place, "revoke", "kitchen-lock", code=1)
    assert "there is no lock 'kitchen'" in lock_command(place, "revoke", "kitchen", code=1)


def test_damaged_free_lock_is_revoked_and_issued_again(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.change({"lock:spare": b"{"})
    with place.gateway(locks=LOCKS) as gateway:
        call = Caller(gateway)
        assert call.get("/lock/cellar?lock=spare&key=key-of-the-spare-lock") == DAMAGED
        assert call.post("kitchen", 1, "?key=key-of-the-kitchen")["this"] == "succeeded"
    (logged,) = complaints(caplog)
    assert logged.startswith("the lock 'spare' is damaged")
    assert lock_command(place, "revoke", "spare") == "The lock 'spare' is removed.\n"
    with place.gateway(locks={"spare": "key-of-the-spare-lock"}) as gateway:
        assert Caller(gateway).get("/lock/cellar?lock=spare&key=key-of-the-spare-lock")["this"] == "succeeded"


def test_gateway_starts_with_a_damaged_lock_of_its_settings(place: Place) -> None:
    damage(place, "lock: no JSON")
    with place.gateway(locks=LOCKS) as gateway:
        assert Caller(gateway).post("kitchen", 1, "?key=key-of-the-kitchen") == DAMAGED
        assert Caller(gateway).post("garage", 1, "?key=key-of-the-garage")["this"] == "succeeded"


def test_running_gateway_unlocks_a_thing_whose_lock_is_revoked(place: Place) -> None:
    damage(place, "thing: no JSON")
    with place.gateway() as gateway:
        assert Caller(gateway).get("/dweet/for/kitchen?n=1")["with"] == 403
        assert "The thing 'kitchen' is unlocked" in lock_command(place, "revoke", "kitchen-lock")
        eventually(lambda: Caller(gateway).get("/dweet/for/kitchen?n=1")["this"] == "succeeded")


@pytest.mark.parametrize("name", ["lock: no JSON", "thing: no JSON"])
def test_damage_ends_the_streams_of_a_running_gateway(name: str, tmp_path: Path) -> None:
    place = Place("redis", tmp_path)
    lock_both(place)
    with place.gateway() as gateway:
        with Caller(gateway).stream("/listen/for/dweets/from/kitchen?key=key-of-the-kitchen") as stream:
            damage(place, name)
            assert stream.chunk() == b"", "the stream ends properly"
        assert Caller(gateway).post("kitchen", 1, "?key=key-of-the-kitchen") == DAMAGED


def test_redis_value_without_its_version_shuts_its_thing(tmp_path: Path) -> None:
    from tests.redis_servers import shared_server

    place = Place("redis", tmp_path)
    lock_both(place)
    with shared_server().client() as client:
        (key,) = [
            key
            for key in client.keys("*{locked-things}:records")
            if client.hexists(key, THING) and str(place.url).split("prefix=")[1].split("&")[0].encode() in key
        ]
        for value in (b"", b"12", b"garbage", b"x:{}", b"12x:{}"):
            client.hset(key, THING, value)
            with place.gateway() as gateway:
                assert Caller(gateway).post("kitchen", 1, "?key=key-of-the-kitchen") == DAMAGED, value
                assert Caller(gateway).post("garage", 1, "?key=key-of-the-garage")["this"] == "succeeded"
    assert "The thing 'kitchen' is unlocked" in lock_command(place, "revoke", "kitchen-lock")


# -- the table of records ---------------------------------------------------------------------------------

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


async def test_lock_that_others_keep_changing_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    async def compare_and_set(space: str, expected: Changes, changes: Changes) -> bool:
        nonlocal attempts
        attempts += space == SPACE
        return False

    store: Any = EmbeddedStore(None, Runtime().clock.now)
    await store.open()
    service = DweetService(store, Runtime(), DweetSettings())
    locks = service.locks
    try:
        await service.open()
        await locks.adopt("kitchen-lock", "key-of-the-kitchen")
        await locks.adopt("garage-lock", "key-of-the-garage")
        await locks.lock("kitchen", "kitchen-lock", "key-of-the-kitchen")
        monkeypatch.setattr(store.records, "compare_and_set", compare_and_set)
        for change in (
            locks.lock("garage", "garage-lock", "key-of-the-garage"),
            locks.unlock("kitchen", "key-of-the-kitchen"),
            locks.remove("kitchen-lock", "key-of-the-kitchen"),
            service.alerts.set("a@b.c", "kitchen", "return true", "key-of-the-kitchen"),
        ):
            attempts = 0
            with pytest.raises(StoreUnavailable, match="20 times in a row, nothing was"):
                await change
            assert attempts == 20
    finally:
        await service.close()
        await store.close()
