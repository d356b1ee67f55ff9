"""Time, identifiers and random numbers for services.

The demo world has a stepped clock and seeded identifiers, so that a tutorial always prints the same. Secrets always
come from the operating system.
"""

from __future__ import annotations

import os
import random
import struct
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from toolkit.errors import InvalidArgument


@runtime_checkable
class Clock(Protocol):
    """Tells the time in milliseconds since the epoch."""

    def now(self) -> int: ...

    def tick(self) -> int:
        """Return the timestamp of something new; a stepped clock advances."""
        ...


class SystemClock:
    def __repr__(self) -> str:
        return "<SystemClock>"

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    tick = now


class SteppedClock:
    """A frozen clock that advances one step per tick."""

    def __init__(self, start: datetime, step: timedelta) -> None:
        self._now = round(start.timestamp() * 1000)
        self._step = round(step.total_seconds() * 1000)

    def __repr__(self) -> str:
        return f"<SteppedClock at {datetime.fromtimestamp(self._now / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC>"

    def now(self) -> int:
        return self._now

    def tick(self) -> int:
        self._now += self._step
        return self._now

    def advance(self, *, seconds: float) -> datetime:
        """Advance at once and return the new time (UTC)."""
        if seconds < 0:
            raise ValueError("time only goes forward: give seconds >= 0")
        try:
            later = datetime.fromtimestamp(self._now / 1000 + seconds, UTC)
        except (ValueError, OverflowError, OSError):  # which one depends on the number
            raise ValueError("the clock ends with the year 9999: advance it by fewer seconds") from None
        self._now += round(seconds * 1000)
        return later


@dataclass(frozen=True, slots=True)
class Timings:
    """How long a gateway waits for what, in seconds. Only tests change it."""

    #: Work that a gateway has claimed and not renewed for this long is taken over by another gateway on the store.
    lease: float = 15.0
    #: For the server to end; also for the deliveries of alert mails that have begun, within it.
    stop: float = 15.0
    mail_stop: float = 5.0
    #: Before each further attempt to send a mail; the last one is repeated.
    mail_waits: tuple[float, ...] = (1, 5, 30, 120, 600, 1800, 3600)
    #: How late a wrong key above the limit is answered, so that a connection guesses once in this time.
    wrong_key: float = 1.0
    #: How long the status of an alert waits until its newest dweets are evaluated.
    settle: float = 5.0
    #: CPU time that the alert of a lock may use at once, and again within each minute.
    condition_budget: float = 6.0
    #: A batch of rewards that a gateway sees twice, so long apart, was left by one that died. Twice this is less than
    #: the life of a claim on an idempotency key: a caller that tries again after that finds the answer.
    reward_takeover: float = 20.0


class OutsideWorld:
    """Clock, timings, identifiers and random numbers of one gateway; `seed` makes them repeatable, except secrets."""

    def __init__(self, clock: Clock | None = None, seed: int | None = None, timings: Timings | None = None) -> None:
        if clock is not None and not isinstance(clock, Clock):
            raise InvalidArgument(f"clock is a SteppedClock, or an object with now() and tick(), not {clock!r}")
        if seed is not None and type(seed) is not int:
            raise InvalidArgument(f"seed is a whole number, not {type(seed).__name__}")
        self.clock: Clock = clock or SystemClock()
        self.timings = timings or Timings()
        self.random = random.Random(seed)
        self._seeded = seed is not None
        self._pool: list[str] = []

    def fresh_id(self) -> str:
        """Return a new UUID (version 4)."""
        if self._seeded:
            return _uuids(self.random.randbytes(16))[0]
        if not self._pool:
            self._pool = _uuids(os.urandom(4096))
        return self._pool.pop()


# What a UUID of version 4 says of itself, in its bytes 6 and 8.
_VERSION_BYTES = bytes(0x40 | byte & 0x0F for byte in range(256))
_VARIANT_BYTES = bytes(0x80 | byte & 0x3F for byte in range(256))
_UUID_GROUPS = struct.Struct("8s4s4s4s12s")


def _uuids(random_bytes: bytes) -> list[str]:
    """Return a UUID for each 16 bytes; many at once, as every dweet needs one and uuid.UUID costs ten times as much."""
    raw = bytearray(random_bytes)
    raw[6::16] = raw[6::16].translate(_VERSION_BYTES)
    raw[8::16] = raw[8::16].translate(_VARIANT_BYTES)
    return [b"-".join(groups).decode("ascii") for groups in _UUID_GROUPS.iter_unpack(raw.hex().encode("ascii"))]
