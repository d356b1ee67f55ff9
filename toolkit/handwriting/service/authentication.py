"""Who calls: ``apikey`` in the query, or HTTP Basic with key and secret as the clients of 2016 send it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import NamedTuple

from toolkit.errors import KeyRejected
from toolkit.handwriting import wire
from toolkit.handwriting.service.query import Dialect
from toolkit.secret import Secret


class Caller(NamedTuple):
    """An authenticated caller and the dialect that goes with the way it came."""

    key: Secret
    dialect: Dialect


def caller_of(secrets: Mapping[Secret, Secret] | None, query: Mapping[str, str], authorization: str) -> Caller:
    """Return who calls; the key of the query counts before the header.

    Parameters
    ----------
    secrets
        Secret of HTTP Basic by apikey. None takes any key that is not empty, so that a gateway works at once.

    Raises
    ------
    KeyRejected
        There is no key, or it is not valid.

    Examples
    --------
    >>> caller_of(None, {"apikey": "anything"}, "").dialect
    'open'
    """
    if query.get("apikey"):
        key = Secret(query["apikey"])
        if secrets is None or key in secrets:
            return Caller(key, "open")
    elif pair := _basic(authorization):
        key, secret = pair
        if secrets is None or secrets.get(key) == secret:
            return Caller(key, "strict")
    raise KeyRejected(wire.UNAUTHORIZED, status=401)


def _basic(authorization: str) -> tuple[Secret, Secret] | None:
    """Return key and secret of an ``Authorization`` header, or None where it is not Basic."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        key, colon, secret = base64.b64decode(token.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (Secret(key), Secret(secret)) if key and colon else None
