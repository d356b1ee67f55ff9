"""The settings of the reward engine: one checked file, TOML or JSON. ``data/demo_world.json`` holds an example."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, replace

from toolkit.errors import InvalidArgument
from toolkit.secret import Secret

T = TypeVar("T")

_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)

Share = Annotated[float, Meta(ge=0, le=1)]
ADay = Annotated[int, Meta(ge=0, le=10_000)]
Units = Annotated[int, Meta(ge=0, le=1_000_000_000)]
LimitsT = TypeVar("LimitsT", bound="Limits")
Text = Annotated[str, Meta(min_length=1, max_length=500)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a configuration; its fields are the keys."""


class TimeOfDay(time):
    """A time without a zone, written as ``22:00`` or ``22:00:00``."""


class Limits(Table, frozen=True):
    """How often one kind of moment is rewarded."""

    #: Chance of a reward where no other rule refuses.
    p: Share = 0.3
    #: Rewards of one device, and of one device for this moment, in any 24 hours.
    per_device_per_day: ADay = 3
    per_moment_per_day: ADay = 1
    #: Seconds between two rewards of one device.
    min_gap_s: Annotated[float, Meta(ge=0, le=86_400)] = 60.0


class MomentRules(Limits, frozen=True):
    """What differs for one moment: its limits, the arms of its experiment, its message."""

    enabled: bool = True
    arms: dict[str, Limits] = {}
    message: Text | None = None


class RewardItem(Table, frozen=True):
    """Something to give away: ``stock`` units, chosen as often as ``weight`` says."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    title: Annotated[str, Meta(min_length=1, max_length=200)]
    stock: Units = 1_000
    weight: Annotated[float, Meta(ge=1e-6, le=1e9)] = 1.0
    message: Text = "You earned a reward."


class QuietHours(Table, frozen=True):
    """A part of each day without rewards; it may pass midnight."""

    start: TimeOfDay
    end: TimeOfDay
    zone: ZoneInfo = msgspec.field(default_factory=lambda: ZoneInfo("UTC"))

    def covers(self, at: int) -> bool:
        now = datetime.fromtimestamp(at / 1000, self.zone).time()
        if self.start <= self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end


class Pacing(Table, frozen=True):
    """A campaign over which the stock is spread, with some units of slack."""

    start: Annotated[datetime, Meta(tz=True)]
    end: Annotated[datetime, Meta(tz=True)]
    slack: Units = 0

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise ValueError("end must be after start")

    def allowed(self, stock: int, at: int) -> float:
        """Return how many units of `stock` may be spent by `at` (milliseconds since the epoch)."""
        elapsed = (datetime.fromtimestamp(at / 1000, UTC) - self.start) / (self.end - self.start)
        return stock * min(max(elapsed, 0.0), 1.0) + self.slack


class Configuration(Table, frozen=True):
    """The engine's settings, checked. Made by `load` or `parse`; changed with `msgspec.structs.replace`."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    enabled: bool = True
    session_minutes: Annotated[float, Meta(ge=0.01, le=60 * 24 * 30)] = 30.0
    arms_by: Annotated[str, Meta(pattern="^(device|moment)$")] = "device"
    quiet_hours: QuietHours | None = None
    pacing: Pacing | None = None
    default: Limits = Limits()
    moments: dict[str, MomentRules] = {}
    rewards: tuple[RewardItem, ...] = (RewardItem("reward", "A reward"),)

    def __post_init__(self) -> None:
        if len({item.id for item in self.rewards}) != len(self.rewards):
            raise ValueError("rewards: every id must be unique")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Configuration:
        """Read a ``.toml`` or ``.json`` file; InvalidArgument also where it cannot be read."""
        file = Path(path)
        try:
            data = file.read_bytes()
            table = tomllib.loads(data.decode("utf-8")) if file.suffix == ".toml" else msgspec.json.decode(data)
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidArgument(f"the configuration {file.name} cannot be read: {error}") from None
        return cls.parse(table)

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> Configuration:
        """Check a configuration given as a table; InvalidArgument names an unknown key or a wrong value.

        A moment inherits the default limits, an arm those of its moment.
        """
        top = checked(table, dict[str, Any])
        moments = checked(top.pop("moments", {}), dict[str, Any], "moments")
        rules = checked(top, cls)
        return replace(rules, moments={name: _moment(moments[name], name, rules.default) for name in moments})

    def table(self) -> dict[str, Any]:
        """Return the configuration as a table that `parse` reads, of values that JSON has too."""
        table: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return table

    def rules_for(self, moment_id: str) -> MomentRules:
        return self.moments.get(moment_id) or MomentRules(**asdict(self.default))

    @property
    def stock(self) -> int:
        return sum(reward.stock for reward in self.rewards)

    def with_limits(self, **changes: float) -> Configuration:
        """Return the configuration with other default limits, also for moments and arms that have the old ones."""
        default = replace(self.default, **changes)

        def follow(limits: LimitsT) -> LimitsT:
            names = [name for name in changes if getattr(limits, name) == getattr(self.default, name)]
            return replace(limits, **{name: getattr(default, name) for name in names})

        moments = {
            name: replace(follow(rules), arms={arm: follow(limits) for arm, limits in rules.arms.items()})
            for name, rules in self.moments.items()
        }
        return replace(self, default=default, moments=moments)


def _moment(value: object, name: str, default: Limits) -> MomentRules:
    place = f"moments.{name}"
    own = checked(value, dict[str, Any], place)
    arms = checked(own.pop("arms", {}), dict[str, Any], f"{place}.arms")
    rules = checked({**asdict(default), **own}, MomentRules, place)
    inherited = {key: getattr(rules, key) for key in Limits.__struct_fields__}
    limits = {}
    for arm, given in arms.items():
        changes = checked(given, dict[str, Any], f"{place}.arms.{arm}")
        limits[arm] = checked({**inherited, **changes}, Limits, f"{place}.arms.{arm}")
    return replace(rules, arms=limits)


def checked(value: object, kind: type[T], place: str = "") -> T:
    """Convert what a file holds at `place` (``moments.run``; empty for the whole file) and refuse unknown keys.

    The message names the key and what is allowed, never the value, as it may be a secret.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=_parsed)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
    where = (place + path.rstrip("`")).removeprefix(".")
    if unknown := _UNKNOWN_KEY.fullmatch(what):
        key = unknown[1]
        near = difflib.get_close_matches(key, set(_keys(Table)), n=1, cutoff=0.5)
        hint = f": did you mean {near[0]}?" if near else ""
        raise InvalidArgument(f"unknown key {where}{'.' if where else ''}{key}{hint}")
    raise InvalidArgument(f"{where or 'the configuration'}: {what[0].lower()}{what[1:]}")


def _keys(table: type[Table]) -> Iterator[str]:
    yield from table.__struct_fields__
    for kind in table.__subclasses__():
        yield from _keys(kind)


def _parsed(kind: type, value: Any) -> object:  # noqa: ANN401
    """Parse a value of a class that msgspec does not know; it adds the path to the error."""
    if kind is Secret:
        if not isinstance(value, str) or not value:
            raise ValueError("Expected a text that is not empty")
        return Secret(value)
    if kind is ZoneInfo:
        try:
            return ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
            raise ValueError("Expected a time zone such as Europe/Berlin") from None
    try:
        at = TimeOfDay.fromisoformat(str(value))
    except ValueError:
        at = None
    if at is None or at.tzinfo is not None:
        raise ValueError("Expected a time of the day without a zone, such as 22:00")
    return at
