"""Idempotency keys: a request with the same key and body within a day gets the stored response, not a new decision."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

import msgspec

from toolkit.errors import OutcomeUnknown
from toolkit.rewards import wire
from toolkit_gateway.stores import Store

_RESPONSES_SPACE = "reward-answers"
_CLAIMED_KEYS_SPACE = "reward-claims"
# A key that a request claims can be claimed again after this time, if the gateway died or a decision is uncertain.
_CLAIM_MS = 60_000


class StoredResponse(msgspec.Struct, frozen=True):
    body: bytes
    #: The value of the decision header; None if there was no decision.
    decision: str | None
    #: The hash of the body of the request.
    request_hash: str


class ResponseRepository:
    def __init__(self, store: Store, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        # Weak values: a lock is deleted after the last request with the key.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def respond_once(
        self, key: str, body: bytes, respond: Callable[[], Awaitable[StoredResponse]]
    ) -> StoredResponse:
        """Return the stored response of this key, or call `respond`, which stores the response.

        Raises Conflict if the key was used with another body, or if a request whose outcome is unknown claimed the key.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            claims = self._store.ephemeral
            if not await claims.compare_and_set(_CLAIMED_KEYS_SPACE, {key: None}, {key: b"1"}, self._now() + _CLAIM_MS):
                raise wire.refusal("idempotency_key_busy")
            is_outcome_known = True
            try:
                stored = await self._store.records.get(_RESPONSES_SPACE, key)
                response = await respond() if stored is None else msgspec.json.decode(stored, type=StoredResponse)
                if response.request_hash != hash_of(body):
                    raise wire.refusal("idempotency_key_reused")
                return response
            except OutcomeUnknown:
                # The moment may be decided: the claim stays until it expires, and by then the response is stored.
                is_outcome_known = False
                raise
            finally:
                if is_outcome_known:
                    await claims.compare_and_set(_CLAIMED_KEYS_SPACE, {}, {key: None})

    def save(self, key: str, response: StoredResponse, at: int) -> asyncio.Future[None]:
        expires = at + wire.RESPONSE_LIFETIME_SECONDS * 1000
        return self._store.records.put(_RESPONSES_SPACE, key, msgspec.json.encode(response), expires)


def response_key(partner: str, key: str) -> str:
    # Without the length, two partners could share a key: ("ab", "c") and ("a", "bc").
    return hash_of(f"{len(partner)}:{partner}{key}".encode("utf-8", "surrogatepass"))


def hash_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
