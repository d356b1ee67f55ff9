"""Conditions in their child process: what compiles, what is returned, its limits, and how it ends."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.mail_server import eventually
from tests.toolkit.dweets.hostile_conditions import HOSTILE, OVERRAN, kinds
from toolkit.dweets import conditions
from toolkit.dweets.conditions import ConditionWorker, Verdict, evaluate_all
from toolkit.errors import MalformedRequest, ServiceFailure
from toolkit.system import worker_process

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
    """A worker whose limits no honest condition reaches, however slow the machine."""
    with ConditionWorker((5.0, 60.0)) as worker:
        yield worker


@pytest.fixture(scope="module")
def tight() -> Iterator[ConditionWorker]:
    with ConditionWorker((0.2, 0.2)) as worker:
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


def test_condition_is_an_expression_or_a_body(worker: ConditionWorker) -> None:
    for source in [
        "dweet.c > 30",
        " dweet.c > 30 ; ; ",
        "dweet.c > 30 // hot",
        "dweet.c > 30; /* hot */\n// very",
        "// hot\ndweet.c\n> 30",
        "dweet.c+>+30",
        "(dweet.c > 30)",
        "dweet.c, dweet.c > 30",
        "[dweet].some(each => { return each.c > 30 })",
        "return dweet.c > 30",
        "return+dweet.c+>+30",
        "if (dweet.c > 30) return true; else return false",
        "const limit = 30; return dweet.c > limit",
        "'use strict'; return dweet.c > 30 // hot",
        "<!-- hot\nreturn dweet.c > 30",
    ]:
        worker.check_compiles(source)
        assert verdicts(worker, source, {"c": 31}, {"c": 30}) == [
            Verdict("true", returned=True),
            Verdict(None, returned=True),
        ]


def test_value_of_a_condition_decides(worker: ConditionWorker) -> None:
    for source, message in [
        ("dweet.c > 30 && 'too hot'", "too hot"),
        ("'return' // return", "return"),
        ("dweet.c + 1 + ''", "32"),
        ("{}", None),
        ("{ c: dweet.c }", None),
        ("/}/.test('}') && '`)]'", "`)]"),
        ("return '})' + ')]'", "}))]"),
    ]:
        worker.check_compiles(source)
        assert messages(worker, source, {"c": 31}) == [message]


UNCALLED = "it returns a function and does not call it; write dweet.celsius > 30"
NO_MEMORY = "it threw null, or it needs more than 16 MiB of memory"
NO_TEXT = "it threw a value that cannot be converted to a text"


def test_unusable_value_is_explained(worker: ConditionWorker) -> None:
    for source, fault in [
        ("dweet => dweet.c > 30", UNCALLED),
        ("(dweet) => { return dweet.c > 30 }", UNCALLED),
        ("return dweet => dweet.c > 30", UNCALLED),
        # Large pieces first: so many small ones could take more than the time of a condition.
        (
            "let all = []; try { for (;;) all.push('x'.repeat(1 << 18)) } catch { for (;;) all.push({}) } return true",
            NO_MEMORY,
        ),
        ("if (dweet) throw null; return 1", NO_MEMORY),
        ("if (dweet) throw Symbol('a'); return 1", NO_TEXT),
        ("if (dweet) throw Object.create(null); return 1", NO_TEXT),
        ("if (dweet) throw {toString() { throw 1 }}; return 1", NO_TEXT),
    ]:
        worker.check_compiles(source)
        assert verdicts(worker, source, {"c": 31}) == [Verdict(None, fault)]


@pytest.mark.parametrize(
    "thrown",
    ["'\\u{1F525}'.repeat(1.8e6)", "new Error('ü'.repeat(3.8e6))"],
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
        for number in range(32):
            source = f"globalThis.kept = new Uint8Array(15e6).fill({number}); return kept.length > 0"
            assert messages(worker, source, {"text": "x" * 60_000}) == ["true"]
        assert peak_memory(worker) < 64 * 2**20


SYNTAX = "SyntaxError: "
NO_VALUE = "it is neither an expression nor returns a value; write dweet.celsius > 30"
TOO_LONG = "it must have 1 to 2000 characters"
UNREADABLE = "it must be UTF-8 without NUL"


def test_invalid_condition_is_refused(worker: ConditionWorker) -> None:
    for source, fault in [
        ("dweet.c >", SYNTAX),
        ("x" * 2001, TOO_LONG),
        (" ", TOO_LONG),
        ("\0", UNREADABLE),
        ("'\ud800'", UNREADABLE),
        ("dweet.a; dweet.b", NO_VALUE),
        ("if (dweet.c > 30) 'too hot'", NO_VALUE),
        ("{ dweet.c > 30 }", NO_VALUE),
        ("dweet.c > 30; // return true\n1", NO_VALUE),
        ("let said = 'return'; said", NO_VALUE),
        ("const f = () => { return true }; f()", NO_VALUE),
        (";", NO_VALUE),
        ("// nothing", NO_VALUE),
    ]:
        with pytest.raises(MalformedRequest, match=f"^the condition doesn't compile: {re.escape(fault)}"):
            worker.check_compiles(source)


def test_no_source_leaves_its_wrapper(worker: ConditionWorker) -> None:
    for source in BREAKOUTS:
        with pytest.raises(MalformedRequest, match=f"the condition doesn't compile: {SYNTAX}"):
            worker.check_compiles(source)
        (verdict,) = verdicts(worker, source, 1)  # as where an earlier version has stored it
        assert str(verdict.fault).startswith(f"it doesn't compile: {SYNTAX}")


def test_state_does_not_leak_to_the_next_dweet(worker: ConditionWorker) -> None:
    source = """
        globalThis.count = (globalThis.count || 0) + 1; Array.prototype.count = (Array.prototype.count || 0) + 1;
        if (dweet === 'throw') throw count;
        return `${count} ${[].count}`
    """
    assert [verdict.message for verdict in verdicts(worker, source, 1, "throw", 3, 4)] == ["1 1", None, "1 1", "1 1"]


def test_any_text_of_a_dweet_reaches_its_condition(worker: ConditionWorker) -> None:
    for content, message in [
        (b'"\\ud800"', "1 d800"),
        (b'"\\ud83d\\ude00"', "2 d83d"),
        (b'"\\u0000b"', "2 0"),
        (b'["\\ud800"]', "1 d800"),
        (b'{"0": "\\udfff"}', "1 dfff"),
    ]:
        source = """
            const text = typeof dweet === 'string' ? dweet : dweet[0];
            return `${text.length} ${text.charCodeAt(0).toString(16)}`
        """
        assert evaluate_all(worker, source, [content]) == [Verdict(message, returned=True)]


def test_many_contents_are_evaluated_in_order(worker: ConditionWorker) -> None:
    assert messages(worker, "String(dweet)", *range(1_000)) == [str(number) for number in range(1_000)]


# Code that runs after the end of the condition, a loop of the engine, and one long step of it.
@kinds("toString of what it throws", "sort", "digits", never=("endless loop", "memory bomb"))
def test_condition_over_its_cpu_limit_is_stopped(tight: ConditionWorker, kind: str) -> None:
    source = f"if (dweet === 'bad') {{ {HOSTILE[kind]} }} return dweet"
    tight.check_compiles(source)
    found = verdicts(tight, source, "one", "two", "bad", "three")
    assert [verdict.message for verdict in found] == ["one", "two", None, None]
    assert found[2:] == [Verdict(None, OVERRAN, stops=True, is_repetition=True)] * 2
    assert messages(tight, "dweet", "next") == ["next"]


def test_source_over_its_cpu_limit_at_compilation(tight: ConditionWorker) -> None:
    source = "1)}), (() => { throw {toString() { while (1); }} })(), (function() { return (1"
    with pytest.raises(MalformedRequest, match=f"the condition doesn't compile: {OVERRAN}"):
        tight.check_compiles(source)
    assert messages(tight, "dweet", "next") == ["next"]


def test_evaluation_ends_after_repeated_faults(worker: ConditionWorker) -> None:
    source = "if (dweet < 20) nothing; return true"
    found = verdicts(worker, source, 0, 20, *range(19), 20, *range(20), 20)
    assert [verdict.met for verdict in found] == [False, True, *[False] * 19, True, *[False] * 21]
    assert found[-1].fault == (
        "ReferenceError: nothing is not defined; write dweet.nothing for a field, 'nothing' for a text"
    )
    assert not found[-1].stops


# -- evaluations that do not end --------------------------------------------------------------------------------


def test_interrupted_evaluation_is_retried_with_more_time() -> None:
    source = "let sum = 0; for (let n = 0; n < 1e6; n++) sum += dweet; return sum > 1e6 && String(sum)"
    with ConditionWorker((1e-6, 60.0)) as worker:
        worker.check_compiles(source)
        assert verdicts(worker, source, 1, 2, 3) == [
            Verdict(None, returned=True, is_repetition=True),
            Verdict("2000000", returned=True, is_repetition=True),
            Verdict("3000000", returned=True, is_repetition=True),
        ]


def test_the_dweet_after_an_endless_loop_is_evaluated() -> None:
    fault = "it was interrupted after 20 ms of CPU time, and after 200 ms when it was repeated"
    with ConditionWorker((0.02, 0.2)) as worker:
        found = verdicts(worker, "while (dweet) {}; return true", *[True, False] * 3)
        assert [verdict.fault for verdict in found] == [fault, None] * 3
        assert not any(verdict.stops for verdict in found)


CRASHED = "the process that ran it crashed or hung twice"


@pytest.mark.parametrize(
    ("attempts", "fault", "stops"),
    [
        ("interrupted", None, False),
        ("crashed", None, False),
        ("hung", None, False),
        ("killed", None, False),
        ("late", None, False),  # it crashes after its answer
        ("interrupted interrupted", "it was interrupted after 100 ms of CPU time, and after 1000 ms when", False),
        ("interrupted overran", OVERRAN, True),
        ("overran overran", OVERRAN, True),
        ("crashed crashed", CRASHED, True),
    ],
)
def test_evaluation_that_ends_early_is_retried_once(
    attempts: str, fault: str | None, stops: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "ENGINE_MODULE", "tests.toolkit.dweets.dying_engine")
    monkeypatch.setattr(worker_process, "PROGRAM", "from {} import main; main()")  # this child writes a file
    monkeypatch.setattr(conditions, "WALL_SECONDS", 2.0 if "hung" in attempts else 60.0)
    plans = [tmp_path / "first", tmp_path / "second"]
    for plan, text in zip(plans, ("", attempts), strict=True):
        plan.write_text(text)
    with ConditionWorker((0.1, 1.0)) as worker:
        first, second = verdicts(worker, "", *map(str, plans))
    assert first == Verdict("done", returned=True)
    assert (second.message, second.stops, second.is_repetition) == (
        None if fault else "done",
        stops,
        attempts != "late",
    )
    assert (second.fault or "").startswith(fault or "")


def test_a_child_killed_again_and_again_stops_no_condition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "ENGINE_MODULE", "tests.toolkit.dweets.dying_engine")
    monkeypatch.setattr(worker_process, "PROGRAM", "from {} import main; main()")  # this child writes a file
    plan = tmp_path / "plan"
    plan.write_text("killed killed killed")
    with ConditionWorker() as worker:
        with pytest.raises(ServiceFailure, match="another program keeps killing the process"):
            verdicts(worker, "", str(plan))
        assert [verdict.message for verdict in verdicts(worker, "", str(plan))] == ["done"]


def test_the_limit_counts_cpu_time_only() -> None:
    """The child is suspended while the clock goes on, as on a machine that is too busy for it."""
    source = "const until = Date.now() + 1_500; while (Date.now() < until); return true"
    with ConditionWorker((1.0, 1.0)) as worker:
        worker.check_compiles(source)  # now there is a child
        child = psutil.Process(worker.pid)

        def suspend() -> None:
            idle = child.cpu_times().user
            eventually(lambda: child.cpu_times().user > idle)
            child.suspend()
            threading.Event().wait(1.5)
            child.resume()

        suspending = threading.Thread(target=suspend)
        suspending.start()
        assert verdicts(worker, source, 1) == [Verdict("true", returned=True)]
        suspending.join()


def test_stop_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with ConditionWorker() as worker:
        worker.stop()
        with pytest.raises(ServiceFailure):
            worker.evaluate("true", [b"1"])
    assert caplog.messages == []
