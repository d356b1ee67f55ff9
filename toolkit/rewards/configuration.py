"""What whoever runs the engine may set: one checked file, TOML or JSON.

::

    seed = 7
    session_minutes = 30
    default = {p = 0.3, per_device_per_day = 3, per_moment_per_day = 1, min_gap_s = 60}

    [moments.finished_5k_run]
    p = 0.5
    arms = {A = {p = 0.5}, B = {p = 0.7}}

    [[rewards]]
    id = "cold-drink"
    title = "A cold drink on us"
    stock = 1000
    weight = 2
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson

from toolkit.errors import InvalidArgument
from toolkit.rewards.checked_table import CheckedTable

DAY_SECONDS = 86_400
_MANY = 1_000_000_000
_MESSAGE = "You earned a reward."
_TOP = (
    "seed",
    "enabled",
    "session_minutes",
    "arms_by",
    "quiet_hours",
    "pacing",
    "default",
    "moments",
    "rewards",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How often one kind of moment is rewarded.

    Parameters
    ----------
    p
        Chance of a reward where no other rule refuses.
    per_device_per_day, per_moment_per_day
        Rewards of one device, and of one device for this moment, in any 24 hours.
    min_gap_s
        Seconds between two rewards of one device.
    """

    p: float = 0.3
    per_device_per_day: int = 3
    per_moment_per_day: int = 1
    min_gap_s: float = 60.0


@dataclass(frozen=True, slots=True)
class MomentRules:
    """What differs for one moment: its limits, its experiment's arms, its words."""

    limits: Limits
    enabled: bool = True
    arms: Mapping[str, Limits] = field(default_factory=dict)
    message: str | None = None


@dataclass(frozen=True, slots=True)
class RewardItem:
    """Something to give away: ``stock`` units, chosen as often as ``weight`` says."""

    id: str
    title: str
    stock: int
    weight: float = 1.0
    message: str = _MESSAGE


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A part of each day without rewards; it may pass midnight."""

    start: time
    end: time
    zone: ZoneInfo

    def covers(self, at: int) -> bool:
        """Whether these milliseconds since the epoch lie in the quiet part of the day."""
        now = datetime.fromtimestamp(at / 1000, self.zone).time()
        if self.start <= self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end


@dataclass(frozen=True, slots=True)
class Pacing:
    """A campaign (milliseconds since the epoch) over which the stock is spread, with some units of slack."""

    start: int
    end: int
    slack: int

    def allowed(self, stock: int, at: int) -> float:
        """Return how many units of `stock` may be spent by now."""
        elapsed = min(max((at - self.start) / (self.end - self.start), 0.0), 1.0)
        return stock * elapsed + self.slack


@dataclass(frozen=True, slots=True)
class Configuration:
    """The engine's settings, checked. Made by `load` or `parse`; changed with `dataclasses.replace`."""

    seed: int = 0
    enabled: bool = True
    session_minutes: float = 30.0
    arms_by: str = "device"
    quiet_hours: QuietHours | None = None
    pacing: Pacing | None = None
    default: Limits = Limits()
    moments: Mapping[str, MomentRules] = field(default_factory=dict)
    rewards: tuple[RewardItem, ...] = (RewardItem("reward", "A reward", 1_000),)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Configuration:
        """Read a ``.toml`` or ``.json`` file.

        Raises
        ------
        InvalidArgument
            It cannot be read, or holds an unknown key or a value that cannot be; the message names the place.
        """
        file = Path(path)
        try:
            data = file.read_bytes()
            table = tomllib.loads(data.decode("utf-8")) if file.suffix == ".toml" else orjson.loads(data)
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"the configuration {file.name} cannot be read: {error}") from None
        return cls.parse(table)

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> Configuration:
        """Check a configuration that is at hand as a table.

        Raises
        ------
        InvalidArgument
            An unknown key, with the nearest right name, or a value that cannot be.

        Examples
        --------
        >>> Configuration.parse({"default": {"p": 0.5}}).default.p
        0.5
        """
        top = CheckedTable(table, "", _TOP)
        default = _limits(top.raw("default", {}), "default", Limits())
        moments = CheckedTable(top.raw("moments", {}), "moments", None)
        return cls(
            seed=top.integer("seed", 0, 0, 2**63 - 1),
            enabled=top.flag("enabled", True),
            session_minutes=top.real("session_minutes", 30.0, 0.01, 60 * 24 * 30),
            arms_by=_one_of(top, "arms_by", ("device", "moment")),
            quiet_hours=_quiet_hours(top.raw("quiet_hours")),
            pacing=_pacing(top.raw("pacing")),
            default=default,
            moments={name: _moment(value, moments.path(name), default) for name, value in moments.items()},
            rewards=_rewards(top.raw("rewards")),
        )

    def rules_for(self, moment_id: str) -> MomentRules:
        """Return the rules of a moment; a name that is not configured has the default ones."""
        return self.moments.get(moment_id) or MomentRules(self.default)

    @property
    def stock(self) -> int:
        """All units of all rewards."""
        return sum(reward.stock for reward in self.rewards)

    def with_limits(self, **changes: float) -> Configuration:
        """Return the same configuration with other default limits, for a what-if.

        They replace the same settings of every moment and arm only where these have the old default's value.

        Examples
        --------
        >>> Configuration().with_limits(p=0.9).default.p
        0.9
        """
        default = replace(self.default, **changes)  # type: ignore[arg-type]

        def follow(limits: Limits) -> Limits:
            names = [name for name in changes if getattr(limits, name) == getattr(self.default, name)]
            return replace(limits, **{name: getattr(default, name) for name in names})

        moments = {
            name: replace(rules, limits=follow(rules.limits), arms={arm: follow(of) for arm, of in rules.arms.items()})
            for name, rules in self.moments.items()
        }
        return replace(self, default=default, moments=moments)


_LIMITS = tuple(field.name for field in fields(Limits))


def _limits(value: object, place: str, base: Limits, more: tuple[str, ...] = ()) -> Limits:
    table = CheckedTable(value, place, (*_LIMITS, *more))
    return Limits(
        p=table.real("p", base.p, 0, 1),
        per_device_per_day=table.integer("per_device_per_day", base.per_device_per_day, 0, 10_000),
        per_moment_per_day=table.integer("per_moment_per_day", base.per_moment_per_day, 0, 10_000),
        min_gap_s=table.real("min_gap_s", base.min_gap_s, 0, DAY_SECONDS),
    )


def _moment(value: object, place: str, default: Limits) -> MomentRules:
    limits = _limits(value, place, default, ("enabled", "arms", "message"))
    table = CheckedTable(value, place, None)
    arms = CheckedTable(table.raw("arms", {}), table.path("arms"), None)
    return MomentRules(
        limits,
        enabled=table.flag("enabled", True),
        arms={arm: _limits(of, arms.path(arm), limits) for arm, of in arms.items()},
        message=table.text("message") if "message" in table else None,
    )


def _rewards(value: object) -> tuple[RewardItem, ...]:
    if value is None:
        return Configuration().rewards
    if not isinstance(value, list):
        raise InvalidArgument("rewards must be a list of tables")
    items = tuple(_reward(item, f"rewards[{number}]") for number, item in enumerate(value))
    if len({item.id for item in items}) != len(items):
        raise InvalidArgument("rewards: every id must be there once")
    return items


def _reward(value: object, place: str) -> RewardItem:
    table = CheckedTable(value, place, ("id", "title", "message", "stock", "weight"))
    return RewardItem(
        id=table.text("id", longest=64),
        title=table.text("title", longest=200),
        stock=table.integer("stock", 1_000, 0, _MANY),
        weight=table.real("weight", 1.0, 1e-6, _MANY),
        message=table.text("message", _MESSAGE),
    )


def _quiet_hours(value: object) -> QuietHours | None:
    if value is None:
        return None
    table = CheckedTable(value, "quiet_hours", ("start", "end", "zone"))
    try:
        zone = ZoneInfo(table.text("zone", "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidArgument("quiet_hours.zone must be a time zone, as Europe/Berlin") from None
    return QuietHours(_time_of_day(table, "start"), _time_of_day(table, "end"), zone)


def _time_of_day(table: CheckedTable, key: str) -> time:
    value = table.raw(key)
    try:
        hour = value if isinstance(value, time) else time.fromisoformat(str(value))
    except ValueError:
        hour = None
    if hour is None or hour.tzinfo is not None:
        raise InvalidArgument(f"{table.path(key)} must be a time of the day without a zone, as 22:00")
    return hour


def _pacing(value: object) -> Pacing | None:
    if value is None:
        return None
    table = CheckedTable(value, "pacing", ("start", "end", "slack"))
    pacing = Pacing(table.instant("start"), table.instant("end"), table.integer("slack", 0, 0, _MANY))
    if pacing.end <= pacing.start:
        raise InvalidArgument("pacing.end must be after pacing.start")
    return pacing


def _one_of(table: CheckedTable, key: str, allowed: tuple[str, ...]) -> str:
    value = table.text(key, allowed[0])
    if value not in allowed:
        raise InvalidArgument(f"{table.path(key)} must be {' or '.join(allowed)}, not {value!r}")
    return value
