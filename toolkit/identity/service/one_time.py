"""Fingerprints and codes: good once or for a short while, kept only as hashes, and never on a disk.

Each lives in a record under the hash of its secret. A change of a record says what it was before, so of many callers
at once exactly one succeeds. Records outlive their secrets for a while, so that "expired" and "used" can be told from
"unknown".
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
    """Return 256 bits of the operating system as 43 characters of base64url. No seed ever drives it."""
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
    """What the first fingerprint stands for."""

    caller: str
    carrier: str
    device_ip: str | None
    final_target: str
    code_challenge: str | None


class Proof(_Record, frozen=True):
    """What the final fingerprint stands for; ``issued`` holds alias and code hash once it was used well."""

    caller: str
    carrier: str
    code_challenge: str | None
    subscriber: str | None
    issued: tuple[str, str] | None = None


class Authentication(_Record, frozen=True):
    """What the code stands for."""

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
    """Return the key of the hash of the one code of an alias that is good."""
    return f"live:{alias}"


class OneTimeRecords:
    """Read records, and change them only if they are still as they were read."""

    def __init__(self, fleeting: Records) -> None:
        self._records = fleeting

    async def find(self, *keys: str) -> Found:
        return {key: await self._records.get(_SPACE, key) for key in keys}

    async def change(self, found: Found, changes: Mapping[str, bytes], expires: int) -> bool:
        """Make all changes if everything found still holds; of many at once, one succeeds."""
        return await self._records.swap(_SPACE, found, changes, expires + _MILLISECONDS_REMEMBERED)
