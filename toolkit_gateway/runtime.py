"""Time, identifiers and random numbers for services.

The demo world has a stepped clock and seeded identifiers, so that a tutorial always prints the same output. Secrets
always come from the operating system.
"""

import os
import random
import struct
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument


@runtime_checkable
class Clock(Protocol):
    """Tells the time in milliseconds since the epoch."""

    def now(self) -> int: ...

    def tick(self) -> int:
        """Return the timestamp for a new object; a stepped clock advances by one step."""
        ...


class SystemClock:
    def __repr__(self) -> str:
        return "<SystemClock>"

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    tick = now  # real time advances without steps


class SteppedClock:
    """A frozen clock that advances one step per tick."""

    @checked_arguments
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

    @checked_arguments
    def advance(self, *, seconds: float) -> datetime:
        """Advance the clock by `seconds` and return the new time (UTC)."""
        if seconds < 0:
            raise InvalidArgument("time only goes forward: give seconds >= 0")
        try:
            later = datetime.fromtimestamp(self._now / 1000 + seconds, UTC)
        except (ValueError, OverflowError, OSError):  # the class depends on the number
            raise InvalidArgument("the clock ends with the year 9999: advance it by fewer seconds") from None
        self._now += round(seconds * 1000)
        return later


@dataclass(frozen=True, slots=True)
class Timings:
    """Waiting times of a gateway, in seconds. Only tests change them."""

    #: If a gateway has not renewed a claim on work for this long, another gateway on the store takes over the work.
    lease: float = 15.0
    #: A stopping gateway waits this long for its server, including `mail_stop` for alert mails that it is sending.
    stop: float = 15.0
    mail_stop: float = 5.0
    #: The mail server has this long for one delivery. A gateway that is sending a mail has claimed it for `mail_lease`,
    #: which must be longer; then another gateway sends the mail.
    mail_limit: float = 60.0
    mail_lease: float = 75.0
    #: The wait before each further attempt to send a mail; the last wait is repeated.
    mail_waits: tuple[float, ...] = (1, 5, 30, 120, 600, 1800, 3600)
    #: After too many wrong keys, an address may try one key in this time, and a call waits for that at most this long.
    key_interval: float = 0.5
    longest_key_wait: float = 10.0
    #: A request for the status of an alert waits this long for the evaluation of the newest dweets.
    settle: float = 5.0
    #: The CPU time of one evaluation of a condition, and of its repetition if it was interrupted.
    condition_seconds: tuple[float, float] = (0.05, 0.5)


class Runtime:
    """Clock, timings, identifiers and random numbers of one gateway; a `seed` makes all but the secrets repeatable."""

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


# Tables that write the version 4 and the variant into bytes 6 and 8 of a UUID.
_VERSION_BYTES = bytes(0x40 | byte & 0x0F for byte in range(256))
_VARIANT_BYTES = bytes(0x80 | byte & 0x3F for byte in range(256))
_UUID_GROUPS = struct.Struct("8s4s4s4s12s")


def _uuids(random_bytes: bytes) -> list[str]:
    """Return a UUID per 16 bytes. This is ten times faster than uuid.UUID, and every dweet needs a UUID."""
    raw = bytearray(random_bytes)
    raw[6::16] = raw[6::16].translate(_VERSION_BYTES)
    raw[8::16] = raw[8::16].translate(_VARIANT_BYTES)
    return [b"-".join(groups).decode("ascii") for groups in _UUID_GROUPS.iter_unpack(raw.hex().encode("ascii"))]
