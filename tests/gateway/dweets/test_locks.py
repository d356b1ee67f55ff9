"""Locks over HTTP: every row of the state table, read keys and master keys, and what a lock blocks."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Caller
from toolkit_gateway import Gateway
from toolkit_gateway.dweets.locks import REFUSALS, KeyMatch

# Typed from the design page, not taken from the table: (state, call, how lock and key fit) -> code and text.
WRONG = (403, "this lock doesn't exist or the key doesn't fit")
LOCKED = (409, "this thing is already locked")
EXPECTED: dict[tuple[str, str, KeyMatch], tuple[int, str] | None] = {
    ("unlocked", "lock", KeyMatch.NO_KEY): WRONG,
    ("unlocked", "lock", KeyMatch.WRONG): WRONG,
    ("unlocked", "lock", KeyMatch.IN_USE): (409, "this lock is already in use"),
    ("unlocked", "lock", KeyMatch.FREE): None,
    ("locked", "lock", KeyMatch.NO_KEY): WRONG,
    ("locked", "lock", KeyMatch.WRONG): WRONG,
    ("locked", "lock", KeyMatch.IN_USE): LOCKED,
    ("locked", "lock", KeyMatch.FREE): LOCKED,
    ("unlocked", "unlock", KeyMatch.NO_KEY): (409, "this thing is not locked"),
    ("unlocked", "unlock", KeyMatch.WRONG): (409, "this thing is not locked"),
    ("locked", "unlock", KeyMatch.NO_KEY): (403, "this thing is locked and requires a key"),
    ("locked", "unlock", KeyMatch.WRONG): (403, "the key you provided doesn't work with this thing"),
    ("locked", "unlock", KeyMatch.FITS): None,
    ("unlocked", "remove lock", KeyMatch.NO_KEY): WRONG,
    ("unlocked", "remove lock", KeyMatch.WRONG): WRONG,
    ("unlocked", "remove lock", KeyMatch.FREE): (404, "this lock is not in use"),
    ("locked", "remove lock", KeyMatch.NO_KEY): WRONG,
    ("locked", "remove lock", KeyMatch.WRONG): WRONG,
    ("locked", "remove lock", KeyMatch.FITS): None,
}


def test_every_step_of_the_table_is_tested() -> None:
    assert set(REFUSALS) == set(EXPECTED)


@pytest.mark.parametrize("row", sorted(EXPECTED, key=str), ids=lambda row: f"{row[0]}-{row[1]}-{row[2].name}")
def test_each_step_of_the_table_over_http(call: Caller, thing: str, row: tuple[str, str, KeyMatch]) -> None:
    state, operation, fit = row
    lock, master, _ = call.lock()
    if state == "locked":
        assert call.get(f"/lock/{thing}?lock={lock}&key={master}") == {
            "this": "succeeded", "by": "locking", "the": thing, "with": lock,
        }  # fmt: skip
    target, answer = asked(call, thing, operation, fit, lock, master, state)
    found = call.get(target)
    if EXPECTED[row] is None:
        assert found == answer
        state = "locked" if operation == "lock" else "unlocked"
    else:
        code, text = EXPECTED[row] or (0, "")
        assert found == {"this": "failed", "with": code, "because": text}
    assert is_locked(call, thing) == (state == "locked")


def asked(
    call: Caller, thing: str, operation: str, fit: KeyMatch, lock: str, master: str, state: str
) -> tuple[str, dict[str, Any]]:
    """Return the URL of a step, and the answer where it succeeds."""
    if operation == "unlock":
        key = {KeyMatch.NO_KEY: "", KeyMatch.WRONG: "?key=wrong", KeyMatch.FITS: f"?key={master}"}[fit]
        return f"/unlock/{thing}{key}", {"this": "succeeded", "by": "unlocking", "the": "thing", "with": thing}
    if operation == "lock" and (fit is KeyMatch.IN_USE) == (state == "unlocked"):
        lock, master, _ = call.lock()  # another lock than the thing's own
        if fit is KeyMatch.IN_USE:
            call.get(f"/lock/{thing}-other?lock={lock}&key={master}")
    key = {KeyMatch.NO_KEY: "", KeyMatch.WRONG: "&key=wrong"}.get(fit, f"&key={master}")
    if operation == "lock":
        succeeded = {"this": "succeeded", "by": "locking", "the": thing, "with": lock}
        return f"/lock/{thing}?lock={lock}{key}", succeeded
    succeeded = {"this": "succeeded", "by": "removing", "the": "lock", "with": lock}
    return f"/remove/lock/{lock}?{key[1:]}", succeeded


def is_locked(call: Caller, thing: str) -> bool:
    answer = call.post(thing, "probe")
    return answer == {"this": "failed", "with": 403, "because": "this thing is locked and requires a key"}


def test_lock_that_was_never_issued_is_refused(call: Caller, thing: str) -> None:
    failed = {"this": "failed", "with": 403, "because": "this lock doesn't exist or the key doesn't fit"}
    assert call.get(f"/lock/{thing}?key=k") == failed
    assert call.get(f"/lock/{thing}?lock=&key=k") == failed
    for lock in ("nothing", "%00", "%FF", "x" * 300, "a%2Fb", "%C3%BC"):
        assert call.get(f"/lock/{thing}?lock={lock}&key=k") == failed, lock
        assert call.get(f"/remove/lock/{lock}?key=k") == failed, lock


READS = [
    "/get/latest/dweet/for/{}?",
    "/get/dweets/for/{}?",
    "/get/stored/dweets/for/{}?date=2026-01-01&",
    "/listen/for/dweets/from/{}?",
]
WRITES = ["/dweet/for/{}?a=1&", "/dweet/quietly/for/{}?a=1&"]
NEEDED = {"this": "failed", "with": 403, "because": "this thing is locked and requires a key"}
DOES_NOT_WORK = {"this": "failed", "with": 403, "because": "the key you provided doesn't work with this thing"}


@pytest.mark.parametrize("target", READS + WRITES)
def test_a_locked_thing_asks_for_a_key(call: Caller, thing: str, target: str) -> None:
    call.post(thing, 1)
    _, master, read = call.locked(thing)
    for query, expected in (
        ("", NEEDED),
        ("key=", NEEDED),
        ("key=wrong", DOES_NOT_WORK),
        (f"key={master}x", DOES_NOT_WORK),
        ("key=%FF", DOES_NOT_WORK),
    ):
        assert call.get(target.format(thing) + query) == expected, query
    if target in WRITES:
        assert call.get(target.format(thing) + f"key={read}") == DOES_NOT_WORK
        assert call("GET", target.format(thing) + f"key={master}").status in (200, 204)
        assert call.get(f"/get/latest/dweet/for/{thing}?key={read}")["with"][0]["content"] == {"a": 1}
        return
    for key in (master, read):
        with call.stream(target.format(thing) + f"key={key}") as stream:
            if "listen" in target:
                assert call.post(thing, 2, f"?key={master}")["this"] == "succeeded"
                assert b'\\"content\\":2' in stream.chunk()
            else:
                assert stream.json_body()["this"] == "succeeded"


def test_a_read_key_reads_only(call: Caller, thing: str) -> None:
    lock, master, read = call.locked(thing)
    for target in ("/unlock/{}?", "/get/alert/for/{}?", "/remove/alert/for/{}?", "/alert/a@b.c/when/{}/true?"):
        assert call.get(target.format(thing) + f"key={read}") == DOES_NOT_WORK, target
    assert call.get(f"/remove/lock/{lock}?key={read}")["with"] == 403
    assert is_locked(call, thing)
    for query, code in (("", 403), (f"?key={read}", 403), (f"?key={master}", None)):
        answer = json.loads(call("POST", f"/dweets/for/{thing}{query}", b"1\n2").body)
        assert answer["with"] == code if code else len(answer["with"]) == 2


def test_a_key_on_an_unlocked_thing_is_ignored(call: Caller, thing: str) -> None:
    assert call.post(thing, 1, "?key=whatever")["this"] == "succeeded"
    assert call.get(f"/get/latest/dweet/for/{thing}?key=whatever")["this"] == "succeeded"


def test_lock_is_on_one_thing_until_unlocked(call: Caller, thing: str) -> None:
    lock, master, _ = call.locked(thing)
    for number, way_out in enumerate([f"/unlock/{{}}?key={master}", f"/remove/lock/{lock}?key={master}"] * 2):
        other = f"{thing}-{number}"
        assert call.get(f"/lock/{other}?lock={lock}&key={master}")["because"] == "this lock is already in use"
        assert call.get(way_out.format(thing))["this"] == "succeeded"
        assert not is_locked(call, thing)
        assert call.get(f"/remove/lock/{lock}?key={master}")["because"] == "this lock is not in use"
        assert call.get(f"/lock/{other}?lock={lock}&key={master}")["this"] == "succeeded"
        thing = other


def test_streams_opened_before_the_lock_end_with_it(call: Caller, thing: str) -> None:
    lock, master, read = call.lock()
    streams = [call.stream(f"/listen/for/dweets/from/{thing}", h) for h in ("", "Accept: text/event-stream\r\n")]
    assert streams[1].chunk() == b"id: 0\n\n"
    assert call.get(f"/lock/{thing}?lock={lock}&key={master}")["this"] == "succeeded"
    for stream in streams:
        with stream:
            assert stream.chunk() == b"", "the stream ends properly"
    assert call.post(thing, "secret", f"?key={master}")["this"] == "succeeded"
    with call.stream(f"/listen/for/dweets/from/{thing}?key={read}&since=0") as stream:
        assert b"secret" in stream.chunk()


def test_one_of_many_concurrent_callers_gets_the_lock(call: Caller, thing: str) -> None:
    lock, master, _ = call.lock()
    answers: list[Any] = []
    start = threading.Barrier(8)

    def take(number: int) -> None:
        start.wait(60)
        answers.append(call.get(f"/lock/{thing}-{number % 4}?lock={lock}&key={master}"))

    callers = [threading.Thread(target=take, args=(n,)) for n in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    won = [answer for answer in answers if answer["this"] == "succeeded"]
    assert len(won) == 1
    assert {a["because"] for a in answers if a not in won} <= {
        "this lock is already in use",
        "this thing is already locked",
    }
    assert sum(is_locked(call, f"{thing}-{n}") for n in range(4)) == 1


def test_locks_outlive_the_gateway(tmp_path: Path) -> None:
    """Those that it issued, and those that it was given, which it issues once."""
    given = {"garage-lock": "master-of-the-garage"}
    with Gateway(tmp_path, locks=given) as gateway:
        call = Caller(gateway)
        lock, master, read = call.locked("kitchen")
        call.post("kitchen", 1, f"?key={master}")
        assert call.get("/lock/garage?lock=garage-lock&key=master-of-the-garage")["this"] == "succeeded"
    with Gateway(tmp_path, locks=given) as gateway:
        call = Caller(gateway)
        assert is_locked(call, "kitchen")
        assert call.get(f"/get/latest/dweet/for/kitchen?key={read}")["this"] == "succeeded"
        assert call.get(f"/remove/lock/{lock}?key={master}")["with"] == lock
        assert not is_locked(call, "kitchen")
        assert is_locked(call, "garage")
        assert call.get("/unlock/garage?key=master-of-the-garage")["this"] == "succeeded"
