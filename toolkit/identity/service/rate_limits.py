"""How often a client may call and guess, and how many wrong keys and fingerprints an address may send."""

from __future__ import annotations

import logging
from collections.abc import Callable

from cachetools import LRUCache

from toolkit.errors import ServiceError
from toolkit.identity.envelope import refusal
from toolkit.identity.service.callers import IdentitySettings
from toolkit.stores import Records

_SPACE = "identity.rates"
_MINUTE = 60_000
_CALLERS_REMEMBERED = 10_000

log = logging.getLogger("toolkit.gateway.identity")


class RateLimits:
    """Counts by the minute, in records that end with the store and that all its gateways share."""

    def __init__(self, fleeting: Records, now: Callable[[], int], settings: IdentitySettings) -> None:
        self._records = fleeting
        self._now = now
        self._calls = settings.calls_a_minute
        self._failures = settings.failures_a_minute
        # Clients by the address that they have called from.
        self._seen: LRUCache[tuple[str, str], bool] = LRUCache(_CALLERS_REMEMBERED)

    async def count_call(self, caller: str, address: str) -> None:
        """Count a call of a known client; refuse it after too many calls or guesses of the client.

        Wrong keys from its address refuse it only if it has never called from there: its key may be a right guess.
        """
        if (caller, address) not in self._seen:
            await self._check_failures(f"keys from {address}")
        await self._check_failures(f"guesses of {caller}")
        if not await self._records.count(_SPACE, f"calls of client {caller}", self._calls, self._end()):
            raise self._too_many()
        self._seen[caller, address] = True

    async def count_guess(self, caller: str) -> None:
        """Count a failure by which a client could guess at a user's data."""
        await self._records.count(_SPACE, f"failures by guesses of {caller}", expires=self._end())

    async def count_wrong_key(self, address: str) -> None:
        """Count a wrong ApiClientId; after too many from an address refuse them unread, and log it once."""
        count = await self._records.count(_SPACE, f"failures by keys from {address}", expires=self._end())
        if count == self._failures + 1:
            log.warning(
                "%s sent %d wrong ApiClientIds within a minute; further ones are refused with 429",
                address,
                self._failures,
            )
        if count > self._failures:
            raise self._too_many()

    async def count_wrong_fingerprint(self, whose: str) -> None:
        """Count a wrong fingerprint of a client or an address; too many of them limit nothing but wrong ones.

        A fingerprint is too long to be guessed, and anybody can send wrong ones in another's name.
        """
        if await self._records.count(_SPACE, f"fingerprints of {whose}", expires=self._end()) > self._failures:
            raise self._too_many()

    async def _check_failures(self, what: str) -> None:
        if int(await self._records.get(_SPACE, f"failures by {what}") or 0) >= self._failures:
            raise self._too_many()

    def _too_many(self) -> ServiceError:
        return refusal(2040, retry_after=max(1, -(-(self._end() - self._now()) // 1000)))

    def _end(self) -> int:
        return (self._now() // _MINUTE + 1) * _MINUTE
