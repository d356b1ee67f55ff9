"""Statistics against published values, and what the analysis makes of decisions."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import toolkit
from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis import rates as analysis
from toolkit.rewards.analysis import simulation
from toolkit.rewards.analysis.experiments import (
    ab,
    bootstrap_interval,
    holm_corrected,
    newcombe_interval,
    sample_size,
    z_test,
)
from toolkit.rewards.analysis.explanation import explain
from toolkit.rewards.analysis.funnels import funnel, moments_per_session
from toolkit.rewards.analysis.rates import DECISION_COLUMNS, decision_frame, wilson_interval


# The values of scipy.stats.binomtest(...).proportion_ci(method="wilson").
@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(0, 12, 0.0, 0.2425), (3, 10, 0.1078, 0.6032), (30, 100, 0.2189, 0.3958), (300, 1000, 0.2724, 0.3291)],
)
def test_wilson(hits: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(hits, n) == pytest.approx((low, high), abs=5e-5)
    assert wilson_interval(n - hits, n) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_wilson_of_nothing_says_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_newcombe_as_published() -> None:
    # Newcombe 1998, Statistics in Medicine 17, table II, example (a), method 10.
    assert newcombe_interval(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_two_proportions() -> None:
    z, p = z_test(56, 70, 48, 80)
    # By hand: pooled 104/150, error sqrt(.6933 * .3067 * (1/70 + 1/80)).
    assert (z, p) == pytest.approx((2.6499, 0.00805), abs=5e-4)
    assert z_test(5, 5, 7, 7) == (0.0, 1.0)
    # statsmodels.stats.proportion.proportions_ztest([900, 100], [1000, 1000])
    assert z_test(900, 1000, 100, 1000)[1] == pytest.approx(2.509158096763144e-280)


def test_sample_size() -> None:
    # Fleiss, Levin, Paik: 0.5 against 0.6 at 5 % and 80 % power needs 388 a group.
    assert sample_size(0.5, 0.6) == 388
    assert math.isnan(sample_size(0.5, 0.5))


def test_holm() -> None:
    assert holm_corrected([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm_corrected([0.9, 0.8]) == [1.0, 1.0]
    assert holm_corrected([]) == []


def test_the_bootstrap_covers_a_known_difference_and_repeats() -> None:
    first = np.array([[1.0, 2.0]] * 50 + [[2.0, 2.0]] * 50)
    second = np.array([[0.0, 2.0]] * 50 + [[1.0, 2.0]] * 50)
    low, high = bootstrap_interval(first, second)
    assert (low, high) == bootstrap_interval(first, second)
    assert low < 0.5 < high
    # Two independent means with standard error 0.025 each: 1.96 * sqrt(2) * 0.025 to either side.
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(2) * 0.025, rel=0.15)


# -- analysis ----------------------------------------------------------------------------------------------


def row(at: str, device: str = "d1", reason: str = "DRAW", **more: Any) -> dict[str, Any]:
    milliseconds = pd.Timestamp(at).value // 1_000_000
    fields = {"at": milliseconds, "device": device, "reason": reason, "session_id": "s-1", "moment_id": "m"}
    return {"test": False, "rewarded": reason in ("REWARDED", "TEST"), **fields, **more}


DECISIONS = decision_frame(
    [
        row("2026-03-28T22:10:00Z", session_id="s-1"),
        row("2026-03-28T22:20:00Z", reason="REWARDED", shown=1, claimed=2, session_id="s-1"),
        row("2026-03-29T01:30:00Z", "d2", reason="REWARDED", shown=3, session_id="s-2", moment_id="n"),
        row("2026-03-29T01:40:00Z", "d2", reason="MIN_GAP", session_id="s-2"),
        row("2026-03-29T01:50:00Z", "d2", reason="TEST", test=True, shown=4, session_id="s-2"),
    ]
)
SESSIONS = pd.DataFrame({"session_id": ["s-1", "s-2", "s-3"], "device": ["d1", "d2", "d3"], "test": False})


def steps(table: pd.DataFrame) -> dict[str, int]:
    assert table["of_previous"].dropna().between(0, 1).all()
    assert table["of_first"].dropna().between(0, 1).all()
    assert table["n"].is_monotonic_decreasing
    return dict(zip(table["step"], table["n"], strict=True))


def test_the_funnel_counts_sessions() -> None:
    table = funnel(DECISIONS)
    assert steps(table) == {"session": 2, "moment": 2, "rewarded": 2, "shown": 2, "claimed": 1}
    assert list(table["devices"]) == [2, 2, 2, 2, 1]
    assert list(table["of_previous"]) == [1.0, 1.0, 1.0, 1.0, 0.5]
    assert tuple(table.loc[4, ["low", "high"]]) == pytest.approx(wilson_interval(1, 2))
    assert table.loc[0, ["low", "high"]].isna().all()
    assert table.attrs == {"test_rows_left_out": 1, "unit": "session"}


def test_the_funnel_counts_devices_where_asked() -> None:
    again = DECISIONS.assign(session_id=[f"s-{number}" for number in range(len(DECISIONS))])
    assert steps(funnel(again))["session"] == 4
    table = funnel(again, unit="device")
    assert steps(table) == {"session": 2, "moment": 2, "rewarded": 2, "shown": 2, "claimed": 1}
    assert list(table["n"]) == list(table["devices"])


def test_the_funnel_counts_sessions_without_a_moment() -> None:
    assert steps(funnel(DECISIONS, SESSIONS)) == {"session": 3, "moment": 2, "rewarded": 2, "shown": 2, "claimed": 1}
    assert steps(funnel(DECISIONS, SESSIONS, unit="device"))["session"] == 3


def test_a_moment_outside_of_a_session_counts_nowhere() -> None:
    outside = decision_frame([row("2026-03-29T02:00:00Z", "d9", reason="NO_SESSION", session_id=None)])
    decisions = pd.concat([DECISIONS, outside], ignore_index=True)
    assert steps(funnel(decisions, SESSIONS)) == steps(funnel(DECISIONS, SESSIONS))
    assert steps(funnel(decisions, unit="device"))["moment"] == 2


@pytest.mark.parametrize("absent", ["no column", "all missing", "one reward's missing"])
def test_the_session_step_is_left_out_without_data(absent: str) -> None:
    decisions = {
        "no column": DECISIONS.drop(columns="session_id"),
        "all missing": DECISIONS.assign(session_id=pd.array([None] * 5, dtype="str")),
        "one reward's missing": DECISIONS.assign(session_id=["s-1", None, "s-2", "s-2", "s-2"]),
    }[absent]
    table = funnel(decisions)
    assert table.attrs["unit"] == "device"
    # A device of which another moment names a session is known to have had one.
    session = {"session": 2} if absent == "one reward's missing" else {}
    assert steps(table) == {**session, "moment": 2, "rewarded": 2, "shown": 2, "claimed": 1}
    with pytest.raises(InvalidArgument, match="unit='device'"):
        funnel(decisions, unit="session")


def test_sessions_that_are_not_those_of_the_moments_are_left_out() -> None:
    assert "session" not in steps(funnel(DECISIONS, SESSIONS.head(1)))
    assert "session" not in steps(funnel(DECISIONS, SESSIONS.assign(device="other")))
    assert "session" not in steps(funnel(DECISIONS, SESSIONS.head(0)))


def test_pages_are_left_out_of_the_funnel_without_data() -> None:
    assert list(steps(funnel(DECISIONS.drop(columns=["shown_at", "claimed_at"])))) == ["session", "moment", "rewarded"]


def test_equal_session_ids_of_two_gateways_are_two_sessions() -> None:
    both = pd.concat([DECISIONS, DECISIONS.assign(device="of another partner")], ignore_index=True)
    assert steps(funnel(both))["session"] == 4
    assert moments_per_session(both) == 2.0


def test_events_without_sessions_make_no_session_step() -> None:
    decided = simulation.simulate({"default": {"p": 1}}, EVENTS.drop(columns="session_id"))
    assert decided["session_id"].isna().all()
    assert "NO_SESSION" not in set(decided["reason"])
    assert list(steps(funnel(decided))) == ["moment", "rewarded", "shown", "claimed"]
    assert math.isnan(moments_per_session(decided))
    # What was decided without sessions is decided without them again.
    assert simulation.simulate({"default": {"p": 1}}, decided)["reason"].equals(decided["reason"])


def test_a_refusal_without_a_session_is_repeated() -> None:
    refused = decision_frame([row("2026-03-28T22:10:00Z", reason="NO_SESSION", session_id=None)])
    assert list(simulation.simulate({"default": {"p": 1}}, refused)["reason"]) == ["NO_SESSION"]


def test_the_index_of_decisions_does_not_matter() -> None:
    decisions = pd.DataFrame(
        {"device": list("aab"), "moment_id": list("mnm"), "rewarded": [True, False, True], "at": ["2026-01-01"] * 3}
    )
    functions: list[Any] = [funnel, partial(funnel, by="moment_id"), analysis.rate_by_moment, analysis.by_device]
    for function in (*functions, analysis.by_hour):
        for index in (["device", "moment_id"], ["at"]):
            assert function(decisions.set_index(index, drop=False)).equals(function(decisions))


def test_the_funnel_by_a_column() -> None:
    table = funnel(DECISIONS, by="moment_id").set_index(["moment_id", "step"])
    assert list(table.loc["m", "n"]) == [2, 1, 1, 1]
    assert list(table.loc["n", "n"]) == [1, 1, 1, 0]
    with pytest.raises(InvalidArgument, match="the result already has a column step"):
        funnel(DECISIONS.assign(step="a"), by="step")


def test_a_funnel_without_moments_has_zeros() -> None:
    assert steps(funnel(decision_frame([]))) == {"moment": 0, "rewarded": 0, "shown": 0, "claimed": 0}
    only_sessions = {"session": 3, "moment": 0, "rewarded": 0, "shown": 0, "claimed": 0}
    assert steps(funnel(decision_frame([]), SESSIONS, unit="device")) == only_sessions
    assert steps(funnel(decision_frame([]), SESSIONS)) == only_sessions


def test_moments_per_session() -> None:
    assert moments_per_session(DECISIONS) == 2.0
    assert moments_per_session(DECISIONS, SESSIONS) == pytest.approx(4 / 3)
    assert moments_per_session(decision_frame([]), SESSIONS) == 0.0


def test_the_funnel_takes_zeros_and_ones() -> None:
    frame = pd.DataFrame({"device": ["a", "b", "c"], "rewarded": [1, 0, 1]})
    assert funnel(frame)["n"].tolist() == [3, 2]


@pytest.mark.parametrize("values", [[True, None], [1, float("nan")], ["yes", "no"], [2, 0]])
def test_the_funnel_refuses_what_is_not_true_or_false(values: list[Any]) -> None:
    frame = pd.DataFrame({"device": ["a", "b"], "rewarded": values})
    with pytest.raises(InvalidArgument, match="^the column rewarded must be true or false in every row$"):
        funnel(frame)


def test_the_funnel_refuses_an_unknown_unit() -> None:
    with pytest.raises(InvalidArgument, match="unit is 'session' or 'device' or None, not 'moment'"):
        funnel(DECISIONS, unit="moment")


def test_rates_by_moment() -> None:
    table = analysis.rate_by_moment(DECISIONS).set_index("moment_id")
    assert list(table.index) == ["m", "n"]
    assert (table.loc["m", "n"], table.loc["m", "rewarded"]) == (3, 1)
    assert tuple(table.loc["m", ["low", "high"]]) == pytest.approx(wilson_interval(1, 3))
    assert table["few"].all()


def test_empty_hours_are_kept_and_days_with_a_clock_change_are_flagged() -> None:
    table = analysis.by_hour(DECISIONS, "Europe/Berlin")
    assert [f"{hour:%d %H:%M}" for hour in table.index] == ["28 23:00", "29 00:00", "29 01:00", "29 03:00"]
    assert list(table["moments"]) == [2, 0, 0, 2]
    assert table["rate"].isna().tolist() == [False, True, True, False]
    assert list(table["clock_change"]) == [False, True, True, True]


def test_hours_begin_where_the_zone_says() -> None:
    assert f"{analysis.by_hour(DECISIONS, 'Asia/Kolkata').index[0]:%H:%M}" == "03:00"


def test_a_clock_change_of_half_an_hour_loses_no_moment() -> None:
    # Lord Howe sets its clocks back by half an hour at 15:00 UTC.
    decisions = decision_frame([row(f"2026-04-04T{hour}:20:00Z") for hour in range(12, 19)])
    assert analysis.by_hour(decisions, "Australia/Lord_Howe")["moments"].sum() == 7


@pytest.mark.parametrize(
    ("zone", "times", "hours"),
    [
        ("Africa/Cairo", ["2024-04-25T21:30:00Z", "2024-04-25T22:30:00Z"], ["25 23:00", "26 01:00"]),
        ("Africa/Cairo", ["2024-04-25T22:30:00Z"], ["26 01:00"]),
        ("America/Havana", ["2024-11-03T03:30:00Z", "2024-11-03T05:30:00Z"], ["02 23:00", "03 00:00", "03 00:00"]),
    ],
)
def test_a_clock_change_at_midnight(zone: str, times: list[str], hours: list[str]) -> None:
    table = analysis.by_hour(decision_frame([row(at) for at in times]), zone)
    assert [f"{hour:%d %H:%M}" for hour in table.index] == hours
    assert table["moments"].sum() == len(times)
    assert list(table["clock_change"]) == [hour[:2] != "25" and hour[:2] != "02" for hour in hours]


def test_devices_and_their_cap() -> None:
    times = ["2026-01-01T10:00:00Z", "2026-01-02T09:00:00Z", "2026-01-02T11:00:00Z"]
    frame = decision_frame([row(at, reason="REWARDED") for at in times] + [row(times[0], "d2")])
    table = analysis.by_device(frame, {"default": {"per_device_per_day": 4}}).set_index("device")
    assert tuple(table.loc["d1", ["moments", "rewards", "busiest_day", "cap_used"]]) == (3, 3, 2, 0.5)
    assert tuple(table.loc["d2", ["moments", "rewards", "busiest_day", "cap_used"]]) == (1, 0, 0, 0.0)


@pytest.mark.parametrize("kind", ["text", "no zone", "another zone"])
def test_times_are_read_in_any_form(kind: str) -> None:
    times = DECISIONS["at"].dt.tz_convert("Asia/Tokyo" if kind == "another zone" else None)
    frame = DECISIONS.assign(at=times.astype("str") if kind == "text" else times)
    for function in (analysis.by_hour, analysis.by_device):
        pd.testing.assert_frame_equal(function(frame), function(DECISIONS))


@pytest.mark.parametrize("function", [analysis.by_hour, analysis.by_device, partial(simulation.simulate, {})])
@pytest.mark.parametrize("times", [pd.NaT, "soon", 1_767_225_600])
def test_what_is_no_time_is_refused(function: Any, times: object) -> None:
    with pytest.raises(InvalidArgument, match="the column at must hold"):
        function(DECISIONS.assign(at=times))


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("device", [funnel, analysis.by_device, moments_per_session, partial(simulation.simulate, {})]),
        ("moment_id", [analysis.rate_by_moment, partial(simulation.simulate, {})]),
    ],
)
def test_a_moment_without_device_or_name_is_refused(name: str, functions: list[Any]) -> None:
    frame = DECISIONS.assign(**{name: DECISIONS[name].where(DECISIONS.index > 0)})
    for function in functions:
        with pytest.raises(InvalidArgument, match=f"the column {name} must have a value in every row"):
            function(frame)


@pytest.mark.parametrize("reason", ["OTHER", None])
def test_the_cap_report_ends_with_reasons_of_another_server(reason: str | None) -> None:
    table = analysis.cap_report(DECISIONS.assign(reason=reason))
    assert table["n"].iloc[-1] == table["n"].sum() == 4
    assert table["share"].sum() == 1


def test_the_cap_report() -> None:
    table = analysis.cap_report(DECISIONS).set_index("reason")
    assert "TEST" not in table.index
    assert dict(table["n"][table["n"] > 0]) == {"MIN_GAP": 1, "DRAW": 1, "REWARDED": 2}
    assert table["share"].sum() == 1


@pytest.mark.parametrize(
    "function", [funnel, analysis.rate_by_moment, analysis.by_hour, analysis.by_device, analysis.cap_report]
)
def test_no_decisions_give_the_same_columns(function: Any) -> None:
    empty = decision_frame([])
    assert list(empty.columns) == list(DECISION_COLUMNS)
    pd.testing.assert_series_equal(function(empty).dtypes, function(DECISIONS).dtypes)


# -- A/B ---------------------------------------------------------------------------------------------------


def arms(counts: dict[str, tuple[int, int]]) -> pd.DataFrame:
    rows = []
    for arm, (hits, n) in counts.items():
        for number in range(n):
            reason = "REWARDED" if number < hits else "DRAW"
            rows.append(row("2026-01-01T10:00:00Z", f"{arm}-{number}", reason, arm=arm))
    return decision_frame(rows)


def test_ab_of_two_arms() -> None:
    (line,) = ab(arms({"A": (48, 80), "B": (56, 70)}), "A", "B").to_dict("records")
    assert (line["n_a"], line["n_b"], line["devices_a"]) == (80, 70, 80)
    assert [line[name] for name in ("difference", "low", "high")] == pytest.approx([0.2, 0.0524, 0.3339], abs=5e-5)
    assert line["p"] == line["p_holm"] == pytest.approx(0.00805, abs=5e-4)
    # One moment a device: both intervals mean the same here.
    assert [line["device_low"], line["device_high"]] == pytest.approx([0.0524, 0.3339], abs=0.02)
    assert line["n_for_80_power"] == 82


def test_ab_of_one_device_an_arm_has_no_interval_of_devices() -> None:
    frame = arms({"A": (48, 80), "B": (56, 70)}).assign(hit="a column of the caller")
    (line,) = ab(frame.assign(device=frame["arm"])).to_dict("records")
    assert (line["devices_a"], line["devices_b"], line["difference"]) == (1, 1, pytest.approx(0.2))
    assert math.isnan(line["device_low"])
    assert math.isnan(line["device_high"])
    assert len(ab(frame.head(3), by="device")) == 3


def test_ab_of_every_pair_is_corrected_for_their_number() -> None:
    table = ab(arms({"A": (48, 80), "B": (56, 70), "C": (50, 80)}))
    assert [tuple(pair) for pair in table[["a", "b"]].to_numpy()] == [("A", "B"), ("A", "C"), ("B", "C")]
    assert list(table["p_holm"]) == holm_corrected(list(table["p"]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metric": "sold"}, "metric is 'rewarded'"),
        ({"a": "A", "b": "Z"}, "there is no arm Z; there are A, B"),
        ({"a": "A"}, "give both arms"),
        ({"by": "colour"}, "no column colour"),
    ],
)
def test_ab_refuses_what_cannot_be(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ab(arms({"A": (1, 2), "B": (1, 2)}), **given)


# -- what-if -----------------------------------------------------------------------------------------------

EVENTS = simulation.made_up_moments(devices=20, days=3, seed=3)


def test_made_up_moments_repeat() -> None:
    assert EVENTS.equals(simulation.made_up_moments(devices=20, days=3, seed=3))
    assert EVENTS["at"].is_monotonic_increasing
    assert len(simulation.made_up_moments(devices=5, days=1, count=77)) == 77
    pd.testing.assert_series_equal(simulation.made_up_moments(devices=1, days=1, count=0).dtypes, EVENTS.dtypes)


def test_a_what_if_repeats_and_follows_its_rules() -> None:
    first = simulation.simulate({"default": {"p": 0.5}}, EVENTS)
    assert first.equals(simulation.simulate({"default": {"p": 0.5}}, EVENTS))
    none = simulation.simulate({"default": {"p": 0}}, EVENTS)
    assert (first["rewarded"].sum(), none["rewarded"].sum()) == (pytest.approx(60, abs=40), 0)
    assert analysis.by_device(first)["busiest_day"].max() <= 3


def test_a_what_if_keeps_traces_where_asked() -> None:
    assert explain(simulation.simulate({}, EVENTS.head(1)))["rule"].iloc[0] == "session"
    with pytest.raises(InvalidArgument, match="has no trace"):
        explain(simulation.simulate({}, EVENTS.head(1), trace=False))


def test_decisions_can_be_stored_in_files(tmp_path: Path) -> None:
    decided = simulation.simulate({"default": {"per_moment_per_day": 1, "p": 0.5}}, EVENTS)
    decided.to_csv(tmp_path / "decisions.csv")
    from_csv = pd.read_csv(tmp_path / "decisions.csv")
    assert simulation.simulate({"default": {"p": 0.5}}, from_csv)["reason"].equals(decided["reason"])
    with pytest.raises(InvalidArgument, match="store Parquet, not CSV"):
        explain(from_csv.head(1))
    decided.to_parquet(tmp_path / "decisions.parquet")
    from_parquet = pd.read_parquet(tmp_path / "decisions.parquet")
    rows = [decided["reason"].eq(reason).idxmax() for reason in decided["reason"].unique()]
    assert {"DRAW", "MOMENT_CAP", "REWARDED"} <= {*decided["reason"][rows]}
    for row in rows:
        table, expected = explain(from_parquet.loc[row]), explain(decided.loc[row])
        assert table["rule"].equals(expected["rule"])
        assert table["detail"].equals(expected["detail"])
        assert table.attrs == expected.attrs


def test_a_what_if_decides_in_the_order_of_time_not_of_text() -> None:
    times = ["2026-01-01T10:00:00+09:00", "2026-01-01T02:00:00+00:00"]  # the first is an hour earlier
    events = pd.DataFrame({"at": times, "device": "d", "moment_id": ["a", "b"]})
    decided = simulation.simulate({"default": {"p": 1, "per_device_per_day": 1}}, events)
    assert list(zip(decided["moment_id"], decided["reason"], strict=True)) == [("a", "REWARDED"), ("b", "DEVICE_CAP")]


def test_a_what_if_needs_its_columns() -> None:
    with pytest.raises(InvalidArgument, match="no column device"):
        simulation.simulate({}, EVENTS.drop(columns="device"))
    with pytest.raises(InvalidArgument, match="test must be true or false"):  # as a CSV file has it
        simulation.simulate({}, EVENTS.assign(test="False"))
    with pytest.raises(InvalidArgument, match="from 0 to 1"):
        simulation.simulate({}, EVENTS, shown=80)


@pytest.mark.parametrize("decision", [{"reason": "DRAW", "trace": []}, {"trace": [{"rule": "draw"}]}])
def test_a_decision_without_its_reason_is_refused(decision: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        toolkit.rewards.sentence(decision)


def test_made_up_readers_look_and_claim() -> None:
    decided = simulation.simulate({}, EVENTS, shown=1.0, claimed=0.5)
    counts = steps(funnel(decided))
    assert counts["shown"] == counts["rewarded"]
    assert 0 < counts["claimed"] < counts["shown"]


def test_a_funnel_and_a_comparison_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    decisions = pd.DataFrame({"device": list("abcd"), "rewarded": [True, False, True, True], "arm": list("xxyy")})
    funnel_axes = toolkit.rewards.plot(funnel(decisions))
    assert [label.get_text() for label in funnel_axes.get_yticklabels()] == ["moment", "rewarded"]
    _, mine = pyplot.subplots()
    assert toolkit.rewards.plot(toolkit.rewards.ab(decisions), ax=mine) is mine
    assert [label.get_text() for label in mine.get_yticklabels()] == ["y - x"]
    for other in (decisions, funnel(decisions, by="arm")):
        with pytest.raises(InvalidArgument, match="result of funnel or ab"):
            toolkit.rewards.plot(other)
    pyplot.close("all")
