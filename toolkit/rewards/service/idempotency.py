"""Idempotency keys: a request with the same key and body within a day gets the stored response, not a new decision."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from toolkit.errors import OutcomeUnknown
from toolkit.rewards import wire
from toolkit.stores import Store

_RESPONSES_SPACE = "reward-answers"
_CLAIMED_KEYS_SPACE = "reward-claims"
# A key that a request claims can be claimed again after this time, if the gateway died or a decision is uncertain.
_CLAIM_MS = 60_000


class StoredResponse(NamedTuple):
    """The body of a response, and the value of the decision header, or None if there was no decision."""

    body: bytes
    decision: str | None = None


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

        Raises Conflict if the key was used with another body, or if another gateway is processing the key now.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            claims = self._store.ephemeral
            if not await claims.compare_and_set(_CLAIMED_KEYS_SPACE, {key: None}, {key: b"1"}, self._now() + _CLAIM_MS):
                raise wire.refusal("idempotency_key_busy")
            is_known = True
            try:
                return await self._stored_or_new(key, body, respond)
            except OutcomeUnknown:
                # The moment may be decided: the claim stays until it expires, and by then the response is stored.
                is_known = False
                raise
            finally:
                if is_known:
                    await claims.compare_and_set(_CLAIMED_KEYS_SPACE, {}, {key: None})

    def save(self, key: str, body_hash: str, response: StoredResponse, at: int) -> asyncio.Future[None]:
        data = msgspec.json.encode([body_hash, response.body.decode("utf-8"), response.decision])
        return self._store.records.put(_RESPONSES_SPACE, key, data, at + wire.STORED_RESPONSE_SECONDS * 1000)

    async def _stored_or_new(
        self, key: str, body: bytes, respond: Callable[[], Awaitable[StoredResponse]]
    ) -> StoredResponse:
        stored = await self._store.records.get(_RESPONSES_SPACE, key)
        if stored is None:
            return await respond()
        body_hash, text, decision = msgspec.json.decode(stored, type=tuple[str, str, str | None])
        if body_hash != hash_of(body):
            raise wire.refusal("idempotency_key_reused")
        return StoredResponse(text.encode("utf-8"), decision)


def response_key(partner: str, key: str) -> str:
    # The length prevents two partners from sharing a key.
    return hash_of(f"{len(partner)}:{partner}{key}".encode("utf-8", "surrogatepass"))


def hash_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
