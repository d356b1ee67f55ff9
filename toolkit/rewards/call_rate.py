"""How many calls a device may make in a minute, counted at this gateway."""

from __future__ import annotations

import math

from toolkit.rewards import wire

_MINUTE_MS = 60_000


class CallRate:
    """Counts calls in whole minutes.

    Parameters
    ----------
    calls_a_minute
        How many one device may make; None for any number.
    """

    def __init__(self, calls_a_minute: int | None) -> None:
        self._limit = calls_a_minute
        self._minute = 0
        self._calls: dict[str, int] = {}

    def count(self, device: str, now: int) -> None:
        """Count one call of a device.

        Raises
        ------
        RateLimited
            It made too many in this minute.
        """
        if self._limit is None:
            return
        minute, passed = divmod(now, _MINUTE_MS)
        if minute != self._minute:
            self._minute = minute
            self._calls.clear()
        calls = self._calls.get(device, 0) + 1
        if calls > self._limit:
            raise wire.refusal("too_many_requests", seconds=math.ceil((_MINUTE_MS - passed) / 1000))
        self._calls[device] = calls
