"""Gaps, outliers, resampling and statistics: against hand calculations, brute force and real series."""

from __future__ import annotations

import inspect
import re
import statistics as standard

import numpy as np
import pandas as pd
import pytest

import toolkit
from tests.conftest import ROOT
from toolkit.dweets.analysis import series as series_analysis
from toolkit.dweets.analysis.gaps import gaps
from toolkit.dweets.analysis.outliers import hampel, outliers
from toolkit.dweets.analysis.series import (
    AGGREGATIONS,
    rate,
    resample,
    statistics,
)
from toolkit.dweets.analysis.time_axis import on_time_axis, time_columns
from toolkit.errors import InvalidArgument


@pytest.fixture(scope="module")
def weather() -> pd.DataFrame:
    table = pd.read_csv(ROOT / "data" / "seattle_weather_daily_2012_2015.csv", parse_dates=["date"])
    return table.set_index("date")


@pytest.fixture(scope="module")
def cities() -> pd.DataFrame:
    parts = []
    for city in ("seattle", "san_francisco"):
        table = pd.read_csv(ROOT / "data" / f"{city}_temperature_hourly_normals.csv", parse_dates=["date"])
        parts.append(table.set_index("date").assign(thing=city))
    return pd.concat(parts)


def hours(*numbers: float) -> pd.DatetimeIndex:
    return pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(list(numbers), unit="h")


# -- gaps -------------------------------------------------------------------------------------------------


def test_gaps_count_missing_intervals_of_usual_length() -> None:
    frame = pd.DataFrame({"v": 1.0}, index=hours(0, 1, 2, 3, 7, 8, 10, 11))
    found = gaps(frame)
    assert found["missing"].tolist() == [3, 1]
    assert found["start"].tolist() == list(hours(3, 8))
    assert found["end"].tolist() == list(hours(7, 10))
    assert found["length"].tolist() == [pd.Timedelta("4h"), pd.Timedelta("2h")]
    assert [len(gaps(frame, factor=factor)) for factor in (1.5, 2.5, 5)] == [2, 1, 0]
    twice = pd.DataFrame({"v": 1.0}, index=hours(7, 0, 1, 2, 2, 2, 2, 3, 8))
    assert gaps(twice)["missing"].tolist() == [3], "in any order, and times may occur twice"
    close = pd.DatetimeIndex(["2026-01-01T00:00:00.000000001", "2026-01-01T00:00:00.000000002"])
    assert gaps(pd.DataFrame({"v": 1.0}, index=close)).empty  # and does not warn of a division


def test_gaps_are_found_per_thing() -> None:
    slow = pd.DataFrame({"thing": "slow", "v": 1.0}, index=hours(0, 24, 48, 72))
    fast = pd.DataFrame({"thing": "fast", "v": 1.0}, index=hours(0, 1, 2, 9))
    found = gaps(pd.concat([slow, fast]))
    silent = pd.Timedelta("63h")  # until the end of the other one
    assert found[["thing", "missing"]].to_numpy().tolist() == [["fast", 6], ["fast", 63]]
    assert found["length"].tolist() == [pd.Timedelta("7h"), silent]
    once = pd.DataFrame({"thing": ["once", *3 * ["hourly"]], "v": 1.0}, index=hours(0, 1, 2, 3))
    assert gaps(once, longer_than="2h")[["thing", "missing"]].to_numpy().tolist() == [["once", 1]]


MEASURED = [None, 20.0, 20.5, None, None, 21.0, None, None, None]


def test_gaps_of_a_field_count_its_missing_values() -> None:
    frame = pd.DataFrame({"celsius": MEASURED, "humidity": 50}, index=hours(*range(9)))
    found = gaps(frame, field="celsius", longer_than="2h")
    assert found["start"].tolist() == list(hours(2, 5))
    assert found["end"].tolist() == list(hours(5, 8))  # the second one lasts until the end
    assert found["missing"].tolist() == [2, 3]
    assert gaps(frame, field="celsius")["missing"].sum() == frame["celsius"].isna().sum()
    assert gaps(frame, field="humidity", longer_than="1h").empty
    whole = gaps(pd.DataFrame({"celsius": [None] * 4}, index=hours(0, 1, 2, 3)), field="celsius")
    assert whole[["start", "end", "missing"]].to_numpy().tolist() == [[*hours(0, 3), 4]], "without any value"


def test_silence_until_the_end_is_a_gap() -> None:
    frame = pd.DataFrame({"v": 1.0}, index=hours(0, 1, 2))
    assert gaps(frame).empty
    for until in (hours(9)[0], "2026-01-01T09:00Z", "2026-01-01 09:00"):
        assert gaps(frame, longer_than="2h", until=until)["missing"].tolist() == [7]
    assert gaps(frame, until="2026-01-01 01:00").empty


# -- outliers ---------------------------------------------------------------------------------------------


def _hampel_by_hand(values: list[float], window: int) -> list[tuple[float, float]]:
    result = []
    for place, value in enumerate(values):
        start = min(max(place - window // 2, 0), len(values) - window)
        near = values[start : start + window]
        middle = standard.median(near)
        sigma = 1.4826 * standard.median(abs(each - middle) for each in near)
        sigma = sigma or 1.2533 * standard.fmean(abs(each - middle) for each in near)
        result.append((middle, abs(value - middle) / sigma if sigma else 0.0))
    return result


@pytest.mark.parametrize("window", [3, 4, 25])
def test_hampel_filter_matches_its_definition(weather: pd.DataFrame, window: int) -> None:
    for field in ("wind", "precipitation"):
        values = weather[field].head(200)
        expected, score = hampel(values.to_numpy(), window)
        by_hand = _hampel_by_hand(values.tolist(), window)
        np.testing.assert_allclose(expected, [middle for middle, _ in by_hand])
        np.testing.assert_allclose(score, [far for _, far in by_hand])


def test_only_a_spike_in_a_constant_series_is_an_outlier() -> None:
    flat = pd.DataFrame({"v": [5.0] * 30}, index=hours(*range(30)))
    assert outliers(flat).empty
    flat.iloc[7] = 6.0
    assert outliers(flat).index.tolist() == [flat.index[7]]
    frame = pd.DataFrame({"v": pd.array([1, None, 2, 1, 2, 99, 1, 2, 1], dtype="Int64")}, index=hours(*range(9)))
    assert outliers(frame)["value"].tolist() == [99.0], "missing values do not count"
    assert outliers(frame.dropna().head(7)).empty, "there are fewer than eight values"


def test_a_few_outliers_do_not_hide_each_other() -> None:
    wave = pd.DataFrame({"v": [20 + (hour % 5) for hour in range(60)]}, index=hours(*range(60)))
    wave.iloc[[30, 31, 32], 0] = 90
    assert outliers(wave)["value"].tolist() == [90.0, 90.0, 90.0]


def test_a_season_is_no_outlier(cities: pd.DataFrame) -> None:
    assert outliers(cities).empty


def test_planted_outliers_are_found_in_real_weather(weather: pd.DataFrame) -> None:
    before = outliers(weather, "temp_max").index
    broken = weather[["temp_max"]].copy()
    places = [100, 500, 1_000, 1_400]
    broken.iloc[places, 0] = 85.0
    assert set(outliers(broken).index) - set(before) == set(weather.index[places])


# -- resampling and statistics ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_resampling_matches_plain_python(weather: pd.DataFrame, how: series_analysis.Aggregation) -> None:
    by_hand = {
        "mean": standard.fmean,
        "median": standard.median,
        "min": min,
        "max": max,
        "sum": sum,
        "count": len,
        "last": lambda values: values[-1],
    }
    months: dict[str, list[float]] = {}
    for day, value in weather["wind"].items():
        months.setdefault(str(day)[:7], []).append(value)
    found = resample(weather, "1MS", how, ["wind"])
    assert found["wind"].tolist() == pytest.approx([by_hand[how](values) for values in months.values()])
    assert str(found["wind"].dtype) == ("int64" if how == "count" else "float64")
    middle = resample(pd.DataFrame({"v": [1, 2]}, index=hours(0, 48)), "1D", how)["v"].iloc[1]
    assert middle == 0 if how == "count" else np.isnan(middle), "an interval without values is missing, not zero"


def test_rate_counts_each_interval() -> None:
    assert rate(pd.DataFrame({"v": 1}, index=hours(0, 0.5, 2)), "1h")["dweets"].tolist() == [2, 0, 1]


def test_statistics_count_missing_values() -> None:
    found = statistics(pd.DataFrame({"v": [1.0, None, 3.0], "w": "text"}, index=hours(0, 1, 2)))
    assert found["field"].tolist() == ["v"]
    assert found.iloc[0][["count", "missing", "mean", "50%"]].tolist() == [2, 1, 2.0, 2.0]


def test_statistics_of_truth_values_and_texts() -> None:
    frame = pd.DataFrame({"on": [True, True, None, False], "mode": ["a", "b", "b", None]}, index=hours(0, 1, 2, 3))
    found = statistics(frame.astype({"on": "boolean"}), ["on", "mode"]).set_index("field")
    assert found[["count", "missing", "most_frequent"]].to_numpy().tolist() == [[3, 1, "true"], [3, 1, "b"]]
    assert found.loc["on", "share_true"] == pytest.approx(2 / 3)
    assert found[["mean", "max"]].isna().all(axis=None)


# -- axes -------------------------------------------------------------------------------------------------


def test_time_column_of_a_device_becomes_the_index() -> None:
    index = hours(0, 1, 2).rename("created")
    columns = {"at": ["2012-01-03T00:00:00", None, "2012-01-01T00:00:00"], "note": ["a", "b", "c"], "v": [1, 2, 3]}
    frame = pd.DataFrame(columns, index=index)
    assert time_columns(frame) == ["created", "at"]
    with pytest.warns(UserWarning, match="1 of 3 rows have no time in 'at' and are left out"):
        own = on_time_axis(frame, "at")
    assert own["v"].tolist() == [3, 1]
    assert own.index.name == "at"
    assert own["created"].tolist() == [index[2], index[0]]


def twin_things(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame([["a", "b"]] * len(frame), columns=["thing", "thing"], index=frame.index)


REFUSED = {
    "a factor of 1": lambda frame: gaps(frame, factor=1),
    "a field that is not there": lambda frame: gaps(frame, field="humidity"),
    "a length that is none": lambda frame: gaps(frame, longer_than="soon"),
    "a length without a unit": lambda frame: gaps(frame, longer_than=2),
    "an end with a zone where the times have none": lambda frame: gaps(frame, until="2026-01-01T00:00Z"),
    "no time axis": lambda frame: gaps(frame.reset_index(drop=True)),
    "a window of 2": lambda frame: outliers(frame, window=2),
    "a threshold of 0": lambda frame: outliers(frame, threshold=0),
    "a rule that is none": lambda frame: resample(frame, "fortnight"),
    "a time axis of words": lambda frame: on_time_axis(frame, "weather"),
    "a rule of nothing": lambda frame: resample(frame, "0h"),
    "gaps of twin columns": lambda frame: gaps(pd.concat([frame, frame], axis="columns"), field="weather"),
    "gaps of twin things": lambda frame: gaps(twin_things(frame)),
    "a time axis of truth values": lambda frame: on_time_axis(frame.assign(wet=True), "wet", unit="s"),
    "a time axis of several columns": lambda frame: on_time_axis(pd.concat({"at": frame}, axis="columns"), "at"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_arguments_are_refused_with_a_reason(weather: pd.DataFrame, case: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        REFUSED[case](weather)
    assert re.search(r"[a-z]{3}", str(refused.value))


def test_an_empty_frame_gives_the_same_columns_and_dtypes(cities: pd.DataFrame) -> None:
    for with_thing in [False, True]:
        full = cities if with_thing else cities[cities["thing"] == "seattle"].drop(columns="thing")
        for analyse in (gaps, outliers, statistics, rate, lambda frame: resample(frame, "1D", "last")):
            assert analyse(full.iloc[:0]).dtypes.to_dict() == analyse(full).dtypes.to_dict()


# -- the accessor -----------------------------------------------------------------------------------------


def test_history_frame_has_the_accessor(tk: toolkit.Connection, weather: pd.DataFrame) -> None:
    tk.dweets.post_frame("seattle", weather.head(400).drop(weather.index[50:60]))
    history = tk.dweets.history("seattle").dweets.on("date")
    assert history.dweets.gaps()["missing"].tolist() == [10]
    assert history.dweets.rate("1YS")["dweets"].tolist() == [356, 34]
    assert history.dweets.resample("1YS", "max", "temp_max")["temp_max"].iloc[0] == 34.4
    assert history.dweets.statistics("wind")["count"].tolist() == [390]
    assert history.dweets.outliers("wind", threshold=6)["value"].tolist() == [6.0]


def test_unix_times_become_the_index() -> None:
    frame = pd.DataFrame({"ts": [1_767_225_600, 1_767_229_200], "n": [1, 2]})
    found = frame.dweets.on("ts", unit="s")
    assert found.index.tolist() == pd.date_range("2026-01-01", periods=2, freq="h", tz="UTC").tolist()
    assert found["n"].tolist() == [1, 2]
    with pytest.raises(InvalidArgument, match="for Unix times say unit='s'"):
        frame.dweets.on("ts")
    with pytest.raises(InvalidArgument, match="is unit='s' right"):
        pd.DataFrame({"ts": [1e300]}).dweets.on("ts", unit="s")


def test_resampling_takes_several_aggregations(cities: pd.DataFrame) -> None:
    found = cities.dweets.resample("1MS", ["min", "max"])
    assert found.columns.tolist() == ["thing", "temp.min", "temp.max"]
    assert found["temp.max"].tolist() == cities.dweets.resample("1MS", "max")["temp"].tolist()
    warmest = resample(cities, "1MS").groupby("thing")["temp"].idxmax().dt.month
    assert warmest.to_dict() == {"san_francisco": 9, "seattle": 8}, "each thing has its own"


def test_a_method_of_the_accessor_shows_its_own_parameters(weather: pd.DataFrame) -> None:
    assert str(inspect.signature(weather.dweets.rate)).startswith("(rule: 'str' = '1h')")
    assert "Count rows in each interval" in str(inspect.getdoc(weather.dweets.rate))


def test_fields_have_separate_axes_or_share_those_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    frame = pd.DataFrame({"celsius": [20.0, 21.0], "pascal": [101_300.0, 101_200.0]}, index=hours(0, 1))
    axes = frame.dweets.plot(title="Roof")
    assert [each.get_ylabel() for each in axes] == ["celsius", "pascal"]
    _, mine = pyplot.subplots()
    assert frame.dweets.plot(ax=mine) is mine
    assert [text.get_text() for text in mine.texts] == ["celsius", "pascal"], "the lines have their names at their ends"
    _, mine = pyplot.subplots()
    assert frame.dweets.plot("celsius", ax=mine, unit="°C", title="Roof") is mine
    assert (mine.get_ylabel(), mine.get_title(loc="left")) == ("celsius (°C)", "Roof")
    pyplot.close("all")


def test_plot_draws_a_line_for_each_thing_and_field(cities: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    axes = cities.dweets.plot()
    assert [line.get_label() for line in axes.lines] == ["seattle", "san_francisco"]
    assert [text.get_text() for text in axes.texts] == ["seattle", "san_francisco"]
    assert len(axes.collections) == 4  # the span and the missing hour of each
    pyplot.close(axes.figure)
    assert len(cities.dweets.plot("temp", mark=False).collections) == 2
    pyplot.close("all")
