"""The engine applies rules in a fixed order until one refuses; each rule adds a line to the trace.

The gateway and the simulation use the same engine.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

import msgspec

from toolkit.rewards.configuration import Configuration, Limits, MomentRules, RewardItem

DAY_MS = 86_400_000
# The largest number of moment ids in the record of a device, which keeps the record small. The id whose last draw is
# the oldest is deleted, and its next draw counts as the first again.
_MAX_MOMENT_IDS = 256
#: The rules of a moment id that the configuration does not name.
_DEFAULT_RULES = MomentRules()

Details = dict[str, Any]
#: The name of a rule, the reason if the rule refuses (otherwise None), and the numbers that the rule compared.
Check = tuple[str, str | None, Details]
T = TypeVar("T")


class DeviceState(msgspec.Struct, array_like=True):
    """The stored state of one device of one app."""

    #: The rewards of the last 24 hours as (milliseconds since the epoch, moment id), oldest first.
    rewards: list[tuple[int, str]] = []
    #: How many draws each moment id has had.
    draws: dict[str, int] = {}

    def forget_old_rewards(self, now: int) -> None:
        while self.rewards and self.rewards[0][0] <= now - DAY_MS:
            del self.rewards[0]

    def count_draw(self, moment_id: str) -> int:
        """Return the number of earlier draws for this moment id, and count one more."""
        ordinal = self.draws.pop(moment_id, 0)
        self.draws[moment_id] = ordinal + 1
        if len(self.draws) > _MAX_MOMENT_IDS:
            del self.draws[next(iter(self.draws))]
        return ordinal


# A msgspec Struct is created five times as fast as a dataclass, and a simulation creates thousands of moments.
class Moment(msgspec.Struct, frozen=True):
    """One moment. The gateway hashes ``app`` and ``device``; ``at`` is in milliseconds since the epoch."""

    app: str
    device: str
    moment_id: str
    at: int
    test: bool = False
    #: None if the device has no live session.
    session_age_s: float | None = None


class Decision(msgspec.Struct, frozen=True):
    reason: str
    reward: RewardItem | None
    message: str | None
    arm: str | None
    #: The probability of a reward.
    p: float | None
    #: One line for each rule that was checked, in order.
    trace: list[Details]

    @property
    def rewarded(self) -> bool:
        return self.reward is not None

    @property
    def title(self) -> str | None:
        if self.reward is None:
            return None
        return ("[TEST] " if self.reason == "TEST" else "") + self.reward.title


def record_of(decision_id: str, moment: Moment, session_id: str | None, decision: Decision) -> dict[str, Any]:
    """Return a decision, without the trace, as the record that the gateway stores and the analysis reads."""
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
    }


class Engine:
    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        # The limits of the moment ids that the configuration names, with and without an arm (None).
        self._limits: dict[tuple[str, str | None], Limits] = {}
        for name, rules in configuration.moments.items():
            limits = self._limits[name, None] = rules.over(configuration.default)
            self._limits |= {(name, arm): own.over(limits) for arm, own in rules.arms.items()}

    def decide(self, moment: Moment, device: DeviceState, spent: MutableMapping[str, int]) -> Decision:
        """Apply the rules; count draws and rewards in `device`, and given units in `spent` (by reward id)."""
        rules = self.configuration.moments.get(moment.moment_id, _DEFAULT_RULES)
        arm = self._arm_of(moment, rules.arms)
        limits = self._limits.get((moment.moment_id, arm), self.configuration.default)
        if moment.test:
            # A test is always rewarded; it neither checks nor changes caps and stock.
            reward = self._choose_reward(moment, self.configuration.rewards or Configuration().rewards, 0)
            return Decision("TEST", reward, "This is a test reward.", arm, limits.p, [{"rule": "test", "ok": True}])
        device.forget_old_rewards(moment.at)
        trace = []
        for rule, refusal, details in self._check_rules(moment, rules, limits, device, spent):
            trace.append({"rule": rule, "ok": refusal is None, **details})
            if refusal is not None:
                return Decision(refusal, None, None, arm, limits.p, trace)
        in_stock = [item for item in self.configuration.rewards if spent.get(item.id, 0) < item.stock]
        reward = self._choose_reward(moment, in_stock, details["ordinal"])  # `details` is of the draw, the last rule
        spent[reward.id] = spent.get(reward.id, 0) + 1
        device.rewards.append((moment.at, moment.moment_id))
        trace.append({"rule": "reserve", "ok": True, "reward": reward.id, "spent": spent[reward.id]})
        return Decision("REWARDED", reward, rules.message or reward.message, arm, limits.p, trace)

    def _check_rules(
        self, moment: Moment, rules: MomentRules, limits: Limits, device: DeviceState, spent: Mapping[str, int]
    ) -> Iterator[Check]:
        """Check the rules in order; the caller stops at the first refusal."""
        settings = self.configuration
        if moment.session_age_s is None:
            yield "session", "NO_SESSION", {"lives_min": settings.session_minutes}
        yield "session", None, {"age_s": moment.session_age_s}

        if not settings.enabled:
            yield "enabled", "APP_DISABLED", {}
        yield "enabled", None if rules.enabled else "MOMENT_DISABLED", {}

        hours = settings.quiet_hours
        if hours is not None and hours.covers(moment.at):
            yield "quiet_period", "QUIET_PERIOD", {"until": hours.end.isoformat("minutes"), "zone": hours.zone.key}
        yield "quiet_period", None, {}

        reward_times = [at for at, _ in device.rewards]
        yield "device_cap", *_cap_result("DEVICE_CAP", reward_times, limits.per_device_per_day)
        reward_times = [at for at, moment_id in device.rewards if moment_id == moment.moment_id]
        yield "moment_cap", *_cap_result("MOMENT_CAP", reward_times, limits.per_moment_per_day)

        needed = limits.min_gap_s
        if device.rewards:
            # At least zero: if the clocks of two gateways differ, the last reward may be in the future.
            gap = max(moment.at - device.rewards[-1][0], 0) / 1000
            yield "min_gap", "MIN_GAP" if gap < needed else None, {"gap_s": gap, "needed_s": needed}
        else:
            yield "min_gap", None, {"needed_s": needed}

        if settings.pacing is None:
            yield "pacing", None, {}
        else:
            # The plan must also allow the unit that this moment would get.
            # Without the units of rewards that the configuration no longer has: they belong to an earlier campaign.
            spent_units = sum(spent.get(item.id, 0) for item in settings.rewards)
            allowed = settings.pacing.allowed(settings.stock, moment.at)
            refusal = None if spent_units + 1 <= allowed else "PACING"
            yield "pacing", refusal, {"spent": spent_units, "allowed": round(allowed, 3)}

        units_left = sum(max(item.stock - spent.get(item.id, 0), 0) for item in settings.rewards)
        yield "inventory", None if units_left else "NO_INVENTORY", {"left": units_left}

        ordinal = device.count_draw(moment.moment_id)
        number = self._random_number("draw", moment, ordinal)
        yield "draw", None if number < limits.p else "DRAW", {"u": round(number, 6), "p": limits.p, "ordinal": ordinal}

    def _choose_reward(self, moment: Moment, items: Sequence[RewardItem], ordinal: int) -> RewardItem:
        return _weighted_choice([(item, item.weight) for item in items], self._random_number("reward", moment, ordinal))

    def _random_number(self, purpose: str, moment: Moment, ordinal: int) -> float:
        parts = (moment.app, moment.device, moment.moment_id, str(ordinal))
        return random_number(self.configuration.seed, purpose, *parts)

    def _arm_of(self, moment: Moment, arms: Mapping[str, object]) -> str | None:
        if not arms:
            return None
        assignment_unit = [moment.device] if self.configuration.arms_by == "device" else [moment.device, str(moment.at)]
        # The names of the arms identify the experiment: moments with the same arms put a device in the same arm.
        number = random_number(self.configuration.seed, "arm", *arms, moment.app, *assignment_unit)
        return _weighted_choice([(arm, 1.0) for arm in arms], number)


def _cap_result(reason: str, reward_times: list[int], limit: int) -> tuple[str | None, Details]:
    details: Details = {"used": len(reward_times), "limit": limit}
    if len(reward_times) < limit:
        return None, details
    if limit:  # a limit of zero never allows a reward
        # The cap allows the next reward a day after the reward at index -limit.
        frees_at = time.gmtime((reward_times[-limit] + DAY_MS) // 1000)
        details["frees_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", frees_at)
    return reason, details


def random_number(seed: int, *parts: str) -> float:
    """Return a pseudorandom number in [0, 1) that depends only on the seed and the parts."""
    # The lengths are included, so that ("ab",) and ("a", "b") give different numbers.
    text = f"{seed}\0" + "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


def _weighted_choice(choices: Sequence[tuple[T, float]], number: float) -> T:
    """Return the choice for a random `number` in [0, 1); the probability of a choice is proportional to the weight."""
    remaining = number * sum(weight for _, weight in choices)
    for choice, weight in choices:
        remaining -= weight
        if remaining < 0:
            return choice
    return choices[-1][0]
