"""Alerts over HTTP: open, change and close; what is mailed; conditions that fail, loop or eat memory."""

from __future__ import annotations

import email
import email.policy
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.conftest import Caller, operator_of
from tests.mail_server import eventually
from toolkit_gateway import DEMO_START, Gateway
from toolkit_gateway.runtime import SteppedClock, Timings

# A status waits until all dweets are evaluated, and no honest condition is interrupted, also on a busy machine.
PATIENT = Timings(settle=60.0, condition_seconds=(1.0, 1.0))
HOT = "if(dweet.celsius > 30) return 'too hot'; if(dweet.celsius > 20) return 'warm';"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """A gateway in memory, on a clock of its own: no midnight comes between what is counted by the day."""
    clock = SteppedClock(DEMO_START, timedelta(milliseconds=1))
    with Gateway(clock=clock, timings=PATIENT) as running:
        yield running


class Alarm:
    """A locked thing with an alert, and what became of it."""

    def __init__(self, gateway: Gateway, condition: str, thing: str, who: str = "a@b.example") -> None:
        self.gateway, self.call, self.thing = gateway, Caller(gateway), quote(thing, safe="")
        self.lock, self.key, _ = self.call.locked(self.thing)
        self.answer = self.set(condition, who)

    def set(self, condition: str, who: str = "a@b.example") -> Any:
        return self.call.get(f"/alert/{who}/when/{self.thing}/{quote(condition, safe='')}?key={self.key}")

    def post(self, *contents: Any) -> None:
        for content in contents:
            assert self.call.post(self.thing, content, f"?key={self.key}")["this"] == "succeeded"

    def status(self) -> dict[str, Any]:
        answer = self.call.get(f"/get/alert/for/{self.thing}?key={self.key}")
        found: dict[str, Any] = answer["with"]["status"]
        return found

    def subjects(self) -> list[str]:
        mails = operator_of(self.gateway).outbox()
        begin = f"Alert of {self.thing}: "
        return [subject.removeprefix(begin) for subject in mails[mails["thing"] == self.thing]["subject"]]


def test_alert_responses_byte_for_byte(demo: Gateway) -> None:
    condition = (
        "if(dweet.alertValue > 10) return 'TEST: Greater than 10'; "
        "if(dweet.alertValue < 10) return 'TEST: Less than 10';"
    )
    alarm = Alarm(demo, condition, "oven", who="test@example.com,anothertest@example.com")
    record = {
        "thing": "oven",
        "condition": condition,
        "is_demo": False,
        "recipients": [
            {"type": "email", "address": "test@example.com"},
            {"type": "email", "address": "anothertest@example.com"},
        ],
    }
    assert alarm.answer == {"this": "succeeded", "by": "alerting", "the": "alert", "with": record}
    status = {"message": "", "since": None, "open": False, "alerts_sent_today": 0, "alerts_allowed_today": 100}
    found = alarm.call.get(f"/get/alert/for/oven?key={alarm.key}")
    assert found == {"this": "succeeded", "by": "getting", "the": "alert", "with": {"status": status, **record}}
    alarm.post({"alertValue": 11})
    assert alarm.status() == {
        "message": "TEST: Greater than 10",
        "since": "2026-01-01T09:00:01.000Z",
        "open": True,
        "alerts_sent_today": 1,
        "alerts_allowed_today": 100,
    }
    eventually(lambda: operator_of(demo).outbox()["state"].tolist() == ["kept"])
    (mail,) = operator_of(demo).outbox().to_dict("records")
    assert mail["to"] == "test@example.com, anothertest@example.com"
    assert mail["subject"] == "Alert of oven: TEST: Greater than 10"
    assert (mail["thing"], mail["at"].isoformat()) == ("oven", "2026-01-01T09:00:01+00:00")
    assert 'Content:   {"alertValue": 11}' in mail["text"]
    removed = alarm.call.get(f"/remove/alert/for/oven?key={alarm.key}")
    assert removed == {"this": "succeeded", "by": "removing", "the": "alert", "with": {"thing": "oven"}}
    for target in ("get", "remove"):
        gone = alarm.call.get(f"/{target}/alert/for/oven?key={alarm.key}")
        assert gone == {"this": "failed", "with": 404, "because": "we couldn't find this"}
    alarm.post({"alertValue": 1})
    assert len(operator_of(demo).outbox()) == 1


def test_mail_is_sent_on_trigger_or_changed_message(gateway: Gateway, thing: str) -> None:
    alarm = Alarm(gateway, HOT, thing)
    for celsius, subjects in (
        (10, []),
        (25, ["warm"]),
        (26, ["warm"]),
        (31, ["warm", "too hot"]),
        (35, ["warm", "too hot"]),
        (5, ["warm", "too hot"]),
        (21, ["warm", "too hot", "warm"]),
    ):
        alarm.post({"celsius": celsius})
        assert alarm.status()["open"] == (celsius > 20)
        assert alarm.subjects() == subjects
    assert alarm.status()["alerts_sent_today"] == 3


def test_condition_is_met_by_true_or_a_message_only(gateway: Gateway, thing: str) -> None:
    alarm = Alarm(gateway, "return eval(dweet)", thing)
    for source in ("false", "1", "null", "undefined", "[]", "new String('x')", "Symbol('x')", "NaN", "10n"):
        alarm.post(source)
        assert (alarm.status()["open"], alarm.status()["message"]) == (False, ""), source
    for source, message in (
        ("true", "true"),
        ("''", ""),
        ("'ü€😀\\n<b>'", "ü€😀\n<b>"),
        ("'half \\ud800 and nothing \\0'", "half \ufffd and nothing  "),
        ("'x'.repeat(1e6)", "x" * 1000),
    ):
        alarm.post(source)
        assert (alarm.status()["open"], alarm.status()["message"]) == (True, message), source
    *subjects, longest = alarm.subjects()
    assert subjects == ["true", f"Alert of {thing}:", "ü€😀 <b>", "half \ufffd and nothing"]
    assert len(longest) <= 200


def test_condition_cannot_tamper_with_its_evaluation(gateway: Gateway, thing: str) -> None:
    tamper = (
        "String.prototype.slice = String.prototype.toWellFormed = () => 'tampered'; Function.prototype.call = null;"
    )
    alarm = Alarm(gateway, f"{tamper} return dweet", thing)
    alarm.post("one", "two")
    assert alarm.status()["message"] == "two"
    assert alarm.subjects() == ["one", "two"]


# As in a path -> the condition.
TAILS = {
    "return+dweet.a>1": "return+dweet.a>1",
    "if(dweet.a+>+1)+return+'x+y'": "if(dweet.a+>+1)+return+'x+y'",
    "return%20dweet.a/2>1": "return dweet.a/2>1",
    "return%20/x+/.test(dweet.a)": "return /x+/.test(dweet.a)",
    "//x%0Areturn%20true": "//x\nreturn true",
    "return%20'%25'": "return '%'",
    "return%20'%C3%BC'": "return 'ü'",
    "return%20true//": "return true//",
    "dweet.a%20>%201%20;%20": "dweet.a > 1 ; ",
    "dweet.a+>+1;": "dweet.a+>+1;",
}


def test_a_condition_comes_back_byte_for_byte(call: Caller, thing: str) -> None:
    _, key, _ = call.locked(thing)
    for tail, condition in TAILS.items():
        answer = call.get(f"/alert/a@b.example/when/{thing}/{tail}?key={key}")
        assert answer["with"]["condition"] == condition
        assert call.get(f"/get/alert/for/{thing}?key={key}")["with"]["condition"] == condition


def test_plus_is_a_space_only_if_nothing_else_compiles(gateway: Gateway, thing: str) -> None:
    alarm = Alarm(gateway, "false", thing)
    for tail, message in (
        ("if(dweet.a+>+1)+return+'x+y'", "x y"),
        ("return+dweet.a+1+''", "3"),
        ("dweet.a+>+1;", "true"),
    ):
        alarm.call.get(f"/alert/a@b.example/when/{thing}/{tail}?key={alarm.key}")
        alarm.post({"a": 2})
        assert alarm.status()["message"] == message, tail


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        ("return%20(", "SyntaxError"),
        ("%FF", "it must be UTF-8 without NUL"),
        ("x" * 2001, "it must have 1 to 2000 characters"),
        (
            "if%20(dweet.celsius%20>%2030)%20'too%20hot'",
            "it is neither an expression nor returns a value; "
            "write dweet.celsius > 30 or if (dweet.celsius > 30) return 'too hot'",
        ),
    ],
)
def test_invalid_condition_is_refused(call: Caller, thing: str, condition: str, fault: str) -> None:
    _, key, _ = call.locked(thing)
    answer = call.get(f"/alert/a@b.example/when/{thing}/{condition}?key={key}")
    assert (answer["this"], answer["with"]) == ("failed", 400)
    assert answer["because"].startswith(f"the condition doesn't compile: {fault}")
    assert call.get(f"/get/alert/for/{thing}?key={key}")["with"] == 404


def test_invalid_recipients_are_refused(call: Caller, thing: str) -> None:
    _, key, _ = call.locked(thing)
    many = ",".join(f"a{number}@b.example" for number in range(21))
    for who in ("a", "a@b.c,", ",a@b.c", "a@b.c,,d@e.f", "a@b.c%0D%0ABcc:x@y.z", "a%00@b.c", "%FF@b.c", many):
        answer = call.get(f"/alert/{who}/when/{thing}/return%20true?key={key}")
        text = "who must be a comma-separated list of e-mail addresses"
        assert answer == {"this": "failed", "with": 400, "because": text}, who


def test_alert_needs_a_lock_and_ends_with_it(call: Caller, thing: str) -> None:
    for target in (
        f"/alert/a@b.c/when/{thing}/return%20true?key=k",
        f"/get/alert/for/{thing}?key=k",
        f"/remove/alert/for/{thing}?key=k",
    ):
        assert call.get(target) == {
            "this": "failed", "with": 409, "because": "a thing must be locked before an alert can be set",
        }  # fmt: skip
    lock, key, _ = call.locked(thing)
    assert call.get(f"/alert/a@b.c/when/{thing}/return%20true?key={key}")["this"] == "succeeded"
    call.get(f"/unlock/{thing}?key={key}")
    call.post(thing, 1)
    call.get(f"/lock/{thing}?lock={lock}&key={key}")
    assert call.get(f"/get/alert/for/{thing}?key={key}")["with"] == 404
    assert thing not in operator_of(call.gateway).outbox()["thing"].tolist()


def test_at_most_100_mails_a_day(demo: Gateway) -> None:
    alarm = Alarm(demo, "return String(dweet)", "oven")
    body = b"\n".join(b"%d" % n for n in range(150))
    alarm.call("POST", f"/dweets/for/oven?key={alarm.key}", body)
    assert (alarm.status()["alerts_sent_today"], alarm.status()["message"]) == (100, "149")
    assert alarm.subjects() == [str(n) for n in range(100)]
    alarm.set("return 'set anew: ' + dweet")
    alarm.post(150)
    assert (alarm.status()["alerts_sent_today"], alarm.status()["message"]) == (100, "set anew: 150")
    assert len(alarm.subjects()) == 100, "setting it anew gives no other hundred"
    demo.clock.advance(seconds=86_400)  # type: ignore[attr-defined]
    assert alarm.status()["alerts_sent_today"] == 0
    alarm.set("return String(dweet)")
    alarm.post("tomorrow")
    assert alarm.status()["alerts_sent_today"] == 1
    assert alarm.subjects()[100:] == ["tomorrow"]


def test_daily_mail_limit_is_counted_per_lock(gateway: Gateway, thing: str) -> None:
    """It gets no other hundred with another alert, by an unlock, or on another thing."""
    alarm = Alarm(gateway, "return String(dweet)", thing)
    alarm.post(1, 2, 3)
    assert alarm.status()["alerts_sent_today"] == 3
    alarm.call.get(f"/remove/alert/for/{thing}?key={alarm.key}")
    alarm.set("return String(dweet)")
    assert alarm.status()["alerts_sent_today"] == 3
    for sent, locked in ((4, thing), (5, f"{thing}-other")):
        alarm.call.get(f"/unlock/{alarm.thing}?key={alarm.key}")
        alarm.call.get(f"/lock/{locked}?lock={alarm.lock}&key={alarm.key}")
        alarm.thing = locked
        alarm.set("return String(dweet)")
        alarm.post(sent)
        assert alarm.status()["alerts_sent_today"] == sent
    other = Alarm(gateway, "return String(dweet)", thing)
    other.post(5)
    assert other.status()["alerts_sent_today"] == 1, "another lock has its own hundred"


# An endless loop, and one that eats memory, is in `test_hostile_alerts.py`.
FAULTS = {
    "throws": ("throw new Error('boom')", "the condition failed: Error: boom"),
    "throws nothing": ("throw ''", "the condition failed: "),
    "no such name": ("return nothing.at.all", "the condition failed: ReferenceError"),
    "recurses": ("function f() { f() } f()", "the condition failed: "),
    "throws half a character": ("throw new Error('\\ud800')", "the condition failed: Error: "),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_failing_condition_is_explained_and_loses_no_dweet(gateway: Gateway, thing: str, kind: str) -> None:
    condition, said = FAULTS[kind]
    alarm = Alarm(gateway, f"if (dweet === 'bad') {{ {condition} }} return dweet === 'good'", thing)
    alarm.post("bad")
    status = alarm.status()
    assert status["message"].startswith(said)
    assert status["open"] is False
    alarm.post("good")
    opened = alarm.status()
    assert opened == {**status, "message": "true", "open": True, "since": opened["since"], "alerts_sent_today": 1}
    alarm.post("bad")
    assert alarm.status()["open"] is True, "a fault neither opens nor closes"
    latest = alarm.call.get(f"/get/dweets/for/{thing}?key={alarm.key}")["with"]
    assert [dweet["content"] for dweet in latest] == ["bad", "good", "bad"]


def test_looping_alert_is_stopped_and_others_work() -> None:
    with Gateway(timings=Timings(settle=60.0, condition_seconds=(0.02, 0.06))) as gateway:
        alarm = Alarm(gateway, "while (true) {} return true", "oven")
        other = Alarm(gateway, "return true", "kitchen", who="c@d.example")
        # Time of the processor, which a busy machine does not stretch: that is what a loop is allowed to take.
        began = time.process_time()
        for _ in range(3):
            alarm.call("POST", f"/dweets/for/oven?key={alarm.key}", b"1\n" * 300)
        assert time.process_time() - began < 5, "posting does not wait for conditions"
        other.post(1)
        eventually(lambda: other.subjects() == ["true"], 60)
        said = alarm.status()["message"]
        assert said.startswith(
            "stopped after 20 failures in a row, set the alert again: it was interrupted after 20 ms"
        )
        assert alarm.set("return 'again'")["this"] == "succeeded"
        alarm.post(1)
        assert alarm.status()["message"] == "again"


def test_alert_interrupted_by_a_slow_machine_triggers() -> None:
    with Gateway(timings=Timings(settle=60.0, condition_seconds=(1e-6, 60.0))) as gateway:
        alarm = Alarm(gateway, "for (let n = 0; n < 2e6; n++); return dweet > 1 && String(dweet)", "oven")
        alarm.post(1)
        said = "the condition was interrupted at the last dweet, and evaluated again with more CPU time"
        assert (alarm.status()["open"], alarm.status()["message"]) == (False, said)
        alarm.post(2, 3)
        assert (alarm.status()["open"], alarm.status()["message"]) == (True, "3")
        assert alarm.subjects() == ["2", "3"]


def test_condition_has_no_access_to_the_host(gateway: Gateway, thing: str) -> None:
    names = [
        *("require", "process", "fetch", "std", "os", "print", "source"),
        *("globalThis.source", "setTimeout", "Worker", "XMLHttpRequest"),
    ]
    alarm = Alarm(gateway, f"return [{', '.join(f'typeof {name}' for name in names)}].join(' ')", thing)
    alarm.post(1)
    assert alarm.status()["message"].split() == ["undefined"] * len(names)


def test_contents_of_all_kinds_reach_the_condition(gateway: Gateway, thing: str) -> None:
    alarm = Alarm(gateway, "return JSON.stringify(dweet)", thing)
    for content in ({"ü": [1, None, {"a": "\u2028"}]}, [1], "text", 1.5, True, None, "created", {"content": 1}):
        alarm.post(content)
        assert json.loads(alarm.status()["message"]) == content
    alarm.call("POST", f"/dweet/for/{thing}?key={alarm.key}", b"[" * 1000 + b"]" * 1000)
    assert alarm.status()["message"] == "[" * 1000


def test_reset_alert_sees_only_later_dweets(gateway: Gateway, thing: str) -> None:
    alarm = Alarm(gateway, "return 'first'", thing)
    alarm.post(1)
    assert alarm.status()["message"] == "first"
    alarm.set("return 'second'")
    status = {"message": "", "since": None, "open": False, "alerts_sent_today": 1, "alerts_allowed_today": 100}
    assert alarm.status() == status
    alarm.post(2)
    assert alarm.status()["message"] == "second"
    assert alarm.subjects() == ["first", "second"]


def test_alerts_and_mails_outlive_the_gateway(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        alarm = Alarm(gateway, HOT, "oven")
        alarm.post({"celsius": 35})
        eventually(lambda: operator_of(gateway).outbox()["state"].tolist() == ["kept"])
        before, mails = alarm.status(), operator_of(gateway).outbox()
    with Gateway(tmp_path) as gateway:
        alarm.gateway, alarm.call = gateway, Caller(gateway)
        assert alarm.status() == before
        assert operator_of(gateway).outbox().equals(mails)
        alarm.post({"celsius": 36})
        assert len(operator_of(gateway).outbox()) == 1, "still open with the same message"
        alarm.post({"celsius": 25})
        assert alarm.subjects() == ["too hot", "warm"]


def test_the_newest_finished_mails_are_kept(tmp_path: Path) -> None:
    def keeping(finished: int) -> Gateway:
        return Gateway(tmp_path, config={"dweets": {"finished_mails": finished}}, timings=PATIENT)

    def kept() -> list[str]:
        return alarm.subjects() if set(operator_of(alarm.gateway).outbox()["state"]) == {"kept"} else []

    with keeping(3) as gateway:
        alarm = Alarm(gateway, "return String(dweet)", "oven")
        alarm.post(*range(5))
        eventually(lambda: kept() == ["2", "3", "4"])
    with keeping(2) as gateway:
        alarm.gateway, alarm.call = gateway, Caller(gateway)
        assert kept() == ["2", "3", "4"]
        alarm.post(5)
        eventually(lambda: kept() == ["4", "5"])
    with keeping(0) as gateway:
        alarm.gateway, alarm.call = gateway, Caller(gateway)
        alarm.post(6)
        eventually(lambda: operator_of(gateway).outbox().empty)
    assert len(list((tmp_path / "outbox").iterdir())) == 7, "the files are the person's own"


def test_mails_of_a_durable_gateway_are_files(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        alarm = Alarm(gateway, "return 'ü: ' + dweet", "öfen/1", who="a@b.example,c@d.example")
        alarm.post("x" * 2000, "y")
        eventually(lambda: operator_of(gateway).outbox()["state"].tolist() == ["kept"] * 2)
        kept = operator_of(gateway).outbox()
    files = sorted((tmp_path / "outbox").iterdir())
    assert [path.suffix for path in files] == [".eml", ".eml"]
    for path, mail in zip(files, kept.to_dict("records"), strict=True):
        data = path.read_bytes()
        assert data.isascii()
        assert b"\n" not in data.replace(b"\r\n", b"")
        message = email.message_from_bytes(data, policy=email.policy.default)
        assert message["To"] == "a@b.example, c@d.example"
        assert message["Subject"] == mail["subject"]
        assert message.get_content().replace("\r\n", "\n") == mail["text"]
    before = {path: path.read_bytes() for path in files}
    with Gateway(tmp_path) as gateway:
        assert len(operator_of(gateway).outbox()) == 2
    assert {path: path.read_bytes() for path in (tmp_path / "outbox").iterdir()} == before
