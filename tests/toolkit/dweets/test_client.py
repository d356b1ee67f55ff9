"""The client against the gateway: every call of ``tk.dweets``, its frames and dtypes, and its errors."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import toolkit
from tests.conftest import operator_of
from tests.mail_server import eventually
from tests.ports import free_port
from toolkit.connection import Connection
from toolkit.errors import (
    DataWarning,
    InvalidArgument,
    KeyRejected,
    MalformedRequest,
    NotFound,
    ThingNotLocked,
    Unreachable,
)
from toolkit_gateway import Gateway
from toolkit_gateway.http.limits import LIMITS
from toolkit_gateway.runtime import SteppedClock


def dtypes(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in frame.dtypes.items()}


CASES: list[tuple[list[Any], dict[str, str]]] = [
    ([{"a": 1}, {"a": 2}], {"a": "int64"}),
    ([{"a": 1}, {"b": 2}], {"a": "Int64", "b": "Int64"}),
    ([{"a": 1.5}, {"a": 2}], {"a": "float64"}),
    ([{"a": 1.5}, {}], {"a": "float64", "content": "object"}),
    ([{"a": True}, {"a": None}], {"a": "boolean"}),
    ([{"a": "x"}, {"b": 1}], {"a": "str", "b": "Int64"}),
    ([{"a": 1}, {"a": "x"}], {"a": "object"}),
    ([{"a": True}, {"a": 1}], {"a": "object"}),
    ([{"a": 2**63}], {"a": "object"}),
    ([{"a": 2**60}, {"a": 0.5}], {"a": "object"}),
    ([{"a": None}], {"a": "object"}),
    ([{"p": {"lat": 1.5, "deep": {"x": 1}}}], {"p.lat": "float64", "p.deep.x": "int64"}),
    ([[1, 2]], {"content": "object"}),
    ([1, 2], {"content": "int64"}),
    (["x", {"a": 1}], {"content": "str", "a": "Int64"}),
]


def test_each_column_gets_the_narrowest_honest_dtype(tk: Connection) -> None:
    for number, (contents, expected) in enumerate(CASES):
        for content in contents:
            tk.dweets.post(f"case {number}", content)
        frame = tk.dweets.history(f"case {number}")
        assert dtypes(frame) == expected, contents
        assert (frame.index.name, str(frame.index.dtype)) == ("created", "datetime64[us, UTC]")
        assert frame.index.is_monotonic_increasing


def test_empty_answers_have_their_columns_too(tk: Connection) -> None:
    for read in (tk.dweets.latest, tk.dweets.history):
        with pytest.warns(DataWarning, match="no dweet of the thing 'nobody'"):
            frame = read("nobody")
        assert (len(frame), dtypes(frame)) == (0, {})
        assert (frame.index.name, str(frame.index.dtype)) == ("created", "datetime64[us, UTC]")
    with pytest.warns(DataWarning, match="no dweet of 2 of 2 things, such as 'nobody'"):
        assert dtypes(tk.dweets.history(["nobody", "no one"])) == {"thing": "str"}
    assert dtypes(tk.dweets.history([])) == {"thing": "str"}
    assert dtypes(tk.dweets.things()) == {"thing": "str", "keywords": "str"}
    empty = tk.dweets.post_frame("kitchen", pd.DataFrame({"a": []}))
    assert dtypes(empty) == {"thing": "str", "transaction": "str"}
    assert str(empty.index.dtype) == "datetime64[us, UTC]"
    with pytest.warns(DataWarning, match="no dweet of the thing 'nobody'"):
        found = tk.dweets.backtest("nobody", "return true")
    assert dtypes(found) == {"alert.met": "bool", "alert.message": "str", "alert.mails": "bool", "alert.fault": "str"}


def test_posting_and_reading(tk: Connection) -> None:
    receipt = tk.dweets.post("kitchen", {"celsius": 21.5})
    assert dtypes(receipt) == {"thing": "str", "transaction": "str"}
    assert len(receipt["transaction"].iloc[0]) == 36
    tk.dweets.post("kitchen", {"celsius": 22.5})
    assert tk.dweets.latest("kitchen")["celsius"].tolist() == [22.5]
    history = tk.dweets.history("kitchen")
    assert history["celsius"].tolist() == [21.5, 22.5], "oldest first"
    assert history.index[0] == receipt.index[0]
    tk.dweets.post("attic", {"thing": "box", "n": 1})
    both = tk.dweets.history(["kitchen", "attic"])
    assert both["thing"].tolist() == ["kitchen", "kitchen", "attic"]
    assert both["content.thing"].tolist()[2] == "box"
    unnamed = tk.dweets.post(None, {"n": 1})["thing"].iloc[0]
    assert tk.dweets.latest(unnamed)["n"].tolist() == [1]
    assert set(tk.dweets.things()["thing"]) == {"kitchen", "attic", unnamed}
    assert len(tk.dweets.history("kitchen", since=history.index[0], until=history.index[1] + pd.Timedelta("1s"))) == 2


def test_content_that_is_not_json_is_not_sent(tk: Connection) -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]
    numbers = [math.nan, math.inf, {"a": [1, {"b": -math.inf}]}, np.float32("nan"), np.array([1.0, np.nan]), 2**70, 1j]
    others = [{1: 2}, {"a": {1, 2}}, b"x", "\ud800", {"\udcff": 1}, object(), pd.NA, "x" * 70_000, cyclic, deep]
    for content in (*numbers, *others):
        with pytest.raises(InvalidArgument):
            tk.dweets.post("kitchen", content)
    assert tk.dweets.things().empty
    while deep:  # taken apart by hand: the interpreter would do it level in level
        deep = deep[0]
    others.clear()


def test_invalid_names_are_not_sent() -> None:
    with toolkit.connect("http://127.0.0.1:9") as tk:  # nobody is there: what were sent would be Unreachable
        for name in ("", ".", "..", "a\nb", "\x00", "x" * 257, "\ud800"):
            calls: list[Callable[[], object]] = [
                lambda: tk.dweets.post(name, 1),  # noqa: B023
                lambda: tk.dweets.latest(name),  # noqa: B023
                lambda: tk.dweets.history([name]),  # noqa: B023
                lambda: tk.dweets.listen(name),  # noqa: B023
                lambda: tk.dweets.lock(name, lock="l", key="k"),  # noqa: B023
                lambda: tk.dweets.set_alert(name, who="a@b.c", condition="return true", key="k"),  # noqa: B023
            ]
            for call in calls:
                with pytest.raises(InvalidArgument):
                    call()


def test_invalid_arguments_are_not_sent() -> None:
    index = pd.DatetimeIndex(["2026-01-02", "2026-01-01"])
    with toolkit.connect("http://127.0.0.1:9") as tk:
        calls: list[Callable[[], object]] = [
            lambda: tk.dweets.backtest("a", "true", date="yesterday"),
            lambda: tk.dweets.backtest("a", "true", date="2026-02-30"),
            lambda: tk.dweets.backtest("a", "true", date=datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))),
            lambda: tk.dweets.history(name for name in ("a", 5)),  # type: ignore[misc]
            lambda: tk.dweets.latest("a", key="\ud800"),
            lambda: tk.dweets.remove_lock("", key="k"),
            lambda: tk.dweets.remove_lock("..", key="k"),
            lambda: tk.dweets.set_alert("a", who="nobody", condition="return true", key="k"),
            lambda: tk.dweets.replay("a", pd.DataFrame({"a": [1]})),
            lambda: tk.dweets.replay("a", pd.DataFrame({"a": [1, 2]}, index=index)),
            lambda: tk.dweets.replay("a", pd.DataFrame({"a": [1, 2]}, index=index[::-1]), speed=0),
            lambda: tk.dweets.post_frame("a", pd.DataFrame({1: [1]})),
            lambda: tk.dweets.post_frame("a", pd.DataFrame({"a": [1]}, index=pd.Index([1], name="a"))),
        ]
        for call in calls:
            with pytest.raises(InvalidArgument):
                call()
        with pytest.raises(Unreachable):
            tk.dweets.latest("a")


def test_a_row_without_columns_is_an_empty_dweet(tk: Connection) -> None:
    assert len(tk.dweets.post_frame("bare", pd.DataFrame(index=range(3)))) == 3
    receipts = tk.dweets.post_frame(frame=pd.DataFrame({"thing": ["a", "b", "a"]}), thing_column="thing")
    assert receipts["thing"].tolist() == ["a", "b", "a"]
    assert len(tk.dweets.history("bare")) == 3
    with pytest.warns(UserWarning, match="no dweet has the field 'n'$"):
        assert not tk.dweets.backtest(pd.DataFrame(index=range(3)), "dweet.n > 1")["alert.met"].any()


def test_large_rows_are_sent_in_more_requests(tk: Connection) -> None:
    assert len(tk.dweets.post_frame("large", pd.DataFrame({"a": ["x" * 60_000] * 300}), progress=False)) == 300
    assert len(tk.dweets.history("large")) == 300


def test_replay_posts_rows_at_their_times(tk: Connection) -> None:
    times = pd.to_datetime(["2026-01-01 00:00", "2026-01-01 00:01", "2026-01-01 00:03"])
    frame = pd.DataFrame({"n": [1, 2, 3]}, index=times)
    with tk.dweets.listen("roof") as listener:
        began = time.monotonic()
        with tk.dweets.replay("roof", frame, speed=600) as playing:
            assert [next(listener).content["n"] for _ in range(3)] == [1, 2, 3]
            took = time.monotonic() - began
            assert playing.wait(60) == 3
    assert 0.28 < took < 60, "three minutes at 600 times their speed"
    for speed in (1.0, 1e-300):
        slow = tk.dweets.replay("roof", frame, speed=speed)
        eventually(lambda: slow.sent == 1)  # noqa: B023
        with pytest.raises(TimeoutError, match="of 3 rows sent"):
            slow.wait(0.05)
        assert "playing" in repr(slow)
        assert slow.close() == 1
    everything = pd.concat([frame] * 900).sort_index()
    assert tk.dweets.replay("roof", everything, speed=math.inf).wait(60) == 2_700
    assert tk.dweets.replay("roof", frame.iloc[:0]).wait(60) == 0


def test_locks_and_alerts_round_trip(gateway: Gateway, tk: Connection) -> None:
    issued = operator_of(gateway).issue_lock()
    with tk.dweets.listen("oven") as listener:
        locked = tk.dweets.lock("oven", lock=issued.lock, key=issued.master_key)
        with pytest.raises(KeyRejected, match="requires a key"):
            next(listener)
    assert dtypes(locked) == {"thing": "str", "lock": "str", "locked": "boolean"}
    with pytest.raises(KeyRejected, match="requires a key"):
        tk.dweets.history("oven")
    with pytest.warns(DataWarning, match="no dweet of the thing 'oven'"):
        assert len(tk.dweets.history("oven", key=issued.read_key)) == 0
    key, who = issued.master_key, ["a@b.example", "c@d.example"]
    with pytest.warns(DataWarning, match="^the gateway has no mail server, so mails stay in the outbox"):
        alert = tk.dweets.set_alert("oven", who=who, condition="return dweet.celsius > 30", key=key)
    with tk.dweets.listen("oven", key=issued.read_key) as listener:
        receipt = tk.dweets.post("oven", {"celsius": 31}, key=key)
        assert next(listener).created == receipt.index[0]
    assert len(operator_of(gateway).outbox()) == 1
    after = tk.dweets.get_alert("oven", key=key)
    assert dtypes(alert) == dtypes(after) == {
        "thing": "str", "condition": "str", "recipients": "str", "open": "bool", "message": "str",
        "since": "datetime64[us, UTC]", "sent_today": "int64", "allowed_today": "int64", "unknown_fields": "str",
    }  # fmt: skip
    assert after[["open", "message", "sent_today"]].to_numpy().tolist() == [[True, "true", 1]]
    assert dtypes(tk.dweets.remove_alert("oven", key=key)) == dtypes(after)
    assert len(tk.dweets.get_alert("oven", key=key)) == 0
    with pytest.raises(NotFound):
        tk.dweets.remove_alert("oven", key=key)
    with pytest.raises(MalformedRequest, match="doesn't compile"):
        tk.dweets.set_alert("oven", who="a@b.example", condition="return (", key=key)
    frame = pd.DataFrame({"n": [1]}, index=pd.to_datetime(["2026-01-01"]))
    with pytest.raises(KeyRejected):
        tk.dweets.replay("oven", frame).wait(60)
    assert tk.dweets.replay("oven", frame, key=key).wait(60) == 1
    assert tk.dweets.unlock("oven", key=key)["locked"].tolist() == [False]
    with pytest.raises(ThingNotLocked):
        tk.dweets.unlock("oven", key=key)
    with pytest.raises(NotFound, match="not in use"):
        tk.dweets.remove_lock(issued.lock, key=key)


def test_backtest_matches_the_alert(gateway: Gateway, tk: Connection) -> None:
    condition = (
        "if (dweet.c > 30) return 'hot'; if (dweet.c > 20) return 'warm'; if (dweet.c < 0) throw new Error('ice')"
    )
    issued = operator_of(gateway).issue_lock()
    tk.dweets.lock("oven", lock=issued.lock, key=issued.master_key)
    with pytest.warns(DataWarning, match="no mail server"):
        tk.dweets.set_alert("oven", who="a@b.example", condition=condition, key=issued.master_key)
    values = [10, 25, 26, 31, -1, 32, 5, 21, None]
    for value in values:
        tk.dweets.post("oven", {"c": value}, key=issued.master_key)
    found = tk.dweets.backtest("oven", condition, key=issued.read_key)
    assert found["c"].tolist()[:8] == values[:8]
    assert found["alert.met"].tolist() == [False, True, True, True, False, True, False, True, False]
    assert found["alert.mails"].tolist() == [False, True, False, True, False, False, False, True, False]
    assert found["alert.fault"].notna().tolist() == [value == -1 for value in values]
    mailed = found[found["alert.mails"]]
    assert operator_of(gateway).outbox()["at"].tolist() == mailed.index.tolist()
    assert (
        operator_of(gateway).outbox()["subject"].str.removeprefix("Alert of oven: ").tolist()
        == mailed["alert.message"].tolist()
    )
    day = str(found.index[0].date())
    assert len(tk.dweets.backtest("oven", condition, date=day, key=issued.read_key)) >= 1
    with pytest.raises(InvalidArgument, match="doesn't compile"):
        tk.dweets.backtest("oven", "return (")


def test_a_backtest_warns_of_a_condition_that_cannot_trigger(tk: Connection) -> None:
    for celsius in (10, 31, 40):
        tk.dweets.post("oven", {"celsius": celsius})
    assert tk.dweets.backtest("oven", "dweet.celsius > 30")["alert.met"].tolist() == [False, True, True]
    assert tk.dweets.backtest("oven", "dweet.celsius > 50")["alert.met"].tolist() == [False] * 3, "no is a value too"
    for condition, said in (
        ("celsius > 30", "failed at every dweet: ReferenceError: celsius is not defined"),
        ("dweet => dweet.celsius > 30", "failed at every dweet: it returns a function and does not call it"),
        ("dweet.celsius", "returned neither a text nor true or false at any dweet; write it as"),
        ("dweet.celcius > 30", "no dweet has the field 'celcius': did you mean 'celsius'"),
    ):
        with pytest.warns(DataWarning, match=said) as warned:
            found = tk.dweets.backtest("oven", condition)
        assert found["alert.met"].tolist() == [False] * 3
        assert warned[0].filename == __file__
    for number, content in enumerate(("warm", {})):
        tk.dweets.post(f"plain {number}", content)
        with pytest.warns(DataWarning, match="no dweet has the field 'celsius'$"):
            tk.dweets.backtest(f"plain {number}", "dweet.celsius > 30")
    with pytest.raises(InvalidArgument, match="neither an expression nor returns a value"):
        tk.dweets.backtest("oven", "if (dweet.celsius > 30) 'too hot'")


def test_a_backtest_takes_a_frame(tk: Connection) -> None:
    for celsius in (10, 31, 40):
        tk.dweets.post("oven", {"air": {"celsius": celsius}, "note": "a"})
    history = tk.dweets.history("oven")
    condition = "if (dweet.air.celsius > 30 && !dweet.created) return 'hot ' + dweet.note"
    found = tk.dweets.backtest(history, condition)
    pd.testing.assert_frame_equal(found, tk.dweets.backtest("oven", condition))
    assert found["alert.mails"].tolist() == [False, True, False]
    pd.testing.assert_frame_equal(tk.dweets.backtest(found, condition), found)
    assert tk.dweets.backtest(history.head(0), condition).empty
    with pytest.warns(UserWarning, match="failed at every dweet"):
        tk.dweets.backtest(history, "dweet.air.celcius.value > 30")
    with pytest.raises(InvalidArgument, match="neither an expression nor returns a value"):
        tk.dweets.backtest(history, "if (dweet.air.celsius > 30) 'too hot'")
    with pytest.raises(InvalidArgument, match="not for a frame"):
        tk.dweets.backtest(history, condition, date="2026-01-01")


def test_backtest_of_a_frame_separates_things(tk: Connection) -> None:
    for thing, celsius in (("oven", 31), ("roof", 31), ("oven", 32), ("roof", 5), ("roof", 40)):
        tk.dweets.post(thing, {"celsius": celsius, "thing": f"the {thing}"})
    history = tk.dweets.history(["oven", "roof"])
    found = tk.dweets.backtest(history, "if (dweet.celsius > 30) return dweet.thing")
    assert found["alert.message"].dropna().tolist() == ["the oven", "the roof", "the oven", "the roof"]
    assert found["alert.mails"].tolist() == [True, True, False, False, True]
    assert found["thing"].tolist() == history["thing"].tolist()


def test_collect_returns_a_frame(tk: Connection) -> None:
    posting = threading.Event()

    def post() -> None:
        for number in count():
            if posting.wait(0.002):
                return
            tk.dweets.post("door", {"n": number})

    poster = threading.Thread(target=post)
    poster.start()
    try:
        found = tk.dweets.collect("door", n=5)
        start = found["n"].iloc[0]
        assert found["n"].tolist() == list(range(start, start + 5))
        eventually(lambda: 1 <= len(tk.dweets.collect("door", seconds=0.3)) < 1_000)
        assert len(tk.dweets.collect("door", n=2, seconds=math.inf)) == 2
    finally:
        posting.set()
        poster.join(60)
    with pytest.warns(DataWarning, match="no dweet of the thing 'silence'"):
        assert len(tk.dweets.collect("silence", n=1, seconds=0.05)) == 0


def test_listener_is_closed_from_another_thread(tk: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        LIMITS, "heartbeat_seconds", 3600.0
    )  # nothing else wakes it, until it gives up after 30 seconds
    waits = []
    for _ in range(5):
        listener = tk.dweets.listen("door")
        ended = threading.Event()
        reader = threading.Thread(target=lambda listener=listener, ended=ended: (list(listener), ended.set()))
        reader.start()
        assert not ended.wait(0.05)
        began = time.perf_counter()
        listener.close()
        assert ended.wait(20)
        waits.append(time.perf_counter() - began)
        reader.join(60)
        listener.close()
        assert list(listener) == []
    print(f"\nclosed in {max(waits) * 1000:.1f} ms at most")
    assert sorted(waits)[2] < 0.5


def test_listener_resumes_exactly_after_a_restart(tmp_path: Path) -> None:
    port = free_port()
    gateway = Gateway(tmp_path, port=port)
    seen: list[tuple[int, int | None]] = []
    with toolkit.connect(gateway.base_url) as tk, tk.dweets.listen("door", since=0) as listener:
        reader = threading.Thread(
            target=lambda: seen.extend((next(listener).content, listener.position) for _ in range(90))
        )
        reader.start()
        for life in range(3):
            if life:
                gateway = Gateway(tmp_path, port=port)
            for number in range(life * 30, life * 30 + 30):
                tk.dweets.post("door", number)
            if life < 2:
                gateway.close()
        reader.join(60)
        assert listener.position == 90
    gateway.close()
    assert seen == [(number, number + 1) for number in range(90)]


def test_listener_gives_up_if_the_gateway_stays_away() -> None:
    gateway = Gateway(port=free_port())  # which nobody else takes meanwhile
    with toolkit.connect(gateway.base_url) as tk, tk.dweets.listen("door", patience=0.2) as listener:
        told: list[bool] = []
        listener.on_connection = told.append
        assert listener.is_connected
        gateway.close()
        with pytest.raises(Unreachable):
            next(listener)
        assert (listener.is_connected, told) == (False, [False])


def test_history_reads_all_retained_dweets(tk: Connection) -> None:
    tk.dweets.post_frame("roof", pd.DataFrame({"n": range(1_234)}), progress=False)
    assert tk.dweets.history("roof", progress=False)["n"].tolist() == list(range(1_234))
    assert tk.dweets.history("roof", n=3)["n"].tolist() == [1_231, 1_232, 1_233]
    assert tk.dweets.history("roof", n=700)["n"].tolist() == list(range(534, 1_234))
    with pytest.warns(DataWarning, match="no dweet of the thing 'nobody'"):
        assert len(tk.dweets.history(["roof", "nobody"], n=2)) == 2


def test_history_reads_a_range_over_several_days() -> None:
    with Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        assert isinstance(gateway.clock, SteppedClock)
        for day in range(4):
            tk.dweets.post_frame("roof", pd.DataFrame({"n": range(day * 300, day * 300 + 300)}), progress=False)
            gateway.clock.advance(seconds=2 * 86_400)
        every = tk.dweets.history("roof", progress=False)
        assert every["n"].tolist() == list(range(1_200))
        start, end = every.index[100], every.index[700]
        for since in (start, start.isoformat(), start.to_pydatetime(), start.tz_convert("Asia/Tokyo")):
            found = tk.dweets.history("roof", since=since, until=end, progress=False)
            assert found["n"].tolist() == list(range(100, 700))
        assert tk.dweets.history("roof", n=5, until=end)["n"].tolist() == list(range(695, 700))
        assert tk.dweets.history("roof", since=date(2026, 1, 3), until=date(2026, 1, 4))["n"].tolist() == list(
            range(300, 600)
        )
        assert len(tk.dweets.history("roof", since="1999-01-01", until="2000-01-01")) == 0
        with pytest.raises(InvalidArgument, match="is later than until"):
            tk.dweets.history("roof", since="2000-01-01", until="1999-01-01")


def test_one_frame_is_posted_to_many_things(tk: Connection) -> None:
    frame = pd.DataFrame({"room": ["attic", "cellar", "attic"], "n": [1, 2, 3]})
    receipts = tk.dweets.post_frame(frame=frame, thing_column="room")
    assert receipts["thing"].tolist() == ["attic", "cellar", "attic"]
    assert receipts["transaction"].nunique() == 3
    assert tk.dweets.history("attic").to_dict("list") == {"n": [1, 3]}
    assert tk.dweets.history("cellar").to_dict("list") == {"n": [2]}
    assert len(tk.dweets.post_frame(frame=frame.head(0), thing_column="room")) == 0
    with pytest.raises(InvalidArgument, match="thing cannot be '..'"):
        tk.dweets.post_frame(frame=frame.assign(room=["attic", "..", "attic"]), thing_column="room")
    assert len(tk.dweets.history("attic")) == 2, "nothing was sent"


def test_post_accepts_values_of_a_frame(tk: Connection) -> None:
    at = pd.Timestamp("2026-01-01T12:00", tz="Europe/Berlin")
    tk.dweets.post("roof", {"at": at, "n": np.int64(3), "on": np.bool_(True), "wind": np.arange(6.0)[::2]})
    row = tk.dweets.latest("roof").iloc[0]
    assert [row["at"], row["n"], row["on"], list(row["wind"])] == [at.isoformat(), 3, True, [0.0, 2.0, 4.0]]
