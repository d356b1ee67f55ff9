"""Records of fingerprints and codes: stored under the hash of the secret, and never on a disk.

A record outlives its secret for a while, so that "expired" and "used" differ from "unknown".
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Self

import msgspec

from toolkit.identity.flow import State
from toolkit.stores import Records

_SPACE = "identity"
_MILLISECONDS_REMEMBERED = 900_000

#: Records as they were read, by key: what a change expects to find.
Found = Mapping[str, bytes | None]


def fresh_token() -> str:
    """Return 256 random bits of the operating system as 43 characters of base64url, never seeded."""
    return secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    state: State
    expires: int

    @classmethod
    def parse(cls, data: bytes | None) -> Self | None:
        return None if data is None else msgspec.json.decode(data, type=cls)

    def bytes(self) -> bytes:
        return msgspec.json.encode(self)


class Transaction(_Record, frozen=True):
    """The record of a first fingerprint."""

    caller: str
    carrier: str
    device_ip: str | None
    final_target: str
    code_challenge: str | None


class Proof(_Record, frozen=True):
    """The record of a final fingerprint."""

    caller: str
    carrier: str
    code_challenge: str | None
    subscriber: str | None
    #: Alias and code hash, once it was exchanged for a code.
    issued: tuple[str, str] | None = None


class Authentication(_Record, frozen=True):
    """The record of a code."""

    caller: str
    alias: str
    subscriber: str
    challenge_id: str | None = None


def transaction_key(fingerprint: str) -> str:
    return f"first:{hashed(fingerprint)}"


def proof_key(fingerprint: str) -> str:
    return f"final:{hashed(fingerprint)}"


def code_key(code_hash: str) -> str:
    return f"code:{code_hash}"


def live_code_key(alias: str) -> str:
    """Return the key of the hash of an alias's only valid code."""
    return f"live:{alias}"


class OneTimeRecords:
    def __init__(self, fleeting: Records) -> None:
        self._records = fleeting

    async def find(self, *keys: str) -> Found:
        return {key: await self._records.get(_SPACE, key) for key in keys}

    async def change(self, found: Found, changes: Mapping[str, bytes], expires: int) -> bool:
        """Make all changes if the records are still as they were found: of many callers at once, one succeeds."""
        return await self._records.swap(_SPACE, found, changes, expires + _MILLISECONDS_REMEMBERED)
