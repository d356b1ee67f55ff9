"""The rules of the reward engine: caps, stock, moments, arms. `toolkit config example` shows every key."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import force_setattr, replace

from toolkit.errors import InvalidArgument
from toolkit.rewards.wire import checked_moment_id
from toolkit.settings import Table, Text, TimeOfDay, check_unique, checked

Share = Annotated[float, Meta(ge=0, le=1)]
PerDay = Annotated[int, Meta(ge=0, le=10_000)]
Gap = Annotated[float, Meta(ge=0, le=86_400)]
Units = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class Limits(Table, frozen=True):
    """How often moments with one moment_id are rewarded."""

    #: Probability of a reward if no other rule refuses.
    p: Share = 0.3
    #: The most rewards in any 24 hours: for one device, and for one device and one moment_id.
    per_device_per_day: PerDay = 3
    per_moment_per_day: PerDay = 1
    #: The shortest time between two rewards of one device, in seconds.
    min_gap_s: Gap = 60.0


class OwnLimits(Table, frozen=True):
    """The limits that a moment or an arm sets itself; it inherits the others."""

    p: Share | UnsetType = UNSET
    per_device_per_day: PerDay | UnsetType = UNSET
    per_moment_per_day: PerDay | UnsetType = UNSET
    min_gap_s: Gap | UnsetType = UNSET

    def over(self, inherited: Limits) -> Limits:
        """Return the limits that apply: those that are set here, and the inherited ones for the rest."""
        own = {name: getattr(self, name) for name in Limits.__struct_fields__}
        return replace(inherited, **{name: value for name, value in own.items() if value is not UNSET})


class MomentRules(OwnLimits, frozen=True):
    """The settings of one moment_id: limits, limits of each arm of an experiment, message."""

    enabled: bool = True
    arms: dict[str, OwnLimits] = {}
    message: Text | None = None


class RewardItem(Table, frozen=True):
    """A reward with ``stock`` units; the engine chooses among rewards in proportion to ``weight``."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    title: Annotated[str, Meta(min_length=1, max_length=200)]
    stock: Units = 1_000
    weight: Annotated[float, Meta(ge=1e-6, le=1e9)] = 1.0
    message: Text = "You earned a reward."


class QuietHours(Table, frozen=True):
    """A part of each day without rewards; it may include midnight."""

    start: TimeOfDay
    end: TimeOfDay
    zone: ZoneInfo = msgspec.field(default_factory=lambda: ZoneInfo("UTC"))

    def covers(self, at: int) -> bool:
        now = datetime.fromtimestamp(at / 1000, self.zone).time()
        if self.start <= self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end


class Pacing(Table, frozen=True):
    """Spreads the stock evenly over a campaign; ``slack`` units may be given earlier than planned."""

    start: Annotated[datetime, Meta(tz=True)]
    end: Annotated[datetime, Meta(tz=True)]
    slack: Units = 0

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise InvalidArgument("end: expected a time after start")

    def allowed(self, stock: int, at: int) -> float:
        """Return how many units of `stock` may be given until `at` (milliseconds since the epoch)."""
        elapsed = (datetime.fromtimestamp(at / 1000, UTC) - self.start) / (self.end - self.start)
        return stock * min(max(elapsed, 0.0), 1.0) + self.slack


class Configuration(Table, frozen=True):
    """The engine's settings, checked. Made by `parse`; `msgspec.structs.replace` returns a changed copy."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    enabled: bool = True
    session_minutes: Annotated[float, Meta(ge=0.01, le=60 * 24 * 30)] = 30.0
    arms_by: Literal["device", "moment"] = "device"
    quiet_hours: QuietHours | None = None
    pacing: Pacing | None = None
    default: Limits = Limits()
    moments: dict[str, MomentRules] = {}
    rewards: tuple[RewardItem, ...] = (RewardItem("reward", "A reward"),)

    def __post_init__(self) -> None:
        check_unique("rewards", self.rewards, "id")
        moments = {checked_moment_id(name): rules for name, rules in self.moments.items()}
        if len(moments) < len(self.moments):
            raise InvalidArgument("moments: two keys are the same moment_id in another Unicode form")
        force_setattr(self, "moments", moments)

    @classmethod
    def parse(cls, table: Mapping[str, Any] | Self) -> Self:
        """Convert a table to a configuration; InvalidArgument names an unknown key or a wrong value."""
        return checked(table, cls)

    def table(self) -> dict[str, Any]:
        """Return the configuration as a table for `parse`, with JSON values only."""
        table: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return table

    @property
    def stock(self) -> int:
        return sum(reward.stock for reward in self.rewards)
