"""The handwriting service (section B) without HTTP: keys, rate limits, the list of handwritings, rendering."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from msgspec import Meta

from toolkit.errors import InvalidParameters, KeyRejected, NotFound, RateLimited
from toolkit.handwriting.wire import FileKind
from toolkit.secret import Secret
from toolkit.settings import Table, check_unique
from toolkit_gateway.handwriting import refusals
from toolkit_gateway.handwriting.query import Dialect, ListingQuery, parse_render_query
from toolkit_gateway.handwriting.render_pool import RenderPool
from toolkit_gateway.ink.catalogue import catalogue
from toolkit_gateway.ink.parameters import Parameters, Rendering
from toolkit_gateway.rate_limit import Allowance, LimitReached, RateLimit

if TYPE_CHECKING:
    from toolkit_gateway.runtime import Runtime

#: Limits what the rate limiter stores on a gateway that accepts any apikey.
MAX_KEY_CHARACTERS = 256
#: Raise it whenever the same parameters and seed give another picture: it is part of the ETag.
RENDERER_VERSION = "12"


class Key(Table, frozen=True):
    """The keys of one caller: the apikey, and the secret, which only HTTP Basic needs."""

    apikey: Secret
    apisecret: Secret


class HandwritingSettings(Table, frozen=True):
    #: The accepted keys; None accepts any key that is not empty.
    apikeys: tuple[Key, ...] | None = None
    #: Each key has a token bucket of this size, refilled at this rate.
    burst: Annotated[int, Meta(ge=1, le=10**9)] = 3_000
    calls_a_second: Annotated[float, Meta(gt=0, le=1e9)] = 100.0
    #: Number of worker processes, which render one text each, and the most texts that may wait, of all keys together.
    renderers: Annotated[int, Meta(ge=1, le=64)] = msgspec.field(default_factory=lambda: min(4, os.cpu_count() or 1))
    waiting: Annotated[int, Meta(ge=1, le=100_000)] = 100
    #: Limit of CPU time for one text; the largest page needs about 6 seconds.
    render_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 20.0

    def __post_init__(self) -> None:
        check_unique("apikeys", self.apikeys or (), "apikey")


class Caller(NamedTuple):
    key: Secret
    dialect: Dialect


class HandwritingService:
    def __init__(self, runtime: Runtime, settings: HandwritingSettings) -> None:
        self._runtime = runtime
        keys = settings.apikeys
        self._secrets = None if keys is None else {key.apikey: key.apisecret for key in keys}
        self._rate_limit = RateLimit(settings.burst, settings.calls_a_second, time.monotonic)
        self._pool = RenderPool(settings.renderers, settings.waiting, settings.render_seconds)

    @property
    def has_keys(self) -> bool:
        """Whether callers need one of the configured keys."""
        return self._secrets is not None

    def caller(self, query: Mapping[str, str], authorization: str) -> Caller:
        """Return the caller, or raise KeyRejected; a key in the query takes precedence over HTTP Basic."""
        if query.get("apikey"):
            key = Secret(query["apikey"])
            if len(query["apikey"]) <= MAX_KEY_CHARACTERS and (self._secrets is None or key in self._secrets):
                return Caller(key, "open")
        elif pair := _basic_credentials(authorization):
            key, secret = pair
            if self._secrets is None or self._secrets.get(key) == secret:
                return Caller(key, "strict")
        raise KeyRejected(refusals.UNAUTHORIZED, status=401)

    def admit(self, caller: Caller) -> Allowance:
        """Count a request and return the remaining allowance, or raise RateLimited."""
        try:
            return self._rate_limit.take(caller.key)
        except LimitReached as reached:
            raise RateLimited(refusals.RATE_EXCEEDED, retry_after=reached.retry_after) from None

    def allowance(self, caller: Caller) -> Allowance:
        return self._rate_limit.left(caller.key)

    def listing(self, query: ListingQuery) -> list[dict[str, str | int]]:
        entries = [handwriting.public_fields() for handwriting in catalogue().values()]
        # The catalogue is in the order of the ids, and the stable sort keeps this order for equal values.
        entries.sort(key=lambda entry: entry[query.order_by], reverse=query.order_dir == "desc")
        return entries[query.offset : query.offset + query.limit]

    def handwriting(self, handwriting_id: str) -> dict[str, str | int]:
        handwriting = catalogue().get(handwriting_id)
        if handwriting is None:
            raise NotFound(refusals.HANDWRITING_NOT_FOUND)
        return handwriting.public_fields()

    async def parse_query(
        self, query: Mapping[str, str], kind: FileKind, caller: Caller, *, is_multipage: bool = False
    ) -> Parameters:
        """Return the parameters, or raise InvalidParameters; if all else is right, `render` checks the characters."""
        parameters, problems = parse_render_query(query, kind, caller.dialect, is_multipage=is_multipage)
        if parameters is None or problems:
            if parameters is not None and not any(problem.field == "text" for problem in problems):
                problems += await self._pool.check_characters(parameters, caller.key)
            raise InvalidParameters(problems)
        return parameters

    async def render(self, parameters: Parameters, caller: Caller) -> Rendering:
        seed = parameters.random_seed or self._runtime.random.getrandbits(63) or 1
        return await self._pool.render(replace(parameters, random_seed=seed), caller.key)

    async def close(self) -> None:
        self._pool.close()


def etag_of(parameters: Parameters) -> str | None:
    """Return the ETag of a rendering, or None without a seed, because then each rendering differs."""
    if parameters.random_seed is None:
        return None
    canonical = f"{RENDERER_VERSION} {parameters.kind} {parameters.handwriting.id} {parameters!r}"
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _basic_credentials(authorization: str) -> tuple[Secret, Secret] | None:
    """Return key and secret; None if the header is not valid HTTP Basic, or the key is empty or too long."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        key, colon, secret = base64.b64decode(token.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (Secret(key), Secret(secret)) if colon and 0 < len(key) <= MAX_KEY_CHARACTERS else None
