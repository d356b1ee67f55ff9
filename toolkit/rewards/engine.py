"""The engine: ordered rules, the first refusal stops, and each rule leaves a line in the trace.

The engine is a pure function of a moment, what is remembered of its device, and what was spent. The same code
decides in the gateway and in a what-if.
"""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from toolkit.keyed_noise import KeyedNoise
from toolkit.rewards.configuration import Configuration, Limits, MomentRules, RewardItem
from toolkit.rewards.device_state import DAY_MS, DeviceState

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

Details = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment, as the engine sees it.

    ``app`` and ``device`` are labels, not keys; ``at`` is milliseconds since the epoch; ``session_age_s`` is None
    where the device has no live session.
    """

    app: str
    device: str
    moment_id: str
    at: int
    test: bool = False
    session_age_s: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What the engine decided: the reason, the reward if there is one, the arm, and one trace line a rule."""

    reason: str
    reward: RewardItem | None
    message: str | None
    arm: str | None
    p: float | None
    trace: list[Details]

    @property
    def rewarded(self) -> bool:
        """Whether a reward was given."""
        return self.reward is not None

    @property
    def title(self) -> str | None:
        """The title to show; a test says that it is one."""
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
    """A moment before the rules: the moment, what applies to it, and what is known."""

    moment: Moment
    rules: MomentRules
    limits: Limits
    arm: str | None
    device: DeviceState
    spent: MutableMapping[str, int]
    configuration: Configuration
    reward: RewardItem | None = None


class Engine:
    """Decides moments by one configuration.

    Parameters
    ----------
    configuration
        The rules' settings.

    Examples
    --------
    >>> engine = Engine(Configuration.parse({"default": {"p": 1}}))
    >>> moment = Moment("app", "dev-1", "finished_5k_run", at=0, session_age_s=5.0)
    >>> engine.decide(moment, DeviceState(), {}).reason
    'REWARDED'
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def decide(self, moment: Moment, device: DeviceState, spent: MutableMapping[str, int]) -> Decision:
        """Walk the rules for one moment.

        Parameters
        ----------
        device
            What is remembered of the device; a draw or a reward is added to it.
        spent
            Units spent by reward id; a reward is added to it.
        """
        case = self._case(moment, device, spent)
        if moment.test:
            return self._test(case)
        device.forget_before(moment.at)
        trace: list[Details] = []
        for name, rule in RULES:
            refusal, details = rule(case)
            trace.append({"rule": name, "ok": refusal is None, **details})
            if refusal is not None:
                return Decision(refusal, None, None, case.arm, case.limits.p, trace)
        reward = case.reward
        assert reward is not None
        spent[reward.id] = spent.get(reward.id, 0) + 1
        device.rewards.append((moment.at, moment.moment_id))
        trace.append({"rule": "reserve", "ok": True, "reward": reward.id, "spent": spent[reward.id]})
        return Decision("REWARDED", reward, case.rules.message or reward.message, case.arm, case.limits.p, trace)

    def arm_of(self, moment: Moment) -> str | None:
        """Return the arm of the experiment that this moment falls in, or None where there is none."""
        arms = self.configuration.rules_for(moment.moment_id).arms
        if not arms:
            return None
        unit = [moment.device] if self.configuration.arms_by == "device" else [moment.device, str(moment.at)]
        # The arms' names are the experiment's name: a device is in the same arm at all moments that share them.
        number = draw(self.configuration.seed, "arm", *arms, moment.app, *unit)
        return _weighted([(arm, 1.0) for arm in arms], number)

    def _case(self, moment: Moment, device: DeviceState, spent: MutableMapping[str, int]) -> Case:
        rules = self.configuration.rules_for(moment.moment_id)
        arm = self.arm_of(moment) if rules.arms else None
        limits = rules if arm is None else rules.arms[arm]
        return Case(moment, rules, limits, arm, device, spent, self.configuration)

    def _test(self, case: Case) -> Decision:
        # A test never fails and never costs: neither a cap nor the stock is looked at or changed.
        items = case.configuration.rewards or Configuration().rewards
        reward = _chosen(case, list(items), 0)
        return Decision("TEST", reward, TEST_MESSAGE, case.arm, case.limits.p, [{"rule": "test", "ok": True}])


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
    given = [at for at, _ in case.device.rewards]
    return _cap("DEVICE_CAP", given, case.limits.per_device_per_day)


def _moment_cap(case: Case) -> Verdict:
    given = [at for at, moment in case.device.rewards if moment == case.moment.moment_id]
    return _cap("MOMENT_CAP", given, case.limits.per_moment_per_day)


def _cap(reason: str, given: list[int], limit: int) -> Verdict:
    details: Details = {"used": len(given), "limit": limit}
    if len(given) < limit:
        return None, details
    # The one that has to grow a day old before there is room; never where the limit is nought.
    details["frees_at"] = instant_text(given[-limit] + DAY_MS) if limit else None
    return reason, details


def _min_gap(case: Case) -> Verdict:
    needed = case.limits.min_gap_s
    if not case.device.rewards:
        return None, {"needed_s": needed}
    # Never below nought: the clocks of two gateways differ by a little.
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


def _chosen(case: Case, items: list[RewardItem], ordinal: int) -> RewardItem:
    moment = case.moment
    number = draw(case.configuration.seed, "reward", moment.app, moment.device, moment.moment_id, str(ordinal))
    return _weighted([(item, item.weight) for item in items], number)


def draw(seed: int, *parts: str) -> float:
    """Return the number in [0, 1) that belongs to these parts, in whatever order they are asked for.

    Examples
    --------
    >>> draw(7, "a", "b") == draw(7, "a", "b"), draw(7, "ab", "") == draw(7, "a", "b")
    (True, False)
    """
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


#: The rules in their fixed order: the name in the trace, and what judges a case.
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


def instant_text(at: int) -> str:
    """Write milliseconds since the epoch as ``2014-10-03T18:07:11Z``, whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // 1000))
