"""Limits per minute on requests, guesses and wrong fingerprints, shared by all gateways of a store."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.errors import ServiceError
from toolkit.identity.envelope import refusal
from toolkit.identity.service.callers import IdentitySettings
from toolkit.stores import Records

_SPACE = "identity.rates"
_MINUTE = 60_000


class RateLimits:
    def __init__(self, ephemeral: Records, now: Callable[[], int], settings: IdentitySettings) -> None:
        self._records = ephemeral
        self._now = now
        self._calls = settings.calls_a_minute
        self._failures = settings.failures_a_minute

    async def count_request(self, caller: str) -> None:
        """Count a request of a known client; refuse it after too many requests or guesses."""
        guesses = await self._records.get(_SPACE, f"guesses of {caller}")
        if int(guesses or 0) >= self._failures:
            raise self._too_many()
        if not await self._records.increment(_SPACE, f"calls of {caller}", self._calls, self._end()):
            raise self._too_many()

    async def count_guess(self, caller: str) -> None:
        await self._records.increment(_SPACE, f"guesses of {caller}", expires=self._end())

    async def count_wrong_fingerprint(self, sender: str) -> None:
        """Count a wrong fingerprint; valid ones are never limited, because anyone can send wrong ones."""
        if await self._records.increment(_SPACE, f"fingerprints of {sender}", expires=self._end()) > self._failures:
            raise self._too_many()

    def _too_many(self) -> ServiceError:
        return refusal(2040, retry_after=max(1, -(-(self._end() - self._now()) // 1000)))

    def _end(self) -> int:
        return (self._now() // _MINUTE + 1) * _MINUTE
