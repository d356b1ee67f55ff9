"""How often a client may call, and how often a client or an address may guess."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.identity.envelope import refusal
from toolkit.identity.service.callers import IdentitySettings
from toolkit.stores import Records

_SPACE = "identity.rates"
_MINUTE = 60_000


class RateLimits:
    """Counts by the minute, in records that end with the store and that all its gateways share."""

    def __init__(self, fleeting: Records, now: Callable[[], int], settings: IdentitySettings) -> None:
        self._records = fleeting
        self._now = now
        self._settings = settings

    async def count_call(self, caller: str, address: str) -> None:
        """Count a call of a known client, or raise RateLimited for its calls, its failures or its address's."""
        await self.check_failures(f"client {caller}", f"address {address}")
        limit = self._settings.calls_a_minute
        if not await self._records.count(_SPACE, f"calls of client {caller}", limit, self._end()):
            raise self._too_many()

    async def check_failures(self, *whose: str) -> None:
        """Raise RateLimited where one of these failed too often in this minute."""
        for one in whose:
            failures = await self._records.get(_SPACE, f"failures of {one}")
            if int(failures or 0) >= self._settings.failures_a_minute:
                raise self._too_many()

    async def count_failure(self, *whose: str) -> None:
        """Count a failure by which something could be guessed."""
        for one in whose:
            await self._records.count(_SPACE, f"failures of {one}", expires=self._end())

    def _too_many(self) -> Exception:
        return refusal(2040, retry_after=max(1, -(-(self._end() - self._now()) // 1000)))

    def _end(self) -> int:
        return (self._now() // _MINUTE + 1) * _MINUTE
