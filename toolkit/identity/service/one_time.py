"""Fingerprints and codes: good once or for a short while, kept only as hashes, and never on a disk.

Each lives in a record under the hash of its secret. Whoever changes a record says what it was before, so of many
callers at once exactly one moves it on. Records outlive their secrets for a while, so that "expired" and "used"
can be told from "unknown".
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from toolkit.identity.flow import State
from toolkit.stores import Records

SPACE = "identity"
_MILLISECONDS_REMEMBERED = 900_000


def fresh_token() -> str:
    """Return 256 bits of the operating system as 43 characters of base64url. No seed ever drives it."""
    return secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    """Return the SHA-256 of a secret, whatever characters it is made of."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class _Record:
    state: State
    expires: int

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a record of the store."""
        fields: dict[str, Any] = json.loads(data)
        return cls(**(fields | {"state": State(fields["state"])}))

    def bytes(self) -> bytes:
        """Write it for the store."""
        return json.dumps(asdict(self)).encode("ascii")


@dataclass(frozen=True, slots=True)
class Transaction(_Record):
    """What the first fingerprint stands for."""

    caller: str
    carrier: str
    device_ip: str | None
    final_target: str
    code_challenge: str | None


@dataclass(frozen=True, slots=True)
class Proof(_Record):
    """What the final fingerprint stands for; ``issued`` holds alias and code hash once it was used well."""

    caller: str
    carrier: str
    code_challenge: str | None
    subscriber: str | None
    issued: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Authentication(_Record):
    """What the code stands for."""

    caller: str
    alias: str
    subscriber: str
    challenge_id: str | None = None


def transaction_key(fingerprint: str) -> str:
    """Return the key of a first fingerprint's record."""
    return f"first:{hashed(fingerprint)}"


def proof_key(fingerprint: str) -> str:
    """Return the key of a final fingerprint's record."""
    return f"final:{hashed(fingerprint)}"


def code_key(code_hash: str) -> str:
    """Return the key of a code's record."""
    return f"code:{code_hash}"


def live_code_key(alias: str) -> str:
    """Return the key that holds the hash of the one code of an alias that is good."""
    return f"live:{alias}"


#: Records as they were read, by key: what a change expects to still stand.
Found = Mapping[str, bytes | None]


class OneTimeRecords:
    """Read records, and change them only if they are still as they were read."""

    def __init__(self, fleeting: Records) -> None:
        self._records = fleeting

    async def find(self, *keys: str) -> Found:
        """Return the records under these keys, None where there is none."""
        return {key: await self._records.get(SPACE, key) for key in keys}

    async def add(self, key: str, record: _Record) -> None:
        """Keep a record under a secret that is new."""
        await self._records.put(SPACE, key, record.bytes(), record.expires + _MILLISECONDS_REMEMBERED)

    async def change(self, found: Found, changes: Mapping[str, bytes], expires: int) -> bool:
        """Make all changes if everything found still stands; of many at once, one succeeds."""
        return await self._records.swap(SPACE, found, changes, expires + _MILLISECONDS_REMEMBERED)
