"""Columns as real sensors send them: numbers among texts, infinite numbers, odd names, empty histories."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import toolkit
from tests.toolkit.dweets.planted_shifts import hits, planted, series
from toolkit.dweets.analysis.shifts import find_shifts
from toolkit.errors import DataWarning, InvalidArgument

TIMES = pd.date_range("2026-01-01", periods=200, freq="h", name="created", tz="UTC")
CELSIUS: list[Any] = [20.0 + hour % 7 / 10 for hour in range(199)]
DIRTY = pd.DataFrame({"celsius": [*CELSIUS[:50], "n/a", *CELSIUS[50:]]}, index=TIMES)
CLEAN = DIRTY.drop(DIRTY.index[50]).astype({"celsius": "float64"})
LEFT_OUT = r"^celsius: 1 of 200 values is no number \('n/a'\), left out$"


@pytest.fixture(autouse=True)
def _without_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")


ANALYSES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "statistics": lambda frame: frame.dweets.statistics().drop(columns="missing"),
    "outliers": lambda frame: frame.dweets.outliers("celsius", threshold=0.5),
    "resample": lambda frame: frame.dweets.resample("1D", "mean"),
    "shifts": lambda frame: frame.dweets.shifts("celsius"),
    "plot": lambda frame: frame.dweets.plot(mark=False).lines[0].get_ydata().tolist(),
    "chart": lambda frame: repr(frame.dweets.chart("celsius")),
}


@pytest.mark.parametrize("name", ANALYSES)
def test_analysis_uses_the_numbers_that_are_there(name: str) -> None:
    with pytest.warns(DataWarning, match=LEFT_OUT) as warned:
        found = ANALYSES[name](DIRTY)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    expected = ANALYSES[name](CLEAN)
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected)
    else:
        assert found == expected


def test_widgets_use_the_numbers_and_say_what_they_left_out(tk: toolkit.Connection) -> None:
    explorer = toolkit.HistoryExplorer(DIRTY)
    assert explorer.statistics["count"].tolist() == [199]
    assert "1 of 200 values is no number (&#x27;n/a&#x27;), left out" in explorer.status.value
    with toolkit.LiveDweets(tk, "roof", "celsius") as live:
        for value in (20.0, 21.0, "n/a"):
            tk.dweets.post("roof", {"celsius": value})
        live.wait(3)
    assert repr(live.chart) == "<Chart: 2 points of celsius>"


def _of(*values: Any, **options: Any) -> pd.DataFrame:  # noqa: ANN401
    return pd.DataFrame({"v": pd.Series(values, **options).to_numpy()}, index=TIMES[: len(values)])


# A column, how many of its values count as numbers (None: naming it is refused), and the warning.
COLUMNS: dict[str, tuple[pd.DataFrame, int | None, str]] = {
    "all text": (_of("a", "b", "c"), None, ""),
    "all text, as objects": (_of("a", "b", dtype="object"), None, ""),
    "all missing": (_of(None, None), None, ""),
    "all missing, as floats": (_of(np.nan, np.nan), 0, ""),
    "truth values and one text": (_of(True, False, "n/a"), None, ""),
    "numbers and truth values": (_of(1.0, 2.0, True), 2, r"v: 1 of 3 values is no number \(True\)"),
    "numbers, missing values, text": (_of(1.0, None, "n/a", 3), 2, r"v: 1 of 3 values is no number \('n/a'\)"),
    "mostly text, but named": (_of("on", "off", 404), 1, r"v: 2 of 3 values are no numbers \('on'\)"),
    "infinite": (_of(1.0, np.inf, -np.inf, 2.0), 2, r"v: 2 of 4 values are no numbers \(inf\)"),
    "infinite among texts": (_of(1.0, 2.0, np.inf, "n/a"), 2, r"v: 2 of 4 values are no numbers \(inf\)"),
    "integers above 2**53": (_of(2**53 + 1, 2**53 + 3), 2, ""),
    "integers of 100 digits": (_of(10**100, 2), 2, ""),
    "integers beyond every float": (_of(10**400, 2, 3), 2, r"v: 1 of 3 values is no number \(10{39}\)"),
    "objects": (_of({}, [1], None), None, ""),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_only_finite_numbers_count(name: str) -> None:
    frame, count, warning = COLUMNS[name]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if count is None:
            with pytest.raises(InvalidArgument, match="v holds no numbers"):
                frame.dweets.resample("1D", "count", "v")
        else:
            assert frame.dweets.resample("1D", "count", "v")["v"].sum() == count
    assert len(warned) == bool(warning)
    if warning:
        assert re.match(warning, str(warned[0].message))


# Values, and what is said of those that stand for a missing value.
CODES: dict[str, tuple[list[float], str]] = {
    "a weather service": ([5.2, -999, 3.8, -999.0], "v: 2 of 4 values are -999, far from all others"),
    "integers": ([371, 9999, 402, 388], "v: 1 of 4 values is 9999, far from all others"),
    "two codes": ([1.5, -99.9, 2.5, 999.9], "v: 1 of 4 values is -99.9; v: 1 of 4 values is 999.9, far from"),
    "beside a missing value": ([5.2, np.nan, -999, 4], "v: 1 of 3 values is -999, far from all others"),
    "pressure": ([998.0, 999, 1001], ""),
    "a bank account": ([-99, 40, 220], ""),
    "a counter": ([999, 1000, 1001], ""),
    "one value": ([-999], ""),
    "nothing else": ([-999, -999], ""),
}


@pytest.mark.parametrize("name", CODES)
def test_codes_for_missing_values_are_told(name: str) -> None:
    values, said = CODES[name]
    frame = pd.DataFrame({"v": values}, index=TIMES[: len(values)])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert frame.dweets.resample("1D", "count")["v"].sum() == frame["v"].count()
    assert len(warned) == bool(said)
    if said:
        assert str(warned[0].message).startswith(said)
        advice = re.search(r"frame\.replace\((\[.*\]), float\('nan'\)\)$", str(warned[0].message))
        assert advice is not None
        frame.replace(json.loads(advice[1]), np.nan).dweets.statistics()  # no warning, which would be an error
        assert said.partition(",")[0] in toolkit.HistoryExplorer(frame).status.value


def test_several_dirty_columns_make_one_warning() -> None:
    frame = pd.DataFrame({"a": [1, 2, "x"], "b": [1, "y", "z"], "c": [1, 2, 3]}, index=TIMES[:3])
    with pytest.warns(DataWarning, match=r"^a: 1 of 3 .*; b: 2 of 3 ") as warned:
        frame.dweets.resample("1D", "mean", ["a", "b", "c"])
    assert len(warned) == 1


def test_a_text_among_truth_values_is_left_out_of_charts() -> None:
    frame = _of(True, False, "n/a", True)
    with pytest.warns(DataWarning, match=r"v: 1 of 4 values is no truth value \('n/a'\), left out"):
        assert repr(frame.dweets.chart("v")) == "<Chart: 3 points of v>"


ODD_NAMES = ["air.celsius", "\N{THERMOMETER}", "air celsius", "celsius", " celsius", "celsius "]


def test_odd_names_stay_apart(tk: toolkit.Connection) -> None:
    for number in range(3):
        tk.dweets.post("roof", {name: number + place for place, name in enumerate(ODD_NAMES)})
    history = tk.dweets.history("roof", progress=False)
    described = history.dweets.statistics()
    assert described["field"].tolist() == ODD_NAMES
    assert described["min"].tolist() == [0, 1, 2, 3, 4, 5]
    assert len(toolkit.HistoryExplorer(history).fields.options) == len(ODD_NAMES)
    with pytest.raises(InvalidArgument, match="celsius"):
        history.dweets.statistics("celsius  ")


# -- numeric ----------------------------------------------------------------------------------------------


def test_texts_become_numbers() -> None:
    for texts, options, expected in [
        (["21.5", "-3", "1e3"], {}, [21.5, -3.0, 1000.0]),
        (["21,5 °C", "\N{MINUS SIGN}2,25°C", "20"], {"decimal": ","}, [21.5, -2.25, 20.0]),
        (["1.013,2 hPa", "998 hPa"], {"decimal": ",", "thousands": "."}, [1013.2, 998.0]),
        (["45 %", " 46%", "+47 %"], {}, [45.0, 46.0, 47.0]),
        (["340 W/m2", "341.5 W/m2"], {}, [340.0, 341.5]),
    ]:
        frame = pd.DataFrame({"thing": "1", "v": texts, "state": "on"}, index=TIMES[: len(texts)])
        converted = frame.dweets.numeric(**options)
        assert converted["v"].tolist() == expected
        assert converted[["thing", "state"]].equals(frame[["thing", "state"]])
        assert frame["v"].tolist() == texts


def test_other_texts_are_left_out_and_said() -> None:
    for text in ["n/a", "", "2012-01-01", "10:30", "21,5", "192.168.0.1", "70 °F", "0x10", "1 2"]:
        frame = pd.DataFrame({"v": ["20 °C", "21 °C", 22, text, None]}, index=TIMES[:5])
        with pytest.warns(DataWarning, match=r"^v: 1 of 4 values is no number \('.*'\), left out$"):
            assert frame.dweets.numeric()["v"].dropna().tolist() == [20.0, 21.0, 22.0]
        report = frame.dweets.numeric_report()
        assert report.iloc[0].tolist() == ["v", 4, 1, 2, 1, "°C", text]


def test_columns_of_other_texts_stay_unless_they_are_named() -> None:
    frame = pd.DataFrame({"note": ["ok", "ok", "7"], "day": "2012-01-01", "n": [1, 2, 3]}, index=TIMES[:3])
    assert frame.dweets.numeric().equals(frame)
    assert frame.dweets.numeric_report().empty
    with pytest.warns(DataWarning, match="note: 2 of 3 values are no numbers"):
        assert frame.dweets.numeric("note")["note"].dropna().tolist() == [7.0]
    with pytest.raises(InvalidArgument, match="thousands"):
        frame.dweets.numeric(thousands=".")


def test_texts_that_would_be_numbers_are_named() -> None:
    frame = pd.DataFrame({"hPa": ["1.013,2", "1.012,4"], "celsius": ["21,5", "20,0"], "note": "ok"}, index=TIMES[:2])
    words = r"^'hPa', 'celsius' would be numbers with decimal=',', thousands='\.'$"
    with pytest.warns(DataWarning, match=words):
        assert frame.dweets.numeric().equals(frame)
    with pytest.warns(DataWarning, match=r"^'hPa' would be numbers with decimal=',', thousands='\.'$"):
        assert frame.dweets.numeric(decimal=",")["celsius"].tolist() == [21.5, 20.0]
    with pytest.raises(InvalidArgument, match=r"celsius holds no numbers; .*frame\.dweets\.numeric\('celsius'\)"):
        frame.dweets.outliers("celsius")
    with pytest.raises(InvalidArgument, match="did you mean 'celsius'"):
        frame.dweets.plot("celsisu")


# -- shifts and outliers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["noise", "noise and days", "seattle_temperature_hourly_normals.csv:temp"])
def test_planted_shifts_are_found(name: str) -> None:
    wanted = found_of_planted = false = 0
    for seed in range(5):
        with_shifts = planted(series(name, seed), seed)
        found = find_shifts(with_shifts.values)
        hit = hits(found, with_shifts.shifts)
        wanted, found_of_planted = wanted + len(with_shifts.shifts), found_of_planted + hit
        false += len(found) - hit
    assert found_of_planted >= 0.95 * wanted
    assert false <= 2


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "x 1.8 + 32": lambda x: x * 1.8 + 32,
    "(x - 32) / 1.8": lambda x: (x - 32) / 1.8,
    "x 10": lambda x: x * 10,
    "x / 10": lambda x: x / 10,
    "x 1000": lambda x: x * 1000,
    "x / 1000": lambda x: x / 1000,
    "-x": lambda x: -x,
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_shift_says_which_conversion_explains_it(name: str) -> None:
    values = 20 + 0.1 * np.random.default_rng(1).standard_normal(200)
    values[100:110] = CONVERSIONS[name](values[100:110])
    frame = pd.DataFrame({"thing": "roof", "v": values}, index=TIMES)
    (found,) = frame.dweets.shifts("v").itertuples()
    assert (found.thing, found.start, found.end) == ("roof", TIMES[100], TIMES[109])
    assert found.explained_by == name
    assert found.size == pytest.approx(found.inside - found.before)
    assert found.before == pytest.approx(20, abs=0.2)


def test_constants_steps_and_spikes_are_no_shifts() -> None:
    for values in ([5.0] * 60, [1.0] * 19, [*[5.0] * 30, *[9.0] * 30], [*[5.0] * 30, 9.0, *[5.0] * 30]):
        assert pd.DataFrame({"v": values}, index=TIMES[: len(values)]).dweets.shifts().empty
    humidity = (60 + 10 * np.sin(np.arange(2_000) / 50)).astype("int64")  # slow, with few digits
    assert find_shifts(humidity.astype("float64")).empty


def test_faultless_noise_has_hardly_any_outlier() -> None:
    found = 0
    for seed in range(4):
        noise = np.random.default_rng([seed, 3]).standard_normal(20_000)
        index = pd.date_range("2026-01-01", periods=len(noise), freq="s")
        found += len(pd.DataFrame({"v": noise}, index=index).dweets.outliers())
    assert found <= 8


def test_the_ten_worst_outliers_are_marked_and_all_are_counted() -> None:
    values = np.tile([20.0, 20.1, 20.2], 400)
    values[np.arange(30, 1_130, 50)] += np.arange(2, 24)
    frame = pd.DataFrame({"v": values}, index=pd.date_range("2026-01-01", periods=1_200, freq="h", name="created"))
    axes = frame.dweets.plot("v")
    rings = axes.collections[-1].get_offsets()
    assert len(rings) == 10
    assert rings[:, 1].min() > 32
    note = "the worst 10 of 22 outliers are marked"
    assert axes.get_xlabel() == f"created (no time zone) · {note}"
    sent = frame.dweets.chart("v").get_state()["_data"]
    assert (len(sent["lines"][0]["rings"]["y"]) // 8, sent["note"]) == (10, note)


# -- pictures of nothing ----------------------------------------------------------------------------------


def test_an_empty_picture_says_why() -> None:
    for frame, text, warning in [
        (DIRTY.iloc[:0].astype({"celsius": "float64"}), "no dweets", "the picture shows no dweets: "),
        (pd.DataFrame(index=TIMES[:0]), "no dweets", "the picture shows no dweets: "),
        (pd.DataFrame({"state": ["on"]}, index=TIMES[:1]), "no numbers", "^no column holds numbers$"),
        (pd.DataFrame({"v": [np.nan]}, index=TIMES[:1]), "no values", "the picture shows no values: "),
    ]:
        with pytest.warns(DataWarning, match=warning):
            axes = frame.dweets.plot()
        assert [each.get_text() for each in axes.texts] == [text]
        with pytest.warns(DataWarning, match=warning):
            assert frame.dweets.chart().get_state()["_data"]["empty"] == text


def test_texts_that_mean_numbers_are_said_to_be_left_out() -> None:
    frame = pd.DataFrame({"celsius": "20.5 °C", "volts": "1,5", "humidity": 40, "state": "on"}, index=TIMES)
    converts = "^'celsius' has texts that mean numbers: frame.dweets.numeric\\(\\) converts them$"
    analyses: list[Callable[[pd.DataFrame], Any]] = [
        lambda frame: frame.dweets.statistics(),
        lambda frame: frame.dweets.outliers(),
        lambda frame: frame.dweets.shifts(),
        lambda frame: frame.dweets.resample("1D"),
        lambda frame: frame.dweets.plot(),
        lambda frame: frame.dweets.chart(),
        lambda frame: frame.dweets.plot(["celsius", "state"]),
    ]
    for analyse in analyses:
        with pytest.warns(DataWarning, match=converts) as warned:
            analyse(frame)
        assert len(warned) == 1
    with pytest.warns(
        DataWarning, match=r"^'volts' would be numbers with decimal=',', .* in frame.dweets.numeric\(\)$"
    ):
        frame[["volts", "humidity"]].dweets.statistics()
    assert "'celsius' has texts that mean numbers" in toolkit.HistoryExplorer(
        frame, fields=["celsius"]
    ).status.value.replace("&#x27;", "'")
