"""Records of fingerprints and codes: ephemeral, with the hash of the secret in the key."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Self

import msgspec

from toolkit.identity.flow import State

#: Records by key, as they were read; a compare-and-set writes only if they have not changed.
Snapshot = Mapping[str, bytes | None]


def fresh_token() -> str:
    """Return 256 random bits as 43 base64url characters; they come from the operating system, never from a seed."""
    return secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class _OneTimeRecord(msgspec.Struct, frozen=True, kw_only=True):
    state: State
    expires: int

    @classmethod
    def parse(cls, data: bytes | None) -> Self | None:
        return None if data is None else msgspec.json.decode(data, type=cls)

    def bytes(self) -> bytes:
        return msgspec.json.encode(self)


class Transaction(_OneTimeRecord, frozen=True):
    """What is stored for a first fingerprint."""

    caller: str
    carrier: str
    device_ip: str | None
    final_target: str
    code_challenge: str | None


class Proof(_OneTimeRecord, frozen=True):
    """What is stored for a final fingerprint."""

    caller: str
    carrier: str
    code_challenge: str | None
    subscriber: str | None
    #: Alias and code hash, after the proof was exchanged for a code.
    issued: tuple[str, str] | None = None


class AuthenticationRecord(_OneTimeRecord, frozen=True):
    """What is stored for a code."""

    caller: str
    alias: str
    subscriber: str
    challenge_id: str | None = None


def key_of(record: type[_OneTimeRecord], secret: str) -> str:
    return f"{record.__name__.removesuffix('Record').lower()}:{hashed(secret)}"


def live_code_key(alias: str) -> str:
    """Return the key under which the hash of the only valid code of an alias is stored."""
    return f"live:{alias}"
