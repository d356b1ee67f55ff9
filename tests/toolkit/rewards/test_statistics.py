"""The analysis of decisions; its intervals are compared in `test_statsmodels.py`."""

from __future__ import annotations

from contextlib import nullcontext
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
from toolkit.rewards.analysis.experiments import ab
from toolkit.rewards.analysis.explanation import explain
from toolkit.rewards.analysis.funnels import funnel
from toolkit.rewards.analysis.rates import DECISION_COLUMNS, decision_frame, wilson_interval
from toolkit.rewards.configuration import Configuration
from toolkit.rewards.engine import DeviceState, Engine, Moment


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


def test_the_funnel_has_shares_with_intervals() -> None:
    table = funnel(DECISIONS, SESSIONS.head(2))
    assert list(table["devices"]) == [2, 2, 2, 2, 1]
    assert list(table["of_previous"]) == [1.0, 1.0, 1.0, 1.0, 0.5]
    assert tuple(table.loc[4, ["low", "high"]]) == pytest.approx(wilson_interval(1, 2))
    assert table.loc[0, ["low", "high"]].isna().all()
    assert table.attrs == {"test_rows_left_out": 1, "unit": "session"}


WITHOUT_IDS = DECISIONS.assign(session_id=pd.array([None] * 5, dtype="str"))
ONE_SESSION_EACH = DECISIONS.assign(session_id=[f"s-{number}" for number in range(5)])
OUTSIDE = decision_frame([row("2026-03-29T02:00:00Z", "d9", reason="NO_SESSION", session_id=None)])
AND_OUTSIDE = pd.concat([DECISIONS, OUTSIDE], ignore_index=True)
#: The same session ids at another gateway are other sessions.
OF_TWO_GATEWAYS = pd.concat([DECISIONS, DECISIONS.assign(device=DECISIONS["device"] + " elsewhere")], ignore_index=True)


@pytest.mark.parametrize(
    ("decisions", "sessions", "unit", "expected"),
    [
        (DECISIONS, None, None, (2, 2, 2, 1)),
        (DECISIONS, SESSIONS, None, (3, 2, 2, 2, 1)),
        (DECISIONS, SESSIONS, "device", (3, 2, 2, 2, 1)),
        (ONE_SESSION_EACH, None, None, (4, 2, 2, 1)),
        (ONE_SESSION_EACH, None, "device", (2, 2, 2, 1)),
        (OF_TWO_GATEWAYS, None, None, (4, 4, 4, 2)),
        (AND_OUTSIDE, SESSIONS, None, (3, 2, 2, 2, 1)),
        (AND_OUTSIDE, None, "device", (3, 2, 2, 1)),
        (DECISIONS.drop(columns=["shown_at", "claimed_at"]), None, None, (2, 2)),
        (DECISIONS.assign(shown_at=None, claimed_at=None), None, None, (2, 2)),
        (DECISIONS.assign(claimed_at=None), None, None, (2, 2, 2, 0)),
        (pd.DataFrame({"device": ["a", "b", "c"], "rewarded": [1, 0, 1]}), None, None, (3, 2)),
        (decision_frame([]), None, None, (0, 0, 0, 0)),
        (decision_frame([]), SESSIONS, None, (3, 0, 0, 0, 0)),
        (decision_frame([]), SESSIONS, "device", (3, 0, 0, 0, 0)),
    ],
)
def test_the_funnel_counts_sessions_or_devices(
    decisions: pd.DataFrame, sessions: pd.DataFrame | None, unit: Any, expected: tuple[int, ...]
) -> None:
    names = [*(["session"] if sessions is not None else []), "moment", "rewarded", "shown", "claimed"][: len(expected)]
    assert steps(funnel(decisions, sessions, unit=unit)) == dict(zip(names, expected, strict=True))


def test_the_session_step_is_left_out_without_data() -> None:
    one_missing = DECISIONS.assign(session_id=["s-1", None, "s-2", "s-2", "s-2"])
    for decisions, sessions, unit in [
        (DECISIONS.drop(columns="session_id"), None, "device"),
        (WITHOUT_IDS, None, "device"),
        (one_missing, None, "device"),
        # These sessions are not those of the moments.
        (DECISIONS, SESSIONS.head(1), "session"),
        (DECISIONS, SESSIONS.assign(device="other"), "session"),
        (DECISIONS, SESSIONS.head(0), "session"),
    ]:
        table = funnel(decisions, sessions)
        assert table.attrs["unit"] == unit
        assert steps(table) == {"moment": 2, "rewarded": 2, "shown": 2, "claimed": 1}
    for incomplete in (one_missing, WITHOUT_IDS):
        with pytest.raises(InvalidArgument, match="unit='device'"):
            funnel(incomplete, unit="session")


def test_events_without_sessions_make_no_session_step() -> None:
    decided = simulation.simulate({"default": {"p": 1}}, EVENTS.drop(columns="session_id"))
    assert decided["session_id"].isna().all()
    assert "NO_SESSION" not in set(decided["reason"])
    assert list(steps(funnel(decided))) == ["moment", "rewarded"]
    # What was decided without sessions is decided without them again.
    assert simulation.simulate({"default": {"p": 1}}, decided)["reason"].equals(decided["reason"])


def test_the_index_of_decisions_does_not_matter() -> None:
    decisions = pd.DataFrame(
        {"device": list("aab"), "moment_id": list("mnm"), "rewarded": [True, False, True], "at": ["2026-01-01"] * 3}
    )
    for function in (funnel, partial(funnel, by="moment_id"), analysis.rate_by_moment):
        for index in (["device", "moment_id"], ["at"]):
            assert function(decisions.set_index(index, drop=False)).equals(function(decisions))


def test_the_funnel_by_a_column() -> None:
    table = funnel(DECISIONS, by="moment_id").set_index(["moment_id", "step"])
    assert list(table.loc["m", "n"]) == [2, 1, 1, 1]
    assert list(table.loc["n", "n"]) == [1, 1, 1, 0]
    with pytest.raises(InvalidArgument, match="the result already has a column step"):
        funnel(DECISIONS.assign(step="a"), by="step")
    rates = analysis.rate_by_moment(DECISIONS).set_index("moment_id")
    assert rates["n"].to_dict() == {"m": 3, "n": 1}
    assert rates.loc["m", "rewarded"] == 1
    assert tuple(rates.loc["m", ["low", "high"]]) == pytest.approx(wilson_interval(1, 3))
    assert rates["few"].all()


def test_times_are_read_in_any_form() -> None:
    expected = simulation.simulate({}, DECISIONS)
    plain, elsewhere = DECISIONS["at"].dt.tz_convert(None), DECISIONS["at"].dt.tz_convert("Asia/Tokyo")
    for times in (plain, plain.astype("str"), elsewhere):
        pd.testing.assert_frame_equal(simulation.simulate({}, DECISIONS.assign(at=times)), expected)


def test_cap_report_counts_each_cap() -> None:
    table = analysis.cap_report(DECISIONS).set_index("reason")
    assert "TEST" not in table.index
    assert dict(table["n"][table["n"] > 0]) == {"MIN_GAP": 1, "DRAW": 1, "REWARDED": 2}
    assert table["share"].sum() == 1
    for unknown in ("OTHER", None):
        table = analysis.cap_report(DECISIONS.assign(reason=unknown))
        assert table["n"].iloc[-1] == table["n"].sum() == 4, "the last row is theirs"


def test_no_decisions_give_the_same_columns() -> None:
    for function in [funnel, analysis.rate_by_moment, analysis.cap_report]:
        empty = decision_frame([])
        assert list(empty.columns) == list(DECISION_COLUMNS)
        pd.testing.assert_series_equal(function(empty).dtypes, function(DECISIONS).dtypes)


# -- A/B ---------------------------------------------------------------------------------------------------


def arms(counts: dict[str, tuple[int, int]]) -> pd.DataFrame:
    rows = []
    for arm, (hits, n) in counts.items():
        for number in range(n):
            reason = "REWARDED" if number < hits else "DRAW"
            claimed = 1 if number < hits else None
            rows.append(row("2026-01-01T10:00:00Z", f"{arm}-{number}", reason, arm=arm, claimed=claimed))
    return decision_frame(rows)


TWO_ARMS = arms({"A": (48, 80), "B": (56, 70)})
# Two arms of 30 devices with 10 rows each; the devices differ more than the rows of one device.
MANY_ROWS = pd.DataFrame({"device": np.repeat(range(60), 10), "arm": np.repeat(["A", "B"], 300)})
MANY_ROWS["visits"] = MANY_ROWS["device"] * 7 % 13 + np.arange(600) * 3 % 5 + (MANY_ROWS["arm"] == "B")


def test_ab_groups_dependent_rows_of_a_unit() -> None:
    frame = MANY_ROWS.assign(often=MANY_ROWS["visits"] > 8)
    for outcome in ("visits", "often"):
        (line,) = ab(frame, outcome).to_dict("records")
        # All units have equally many rows, so the means of the units have the same mean and the right interval.
        means = frame.groupby(["device", "arm"], as_index=False)[outcome].mean()
        expected = ab(means, outcome)
        assert (line["n_a"], line["n_b"]) == (30, 30)
        assert [line[name] for name in ("difference", "low", "high")] == pytest.approx(
            list(expected.loc[0, ["difference", "low", "high"]])
        )
        assert ab(means.set_index("device"), outcome).equals(expected), "the unit may be the index"


def test_ab_without_variance_has_no_interval() -> None:
    by_arm = ab(TWO_ARMS, unit="arm").iloc[0]
    assert (by_arm["n_a"], by_arm["difference"]) == (1, pytest.approx(0.2))
    constant = ab(MANY_ROWS.assign(visits=3), "visits").iloc[0]
    for line in (by_arm, constant):
        assert line[["low", "high"]].isna().all()
    # Arms without a row are left out; a share of one unit has an interval all the same.
    one = ab(TWO_ARMS.iloc[79:81].assign(arm=pd.Categorical(["A", "B"], categories=["A", "B", "C"]))).iloc[0]
    assert (one["n_a"], one["n_b"], one["difference"]) == (1, 1, 1.0)
    assert -1 < one["low"] < 0 < one["high"] <= 1


def test_ab_compares_every_pair_of_arms() -> None:
    table = ab(pd.concat([arms({"A": (1, 2), "B": (1, 2), "C": (1, 2)}), DECISIONS], ignore_index=True))
    assert [tuple(pair) for pair in table[["a", "b"]].to_numpy()] == [("A", "B"), ("A", "C"), ("B", "C")]
    assert table.attrs == {"test_rows_left_out": 1}


def test_ab_refuses_invalid_input() -> None:
    for frame, arguments, message in [
        (TWO_ARMS, {"outcome": "sold"}, "no column sold"),
        (TWO_ARMS, {"outcome": "reason"}, "the column reason must hold numbers, or true and false"),
        (TWO_ARMS, {"outcome": "at"}, "the column at must hold numbers, or true and false"),
        (TWO_ARMS, {"unit": "person"}, "no column person"),
        (TWO_ARMS.head(80), {}, "a comparison needs two arms; the column arm has A"),
        (
            TWO_ARMS.assign(sold=pd.array([1] * 80 + [None] * 70, dtype="Int64")),
            {"outcome": "sold"},
            r"the column arm has A \(sold: 70 of 150 values are missing",
        ),
        (DECISIONS, {}, "a comparison needs two arms; the column arm has none"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            ab(frame, **arguments)


EVENTS = simulation.made_up_moments(devices=20, days=3, seed=3)
ARMS = {name: {"arms": {"A": {"p": 0.2}, "B": {"p": 0.8}}} for name in EVENTS["moment_id"].unique()}


def test_what_if_and_ab_say_that_stock_or_caps_were_the_limit() -> None:
    for rules, refused in (
        ({"rewards": [{"id": "a", "title": "A", "stock": 2}]}, r"9\d\.\d % .*because the stock was used up, so"),
        ({"rewards": [{"id": "a", "title": "A", "stock": 0}]}, "100.0 % .*because nothing was in stock, so"),
        ({"rewards": []}, "100.0 % .*because nothing was in stock, so"),
        ({"rewards": [{"id": "a", "title": "A", "stock": 40}]}, r"\d\.\d % .*because the stock was used up$"),
        ({"default": {"per_device_per_day": 0}}, r"100\.0 % .*stock or caps .*DEVICE_CAP\), so the arms can hardly"),
    ):
        with pytest.warns(UserWarning, match=refused.removesuffix(", so")) if "rewards" in rules else nullcontext():
            decided = simulation.simulate({"moments": ARMS, **rules}, EVENTS)
        with pytest.warns(UserWarning, match=refused):
            ab(decided, "rewarded")


def test_ab_warns_of_missing_values_and_units_in_both_arms() -> None:
    assert ab(simulation.simulate({"moments": ARMS}, EVENTS), "rewarded")["difference"][0] > 0  # without a warning
    for missing in (None, float("inf")):
        with pytest.warns(UserWarning, match="^visits: 1 of 600 values are missing, left out$"):
            ab(MANY_ROWS.assign(visits=MANY_ROWS["visits"].where(MANY_ROWS.index > 0, missing)), "visits")
    with pytest.warns(UserWarning, match="^20 units are in both arms A and B: assign each unit to one arm$"):
        ab(MANY_ROWS.assign(device=MANY_ROWS["device"] % 20), "visits")


# -- what-if -----------------------------------------------------------------------------------------------


RULES = {"moments": {"bought": {"p": 0.2}, "opend": {"p": 1}, "old": {"enabled": False}}}


@pytest.mark.parametrize(
    ("configuration", "moments", "expected"),
    [
        (RULES, None, {"bought": 0.5, "opend": 0.5}),
        (RULES, ["a", "b", "c", "d"], dict.fromkeys("abcd", 0.25)),
        (None, {"a": 3, "b": 1, "c": 0}, {"a": 0.75, "b": 0.25}),
        ({}, None, {"opened_app": 0.45, "finished_level": 0.3, "finished_5k_run": 0.15, "invited_friend": 0.1}),
    ],
)
def test_made_up_moments_are_those_of_any_app(configuration: Any, moments: Any, expected: dict[str, float]) -> None:
    events = simulation.made_up_moments(configuration, moments=moments, devices=50, days=20, seed=1)
    assert events["moment_id"].value_counts(normalize=True).to_dict() == pytest.approx(expected, abs=0.03)


def test_moments_to_make_up_are_checked() -> None:
    for moments in [[], {}, {"a": -1, "b": 3}, {"a": 0}, {"a": float("nan")}, ["a", ""], "abc"]:
        with pytest.raises(InvalidArgument):
            simulation.made_up_moments(moments=moments, devices=1, days=1)


def test_rule_report_says_what_it_could_not_find() -> None:
    decisions = pd.DataFrame({"moment_id": ["bought", "opened", "opened", "stray"], "test": [False, False, True, True]})
    table = analysis.rule_report(RULES, decisions).set_index("moment_id")
    assert table["problem"].fillna("").to_dict() == {
        "bought": "",
        "opend": "no app sends it: did you mean 'opened'?",
        "old": "no app sends it",
        "opened": "has only the default rules",
    }
    assert table["n"].tolist() == [1, 0, 0, 1]
    assert table["p"].tolist() == [0.2, 1, 0.3, 0.3]
    assert table["enabled"].tolist() == [True, True, False, True]
    assert analysis.rule_report({}, decisions.head(0)).dtypes.equals(table.reset_index().dtypes)


def test_clocks_that_go_back_give_no_second_reward() -> None:
    engine, device, spent = (
        Engine(Configuration.parse({"default": {"p": 1, "per_device_per_day": 9}})),
        DeviceState(),
        {},
    )
    times = [10**12, 10**12 - 3_600_000, 10**12 - 30_000, 10**12 + 61_000]
    moments = [Moment("app", "dev", f"m{at}", at, session_age_s=0) for at in times]
    reasons = [engine.decide(moment, device, spent).reason for moment in moments]
    assert reasons == ["REWARDED", "MIN_GAP", "MIN_GAP", "REWARDED"]


def test_simulation_repeats_and_follows_its_rules() -> None:
    assert EVENTS.equals(simulation.made_up_moments(devices=20, days=3, seed=3))
    assert EVENTS["at"].is_monotonic_increasing
    first = simulation.simulate({"default": {"p": 0.5}}, EVENTS)
    assert first.equals(simulation.simulate({"default": {"p": 0.5}}, EVENTS))
    none = simulation.simulate({"default": {"p": 0}}, EVENTS)
    assert (first["rewarded"].sum(), none["rewarded"].sum()) == (pytest.approx(60, abs=40), 0)
    refused = decision_frame([row("2026-03-28T22:10:00Z", reason="NO_SESSION", session_id=None)])
    assert list(simulation.simulate({"default": {"p": 1}}, refused)["reason"]) == ["NO_SESSION"], "once more"


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


def test_simulation_decides_in_order_of_time() -> None:
    times = ["2026-01-01T10:00:00+09:00", "2026-01-01T02:00:00+00:00"]  # the first is an hour earlier
    events = pd.DataFrame({"at": times, "device": "d", "moment_id": ["a", "b"]})
    decided = simulation.simulate({"default": {"p": 1, "per_device_per_day": 1}}, events)
    assert list(zip(decided["moment_id"], decided["reason"], strict=True)) == [("a", "REWARDED"), ("b", "DEVICE_CAP")]


SIMULATE = partial(simulation.simulate, {})


@pytest.mark.parametrize(
    ("functions", "columns", "message"),
    [
        ((SIMULATE,), {"at": pd.NaT}, "the column at must hold a time in every row"),
        ((SIMULATE,), {"at": "soon"}, "the column at must hold times"),
        ((SIMULATE,), {"at": 1_767_225_600}, "the column at must hold times"),
        ((SIMULATE,), {"test": "False"}, "the column test must be true or false in every row"),  # as a CSV file has it
        *(
            ((funnel, ab, analysis.rate_by_moment), {"rewarded": values}, "the column rewarded must be true or false")
            for values in ([True, None, 1, 1, 1], [float("nan"), 1, 1, 1, 1], list("yesno"), [2, 0, 0, 0, 0])
        ),
        ((funnel, ab, SIMULATE), {"device": [None, *"abcd"]}, "the column device must have a value in every row"),
        ((analysis.rate_by_moment, SIMULATE), {"moment_id": [None, *"abcd"]}, "the column moment_id must have a value"),
    ],
)
def test_column_of_invalid_values_is_refused(functions: tuple[Any, ...], columns: dict[str, Any], message: str) -> None:
    for function in functions:
        with pytest.raises(InvalidArgument, match=message):
            function(DECISIONS.assign(arm="A", **columns))


def test_simulation_takes_and_refuses_its_options() -> None:
    with pytest.raises(InvalidArgument, match="no column device"):
        simulation.simulate({}, EVENTS.drop(columns="device"))
    with pytest.raises(InvalidArgument, match="from 0 to 1"):
        simulation.simulate({}, EVENTS, shown=80)
    assert explain(simulation.simulate({}, EVENTS.head(1)))["rule"].iloc[0] == "session"
    with pytest.raises(InvalidArgument, match="has no trace"):
        explain(simulation.simulate({}, EVENTS.head(1), trace=False))
    counts = steps(funnel(simulation.simulate({}, EVENTS, shown=1.0, claimed=0.5)))
    assert counts["shown"] == counts["rewarded"]
    assert 0 < counts["claimed"] < counts["shown"]


def test_a_funnel_and_a_comparison_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    from matplotlib import pyplot

    decisions = pd.DataFrame({"device": list("abcd"), "rewarded": [True, False, True, True], "arm": list("xxyy")})
    funnel_axes = toolkit.rewards.plot(funnel(decisions))
    assert [label.get_text() for label in funnel_axes.get_yticklabels()] == ["moment", "rewarded"]
    _, mine = pyplot.subplots()
    assert toolkit.rewards.plot(toolkit.rewards.ab(decisions, "rewarded"), ax=mine) is mine
    assert [label.get_text() for label in mine.get_yticklabels()] == ["y - x"]
    for other in (decisions, funnel(decisions, by="arm")):
        with pytest.raises(InvalidArgument, match="result of funnel or ab"):
            toolkit.rewards.plot(other)
    pyplot.close("all")
