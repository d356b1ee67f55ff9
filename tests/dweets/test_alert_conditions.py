"""Conditions in their child process: what compiles, what it says, what it costs, and what ends it."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.dweets.hostile_conditions import HOSTILE, OVERRAN, SLOW, kinds
from tests.mail_server import eventually
from toolkit.dweets import conditions
from toolkit.dweets.conditions import ConditionWorker, Verdict, evaluate_all
from toolkit.errors import MalformedRequest

#: Each leaves the parenthesis or the braces that another program would put around it, and runs or hides the rest.
BREAKOUTS = [
    "1) || (2",
    "1] || [2",
    "1); (2",
    "1)}), (function(){ return (2",
    "}) (function(){",
    "}), (function(){ return 1",
    "}, function(){ return 1",
    "}, other(){ return 1",
    "} return true; {",
    "} [eval](){ return 1",
    "} * function(){ return 1",
    "} function other(){ return 1",
    "return 1 }//",
    "return 1 }/*",
    "`${",
    "1 /*",
    "'\\",
    "1; 2) + (3",
]


@pytest.fixture(scope="module")
def worker() -> Iterator[ConditionWorker]:
    with ConditionWorker() as worker:
        yield worker


def verdicts(worker: ConditionWorker, source: str, *contents: object) -> list[Verdict]:
    return evaluate_all(worker, source, [json.dumps(content).encode() for content in contents])


def messages(worker: ConditionWorker, source: str, *contents: object) -> list[str | None]:
    found = verdicts(worker, source, *contents)
    assert [verdict.fault for verdict in found] == [None] * len(contents)
    return [verdict.message for verdict in found]


def peak_memory(worker: ConditionWorker) -> int:
    """Return the most bytes that the child has used at once; where the system does not say, those of now."""
    status = Path(f"/proc/{worker.pid}/status")
    if not status.exists():
        return int(psutil.Process(worker.pid).memory_info().rss)
    return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024


@pytest.mark.parametrize(
    "source",
    [
        "dweet.c > 30",
        "dweet.c > 30;",
        " dweet.c > 30 ; ; ",
        "dweet.c > 30 // hot",
        "dweet.c > 30; // hot",
        "dweet.c > 30; /* hot */\n// very",
        "// hot\ndweet.c\n> 30",
        "dweet.c+>+30",
        "dweet.c+>+30;",
        "(dweet.c > 30)",
        "dweet.c, dweet.c > 30",
        "[dweet].some(each => { return each.c > 30 })",
        "return dweet.c > 30",
        "return+dweet.c > 30",
        "return+dweet.c+>+30",
        "if (dweet.c > 30) return true; else return false",
        "{ return dweet.c > 30 }",
        "const limit = 30; return dweet.c > limit",
        "'use strict'; return dweet.c > 30 // hot",
        "<!-- hot\nreturn dweet.c > 30",
    ],
)
def test_an_expression_or_a_body(worker: ConditionWorker, source: str) -> None:
    worker.check_compiles(source)
    assert verdicts(worker, source, {"c": 31}, {"c": 30}) == [
        Verdict("true", returned=True),
        Verdict(None, returned=True),
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("dweet.c > 30 && 'too hot'", "too hot"),
        ("'return' // return", "return"),
        ("dweet.c + 1 + ''", "32"),
        ("dweet.c+1+''", "32"),
        ("{}", None),
        ("{ c: dweet.c }", None),
        ("/}/.test('}') && '`)]'", "`)]"),
        ("return '})' + ')]'", "}))]"),
    ],
)
def test_the_value_of_a_condition(worker: ConditionWorker, source: str, message: str | None) -> None:
    worker.check_compiles(source)
    assert messages(worker, source, {"c": 31}) == [message]


@pytest.mark.parametrize(
    "source",
    [
        "dweet.a; dweet.b",
        "if (dweet.c > 30) 'too hot'",
        "{ dweet.c > 30 }",
        "while (true) {}",
        "dweet.c > 30; // return true\n1",
        "let said = 'return'; said",
        "const f = () => { return true }; f()",
        "function f() { return true }; f()",
        ";",
        "// nothing",
    ],
)
def test_what_returns_nothing_is_refused(worker: ConditionWorker, source: str) -> None:
    with pytest.raises(MalformedRequest, match=r"neither an expression nor returns a value; write dweet\.celsius > 30"):
        worker.check_compiles(source)


@pytest.mark.parametrize(
    "source",
    [
        "dweet => dweet.c > 30",
        "(dweet) => { return dweet.c > 30 }",
        "async dweet => dweet.c > 30",
        "function (dweet) { return dweet.c > 30 }",
        "return dweet => dweet.c > 30",
    ],
)
def test_a_function_as_the_value_is_a_fault(worker: ConditionWorker, source: str) -> None:
    worker.check_compiles(source)
    fault = "it returns a function and does not call it; write dweet.celsius > 30"
    assert verdicts(worker, source, {"c": 31}) == [Verdict(None, fault)]


@pytest.mark.parametrize(
    "source",
    [
        # Large pieces first: so many small ones could take more than the time of a condition.
        "let all = []; try { for (;;) all.push('x'.repeat(1 << 18)) } catch { for (;;) all.push({}) } return true",
        "if (dweet) throw null; return 1",
    ],
)
def test_the_fault_where_the_memory_is_used_up(worker: ConditionWorker, source: str) -> None:
    fault = "it threw null, or it needs more than 16 MiB of memory"
    assert verdicts(worker, source, 1) == [Verdict(None, fault)]


@pytest.mark.parametrize(
    "thrown",
    ["'abc\\n'.repeat(2.5e6)", "'\\u{1F525}'.repeat(1.8e6)", "new Error('ü'.repeat(3.8e6))", "' '.repeat(15e6)"],
)
def test_a_huge_thrown_text_stays_within_the_memory(thrown: str) -> None:
    with ConditionWorker() as worker:
        (verdict,) = verdicts(worker, f"if (dweet) throw {thrown}; return true", 1)
        assert verdict.fault
        assert not verdict.stops
        assert peak_memory(worker) < 64 * 2**20
        assert messages(worker, "dweet", "next") == ["next"]


def test_many_conditions_share_the_memory_of_one() -> None:
    with ConditionWorker() as worker:
        for number in range(256):
            source = f"globalThis.kept = new Uint8Array(15e6).fill({number}); return kept.length > 0"
            assert messages(worker, source, {"text": "x" * 60_000}) == ["true"]
        assert peak_memory(worker) < 64 * 2**20


@pytest.mark.parametrize("value", ["Symbol('a')", "Object.create(null)", "{toString() { throw 1 }}"])
def test_a_thrown_value_without_a_text(worker: ConditionWorker, value: str) -> None:
    fault = "it threw a value that cannot be converted to a text"
    assert verdicts(worker, f"if (dweet) throw {value}; return true", 1) == [Verdict(None, fault)]


@pytest.mark.parametrize("source", ["dweet.c >", "return (", "x" * 2001, " ", "\0", "'\ud800'"])
def test_what_does_not_compile_is_refused(worker: ConditionWorker, source: str) -> None:
    with pytest.raises(MalformedRequest, match="the condition doesn't compile: "):
        worker.check_compiles(source)


@pytest.mark.parametrize("source", BREAKOUTS)
def test_no_source_leaves_its_wrapper(worker: ConditionWorker, source: str) -> None:
    with pytest.raises(MalformedRequest, match="the condition doesn't compile: SyntaxError: "):
        worker.check_compiles(source)
    (verdict,) = verdicts(worker, source, 1)  # as where an earlier version has stored it
    assert str(verdict.fault).startswith("it doesn't compile: SyntaxError: ")


def test_nothing_is_left_for_the_next_dweet(worker: ConditionWorker) -> None:
    source = """
        globalThis.count = (globalThis.count || 0) + 1; Array.prototype.count = (Array.prototype.count || 0) + 1;
        if (dweet === 'throw') throw count;
        return `${count} ${[].count}`
    """
    assert [verdict.message for verdict in verdicts(worker, source, 1, "throw", 3, 4)] == ["1 1", None, "1 1", "1 1"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'"\\ud800"', "1 d800"),
        (b'"\\ud83d\\ude00"', "2 d83d"),
        (b'"\\u0000b"', "2 0"),
        (b'["\\ud800"]', "1 d800"),
        (b'{"0": "\\udfff"}', "1 dfff"),
    ],
)
def test_any_text_of_a_dweet_reaches_its_condition(worker: ConditionWorker, content: bytes, message: str) -> None:
    source = """
        const text = typeof dweet === 'string' ? dweet : dweet[0];
        return `${text.length} ${text.charCodeAt(0).toString(16)}`
    """
    assert evaluate_all(worker, source, [content]) == [Verdict(message, returned=True)]


def test_many_contents_have_their_verdicts_in_order(worker: ConditionWorker) -> None:
    assert messages(worker, "String(dweet)", *range(1_000)) == [str(number) for number in range(1_000)]


# Code that runs after the end of the condition, a loop of the engine, and one long step of it.
@kinds("toString of what it throws", "sort", "digits")
def test_one_that_overruns_is_killed_and_stopped(worker: ConditionWorker, kind: str) -> None:
    source = f"if (dweet === 'bad') {{ {HOSTILE[kind]} }} return dweet"
    worker.check_compiles(source)
    found = verdicts(worker, source, "one", "two", "bad", "three")
    assert [verdict.message for verdict in found] == ["one", "two", None, None]
    assert found[2:] == [Verdict(None, OVERRAN, stops=True)] * 2
    assert messages(worker, "dweet", "next") == ["next"]


def test_a_source_that_overruns_while_it_is_compiled(worker: ConditionWorker) -> None:
    source = "1)}), (() => { throw {toString() { while (1); }} })(), (function() { return (1"
    with pytest.raises(MalformedRequest, match=f"the condition doesn't compile: {OVERRAN}"):
        worker.check_compiles(source)
    assert messages(worker, "dweet", "next") == ["next"]


def test_after_so_many_faults_the_rest_is_not_evaluated(worker: ConditionWorker) -> None:
    source = "if (dweet < 20) nothing; return true"
    found = verdicts(worker, source, 0, 20, *range(19), 20, *range(20), 20)
    assert [verdict.met for verdict in found] == [False, True, *[False] * 19, True, *[False] * 21]
    assert found[-1].fault == "ReferenceError: nothing is not defined"
    assert not found[-1].stops


# -- the child's ends that are not ours ----------------------------------------------------------------------


def end_it_at_work(worker: ConditionWorker, number: int) -> list[Verdict]:
    """Send a signal to the child while it evaluates; return the verdicts until then."""
    found: list[Verdict] = []
    worker.check_compiles("dweet")  # now there is a child
    child = psutil.Process(worker.pid)

    def kill() -> None:
        idle = child.cpu_times().user
        eventually(lambda: child.cpu_times().user > idle + 0.02)
        child.send_signal(number)

    killer = threading.Thread(target=kill)
    killer.start()
    while killer.is_alive():
        found += worker.evaluate(SLOW, [b"1"] * 1_000)
    killer.join()
    return found


def test_killed_from_outside_it_is_tried_again(worker: ConditionWorker) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        assert set(end_it_at_work(worker, number)) <= {Verdict("true", returned=True)}
    assert verdicts(worker, SLOW, *[1] * 30) == [Verdict("true", returned=True)] * 30


def test_two_crashes_stop_a_condition() -> None:
    with ConditionWorker() as worker:
        stopped = Verdict(None, "the process that ran it crashed or hung twice", stops=True)
        assert stopped not in end_it_at_work(worker, signal.SIGSEGV)
        assert messages(worker, "dweet", "other") == ["other"]
        assert stopped in end_it_at_work(worker, signal.SIGSEGV)
        worker.check_compiles(SLOW)
        assert stopped not in end_it_at_work(worker, signal.SIGSEGV), "set again, it begins again"


def test_a_child_that_does_not_answer_counts_as_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "WALL_SECONDS", 2.0)
    with ConditionWorker() as worker:
        for found in ([], [Verdict(None, "the process that ran it crashed or hung twice", stops=True)]):
            assert messages(worker, "dweet", "other") == ["other"]
            psutil.Process(worker.pid).suspend()
            assert worker.evaluate("dweet > 1", [b"2"]) == found


# -- its time ------------------------------------------------------------------------------------------------


@pytest.fixture
def busy() -> Iterator[None]:
    """Four threads that compute, as numpy's do."""
    is_over = threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)

    threads = [threading.Thread(target=compute) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield
    is_over.set()
    for thread in threads:
        thread.join()


def test_a_busy_machine_takes_none_of_its_time(worker: ConditionWorker, request: pytest.FixtureRequest) -> None:
    source, turns = "let sum = 0; for (let n = 0; n < dweet; n++) sum += n; return sum > 0", 10_000
    while verdicts(worker, source, turns)[0].fault is None:
        turns *= 2
    request.getfixturevalue("busy")
    assert messages(worker, source, *[turns // 8] * 10) == ["true"] * 10


@pytest.mark.usefixtures("busy")
def test_a_loop_ends_and_the_next_dweet_has_all_its_time(worker: ConditionWorker) -> None:
    for verdict in verdicts(worker, "while (dweet) {}; return true", *[True, False] * 3)[::2]:
        assert verdict.fault == "InternalError: interrupted"
    assert messages(worker, "while (dweet) {}; return true", False) == ["true"]


def test_a_stop_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with ConditionWorker() as worker:
        worker.stop()
        assert worker.evaluate("true", [b"1"]) == []
    assert caplog.messages == []
