"""The time of a frame, from the side of a user: posted, archived, read again, analysed in a time zone."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import toolkit
from toolkit.cli import main
from toolkit.errors import DataWarning, InvalidArgument
from toolkit_gateway import Gateway

HOURS = pd.date_range("2026-01-01", periods=3, freq="h")
BERLIN = "Europe/Berlin"


@pytest.fixture(scope="module")
def tk() -> Iterator[toolkit.Connection]:
    with Gateway() as gateway, toolkit.connect(gateway) as connection:
        yield connection


@pytest.fixture
def thing(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "-", request.node.name)


def frame_of(index: Any, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns or {"celsius": np.arange(len(index)) + 0.5}, index=index)


def told_of_other_names(name: str | None) -> AbstractContextManager[object]:
    return pytest.warns(DataWarning, match="'content.thing'") if name == "thing" else nullcontext()


# -- posting ----------------------------------------------------------------------------------------------

# The name of the index, other columns, and `time`; the field in which the times travel.
FIELDS: dict[str, tuple[str | None, list[str], str | None, str]] = {
    "unnamed": (None, [], None, "time"),
    "named": ("measured", [], None, "measured"),
    "of a history": ("created", [], None, "time"),
    "named time": ("time", [], None, "time"),
    "named as the caller says": (None, ["time"], "measured", "measured"),
    "of a history, as the caller says": ("created", ["time"], "measured", "measured"),
    "nested": ("device.time", [], None, "device.time"),
    "named thing": ("thing", [], None, "content.thing"),
    "named content": ("content", [], None, "content"),
    "named content.created": ("content.created", [], None, "content.created"),
}


@pytest.mark.parametrize("case", FIELDS)
def test_an_index_of_times_travels(tk: toolkit.Connection, tmp_path: Path, thing: str, case: str) -> None:
    name, others, time, field = FIELDS[case]
    frame = frame_of(HOURS.rename(name), n=[1, 2, 3], **dict.fromkeys(others, 1.5))
    with told_of_other_names(name):
        tk.dweets.post_frame(thing, frame, time=time)
    back = tk.dweets.history(thing, time=field)
    assert back.index.tolist() == HOURS.tolist()
    assert back.index.name == field
    assert back.columns.tolist() == ["created", "n", *others]
    assert len(back.reset_index()) == 3
    archive = toolkit.Archive(tmp_path)
    archive.add_frame("roof", frame, time=time)
    archived = archive.history("roof")
    assert archived.index.tolist() == HOURS.tz_localize("UTC").tolist()
    if time is None and name in (None, "created"):  # the times are `created` itself
        assert archived.columns.tolist() == ["n", *others]
    else:
        assert archive.history("roof", time=field).index.tolist() == HOURS.tolist()
        assert archived.columns.tolist() == tk.dweets.history(thing).columns.tolist()


def test_a_taken_name_asks_for_another(tk: toolkit.Connection, tmp_path: Path, thing: str) -> None:
    for name, column in ((None, "time"), ("created", "time"), ("measured", "measured")):
        frame = frame_of(HOURS.rename(name), **{column: [1, 2, 3]})
        with pytest.raises(InvalidArgument, match=f"field '{column}', and a column has this name: .* time='measured'"):
            tk.dweets.post_frame(thing, frame)
    with pytest.raises(InvalidArgument, match="a column has this name"):
        toolkit.Archive(tmp_path).add_frame("roof", frame)
    with pytest.raises(InvalidArgument, match="no DatetimeIndex and not the column 'at'; known: 'n'"):
        tk.dweets.post_frame(thing, pd.DataFrame({"n": [1]}), time="at")
    with pytest.warns(DataWarning, match="the gateway has no dweet"):
        assert tk.dweets.history(thing).empty


def test_a_column_can_be_the_time(tk: toolkit.Connection, tmp_path: Path, thing: str) -> None:
    frame = pd.DataFrame({"measured": HOURS.strftime("%Y-%m-%dT%H:%MZ"), "n": [1, 2, 3]})
    archive = toolkit.Archive(tmp_path)
    assert archive.add_frame("roof", frame, time="measured") == 3
    assert archive.history("roof").index.tolist() == HOURS.tz_localize("UTC").tolist()
    assert archive.history("roof")["measured"].tolist() == frame["measured"].tolist()
    tk.dweets.post_frame(thing, frame, time="measured")
    assert tk.dweets.history(thing, time="measured")["n"].tolist() == [1, 2, 3]
    assert tk.dweets.replay(thing, frame, time="measured", speed=float("inf")).wait(60) == 3
    with pytest.raises(InvalidArgument, match="'n' holds numbers: for Unix times say unit='s'"):
        tk.dweets.post_frame(thing, frame, time="n")
    with pytest.raises(InvalidArgument, match="'state' is not a time axis"):
        archive.add_frame("roof", frame.assign(state="on"), time="state")
    with pytest.raises(InvalidArgument, match="did you mean 'measured'"):
        archive.add_frame("roof", frame, time="mesured")
    with pytest.raises(InvalidArgument, match="not have the column 'mesured': did you mean 'measured'"):
        tk.dweets.post_frame(frame=frame, thing_column="mesured")


# The rows of a frame that cannot be archived, and why.
UNORDERED: dict[str, tuple[Any, str]] = {
    "no times": (None, "the time of each row: a DatetimeIndex, .* or a column that time= names"),
    "unsorted": (
        HOURS[[0, 2, 1]],
        "^the times are not ascending: 1 row after a later one, the first at 2026-01-01 01:00:00; sort",
    ),
    "a missing time": (HOURS.insert(1, pd.NaT), "^1 of 4 rows have no time: drop them"),
}


@pytest.mark.parametrize("case", UNORDERED)
def test_an_archive_says_which_times_are_wrong(tmp_path: Path, case: str) -> None:
    index, expected = UNORDERED[case]
    frame = pd.DataFrame({"n": range(3 if index is None else len(index))}, index=index)
    with pytest.raises(InvalidArgument, match=expected):
        toolkit.Archive(tmp_path).add_frame("roof", frame)


def test_a_history_is_cleaned_and_posted_again(tk: toolkit.Connection, tmp_path: Path, thing: str) -> None:
    with pytest.warns(DataWarning, match="'created' is read as the column 'content.created'"):
        tk.dweets.post_frame(thing, pd.DataFrame({"celsius": [1.5, -999, 2.5], "thing": "box", "created": "2020"}))
    history = tk.dweets.history(thing)
    assert history.columns.tolist() == ["celsius", "content.thing", "content.created"]
    cleaned = history[history["celsius"] > -100]
    tk.dweets.post_frame(f"{thing} cleaned", cleaned)
    back = tk.dweets.history(f"{thing} cleaned", time="time")
    assert back.index.tolist() == cleaned.index.tolist()
    pd.testing.assert_frame_equal(back.drop(columns="created").reset_index(drop=True), cleaned.reset_index(drop=True))
    archive = toolkit.Archive(tmp_path)
    archive.add_frame("copy", history)
    pd.testing.assert_frame_equal(archive.history("copy"), history)
    both = tk.dweets.history([thing, f"{thing} cleaned"])
    assert both.reset_index()["thing"].nunique() == 2
    assert both["content.thing"].tolist() == ["box"] * 5


def test_what_is_read_in_another_form_is_told(tk: toolkit.Connection, thing: str) -> None:
    frame = frame_of(HOURS, created=["x"] * 3, gone=[None] * 3, due=HOURS, n=[1, 2, 3])
    with pytest.warns(DataWarning) as said:
        tk.dweets.post_frame(thing, frame)
    assert str(said[0].message) == (
        "this frame is read again with differences: 'created' is read as the column 'content.created'; 'gone' has no "
        "value and is left out; 'due' holds times, which is read in another form"
    )
    assert tk.dweets.history(thing, time="time").columns.tolist() == ["created", "content.created", "due", "n"]


# -- bad and odd times ------------------------------------------------------------------------------------

INDEXES: dict[str, tuple[Any, list[str] | str]] = {
    "before 1970": (pd.DatetimeIndex(["1815-06-18", "1969-12-31 23:59:59.5"]), ["1815-06-18", "1969-12-31 23:59:59.5"]),
    "after 2262": (np.array(["2263-01-01", "9999-12-31"], "M8[s]"), ["2263-01-01", "9999-12-31"]),
    "after 9999": (np.array(["9999-12-31", "10000-01-01"], "M8[s]"), "must be in the years 1 to 9999"),
    "before the zones": (
        pd.DatetimeIndex(["1880-01-01 00:00:00"]).tz_localize(BERLIN),
        ["1879-12-31 23:06:32+00:00"],
    ),
    "nanoseconds": (pd.DatetimeIndex(["2026-01-01T00:00:00.000000001"]), ["2026-01-01T00:00:00.000000001"]),
    "duplicate": (HOURS[[0, 0, 1]], ["2026-01-01 00:00", "2026-01-01 00:00", "2026-01-01 01:00"]),
    "clocks set back": (
        pd.date_range("2026-10-25 00:30", periods=3, freq="h", tz="UTC").tz_convert(BERLIN),
        ["2026-10-25 00:30Z", "2026-10-25 01:30Z", "2026-10-25 02:30Z"],
    ),
    "clocks set forward": (
        pd.date_range("2026-03-29 00:30", periods=2, freq="h", tz="UTC").tz_convert(BERLIN),
        ["2026-03-29 00:30Z", "2026-03-29 01:30Z"],
    ),
    "periods": (pd.period_range("2026-01", periods=2, freq="M"), "frame.to_timestamp"),
}


@pytest.mark.parametrize("case", INDEXES)
def test_odd_times_come_back_or_are_refused(tk: toolkit.Connection, thing: str, case: str) -> None:
    index, expected = INDEXES[case]
    frame = frame_of(pd.Index(index) if isinstance(index, np.ndarray) else index)
    if isinstance(expected, str):
        with pytest.raises(InvalidArgument, match=expected):
            tk.dweets.post_frame(thing, frame)
        return
    tk.dweets.post_frame(thing, frame)
    back = tk.dweets.history(thing, time="time")
    assert back.index.tolist() == [pd.Timestamp(time) for time in expected]
    assert back["celsius"].tolist() == frame["celsius"].tolist()


# The values of a field; the times that are read, and what is said.
VALUES: dict[str, tuple[list[Any], list[str], str]] = {
    "texts": (["2026-01-01T00:00", "2026-01-02"], ["2026-01-01", "2026-01-02"], ""),
    "offsets": (["2026-01-01T00:00+01:00", "2026-01-01T00:00Z"], ["2025-12-31T23:00Z", "2026-01-01T00:00Z"], ""),
    "with and without a zone": (
        ["2026-01-01T00:00Z", "2026-01-01T01:00", "2026-01-01T02:00Z"],
        ["2026-01-01T00:00Z", "2026-01-01T01:00Z", "2026-01-01T02:00Z"],
        "1 of 3 times in 'at' have no zone ('2026-01-01T01:00') and are read as times in UTC",
    ),
    "a text among times": (
        ["2026-01-01", "n/a", "2026-01-02"],
        ["2026-01-01", "2026-01-02"],
        "1 of 3 values of 'at' are no times ('n/a'); 1 of 3 dweets have no time in 'at' and are left out",
    ),
    "missing": (["2026-01-01", None], ["2026-01-01"], "1 of 2 dweets have no time in 'at' and are left out"),
    "unsorted": (
        ["2026-01-03", "2026-01-01", "2026-01-02"],
        ["2026-01-01", "2026-01-02", "2026-01-03"],
        "2 dweets arrived after a later one: sorted by 'at'",
    ),
    "no field": ([None, None], [], "2 of 2 dweets have no time in 'at' and are left out"),
}


@pytest.mark.parametrize("case", VALUES)
def test_a_field_is_read_as_times(tk: toolkit.Connection, thing: str, case: str) -> None:
    values, expected, said = VALUES[case]
    for number, value in enumerate(values):
        tk.dweets.post(thing, {"at": value, "n": number})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        back = tk.dweets.history(thing, time="at")
    assert back.index.tolist() == [pd.Timestamp(time) for time in expected]
    assert len(caught) == bool(said)
    assert said in "".join(str(warning.message) for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)


def test_a_field_without_times_is_refused(tk: toolkit.Connection, thing: str) -> None:
    for number, value in enumerate((1_767_225_600, 1_767_225_600.5, "soon", True, [{"a": 1}])):
        tk.dweets.post(f"{thing} {number}", {"at": value})
        with pytest.raises(InvalidArgument, match="unit='s'|no value of it is an ISO 8601 time"):
            tk.dweets.history(f"{thing} {number}", time="at")


# Numbers that are times, and how to read them.
NUMBERS = {
    1_767_225_600: "for Unix times say unit='s'",
    1_767_225_600_000: "for Unix times say unit='ms'",
    20260327: "format='%Y%m%d'",
    2026032714: "format='%Y%m%d%H'",
    202603271405: "format='%Y%m%d%H%M'",
    20260327140509: "format='%Y%m%d%H%M%S'",
    7: "for Unix times say unit='s'",
}


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_as_times_say_how_to_read_them(number: int) -> None:
    with pytest.raises(InvalidArgument, match="'at' holds numbers: ") as refused:
        pd.DataFrame({"at": [number]}).dweets.on("at")
    assert NUMBERS[number] in str(refused.value)


# -- reading by a field -----------------------------------------------------------------------------------


def test_a_range_is_one_of_the_field(tk: toolkit.Connection, tmp_path: Path, thing: str) -> None:
    index = pd.date_range("2026-01-01", periods=96, freq="h", name="measured")
    tk.dweets.post_frame(thing, frame_of(index, n=range(96)), progress=False)
    archive = toolkit.Archive(tmp_path)
    archive.add_frame(thing, tk.dweets.history(thing))
    for read in (tk.dweets.history, archive.history):
        day = read(thing, time="measured", since="2026-01-02", until="2026-01-03")
        assert day["n"].tolist() == list(range(24, 48))
        assert read(thing, time="measured", n=2)["n"].tolist() == [94, 95]
        assert read([thing], time="measured", n=2).columns.tolist() == ["thing", "created", "n"]
        assert read(thing, time="measured", columns="n", until="2026-01-01T01:00")["n"].tolist() == [0]
        assert read(thing, since="2026-01-02", until="2026-01-03").empty


def test_the_newest_dweets_are_those_of_the_field(tk: toolkit.Connection, thing: str) -> None:
    index = pd.date_range("2026-01-01", periods=600, freq="h", name="measured")
    tk.dweets.post_frame(thing, frame_of(index, n=range(600))[::-1], progress=False)
    with pytest.warns(DataWarning, match=r"sorted by 'measured'; for local times .* use \.on\('measured', tz=\.\.\.\)"):
        newest = tk.dweets.latest(thing, time="measured")
    assert (newest.index[0], newest["n"].tolist()) == (index[-1], [599])
    assert tk.dweets.latest(thing)["n"].tolist() == [0]
    with pytest.warns(DataWarning, match="sorted by"):
        explorer = toolkit.HistoryExplorer(tk, things=[thing], time="measured", fields=["n"])
    assert explorer.frame["n"].tolist() == list(range(100, 600))
    names: dict[str, Any] = {"tk": tk}
    with pytest.warns(DataWarning, match="sorted by"):
        exec(explorer.code(), names)
    assert names["shown"]["n"].tolist() == explorer.frame["n"].tolist()


def test_a_frame_that_is_archived_warns_where_it_is_added(tmp_path: Path) -> None:
    frame = pd.DataFrame({"at": ["2026-01-01T00:00Z", "2026-01-01T01:00"], "n": [1, 2]})
    with pytest.warns(DataWarning, match="1 of 2 times in 'at' have no zone") as said:
        toolkit.Archive(tmp_path).add_frame("roof", frame, time="at")
    assert [warning.filename for warning in said] == [__file__]


def test_the_command_line_reads_by_a_field(tk: toolkit.Connection, tmp_path: Path, thing: str) -> None:
    tk.dweets.post_frame(
        thing, frame_of(HOURS.rename("measured"), n=[1, 2, 3], created=["a", "b", "c"])[::-1].drop(columns="created")
    )

    def said(*options: str) -> str:
        done = CliRunner().invoke(main, ["history", thing, f"--url={tk.base_url}", "--time=measured", *options])
        assert done.exit_code == 0, done.output
        assert done.stderr.startswith("Warning: 2 dweets arrived after a later one")
        return done.stdout

    lines = said().splitlines()
    assert lines[0] == "measured,created,n"
    assert [line.split(",")[0][11:16] + line[-2:] for line in lines[1:]] == ["00:00,1", "01:00,2", "02:00,3"]
    assert json.loads(said("--json", "-n", "1"))["content"]["n"] == 3
    said(f"--parquet={tmp_path / 'own.parquet'}")
    assert pd.read_parquet(tmp_path / "own.parquet").index.tolist() == HOURS.tolist()


def test_a_live_frame_has_the_time_of_the_device(tk: toolkit.Connection, thing: str) -> None:
    with toolkit.LiveDweets(tk, thing, "celsius", time="measured") as live:
        tk.dweets.post_frame(thing, frame_of(HOURS.rename("measured")))
        live.wait(3)
    assert live.frame.index.tolist() == HOURS.tolist()
    assert live.frame.columns.tolist() == ["created", "celsius"]


# -- analysis ---------------------------------------------------------------------------------------------


def test_times_of_arrival_are_told_once(tk: toolkit.Connection, thing: str) -> None:
    index = pd.date_range("2026-01-01", periods=72, freq="h", name="measured")
    tk.dweets.post_frame(thing, frame_of(index), progress=False)
    history = tk.dweets.history(thing)
    own = history.dweets.on("measured")
    for call in ("gaps", "rate", "plot", "chart", "resample"):
        rule = ["1D"] if call == "resample" else []
        with pytest.warns(DataWarning) as said:
            getattr(history.dweets, call)(*rule)
        (warning,) = said
        assert re.fullmatch(
            r"these 72 dweets arrived within \d+ s, but 'measured' spans 3 days: use \.on\('measured'\)",
            str(warning.message),
        )
        getattr(own.dweets, call)(*rule)  # no warning, which would be an error
    explorer = toolkit.HistoryExplorer(history, fields=["celsius"])
    assert re.search(r"arrived within \d+ s, but &#x27;measured&#x27; spans 3 days", explorer.status.value)
    explorer.time.value = "measured"
    assert "arrived" not in explorer.status.value
    unix = history.assign(ts=index.as_unit("ms").asi8, n=index.as_unit("s").asi8).drop(columns="measured")
    with pytest.warns(DataWarning, match=r"but 'ts' spans 3 days: use \.on\('ts', unit='ms'\)$"):
        unix.dweets.gaps()
    unix.drop(columns="ts").dweets.gaps()  # a counter that may have such numbers, but no such name


def test_days_begin_at_local_midnight() -> None:
    index = pd.date_range("2018-10-01", "2018-12-01", freq="h", tz="UTC", name="at")
    for zone in (BERLIN, "America/Sao_Paulo", "Asia/Kathmandu", "America/Havana"):
        daily = frame_of(index, n=1.0).dweets.resample("1D", "count", tz=zone)
        local = index.tz_convert(zone)
        assert daily["n"].tolist() == pd.Series(1, local).groupby(local.date).count().tolist()
        assert [str(time.date()) for time in daily.index] == sorted({str(time.date()) for time in local})
        assert str(daily.index.tz) == zone
        hourly = frame_of(index, n=1.0).dweets.resample("1h", "count", tz=zone)
        assert set(hourly["n"].iloc[1:-1]) == {1}


def test_local_times_are_read_in_their_zone() -> None:
    texts = ["2026-03-29T01:30", "2026-03-29T02:30", "2026-10-25T02:30", "2026-10-25T03:30"]
    frame = pd.DataFrame({"at": texts, "n": range(4)})
    with pytest.warns(DataWarning, match=r"2 local times \(such as 2026-03-29 02:30:00\) occur twice or not at all"):
        placed = frame.dweets.on("at", tz=BERLIN)
    utc = ["2026-03-29T00:30Z", "2026-03-29T01:30Z", "2026-10-25T00:30Z", "2026-10-25T02:30Z"]
    assert placed.index.tolist() == [pd.Timestamp(time) for time in utc]
    twice = pd.DataFrame({"at": ["2026-10-25T02:00", "2026-10-25T02:30"] * 2, "n": range(4)})
    assert twice.dweets.on("at", tz=BERLIN).index.tz_convert("UTC").hour.tolist() == [0, 0, 1, 1]
    mixed = pd.DataFrame({"at": ["2026-07-01T12:00", "2026-07-01T12:00Z"], "n": [1, 2]})
    with pytest.warns(DataWarning, match="1 of 2 times in 'at' have no zone .* are read as times in Europe/Berlin"):
        assert mixed.dweets.on("at", tz=BERLIN).index.tz_convert("UTC").hour.tolist() == [10, 12]
    for wrong in ("Berlin", "../etc/passwd", ""):
        with pytest.raises(InvalidArgument, match="tz is the name of a time zone, such as 'Europe/Berlin'"):
            frame.dweets.on("at", tz=wrong)


def test_charts_show_the_local_time() -> None:
    frame = frame_of(pd.date_range("2026-01-01 23:30", periods=3, freq="h", tz="UTC", name="at"))
    chart = frame.dweets.chart(tz="Asia/Kathmandu")
    chart.visible_range = "2026-01-02 06:00", "2026-01-02 07:00"
    assert chart.visible_range[0] == pd.Timestamp("2026-01-02 00:15Z")
    assert chart.csv().splitlines()[1] == b"2026-01-02 06:15:00+05:45,1.5"
    axes = frame.dweets.plot(tz="Asia/Kathmandu")
    axes.figure.canvas.draw()
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert "06:00" in labels or "06:30" in labels


def test_results_have_no_column_with_the_name_of_the_index() -> None:
    values = [20.0, 21.0] * 20 + [90.0]
    for name in ("value", "field", "score", "dweets", "thing", "time"):
        frame = pd.DataFrame({"celsius": values}, index=pd.date_range("2026-01-01", periods=41, freq="h", name=name))
        for result in (
            frame.dweets.outliers(),
            frame.dweets.rate("1D"),
            frame.dweets.on(name),
            frame.dweets.resample("1D"),
        ):
            assert len(result.reset_index()) == len(result) > 0
    frame = pd.DataFrame({"at": ["2026-01-02"], "time": [1]}, index=pd.date_range("2026-01-01", periods=1))
    assert frame.dweets.on("at").columns.tolist() == ["index", "time"]
