"""Idempotency keys: a repeated key and body within a day get the same response, without a second decision."""

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

_ANSWERS = "reward-answers"
_CLAIMS = "reward-claims"
# A claim expires after this time if its gateway died or does not know whether the moment was decided.
_CLAIM_MS = 60_000


class Answer(NamedTuple):
    """The body of a response, and the value of the decision header where there was a decision."""

    body: bytes
    decision: str | None = None


class Answers:
    def __init__(self, store: Store, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        # Weak values, so that a lock is deleted after the last request with its key.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def once(self, key: str, body: bytes, answer: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the stored answer of this key, or call `answer`, which stores its result.

        Conflict: the key was used with another body, or another gateway is processing it now.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            claims = self._store.ephemeral
            if not await claims.compare_and_set(_CLAIMS, {key: None}, {key: b"1"}, self._now() + _CLAIM_MS):
                raise wire.refusal("idempotency_key_busy")
            is_known = True
            try:
                return await self._stored_or_made(key, body, answer)
            except OutcomeUnknown:
                # The moment may be decided: the claim stays until it expires, and by then the answer is stored.
                is_known = False
                raise
            finally:
                if is_known:
                    await claims.compare_and_set(_CLAIMS, {}, {key: None})

    def save(self, key: str, body_hash: str, answer: Answer, at: int) -> asyncio.Future[None]:
        data = msgspec.json.encode([body_hash, answer.body.decode("utf-8"), answer.decision])
        return self._store.records.put(_ANSWERS, key, data, at + wire.ANSWER_SECONDS * 1000)

    async def _stored_or_made(self, key: str, body: bytes, answer: Callable[[], Awaitable[Answer]]) -> Answer:
        stored = await self._store.records.get(_ANSWERS, key)
        if stored is None:
            return await answer()
        body_hash, text, decision = msgspec.json.decode(stored, type=tuple[str, str, str | None])
        if body_hash != hash_of(body):
            raise wire.refusal("idempotency_key_reused")
        return Answer(text.encode("utf-8"), decision)


def answer_key(partner: str, key: str) -> str:
    # The length prevents two partners from sharing a key.
    return hash_of(f"{len(partner)}:{partner}{key}".encode("utf-8", "surrogatepass"))


def hash_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
