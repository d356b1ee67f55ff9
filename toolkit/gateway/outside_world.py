"""What services may not invent: the time, fresh identifiers and random numbers.

The real world is the default. The demo world steps its clock and seeds its identifiers, so that a tutorial
prints the same every time; secrets come from the operating system in both.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the time in milliseconds since the epoch."""

    def now(self) -> int:
        """Return the present time."""
        ...

    def tick(self) -> int:
        """Return the time to write on a new fact."""
        ...


class SystemClock:
    """The machine's own clock."""

    def __repr__(self) -> str:
        return "<SystemClock>"

    def now(self) -> int:
        """Return the present time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    tick = now


class SteppedClock:
    """A clock that stands still, and goes one step on at each new fact.

    Parameters
    ----------
    start
        Where it begins, an aware datetime.
    step
        How far each new fact moves it.

    Examples
    --------
    >>> clock = SteppedClock(datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=1))
    >>> clock.tick() - clock.tick()
    -1000
    """

    def __init__(self, start: datetime, step: timedelta) -> None:
        self._now = round(start.timestamp() * 1000)
        self._step = round(step.total_seconds() * 1000)

    def __repr__(self) -> str:
        return f"<SteppedClock at {datetime.fromtimestamp(self._now / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC>"

    def now(self) -> int:
        """Return the present time in milliseconds since the epoch; it does not move."""
        return self._now

    def tick(self) -> int:
        """Move one step on and return the new time."""
        self._now += self._step
        return self._now

    def advance(self, *, seconds: float) -> datetime:
        """Let `seconds` pass at once and return the new time (UTC)."""
        if seconds < 0:
            raise ValueError("time only goes forward: give seconds >= 0")
        self._now += round(seconds * 1000)
        return datetime.fromtimestamp(self._now / 1000, UTC)


class OutsideWorld:
    """Clock, identifiers and random numbers for all services of one gateway.

    Parameters
    ----------
    clock
        The system's clock if None.
    seed
        Makes identifiers and draws repeatable. It never drives a secret.
    """

    def __init__(self, clock: Clock | None = None, seed: int | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.random = random.Random(seed)
        self._seeded = seed is not None
        self._pool: list[str] = []

    def fresh_id(self) -> str:
        """Return a new UUID (version 4) in its 36-character form."""
        # By hand: uuid.UUID costs three times as much, and every dweet needs one.
        if self._seeded:
            return _uuid(self.random.randbytes(16).hex())
        if not self._pool:  # many at once: the operating system's answer costs more than the bytes
            digits = os.urandom(4096).hex()
            self._pool = [_uuid(digits[start : start + 32]) for start in range(0, len(digits), 32)]
        return self._pool.pop()

    @staticmethod
    def fresh_secret() -> str:
        """Return 128 random bits of the operating system as text safe in a URL, never seeded."""
        return secrets.token_urlsafe(16)


def _uuid(digits: str) -> str:
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
