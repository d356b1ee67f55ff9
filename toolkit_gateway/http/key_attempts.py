"""Limits how many keys are tried from one address, whatever they are tried on and however often it reconnects.

======================================  ===============================================================================
a call with a key                       what happens
======================================  ===============================================================================
the key has worked from this address    it is answered at once
its address has a try left              it is answered; only a wrong key uses up the try
its address has no try left             it waits for a try, before anybody looks at its key
it has waited too long                  it is refused, and nobody has looked at its key
======================================  ===============================================================================

So neither a wait nor a refusal tells a guesser anything. A try is reserved before the key is looked at, otherwise all
calls that arrive together would be answered.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from secrets import token_bytes

from cachetools import LRUCache

from toolkit_gateway.http.account import source_of
from toolkit_gateway.http.exchange import KeyAttempt
from toolkit_gateway.rate_limit import LimitReached, RateLimit

log = logging.getLogger("toolkit_gateway")

#: An address has so many tries at once, and then one in each `Timings.key_interval`.
KEYS_AT_ONCE = 60
# So many keys that have worked are remembered, each with its address and what it fits.
_KNOWN_KEYS = 50_000
_SECONDS_BETWEEN_WARNINGS = 60.0


class KeyAttempts:
    def __init__(self, interval: float, longest_wait: float, seconds: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._longest_wait = longest_wait
        self._seconds = seconds
        self._tries = RateLimit(KEYS_AT_ONCE, 1 / interval, seconds)
        # Only for the log: if a lock made callers of other addresses wait, anybody could lock out its owner.
        self._by_target = RateLimit(KEYS_AT_ONCE, 1 / interval, seconds)
        self._warnings = RateLimit(1, 1 / _SECONDS_BETWEEN_WARNINGS, seconds)
        self._salt = token_bytes(16)
        self._known: LRUCache[bytes, bool] = LRUCache(_KNOWN_KEYS)

    def is_known(self, address: str, attempt: KeyAttempt) -> bool:
        """Whether this key has worked lately, for the same target and from the same address."""
        return self._known.get(self._digest(address, attempt), False)

    def settle(self, address: str, attempt: KeyAttempt, *, is_right: bool | None) -> None:
        """End a try that was reserved; None if nobody has looked at the key."""
        if is_right:
            self._known[self._digest(address, attempt)] = True
        if is_right is False:
            self._log_wrong_key(address, attempt.target)
        else:
            self._tries.give_back(source_of(address))

    def take(self, address: str) -> bool:
        """Reserve a try of an address, if it has one left."""
        try:
            self._tries.take(source_of(address))
        except LimitReached:
            return False
        return True

    async def wait(self, address: str) -> bool:
        """Wait for a try of an address, and reserve it; return False after `longest_wait`."""
        deadline = self._seconds() + self._longest_wait
        while (left := deadline - self._seconds()) > 0:
            await asyncio.sleep(min(self._interval, left))
            if self.take(address):
                return True
        return False

    def _log_wrong_key(self, address: str, target: str) -> None:
        log.info("wrong key for %s from %s", target, address)
        busy = []
        if self._tries.left(source_of(address)).remaining == 0:
            busy.append(source_of(address))
        try:
            self._by_target.take(target)
        except LimitReached:
            busy.append(target)
        for name in busy:
            with suppress(LimitReached):
                self._warnings.take(name)
                log.warning("too many wrong keys: the last for %s from %s", target, address)
                return

    def _digest(self, address: str, attempt: KeyAttempt) -> bytes:
        text = repr((source_of(address), *attempt))
        return blake2b(text.encode("utf-8", "surrogatepass"), key=self._salt, digest_size=16).digest()
