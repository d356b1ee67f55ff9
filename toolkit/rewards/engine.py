"""The engine: ordered rules, the first refusal stops, and each rule leaves a line in the trace.

The same code decides in the gateway and in a simulation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from toolkit.keyed_noise import KeyedNoise
from toolkit.rewards.configuration import Configuration, Limits, MomentRules, RewardItem

#: Every reason there is, in the order of the rules.
REASONS = (
    "TEST",
    "NO_SESSION",
    "APP_DISABLED",
    "MOMENT_DISABLED",
    "QUIET_PERIOD",
    "DEVICE_CAP",
    "MOMENT_CAP",
    "MIN_GAP",
    "PACING",
    "NO_INVENTORY",
    "DRAW",
    "REWARDED",
)
TEST_MESSAGE = "This is a test reward."
TEST_TITLE = "[TEST] "

DAY_MS = 86_400_000
# A caller that invents a name for every moment must not grow a device's record without bound; a name that was
# forgotten draws its first number again.
_NAMES_KEPT = 256

Details = dict[str, Any]
T = TypeVar("T")


class Session(NamedTuple):
    """A live session: its id, when it started and when it was last called (milliseconds since the epoch)."""

    id: str
    start: int
    last: int

    def age_s(self, at: int) -> float:
        return max(at - self.start, 0) / 1000


class DeviceState(msgspec.Struct, array_like=True):
    """What is remembered of one device of one app."""

    #: Those of the last day as (milliseconds, moment), oldest first.
    rewards: list[tuple[int, str]] = []
    draws: dict[str, int] = {}

    def forget_before(self, at: int) -> None:
        while self.rewards and self.rewards[0][0] <= at - DAY_MS:
            del self.rewards[0]

    def next_draw(self, moment_id: str) -> int:
        """Return the ordinal of this draw of this moment, 0 for the first, and count it."""
        ordinal = self.draws.pop(moment_id, 0)
        self.draws[moment_id] = ordinal + 1
        if len(self.draws) > _NAMES_KEPT:
            del self.draws[next(iter(self.draws))]
        return ordinal


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment; ``app`` and ``device`` are labels, ``at`` is in milliseconds since the epoch."""

    app: str
    device: str
    moment_id: str
    at: int
    test: bool = False
    #: None where the device has no live session.
    session_age_s: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    reason: str
    reward: RewardItem | None
    message: str | None
    arm: str | None
    p: float | None
    trace: list[Details]

    @property
    def rewarded(self) -> bool:
        return self.reward is not None

    @property
    def title(self) -> str | None:
        if self.reward is None:
            return None
        return (TEST_TITLE if self.reason == "TEST" else "") + self.reward.title


def record_of(decision_id: str, moment: Moment, session_id: str | None, decision: Decision) -> dict[str, Any]:
    """Return a decision as the record that the gateway keeps and the analysis reads."""
    return {
        "decision_id": decision_id,
        "at": moment.at,
        "app_key_sha256": moment.app,
        "device": moment.device,
        "session_id": session_id,
        "moment_id": moment.moment_id,
        "test": moment.test,
        "rewarded": decision.rewarded,
        "reason": decision.reason,
        "arm": decision.arm,
        "p": decision.p,
        "reward_id": None if decision.reward is None else decision.reward.id,
        "trace": decision.trace,
    }


@dataclass(slots=True)
class Case:
    """What a rule looks at; the draw sets the reward."""

    moment: Moment
    rules: MomentRules
    limits: Limits
    device: DeviceState
    spent: MutableMapping[str, int]
    configuration: Configuration
    reward: RewardItem | None = None


class Engine:
    """Decides moments by one configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def decide(self, moment: Moment, device: DeviceState, spent: MutableMapping[str, int]) -> Decision:
        """Walk the rules; a draw or a reward is added to `device`, a reward to the units `spent` by its id."""
        rules, arm = self.configuration.rules_for(moment.moment_id), self.arm_of(moment)
        limits = rules if arm is None else rules.arms[arm]
        case = Case(moment, rules, limits, device, spent, self.configuration)
        if moment.test:
            # A test never fails and never costs: neither a cap nor the stock is looked at or changed.
            reward = _chosen(case, self.configuration.rewards or Configuration().rewards, 0)
            return Decision("TEST", reward, TEST_MESSAGE, arm, limits.p, [{"rule": "test", "ok": True}])
        device.forget_before(moment.at)
        trace: list[Details] = []
        for name, rule in RULES:
            refusal, details = rule(case)
            trace.append({"rule": name, "ok": refusal is None, **details})
            if refusal is not None:
                return Decision(refusal, None, None, arm, limits.p, trace)
        assert case.reward is not None
        reward = case.reward
        spent[reward.id] = spent.get(reward.id, 0) + 1
        device.rewards.append((moment.at, moment.moment_id))
        trace.append({"rule": "reserve", "ok": True, "reward": reward.id, "spent": spent[reward.id]})
        return Decision("REWARDED", reward, rules.message or reward.message, arm, limits.p, trace)

    def arm_of(self, moment: Moment) -> str | None:
        arms = self.configuration.rules_for(moment.moment_id).arms
        if not arms:
            return None
        unit = [moment.device] if self.configuration.arms_by == "device" else [moment.device, str(moment.at)]
        # The arms' names are the experiment's name: a device is in the same arm at all moments that share them.
        number = draw(self.configuration.seed, "arm", *arms, moment.app, *unit)
        return _weighted([(arm, 1.0) for arm in arms], number)


Verdict = tuple[str | None, Details]


def _session(case: Case) -> Verdict:
    age = case.moment.session_age_s
    if age is None:
        return "NO_SESSION", {"lives_min": case.configuration.session_minutes}
    return None, {"age_s": age}


def _enabled(case: Case) -> Verdict:
    if not case.configuration.enabled:
        return "APP_DISABLED", {}
    return (None if case.rules.enabled else "MOMENT_DISABLED"), {}


def _quiet_period(case: Case) -> Verdict:
    hours = case.configuration.quiet_hours
    if hours is None or not hours.covers(case.moment.at):
        return None, {}
    return "QUIET_PERIOD", {"until": hours.end.isoformat("minutes"), "zone": hours.zone.key}


def _device_cap(case: Case) -> Verdict:
    return _cap("DEVICE_CAP", [at for at, _ in case.device.rewards], case.limits.per_device_per_day)


def _moment_cap(case: Case) -> Verdict:
    given = [at for at, moment in case.device.rewards if moment == case.moment.moment_id]
    return _cap("MOMENT_CAP", given, case.limits.per_moment_per_day)


def _cap(reason: str, given: list[int], limit: int) -> Verdict:
    details: Details = {"used": len(given), "limit": limit}
    if len(given) < limit:
        return None, details
    # The one that has to grow a day old before there is room; never where the limit is zero.
    frees_at = time.gmtime((given[-limit] + DAY_MS) // 1000) if limit else None
    return reason, {**details, "frees_at": frees_at and time.strftime("%Y-%m-%dT%H:%M:%SZ", frees_at)}


def _min_gap(case: Case) -> Verdict:
    needed = case.limits.min_gap_s
    if not case.device.rewards:
        return None, {"needed_s": needed}
    # Never below zero: the clocks of two gateways differ by a little.
    gap = max(case.moment.at - case.device.rewards[-1][0], 0) / 1000
    return ("MIN_GAP" if gap < needed else None), {"gap_s": gap, "needed_s": needed}


def _pacing(case: Case) -> Verdict:
    pacing = case.configuration.pacing
    if pacing is None:
        return None, {}
    spent, allowed = sum(case.spent.values()), pacing.allowed(case.configuration.stock, case.moment.at)
    # The next unit must still be within what has been released: the spending never runs ahead of the plan.
    return (None if spent + 1 <= allowed else "PACING"), {"spent": spent, "allowed": round(allowed, 3)}


def _inventory(case: Case) -> Verdict:
    left = sum(max(item.stock - case.spent.get(item.id, 0), 0) for item in case.configuration.rewards)
    return (None if left else "NO_INVENTORY"), {"left": left}


def _draw(case: Case) -> Verdict:
    moment, p = case.moment, case.limits.p
    ordinal = case.device.next_draw(moment.moment_id)
    number = draw(case.configuration.seed, "draw", moment.app, moment.device, moment.moment_id, str(ordinal))
    if number < p:
        items = [item for item in case.configuration.rewards if case.spent.get(item.id, 0) < item.stock]
        case.reward = _chosen(case, items, ordinal)
    return (None if number < p else "DRAW"), {"u": round(number, 6), "p": p, "ordinal": ordinal}


def _chosen(case: Case, items: Sequence[RewardItem], ordinal: int) -> RewardItem:
    moment = case.moment
    number = draw(case.configuration.seed, "reward", moment.app, moment.device, moment.moment_id, str(ordinal))
    return _weighted([(item, item.weight) for item in items], number)


def draw(seed: int, *parts: str) -> float:
    """Return the number in [0, 1) that belongs to these parts."""
    # With their lengths, or ("a|b",) and ("a", "b") would draw the same number.
    return KeyedNoise(str(seed)).number("".join(f"{len(part)}:{part}" for part in parts))


def _weighted(choices: Sequence[tuple[T, float]], number: float) -> T:
    """Return the choice at `number` (0 to 1) of the way through the weights laid end to end."""
    target = number * sum(weight for _, weight in choices)
    for choice, weight in choices:
        target -= weight
        if target < 0:
            return choice
    return choices[-1][0]


#: The rules in their fixed order: the name in the trace, and what evaluates a case.
RULES: tuple[tuple[str, Callable[[Case], Verdict]], ...] = (
    ("session", _session),
    ("enabled", _enabled),
    ("quiet_period", _quiet_period),
    ("device_cap", _device_cap),
    ("moment_cap", _moment_cap),
    ("min_gap", _min_gap),
    ("pacing", _pacing),
    ("inventory", _inventory),
    ("draw", _draw),
)
