"""What is remembered of one device of one app: its session, its rewards of the last day, how often it drew."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

DAY_MS = 86_400_000
# A caller that invents a name for every moment must not grow a device's record without bound; a name that was
# forgotten draws its first number again.
_NAMES_KEPT = 256


class Session(NamedTuple):
    """A live session: its id, when it started and when it was last called (milliseconds since the epoch)."""

    id: str
    start: int
    last: int

    def age_s(self, at: int) -> float:
        """Return its age in seconds at `at`."""
        return max(at - self.start, 0) / 1000


class DeviceState(msgspec.Struct, array_like=True):
    """``rewards`` as (milliseconds, moment), oldest first; ``draws`` counts by moment."""

    rewards: list[tuple[int, str]] = []
    draws: dict[str, int] = {}

    def forget_before(self, at: int) -> None:
        """Drop rewards that no rule looks at any more: older than a day at `at`."""
        while self.rewards and self.rewards[0][0] <= at - DAY_MS:
            del self.rewards[0]

    def next_draw(self, moment_id: str) -> int:
        """Return the ordinal of this draw of this moment, 0 for the first, and count it."""
        ordinal = self.draws.pop(moment_id, 0)
        self.draws[moment_id] = ordinal + 1
        if len(self.draws) > _NAMES_KEPT:
            del self.draws[next(iter(self.draws))]
        return ordinal
