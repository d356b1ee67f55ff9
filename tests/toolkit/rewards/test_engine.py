"""Each rule with its reason and its trace; random draws; configuration."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pandas as pd
import pytest
from msgspec.structs import replace

from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis.explanation import SENTENCES, explain, sentence
from toolkit.rewards.analysis.simulation import simulate
from toolkit.rewards.configuration import Configuration, Limits
from toolkit.rewards.engine import DAY_MS, Decision, DeviceState, Engine, Moment, random_number
from toolkit.settings import checked
from toolkit_gateway.rewards.settings import Partner

NOON = 1_412_337_600_000  # 2014-10-03T12:00:00Z
OPEN = {"p": 1, "per_device_per_day": 100, "per_moment_per_day": 100, "min_gap_s": 0}


def decide(
    configuration: dict[str, Any], *, rewards: list[tuple[int, str]] | None = None, spent: int = 0, **moment: Any
) -> Decision:
    checked = Configuration.parse({"default": OPEN, **configuration})
    fields = {"app": "app", "device": "dev-1", "moment_id": "run", "at": NOON, "session_age_s": 5.0, **moment}
    return Engine(checked).decide(Moment(**fields), DeviceState(list(rewards or [])), {"reward": spent})


def ago(seconds: float, moment: str = "run") -> tuple[int, str]:
    return NOON - round(seconds * 1000), moment


CASES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("TEST", {"enabled": False}, {"test": True, "session_age_s": None}, {"rule": "test", "ok": True}),
    ("NO_SESSION", {}, {"session_age_s": None}, {"rule": "session", "ok": False, "lives_min": 30.0}),
    ("APP_DISABLED", {"enabled": False}, {}, {"rule": "enabled", "ok": False}),
    ("MOMENT_DISABLED", {"moments": {"run": {"enabled": False}}}, {}, {"rule": "enabled", "ok": False}),
    (
        "QUIET_PERIOD",
        {"quiet_hours": {"start": "11:00", "end": "13:00"}},
        {},
        {"rule": "quiet_period", "ok": False, "until": "13:00", "zone": "UTC"},
    ),
    (
        "DEVICE_CAP",
        {"default": {**OPEN, "per_device_per_day": 2}},
        {"rewards": [ago(7200, "a"), ago(3600, "b")]},
        {"rule": "device_cap", "ok": False, "used": 2, "limit": 2, "frees_at": "2014-10-04T10:00:00Z"},
    ),
    (
        "MOMENT_CAP",
        {"default": {**OPEN, "per_moment_per_day": 1}},
        {"rewards": [ago(7200), ago(3600, "other")]},
        {"rule": "moment_cap", "ok": False, "used": 1, "limit": 1, "frees_at": "2014-10-04T10:00:00Z"},
    ),
    (
        "MIN_GAP",
        {"default": {**OPEN, "min_gap_s": 60}},
        {"rewards": [ago(59.5)]},
        {"rule": "min_gap", "ok": False, "gap_s": 59.5, "needed_s": 60.0},
    ),
    (
        "PACING",
        {
            "rewards": [{"id": "reward", "title": "t", "stock": 10}],
            "pacing": {"start": "2014-10-03T00:00:00Z", "end": "2014-10-04T00:00:00Z"},
        },
        {"spent": 5},
        {"rule": "pacing", "ok": False, "spent": 5, "allowed": 5.0},
    ),
    (
        "NO_INVENTORY",
        {"rewards": [{"id": "reward", "title": "t", "stock": 3}]},
        {"spent": 3},
        {"rule": "inventory", "ok": False, "left": 0},
    ),
    ("DRAW", {"default": {**OPEN, "p": 0}}, {}, {"rule": "draw", "ok": False, "p": 0.0, "ordinal": 0}),
    ("REWARDED", {}, {}, {"rule": "reserve", "ok": True, "reward": "reward", "spent": 1}),
]


@pytest.mark.parametrize(("reason", "configuration", "given", "line"), CASES, ids=[case[0] for case in CASES])
def test_each_reason_with_its_line_in_the_trace(
    reason: str, configuration: dict[str, Any], given: dict[str, Any], line: dict[str, Any]
) -> None:
    decision = decide(configuration, **given)
    assert decision.reason == reason
    assert decision.rewarded == (reason in ("TEST", "REWARDED"))
    last = decision.trace[-1]
    assert {name: last[name] for name in line} == line
    assert all(earlier["ok"] for earlier in decision.trace[:-1])


def test_every_reason_has_a_case_and_a_sentence() -> None:
    assert [case[0] for case in CASES] == list(SENTENCES)
    for reason, configuration, given, _ in CASES:
        decision = decide(configuration, **given)
        row = {"reason": reason, "trace": decision.trace}
        assert sentence(row).endswith(".")
        table = explain(row)
        assert list(table["ok"])[:-1] == [True] * (len(table) - 1)
        assert table.attrs["sentence"] == sentence(row)


def test_caps_free_after_a_rolling_day() -> None:
    once = {"default": {**OPEN, "per_device_per_day": 1}}
    assert decide(once, rewards=[(NOON - DAY_MS, "run")]).reason == "REWARDED"
    assert decide(once, rewards=[(NOON - DAY_MS + 1, "run")]).reason == "DEVICE_CAP"
    decision = decide(CASES[5][1], **CASES[5][2])
    told = sentence({"reason": "DEVICE_CAP", "trace": decision.trace})
    assert told.startswith("Refused: this device already has 2 of 2 rewards in 24 hours; ")
    assert told.endswith("the next is possible on 04 October at 10:00 UTC.")
    never = decide({"default": {**OPEN, "per_device_per_day": 0}})
    assert "frees_at" not in never.trace[-1]
    assert sentence({"reason": "DEVICE_CAP", "trace": never.trace}).endswith("none is ever possible.")


def test_rules_are_walked_in_their_order() -> None:
    rules = "session enabled quiet_period device_cap moment_cap min_gap pacing inventory draw reserve"
    assert [line["rule"] for line in decide({}).trace] == rules.split()


def test_quiet_hours_pass_midnight_and_know_zones() -> None:
    for hours, refused in [
        ({"start": "22:00", "end": "07:00"}, False),
        ({"start": "22:00", "end": "12:01"}, True),
        ({"start": "12:00", "end": "12:00"}, False),
        ({"start": "14:00", "end": "15:00", "zone": "Europe/Berlin"}, True),
        ({"start": "12:00", "end": "13:00", "zone": "Europe/Berlin"}, False),
    ]:
        assert (decide({"quiet_hours": hours}).reason == "QUIET_PERIOD") == refused


def test_pacing_ignores_rewards_that_are_no_longer_configured() -> None:
    campaign = Engine(Configuration.parse({"default": OPEN, **CASES[8][1]}))
    moment = Moment("app", "dev-1", "run", NOON, session_age_s=0.0)
    assert campaign.decide(moment, DeviceState(), {"last year's": 5}).reason == "REWARDED"
    assert [decide(CASES[8][1], spent=spent).reason for spent in (4, 5, 6)] == ["REWARDED", "PACING", "PACING"]


def test_test_moment_spends_nothing() -> None:
    state, spent = DeviceState(), {"reward": 1000}
    moment = Moment("app", "dev-1", "run", NOON, test=True)
    decision = Engine(Configuration()).decide(moment, state, spent)
    assert decision.title == "[TEST] A reward"
    assert (state, spent) == (DeviceState(), {"reward": 1000})


# -- draws -------------------------------------------------------------------------------------------------


def test_share_of_wins_is_p() -> None:
    won = sum(random_number(7, "draw", "app", f"dev-{number}", "run", "0") < 0.3 for number in range(20_000))
    assert abs(won / 20_000 - 0.3) < 0.01


def test_random_numbers_depend_on_each_part() -> None:
    assert random_number(7, "a|b") != random_number(7, "a", "b")
    assert random_number(7, "a", "bc") != random_number(7, "ab", "c")
    assert random_number(7, "a", "") != random_number(7, "a")
    assert random_number(8, "a") != random_number(7, "a")


def test_call_order_is_irrelevant_without_shared_caps() -> None:
    engine = Engine(Configuration.parse({"default": {**OPEN, "p": 0.5}}))
    moments = [(f"dev-{d}", f"m-{m}") for d in range(20) for m in range(5) for _ in range(3)]

    def outcome(order: list[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
        states: dict[str, DeviceState] = {}
        found: dict[tuple[str, str], list[str]] = {}
        for device, name in order:
            moment = Moment("app", device, name, NOON, session_age_s=1.0)
            decision = engine.decide(moment, states.setdefault(device, DeviceState()), {})
            found.setdefault((device, name), []).append(decision.reason)
        return found

    assert outcome(moments) == outcome(sorted(moments, reverse=True))


def test_rewards_are_chosen_by_weight() -> None:
    items = [{"id": "a", "title": "A", "weight": 3}, {"id": "b", "title": "B", "weight": 1}]
    engine = Engine(Configuration.parse({"default": OPEN, "rewards": items}))
    moments = [Moment("app", f"dev-{number}", "run", NOON, session_age_s=1.0) for number in range(900)]
    chosen = [engine.decide(moment, DeviceState(), {}).reward for moment in moments]
    assert 0.7 < sum(item is not None and item.id == "a" for item in chosen) / 900 < 0.8


ARMS = {"moments": {"run": {"arms": {"A": {"p": 0}, "B": {"p": 1}}}}, "default": OPEN}


def arm_of(engine: Engine, moment: Moment) -> str | None:
    return engine.decide(moment, DeviceState(), {}).arm


def test_a_device_stays_in_its_arm() -> None:
    same = {"A": {"p": 0.1}, "B": {"p": 0.2}}
    engine = Engine(Configuration.parse({"moments": {**ARMS["moments"], "walk": {"arms": same}}}))
    for device in range(20):
        moments = [Moment("app", f"dev-{device}", name, NOON + at) for at in range(10) for name in ("run", "walk")]
        assert len({arm_of(engine, moment) for moment in moments}) == 1
    many = [arm_of(engine, Moment("app", f"dev-{number}", "run", NOON)) for number in range(1000)]
    assert 450 < many.count("A") < 550
    by_moment = Engine(Configuration.parse({**ARMS, "arms_by": "moment"}))
    assert {arm_of(by_moment, Moment("app", "dev-1", "run", NOON + at)) for at in range(50)} == {"A", "B"}


def test_an_arm_has_its_own_limits() -> None:
    engine = Engine(Configuration.parse(ARMS))
    for number in range(20):
        decision = engine.decide(Moment("app", f"dev-{number}", "run", NOON, session_age_s=1.0), DeviceState(), {})
        assert (decision.arm, decision.reason) in (("A", "DRAW"), ("B", "REWARDED"))


def test_rules_apply_to_a_name_in_any_unicode_form() -> None:
    composed, decomposed = "caf\xe9", "cafe\N{COMBINING ACUTE ACCENT}"
    for name in (composed, decomposed):
        events = pd.DataFrame({"at": "2026-02-01", "device": ["a", "b"], "moment_id": [composed, decomposed]})
        decided = simulate({"default": {"p": 0}, "moments": {name: {"p": 1}}}, events)
        assert decided["rewarded"].all()
        assert set(decided["moment_id"]) == {composed}


def test_impossible_company_token_is_refused() -> None:
    for token in ("", "a b", "\xe9", "-acme", "acme\n", "a" * 65):
        with pytest.raises(InvalidArgument, match="company_token: expected a text matching"):
            checked({"gatewaykey": "k", "company_token": token}, Partner)


def test_a_device_record_does_not_grow_without_bound() -> None:
    state = DeviceState()
    for number in range(1000):
        state.count_draw(f"m-{number}")
    assert len(state.draws) == 256
    assert msgspec.json.decode(msgspec.json.encode(state), type=DeviceState) == state


FEBRUARY = "2026-02-01T00:00:00Z"

# -- configuration -----------------------------------------------------------------------------------------


def test_a_configuration_is_refused_by_name() -> None:
    for table, message in [
        ({"sed": 7}, "sed: unknown key; did you mean seed? allowed: seed, enabled, session_minutes, arms_by, "),
        ({"moments": {"m": {"arms": {"A": {"pp": 1}}}}}, "moments.m.arms.A.pp: unknown key; did you mean p? allowed"),
        ({"xyz": 7}, "xyz: unknown key; allowed: seed, "),
        ({"default": {"p": 1.5}}, "default.p: expected a number <= 1.0, got 1.5"),
        ({"moments": {"m": {"arms": {"A": {"p": "x"}}}}}, "moments.m.arms.A.p: expected a number, got a text"),
        ({"seed": -1}, "seed: expected a whole number >= 0, got -1"),
        ({"arms_by": "hour"}, "arms_by: expected one of device, moment, got another text"),
        ({"quiet_hours": {"start": "22", "end": "x"}}, "quiet_hours.end: expected a time of the day without a zone"),
        ({"quiet_hours": {"start": "22:00", "end": "07:00", "zone": "Mars"}}, "quiet_hours.zone: expected a time zone"),
        ({"pacing": {"start": "2026-01-01T00:00:00", "end": FEBRUARY}}, "pacing.start: expected a time with date and"),
        ({"pacing": {"start": FEBRUARY, "end": FEBRUARY}}, "pacing.end: expected a time after start"),
        ({"rewards": [{"id": "a", "title": "A"}] * 2}, "rewards[1].id: the same as rewards[0].id"),
        ({"rewards": {"id": "a"}}, "rewards: expected a list, got a table"),
        ({"rewards": [{"id": "a"}]}, "rewards[0].title: this key is missing"),
        ({"moments": {"m": 7}}, "moments.m: expected a table, got a whole number"),
        ({"moments": {"caf\u00e9": {}, "cafe\u0301": {"p": 0}}}, "moments: two keys are the same moment_id in another"),
        (
            {"moments": {"a\nb": {}}},
            "the configuration: moment_id must have 1 to 128 characters, and no control characters",
        ),
    ]:
        with pytest.raises(InvalidArgument, match=re.escape(message)):
            Configuration.parse(table)


def test_limits_are_inherited_from_the_moment_and_the_default() -> None:
    moments = {"own": {"p": 0.3, "min_gap_s": 9}, "armed": {"min_gap_s": 5, "arms": {"A": {"p": 0.7}}}}
    rules = Configuration.parse({"moments": moments})
    assert rules.table()["moments"]["own"].keys() & rules.table()["default"].keys() == {"p", "min_gap_s"}
    assert Configuration.parse(rules.table()) == rules
    # A what-if changes the default; `own` keeps its p, although the default had the same value.
    what_if = replace(rules, default=Limits(p=0.5, min_gap_s=1))
    engine = Engine(what_if)
    expected = {"own": (0.3, 9), "armed": (0.7, 5), "other": (0.5, 1)}
    for moment_id, (p, min_gap_s) in expected.items():
        decision = engine.decide(Moment("", "d", moment_id, NOON, session_age_s=0.0), DeviceState(), {})
        gap = next(line for line in decision.trace if line["rule"] == "min_gap")
        assert (decision.p, gap["needed_s"]) == (p, min_gap_s)
