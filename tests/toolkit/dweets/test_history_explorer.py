"""HistoryExplorer in Python: every control, every error as a sentence."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import ipywidgets
import numpy as np
import pandas as pd
import pytest
from ipywidgets.widgets.widget import _instances
from traitlets import TraitError

import toolkit
from tests.conftest import ROOT, operator_of
from toolkit import HistoryExplorer
from toolkit.dweets.widgets.exploration import HistorySource
from toolkit.errors import InvalidArgument, KeyRejected, Unreachable
from toolkit.widgets.base import CheckList, ServiceWidget, error_text
from toolkit.widgets.cell_runs import CellRun
from toolkit_gateway import Gateway

HOSTILE = '<img src=x onerror="boom()">'


@pytest.fixture(scope="module")
def weather() -> pd.DataFrame:
    table = pd.read_csv(ROOT / "data" / "seattle_weather_daily_2012_2015.csv", parse_dates=["date"])
    return table.set_index("date")


@pytest.fixture(scope="module")
def running(weather: pd.DataFrame) -> Iterator[toolkit.Connection]:
    """A gateway with dweets of all tests that post none."""
    with Gateway() as gateway, toolkit.connect(gateway) as tk:
        tk.dweets.post_frame("seattle", weather.head(400).drop(weather.index[100:110]), progress=False)
        tk.dweets.post_frame("tacoma", weather.head(200), progress=False)
        tk.dweets.post("oak", {"date": "2012-01-01", "temp_max": 8.0})
        tk.dweets.post("elm", {"date": "2012-03-01", "temp_max": 9.0, "late": 1.0})
        yield tk


@pytest.fixture
def explorer(running: toolkit.Connection) -> HistoryExplorer:
    return HistoryExplorer(running, things=["seattle", "tacoma"], time="date", fields=["temp_max"])


def test_chosen_things_and_fields_are_shown(explorer: HistoryExplorer) -> None:
    assert explorer.frame.columns.tolist() == ["thing", "temp_max"]
    assert len(explorer.frame) == 590
    assert explorer.gaps[["thing", "missing"]].to_numpy().tolist() == [["seattle", 10], ["tacoma", 200]]
    assert explorer.statistics["count"].tolist() == [390, 200]
    assert "590 rows from 2012-01-01 00:00 to 2013-02-03 00:00 · 2 gaps" in explorer.status.value
    assert repr(explorer.chart) == "<Chart: 590 points of temp_max>"
    assert ">seattle</td>" in explorer.table.value


def test_every_control_has_its_effect(explorer: HistoryExplorer) -> None:
    explorer.things.value = ["seattle"]
    assert len(explorer.frame) == 390
    assert "thing" not in explorer.frame.columns
    explorer.fields.value = ["temp_max", "wind"]
    assert explorer.frame.columns.tolist() == ["temp_max", "wind"]
    explorer.start.value, explorer.end.value = "2012-02", "2012-03"
    assert (len(explorer.frame), str(explorer.frame.index[-1].date())) == (60, "2012-03-31")
    explorer.rule.value = "1MS"
    explorer.how.value = "max"
    assert explorer.frame["temp_max"].tolist() == [16.1, 15.6]
    explorer.rule.value, explorer.start.value, explorer.end.value = "", "", ""
    explorer.gap_factor.value = 20
    assert explorer.gaps.empty
    explorer.gap_factor.value, explorer.threshold.value = 1.5, 3.0
    assert len(explorer.gaps) == 1
    assert len(explorer.outliers) > 5
    explorer.mark_gaps.value = explorer.mark_outliers.value = False
    assert explorer.gaps.empty
    assert explorer.outliers.empty
    explorer.time.value = "created"
    assert explorer.frame.index.name == "created"


def test_a_zoom_sends_no_data_again(explorer: HistoryExplorer) -> None:
    sent: list[object] = []
    explorer.chart.observe(lambda change: sent.append(change["name"]), "_data")
    explorer.chart.visible_range = "2012-02-19", "2012-03-01 12:00"
    assert (explorer.start.value, explorer.end.value) == ("2012-02-19 00:00", "2012-03-01 12:00")
    explorer.start.value, explorer.end.value = "2012-03", "2012-04"
    assert explorer.chart.visible_range == (pd.Timestamp("2012-03-01"), pd.Timestamp("2012-04-30 23:59:59.999999"))
    assert explorer.statistics["count"].tolist() == [51, 61]
    assert sent == []
    explorer.fields.value = ["wind"]
    assert sent == ["_data"]


def test_each_cause_of_an_empty_result_is_explained(running: toolkit.Connection) -> None:
    explorer = HistoryExplorer(running, things=["oak", "elm"], time="date", fields=["temp_max"])
    for control, value, words in (
        (explorer.day, "2025-12-31", "No dweets of oak, elm on 2025-12-31 (UTC)."),
        (explorer.start, "2020", "No dweets between 2020 and the end: those of temp_max are"),
        (explorer.fields, (), "No field is chosen"),
        (explorer.things, (), "Choose at least one thing; Reload lists new ones."),
    ):
        before, control.value = control.value, value
        assert words in explorer.status.value
        control.value = before
    assert "The frame has no rows." in HistoryExplorer(pd.DataFrame()).status.value
    explorer.end.value, explorer.fields.value = "2012-02", ["late"]
    words = "No dweets between the start and 2012-02: those of late are from 2012-03-01 00:00"
    assert words in explorer.status.value


def test_millions_of_rows_are_read_on_reload_only(
    tk: toolkit.Connection, weather: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    tk.dweets.post_frame("seattle", weather.head(30), progress=False)
    monkeypatch.setattr(HistorySource, "row_count", lambda *_given: 3_000_000)
    explorer = HistoryExplorer(tk, things=["seattle"], time="date")
    assert "These are 3,000,000 rows: Reload reads them" in explorer.status.value
    assert explorer.frame.empty
    explorer.reload_button.click()
    assert len(explorer.frame) == 30


def test_booleans_and_texts_are_shown(weather: pd.DataFrame) -> None:
    explorer = HistoryExplorer(weather.assign(dry=weather["precipitation"] == 0), fields=["weather", "dry", "wind"])
    assert repr(explorer.chart) == "<Chart: 4,383 points of wind, dry, weather>"
    assert explorer.statistics["field"].tolist() == ["wind", "dry", "weather"]
    assert explorer.statistics["most_frequent"].tolist()[1:] == ["true", "sun"]
    assert explorer.statistics["share_true"].notna().tolist() == [False, True, False]
    explorer.rule.value = "1MS"
    assert explorer.frame.columns.tolist() == ["wind"]
    assert "no mean of dry, weather" in explorer.status.value


def test_generated_code_reproduces_the_view(explorer: HistoryExplorer, running: toolkit.Connection) -> None:
    explorer.rule.value, explorer.start.value = "1W", "2012-03"
    names = {"tk": running}
    exec(explorer.code(), names)
    pd.testing.assert_frame_equal(names["shown"], explorer.frame.sort_index(kind="stable"), check_freq=False)
    explorer.copy_button.click()
    assert "resample(&#x27;1W&#x27;" in explorer.table.value


def test_level_shifts_are_marked_if_wanted() -> None:
    values = 20 + 0.3 * (np.arange(200) % 3)
    values[100:130] = values[100:130] * 1.8 + 32
    frame = pd.DataFrame({"celsius": values}, pd.date_range("2026-01-01", periods=200, freq="h"))
    explorer = HistoryExplorer(frame, unit="°C")
    assert explorer.shifts.empty
    explorer.mark_shifts.value = True
    assert "1 level shift" in explorer.status.value
    assert explorer.shifts["explained_by"].tolist() == ["x 1.8 + 32"]
    ((_, start, _, field, why),) = explorer.chart.get_state()["_data"]["shifts"]
    assert (start, field, why) == (pd.Timestamp("2026-01-05 04:00").timestamp(), "celsius", "x 1.8 + 32")
    assert explorer.code().endswith("shown.dweets.chart(['celsius'], unit='°C')")


def test_rows_are_sorted_filtered_and_paged(explorer: HistoryExplorer) -> None:
    explorer.shown_table.value = "Rows"
    rows = explorer.rows
    assert rows.place.value == "1–50 of 590"
    rows.after.click()
    assert rows.place.value == "51–100 of 590"
    rows.sort.value, rows.descending.value = "temp_max", True
    assert re.search(r"<td>([\d.]+)</td>\s*</tr>", rows.table.value)[1] == str(explorer.frame["temp_max"].max())
    rows.filter.value = "temp_max >= 30"
    assert (
        rows.place.value
        == f"1–{(explorer.frame['temp_max'] >= 30).sum()} of {(explorer.frame['temp_max'] >= 30).sum()}"
    )
    rows.filter.value = "TACO"
    assert rows.place.value == "1–50 of 200"
    rows.filter.value = "date < 2012-01-03"
    assert rows.place.value == "1–4 of 4"
    rows.filter.value = "temp_max > warm"
    assert "&#x27;warm&#x27; cannot be compared with temp_max" in explorer.status.value
    rows.filter.value = "humidity > 3"
    assert "write a comparison such as temp_max &gt; 20" in explorer.status.value.replace("Write", "write")
    assert explorer.error is not None
    assert (rows.place.value, rows.table.value) == ("", "")


def test_a_corrected_filter_ends_its_error(explorer: HistoryExplorer) -> None:
    explorer.shown_table.value = "Rows"
    said, rows = explorer.status.value, explorer.rows
    for wrong in ("temp_max > warm", "humidity > 3"):
        rows.filter.value = wrong
        assert explorer.error is not None
        rows.filter.value = "temp_max >= 30"
        assert (explorer.error, explorer.status.value) == (None, said)
    rows.filter.value = "humidity > 3"
    explorer.shown_table.value = "Gaps"
    assert (explorer.error, explorer.status.value) == (None, said)
    explorer.shown_table.value, rows.filter.value = "Rows", "temp_max >= 30"
    explorer.fields.value = ("wind",)
    assert "such as wind &gt; 20" in explorer.status.value, "the filter is of a field that is no longer there"
    assert rows.table.value == ""
    explorer.start.value = "last summer"
    rows.filter.value = "wind >= 1"
    assert "Cannot read these times" in explorer.status.value, "an error of the choice stays"


def test_stored_day_replaces_the_last_500(demo: Gateway, weather: pd.DataFrame) -> None:
    with toolkit.connect(demo) as tk:
        tk.dweets.post_frame("seattle", weather.head(600), progress=False)
        explorer = HistoryExplorer(tk, things=["seattle"], time="date")
        assert len(explorer.frame) == 500
        explorer.day.value = "2026-01-01"
        assert len(explorer.frame) == 600
        explorer.day.value = "2026-01-02"
        assert "No dweets of seattle on 2026-01-02 (UTC)." in explorer.status.value
        assert explorer.frame.empty
        explorer.day.value = "2026-01-01"
        assert len(explorer.frame) == 600
        assert explorer.time.value == "date"
        explorer.day.value = "yesterday"
        assert "Date must be YYYY-MM-DD" in explorer.status.value
        assert explorer.error is not None


def test_reload_reads_new_dweets_and_new_things(tk: toolkit.Connection) -> None:
    explorer = HistoryExplorer(tk)
    assert "Choose at least one thing" in explorer.status.value
    tk.dweets.post("kitchen", {"celsius": 20})
    explorer.reload_button.click()
    assert explorer.error is None
    assert explorer.things.value == ("kitchen",)
    tk.dweets.post("kitchen", {"celsius": 21})
    tk.dweets.post("cellar", {"celsius": 9})
    explorer.reload_button.click()
    assert explorer.frame["celsius"].tolist() == [20, 21]
    assert set(explorer.things.options) == {"kitchen", "cellar"}
    assert explorer.things.value == ("kitchen",)


def test_things_of_a_frame_are_chosen(weather: pd.DataFrame) -> None:
    explorer = HistoryExplorer(pd.concat([weather.assign(thing="a"), weather.head(10).assign(thing="b")]))
    assert explorer.things.value == ("a", "b")
    explorer.things.value = ["b"]
    assert len(explorer.frame) == 10


def test_export_matches_the_view(weather: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    explorer = HistoryExplorer(weather, fields=["wind"], rule="1MS")
    for suffix, read in (
        (".csv", lambda path: pd.read_csv(path, parse_dates=["date"], index_col="date")),
        (".parquet", pd.read_parquet),
    ):
        target = tmp_path / f"monthly{suffix}"
        explorer.file.value = target.name
        explorer.start.value = ""
        explorer.save_button.click()
        assert f"Wrote 48 rows to {target.name}" in explorer.status.value
        before = target.read_bytes()
        explorer.start.value = "2014"
        explorer.save_button.click()
        assert f"{target.name} exists, {len(before):,} bytes. Press Replace it" in explorer.status.value
        assert target.read_bytes() == before
        explorer.save_button.click()
        assert f"Wrote 24 rows to {target.name}" in explorer.status.value
        assert explorer.save_button.description == "Save on the server"
        pd.testing.assert_frame_equal(read(target), explorer.frame, check_freq=False)


def test_a_saved_csv_holds_no_formula(tmp_path: Path) -> None:
    index = pd.date_range("2026-01-01", periods=3, freq="h", name="created")
    names = ["=cmd|' /C calc'!A0", "+1-1", "-7.5"]
    field, tab = '=HYPERLINK("http://x")', "\tx"
    frame = pd.DataFrame({"thing": names, field: [-1.0, 2, 3], tab: 1, "@sum": 5}, index=index)
    explorer = HistoryExplorer(frame, fields=[field, tab, "@sum"])
    explorer.file.value = str(tmp_path / "a.csv")
    explorer.save_button.click()
    back = pd.read_csv(tmp_path / "a.csv", dtype=str)
    assert back.columns.tolist() == ["created", "thing", "'" + field, "'" + tab, "'@sum"]
    assert back["thing"].tolist() == ["'" + names[0], "'" + names[1], "-7.5"]
    assert back["'" + field].tolist() == ["-1.0", "2.0", "3.0"]


def test_errors_appear_in_the_status(explorer: HistoryExplorer) -> None:
    before = len(explorer.frame)
    for control, value, words in (
        (explorer.start, "last summer", "Cannot read these times"),
        (explorer.start, "nan", "Cannot read these times"),  # which pandas reads as a missing time
        (explorer.file, "x.xlsx", ".csv or .parquet"),
        (explorer.file, "no/x.csv", "no"),
    ):
        control.value = value
        if control is explorer.file:
            explorer.save_button.click()
        assert words in explorer.status.value
        assert 'role="alert"' in explorer.status.value
        assert explorer.error is not None
        assert len(explorer.frame) == before
        assert not explorer.busy
        explorer.start.value = ""
        explorer.fields.value = ["wind" if explorer.fields.value == ("temp_max",) else "temp_max"]
        assert explorer.error is None


def test_unreachable_gateway_is_reported(tk: toolkit.Connection, gateway: Gateway) -> None:
    tk.dweets.post("kitchen", {"celsius": 20})
    explorer = HistoryExplorer(tk, things=["kitchen"])
    gateway.close()
    explorer.reload_button.click()
    assert "Trying again may help" in explorer.status.value
    assert isinstance(explorer.error, Unreachable)
    assert not explorer.reload_button.disabled


def test_no_file_has_rows_of_an_earlier_choice(
    explorer: HistoryExplorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = explorer.code()
    explorer.things.value = ()  # nothing is read: the chart still shows two things
    assert explorer.error is not None
    for save in (explorer.download_button, explorer.save_button):
        save.click()
        assert "The rows are of your earlier choices" in explorer.status.value
    assert explorer.code() == shown
    explorer.fields.value = ["wind"]
    assert explorer.code() == shown.replace("temp_max", "wind")
    explorer.save_button.click()
    assert "The rows are of your earlier choices" in explorer.status.value
    explorer.things.value, explorer.start.value = ["seattle"], "2030"
    explorer.save_button.click()
    assert "There is no row to write" in explorer.status.value
    explorer.start.value, explorer.file.value = "", ""
    explorer.save_button.click()
    assert ".csv or .parquet" in explorer.status.value
    assert list(tmp_path.iterdir()) == []
    explorer.file.value = "seattle.csv"
    explorer.save_button.click()
    assert "Wrote 390 rows to seattle.csv" in explorer.status.value


def test_control_without_effect_is_disabled(explorer: HistoryExplorer) -> None:
    controls = (explorer.how, explorer.gap_factor, explorer.threshold)
    assert [control.disabled for control in controls] == [True, False, False]
    explorer.rule.value, explorer.mark_gaps.value, explorer.mark_outliers.value = "1D", False, False
    assert [control.disabled for control in controls] == [False, True, True]


def test_a_locked_thing_needs_its_key(tk: toolkit.Connection, gateway: Gateway) -> None:
    tk.dweets.post("door", {"opened": 3})
    lock = operator_of(gateway).issue_lock()
    tk.dweets.lock("door", lock=lock.lock, key=lock.master_key)
    assert isinstance(HistoryExplorer(tk, things=["door"]).error, KeyRejected)
    assert HistoryExplorer(tk, things=["door"], key=lock.read_key).frame["opened"].tolist() == [3]


def test_the_code_has_the_unit_and_the_zone() -> None:
    times = pd.date_range("2026-01-01", periods=60, freq="h", tz="UTC", name="created")
    celsius = [20.0 + 0.3 * (hour % 3) for hour in range(60)]
    celsius[30:40] = [value * 1.8 + 32 for value in celsius[30:40]]
    frame = pd.DataFrame({"celsius": celsius}, index=times)
    explorer = HistoryExplorer(frame, unit={"celsius": "°C"}, tz="Asia/Tokyo", rule="2h")
    explorer.start.value, explorer.rule.value = "2026-01-02", ""
    assert str(explorer.frame.index[0]) == "2026-01-02 00:00:00+09:00"
    names: dict[str, object] = {"frame": frame}
    exec(explorer.code(), names)
    pd.testing.assert_frame_equal(names["shown"], explorer.frame)
    assert explorer.code().endswith("shown.dweets.chart(['celsius'], unit={'celsius': '°C'})")
    explorer.mark_gaps.value = explorer.mark_outliers.value = False
    assert explorer.code().endswith(", mark=False)")


def test_all_years_of_the_calendar_are_shown() -> None:
    times = pd.DatetimeIndex(np.array(["0001-01-01T12", "2026-01-01", "9999-12-31T12"], "datetime64[us]"))
    for zone in (None, "Europe/Berlin", "America/New_York"):
        frame = pd.DataFrame({"celsius": [1.0, 2.0, 3.0]}, index=times.tz_localize(zone).rename("created"))
        explorer = HistoryExplorer(frame)
        assert explorer.frame["celsius"].tolist() == [1.0, 2.0, 3.0]
        explorer.start.value = "2000"
        assert explorer.frame["celsius"].tolist() == [2.0, 3.0]


def test_frames_that_cannot_be_explored_say_why(weather: pd.DataFrame) -> None:
    index = pd.to_datetime(["2026-01-01"])
    numbers, words = pd.DataFrame({"wind": [1.0]}, index), pd.DataFrame({"a": ["x"]}, index)
    for explorer, said in (
        (HistoryExplorer(pd.DataFrame({"a": [1]})), "has no times"),
        (HistoryExplorer(words, fields=["b"]), "does not have the field &#x27;b&#x27;; known: &#x27;a&#x27;"),
        (HistoryExplorer(numbers, fields=["wnd"]), "does not have the field &#x27;wnd&#x27;: did you mean &#x27;wind"),
        (HistoryExplorer(numbers, time="indx"), "No times are in the field &#x27;indx&#x27;: did you mean &#x27;index"),
        (HistoryExplorer(pd.DataFrame({"a": [{}]}, index)), "has numbers, truth values or texts to draw"),
    ):
        assert said in explorer.status.value
    for explorer, said in (
        (HistoryExplorer(words.assign(thing=5)), "Name every thing with text: frame.astype("),
        (HistoryExplorer(numbers, fields=["humidity"]), "humidity"),
        (HistoryExplorer(numbers, time="noon"), "noon"),
    ):
        assert said in explorer.status.value
        assert isinstance(explorer.error, InvalidArgument)
    assert not explorer.frame.empty, "a wrong first choice shows the rest"
    for source in ("roof", None, 17):
        with pytest.raises(InvalidArgument, match="a connection, an archive or a frame"):
            HistoryExplorer(source)
    frame = weather.head(30).reset_index()
    frame.loc[3:5, "date"] = None
    explorer = HistoryExplorer(frame, time="date", fields=["wind"])
    assert "27 rows from" in explorer.status.value
    assert "3 rows without a time left out" in explorer.status.value


def test_names_of_things_are_text_never_markup() -> None:
    index = pd.date_range("2026-01-01", periods=30, freq="h", name="created")
    frame = pd.DataFrame({"thing": HOSTILE, HOSTILE: [1.0] * 29 + [99.0]}, index=index)
    explorer = HistoryExplorer(frame)
    assert len(explorer.outliers) == 1
    for name in explorer.shown_table.options:
        explorer.shown_table.value = name
        for shown in (explorer.table, explorer.status, explorer.rows.table):
            assert "<img" not in shown.value
    assert "&lt;img" in explorer.table.value


# -- where widgets cannot run -----------------------------------------------------------------------------


def test_widget_without_a_kernel_shows_a_picture(explorer: HistoryExplorer) -> None:
    shown = explorer._repr_mimebundle_()
    assert base64.b64decode(shown["image/png"]).startswith(b"\x89PNG\r\n")
    assert shown["text/plain"] == "<HistoryExplorer: 590 rows of temp_max>"
    assert "application/vnd.jupyter.widget-view+json" in shown


def test_errors_are_sentences() -> None:
    for error, words in [
        (InvalidArgument("the key is empty."), "The key is empty."),
        (FileNotFoundError(2, "No such file or directory", "a.csv"), "No such file or directory (a.csv)."),
        (ZeroDivisionError("division by zero"), "Unexpected ZeroDivisionError: division by zero."),
    ]:
        assert error_text(error).startswith(words)


def test_busy_widget_keeps_its_controls() -> None:
    family, button = ServiceWidget(), ipywidgets.Button()
    family.show(button)
    with family.working("Counting"):
        assert (family.busy, button.disabled, "toolkit-busy" in family.get_state()["_dom_classes"]) == (
            True,
            False,
            True,
        )
        assert "Counting ..." in family.status.value
        assert "<progress" in family.status.value
        raise ValueError("seven")
    assert (family.busy, "toolkit-busy" in family.get_state()["_dom_classes"]) == (False, False)
    assert "seven" in family.status.value
    assert "<progress" not in family.status.value
    with pytest.raises(TypeError):
        family.picture()


def test_rerunning_a_cell_closes_its_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    def runs(run: str) -> HistoryExplorer:
        monkeypatch.setattr("toolkit.widgets.cell_runs.current_cell_run", lambda: CellRun("cell", run))
        explorer = HistoryExplorer(pd.DataFrame({"created": ["2026-01-01", "2026-01-02"], "n": [1, 2]}))
        explorer.shown_table.value = "Rows"
        return explorer

    runs("run 0").close()
    kept = set(_instances)  # with the layouts and styles that all widgets share
    first = runs("run 1")
    runs("run 1")
    assert first.comm is not None, "of the same run of the cell"
    latest = runs("run 2")
    assert first.comm is None
    assert latest.rows.filter.layout.comm is not None, "the two share it"
    latest.close()
    assert set(_instances) <= kept, "ipywidgets keeps nothing of them"


def test_check_list_keeps_available_choices() -> None:
    fields = CheckList("Fields", ["rain", "wind", "sun"])
    fields.value = ["sun", "rain"]
    assert fields.value == ("rain", "sun")
    assert [box.value for box in fields.boxes] == [True, False, True]
    fields.options = ("sun", "snow")
    assert fields.value == ("sun",)
    fields.boxes[1].value = True
    fields.boxes[0].value = False
    assert fields.value == ("snow",)
    with pytest.raises(TraitError, match="'hail' is not among the options"):
        fields.value = ["hail"]


def test_a_long_check_list_is_searched() -> None:
    things = CheckList("Things", [f"sensor-{number:04}" for number in range(40)])
    assert "toolkit-hidden" not in things.search.get_state()["_dom_classes"]
    things.search.value = "sor-003"
    things.all.click()
    assert things.value == tuple(f"sensor-{number:04}" for number in range(30, 40))
    things.search.value = "0031"
    things.none.click()
    assert len(things.value) == 9
    assert "toolkit-hidden" in CheckList("Fields", ["rain"]).search.get_state()["_dom_classes"]


def test_statistics_of_a_counter_keep_all_digits() -> None:
    times = pd.date_range("2026-01-01", periods=5, name="created")
    counter = [1234567886, 1234567888, 1234567890, 1234567890.5, 1234567896]
    frame = pd.DataFrame({"counter": counter, "rain": [0.0, 0.2, None, 54.1, 3.034]}, index=times)
    explorer = HistoryExplorer(frame, fields=["counter", "rain"])
    (rows,) = [re.findall(r"<td>(.*?)</td>", explorer.table.value)]
    assert rows[:10] == [
        "counter", "5", "0", "1,234,567,890.1", "3.748",
        "1,234,567,886", "1,234,567,888", "1,234,567,890", "1,234,567,890.5", "1,234,567,896",
    ]  # fmt: skip
    assert rows[10:] == ["rain", "4", "1", "14.33", "26.55", "0", "0.15", "1.617", "15.8", "54.1"]
