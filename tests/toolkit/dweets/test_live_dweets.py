"""LiveDweets in Python: every control, every error as a sentence, nothing lost, no thread left."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

import toolkit
from tests.conftest import ROOT, operator_of
from tests.mail_server import eventually
from tests.ports import free_port
from toolkit import HistoryExplorer, LiveDweets
from toolkit.dweets.widgets.live_readings import LiveReadings
from toolkit.errors import DataWarning, InvalidArgument, KeyRejected, TimedOut
from toolkit.widgets.cell_runs import CellRun
from toolkit_gateway import Gateway

HOSTILE = '<img src=x onerror="boom()">'
_CELL = re.compile(r"<td>(?:<b>)?(.*?)(?:</b>)?</td>")

pytestmark = pytest.mark.usefixtures("no_thread_left")


@pytest.fixture
def no_thread_left() -> Iterator[None]:
    yield
    eventually(lambda: not [one.name for one in threading.enumerate() if one.name.startswith("live-dweets")])


def rows_of(live: LiveDweets) -> list[list[str]]:
    return [_CELL.findall(row)[:-2] for row in live.readings.value.split("<tr>")[2:]]


def drawings_of(live: LiveDweets, act: Callable[[], object] = lambda: None) -> list[str]:
    drawings: list[str] = []

    def note(_change: object) -> None:
        drawings.append(repr(live.chart))
        act()

    live.counter.observe(note, "value")
    return drawings


def test_arriving_dweets_are_drawn_and_collected(tk: toolkit.Connection) -> None:
    path = ROOT / "data" / "seattle_weather_daily_2012_2015.csv"
    weather = pd.read_csv(path, parse_dates=["date"], index_col="date").head(250)
    with LiveDweets(tk, "roof", ["temp_max", "temp_min"], time="date") as live:
        assert repr(live.chart) == "<Chart: no data>"
        tk.dweets.post_frame("roof", weather, progress=False)
        assert live.wait(250) == 250
        eventually(lambda: live.counter.value == "250 dweets")
        assert live.running
    assert not live.running
    assert repr(live.chart) == "<Chart: 500 points of temp_max, temp_min>"
    assert ["temp_max", "28.3"] in rows_of(live)
    assert "Stopped after 250 dweets" in live.status.value
    pd.testing.assert_frame_equal(live.frame, tk.dweets.history("roof", time="date"))
    assert repr(live) == "<LiveDweets: roof, temp_max, temp_min>"
    assert live.picture().startswith(b"\x89PNG")


def test_flood_of_dweets_is_drawn_rarely_without_loss(tk: toolkit.Connection) -> None:
    with LiveDweets(tk, "roof", "n", points=10, keep=3_000) as live:
        drawings = drawings_of(live)
        for start in range(0, 4_000, 500):
            tk.dweets.post_frame("roof", pd.DataFrame({"n": range(start, start + 500)}), progress=False)
        live.wait(4_000)
    assert live.frame["n"].tolist() == list(range(1_000, 4_000))
    assert repr(live.chart) == "<Chart: 10 points of n>"
    assert live.points.options == (10, 100, 300, 1_000)
    assert len(drawings) < 400


def test_several_things_are_drawn_together(tk: toolkit.Connection) -> None:
    with LiveDweets(tk, ["roof", "cellar"]) as live:
        assert "Listening to roof and cellar." in live.status.value
        live.things.options = live.things.value = ("roof", "cellar", "a", "b")
        assert "Listening to 4 things." in live.status.value
        tk.dweets.post("roof", {"celsius": 20.25, "open": True, "state": "on", "list": [1]})
        tk.dweets.post("cellar", {"celsius": 9})
        live.wait(2)
    assert rows_of(live) == [
        ["roof", "celsius", "20.25"],
        ["roof", "open", "true"],
        ["roof", "state", "on"],
        ["roof", "list", "[1]"],
        ["cellar", "celsius", "9"],
    ]
    assert live.frame["thing"].tolist() == ["roof", "cellar"]
    assert (live.fields.options, live.fields.value) == (("celsius", "open", "state"), ("celsius", "open"))
    assert repr(live.chart) == "<Chart: 3 points of celsius, open>"
    live.fields.value = ("celsius", "state")
    assert repr(live.chart) == "<Chart: 3 points of celsius, state>"
    live.things.value = ("cellar",)
    assert repr(live.chart) == "<Chart: 1 points of celsius>"
    assert rows_of(live) == [["celsius", "9"]]


def test_things_are_added_and_removed_while_running(tk: toolkit.Connection) -> None:
    with LiveDweets(tk, "roof", "n") as live:
        live.add_thing.value = "cellar"
        assert (live.things.value, live.add_thing.value) == (("roof", "cellar"), "")
        tk.dweets.post("cellar", {"n": 1})
        live.wait(1)
        live.things.value = ()
        assert "Choose at least one thing" in live.status.value
        assert not live.running
        live.things.value = ("roof",)
        assert "Listening to roof." in live.status.value
        tk.dweets.post("roof", {"n": 2})
        live.wait(2)
        assert live.frame["n"].tolist() == [2]
        live.add_thing.value = "x" * 300
        live.pause.value = True  # it draws, as it does after each dweet
        assert "must have 1 to 256 bytes" in live.status.value
        live.add_thing.value = ""
        live.pause.value = False
        assert "Listening to roof." in live.status.value


def test_pause_freezes_the_chart_without_loss(tk: toolkit.Connection) -> None:
    with LiveDweets(tk, "roof", "n") as live:
        live.pause.value = True
        assert "Paused" in live.status.value
        tk.dweets.post_frame("roof", pd.DataFrame({"n": range(30)}), progress=False)
        live.wait(30)
        assert repr(live.chart) == "<Chart: no data>"
        live.start_button.click()
        assert not live.pause.value
        assert repr(live.chart) == "<Chart: 30 points of n>"
        assert live.counter.value == "30 dweets"


def test_a_wait_for_a_stopped_widget_says_that_it_stopped(tk: toolkit.Connection) -> None:
    live = LiveDweets(tk, "roof")
    live.stop()
    with pytest.raises(TimedOut, match=r"0 of 1 dweet of roof when the widget stopped: start\(\) listens again"):
        live.wait(1)


def test_start_after_stop_continues_with_new_dweets(tk: toolkit.Connection) -> None:
    live = LiveDweets(tk, "roof", "n")
    tk.dweets.post("roof", {"n": 1})
    live.wait(1)
    live.stop_button.click()
    assert not live.running
    live.stop_button.click()
    tk.dweets.post("roof", {"n": 2})
    live.start_button.click()
    live.start_button.click()
    tk.dweets.post("roof", {"n": 3})
    live.wait(2)
    assert live.frame["n"].tolist() == [1, 3]
    live.close()
    assert live.comm is None


def test_shown_again_widget_resumes_without_loss(tk: toolkit.Connection) -> None:
    live = LiveDweets(tk, "roof", "n")
    live.set_state({"_view_count": 1})
    tk.dweets.post("roof", {"n": 1})
    live.wait(1)
    live.set_state({"_view_count": 0})  # its notebook is closed
    eventually(lambda: not live.running)
    tk.dweets.post("roof", {"n": 2})
    live.set_state({"_view_count": 1})
    live.wait(2)
    assert live.frame["n"].tolist() == [1, 2]
    assert "Listening to roof." in live.status.value
    live.stop()
    live.set_state({"_view_count": 0})
    live.set_state({"_view_count": 1})
    assert not live.running, "a person has stopped it"


def test_an_observer_may_stop_it(tk: toolkit.Connection) -> None:
    stopped = threading.Event()
    live = LiveDweets(tk, "roof", "n")

    def stop() -> None:
        live.stop()
        stopped.set()

    drawings_of(live, stop)
    tk.dweets.post("roof", {"n": 1})
    assert stopped.wait(60)
    live.start()
    explorer = HistoryExplorer(pd.DataFrame({"n": [1]}, index=pd.to_datetime(["2026-01-01"])))
    explorer.observe(lambda _change: live.stop(), "frame")
    explorer.rule.value = "1D"  # while the explorer works, no other widget does
    assert not live.running


def test_rerunning_the_cell_stops_the_earlier_widget(tk: toolkit.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def runs(cell: str, run: str, thing: str) -> LiveDweets:
        monkeypatch.setattr("toolkit.widgets.cell_runs.current_cell_run", lambda: CellRun(cell, run))
        return LiveDweets(tk, thing)

    first, beside = runs("cell 1", "run 1", "roof"), runs("cell 1", "run 1", "cellar")
    elsewhere = runs("cell 2", "run 2", "roof")
    assert first.running
    assert beside.running
    again = runs("cell 1", "run 3", "roof")
    assert [each.running for each in (first, beside, elsewhere, again)] == [False, False, True, True]
    for each in (elsewhere, again):
        each.stop()


def test_locked_thing_is_shown_as_an_error(tk: toolkit.Connection, gateway: Gateway) -> None:
    lock = operator_of(gateway).issue_lock()
    tk.dweets.post("door", {"opened": 1})
    tk.dweets.lock("door", lock=lock.lock, key=lock.master_key)
    live = LiveDweets(tk, "door")
    assert isinstance(live.error, KeyRejected)
    assert live.frame.empty
    assert not live.running
    with pytest.raises(TimeoutError, match="0 of 1 dweet of door"):
        live.wait(1)
    live.stop()
    assert live.picture().startswith(b"\x89PNG")
    with LiveDweets(tk, ["roof", "door"]) as partly:
        assert partly.running
        assert "door: This thing is locked and requires a key" in partly.status.value
    with LiveDweets(tk, ["roof", "door"], key={"door": lock.read_key}) as allowed:
        assert allowed.error is None


def test_lost_connection_is_shown_until_it_returns(tmp_path: Path) -> None:
    port = free_port()
    gateway = Gateway(tmp_path, port=port)
    with toolkit.connect(gateway.base_url) as tk, LiveDweets(tk, "roof", "n") as live:
        assert "Listening to roof." in live.status.value
        gateway.close()
        eventually(lambda: "start a gateway with `toolkit gateway`. LiveDweets is reconnecting." in live.status.value)
        live.stop()
        live.start()  # with nobody to listen to
        assert "LiveDweets is reconnecting." in live.status.value
        assert live.running
        with Gateway(tmp_path, port=port):
            eventually(lambda: "Listening to roof." in live.status.value)
            tk.dweets.post("roof", {"n": 1})
            assert live.wait(1) == 1
            live.stop()
            assert "Stopped after 1 dweet." in live.status.value


def test_content_without_the_field_is_reported(tk: toolkit.Connection) -> None:
    with LiveDweets(tk, "roof", "celsius") as live, LiveDweets(tk, "roof", time="noon") as numbers:
        tk.dweets.post("roof", {"fahrenheit": 70, HOSTILE: HOSTILE, **{f"n{number}": number for number in range(8)}})
        live.wait(1)
        numbers.wait(1)
    assert repr(live.chart) == "<Chart: no data>"
    assert live.fields.options[:3] == ("celsius", "fahrenheit", HOSTILE)
    assert "<img" not in live.readings.value
    assert "&lt;img" in live.readings.value
    assert numbers.fields.value == ("fahrenheit", *(f"n{number}" for number in range(5))), "the first six numbers"
    assert "The frame does not have the field &#x27;noon&#x27;" in numbers.status.value


def test_a_condition_is_tried_on_what_is_shown(tk: toolkit.Connection) -> None:
    with LiveDweets(tk, "roof", "celsius", points=3, condition="dweet.celsius > 30 || 5 >= dweet['air']") as live:
        tk.dweets.post_frame("roof", pd.DataFrame({"celsius": [31, 29, 32, 33]}), progress=False)
        live.wait(4)
        eventually(lambda: "is met by 2 of the 3 dweets" in live.status.value)
        assert live.chart.get_state("_data")["_data"]["thresholds"] == {"celsius": [30.0]}
        live.condition.value = "dweet.celsius >"
        assert "The condition: " in live.status.value
        live.condition.value = "-1.5 < dweet.air.celsius"
        assert "the condition failed at 3 of 3 dweets: TypeError" in live.status.value
        assert live.chart.get_state("_data")["_data"]["thresholds"] == {"air.celsius": [-1.5]}
        live.condition.value = ""
        assert "condition" not in live.status.value


def test_age_and_rate_tell_what_comes() -> None:
    readings, things = LiveReadings(), ["cellar", "roof"]

    def row(thing: str, now: float) -> list[str]:
        html = readings.html(things, now)
        return next(cells[-2:] for row in html.split("<tr>")[2:] if (cells := _CELL.findall(row))[0] == thing)

    for second in range(0, 600, 10):
        readings.add([{"thing": "roof", "content": 1}], float(second))
        assert row("roof", second)[1] == ("6.0 / min" if second else "–")
    for tick in range(1, 601):
        readings.add([{"thing": "cellar", "content": 1}] * 5, 590 + tick / 10)
    dot = '<span class="toolkit-good">●</span>'
    assert row("cellar", 650) == [f"{dot} just now", "50.0 / s"]
    assert row("roof", 615) == [f"{dot} 25 s ago", "3.7 / min"], "it posts every 10 seconds"
    assert row("cellar", 662) == ["○ 12 s ago", "0 / s"]
    assert row("roof", 800) == ["○ 3 min ago", "0 / s"]
    assert readings.silent(things, 615) == []
    assert readings.silent(things, 662) == ["cellar", "roof"]
    assert readings.html(things, 700).index("cellar") < readings.html(things, 700).index("roof"), "in the given order"
    assert "ago" not in readings.html(things, None)


def test_a_name_that_no_thing_has_is_said(tk: toolkit.Connection) -> None:
    tk.dweets.post("kitchen", {"n": 1})
    with LiveDweets(tk, ["kitchn", "garden"], "n") as live:
        eventually(lambda: "did you mean &#x27;kitchen&#x27;?" in live.status.value)
        tk.dweets.post("kitchn", {"n": 2})
        live.wait(1)
        eventually(lambda: "Listening to kitchn and garden." in live.status.value)
    with tk.dweets.listen("kitchem") as listener, tk.dweets.listen("garden") as garden:
        threading.Timer(1, lambda: [tk.dweets.post(thing, 1) for thing in ("kitchem", "garden")]).start()
        with pytest.warns(DataWarning, match="no dweet of the thing 'kitchem': did you mean 'kitchen'"):
            next(listener)
        next(garden)


def test_many_new_names_do_not_fill_the_table() -> None:
    readings = LiveReadings()
    for number in range(20):
        readings.add([{"thing": "roof", "content": {f"{number} {n}": n for n in range(200)}}], 0)
    assert len(readings.fields) == 1_000
    assert "and 940 more" in readings.html(["roof"], 1)


def test_invalid_points_are_refused(tk: toolkit.Connection) -> None:
    for points, keep in ((1, 10), (11, 10)):
        with pytest.raises(InvalidArgument):
            LiveDweets(tk, "roof", points=points, keep=keep)
    for things in ("", ["roof", "a\nb"]):
        with pytest.raises(InvalidArgument, match="a thing's name"):
            LiveDweets(tk, things)
