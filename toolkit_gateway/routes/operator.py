"""Routes of the operator API; see `toolkit_gateway.http.exchange.Routes`."""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from toolkit.dweets.wire import IssuedLock
from toolkit.endpoint import Endpoint
from toolkit.errors import Conflict, KeyRejected, MalformedRequest, NotFound, RateLimited, ServiceError
from toolkit.operator import wire
from toolkit.secret import Secret
from toolkit_gateway.dweets.mail import Mail
from toolkit_gateway.http.access import Hosts, is_from_this_machine
from toolkit_gateway.http.exchange import JSON, Header, KeyAttempt, Request, Response, Route, Routes, retry_after
from toolkit_gateway.runtime import Clock, SteppedClock

# Limit for the body of a request; only `wire.ADVANCE_CLOCK` needs a body, ``{"seconds": NUMBER}``.
_MAX_BODY_BYTES = 1024
KEY_WRONG = (
    "the operator key is missing or wrong: send the one in operator.key of the gateway's data folder as "
    "Authorization: Bearer KEY"
)
_TOO_MANY_WRONG_KEYS = "too many wrong operator keys, try again in 1 second"
_NOT_LOCAL = "the operator API answers only over a loopback address, without a proxy in between"
_WRONG_HOST = "the operator API answers only to loopback names: localhost, 127.0.0.1, [::1]"
_FOREIGN_ORIGIN = "the operator API answers to no web page of another origin"
_NO_USER = "no user with this alias had a code or gave a wrong answer lately"
_REAL_CLOCK = "this gateway runs on the real clock: only the clock of Gateway.demo() can be advanced"
_BAD_SECONDS = 'the body must be {"seconds": NUMBER}'

_Work = Callable[[Request], Awaitable[Any]]
_BEARER = re.compile(r"Bearer +(\S+) *", re.IGNORECASE)


@dataclass(frozen=True)
class OperatorCalls:
    """The calls of the services that the operator API makes."""

    lock_rows: Callable[[], Awaitable[list[dict[str, str | None]]]]
    issue_lock: Callable[[], Awaitable[IssuedLock]]
    #: Takes the name of a lock, and returns the thing that it was on.
    revoke_lock: Callable[[str], Awaitable[str | None]]
    #: Takes a service alias, and returns a text for each change.
    reset_user: Callable[[str], Awaitable[list[str]]]
    mails: Callable[[], Awaitable[list[Mail]]]
    decisions: Callable[[], Awaitable[list[Any]]]
    reward_sessions: Callable[[], Awaitable[list[Any]]]
    reward_rules: Callable[[], dict[str, Any]]


class OperatorRoutes(Routes):
    first_segments = frozenset({b"operator"})
    too_many_keys = RateLimited(_TOO_MANY_WRONG_KEYS)

    def __init__(self, key: Secret, clock: Clock, calls: OperatorCalls) -> None:
        self._key = key
        self._clock = clock
        self._calls = calls
        self._loopback_names = Hosts()
        self.table = [
            self._route(wire.GET_LOCKS, lambda _: calls.lock_rows(), "locks"),
            self._route(wire.ISSUE_LOCK, self._issue_lock),
            self._route(wire.REVOKE_LOCK, self._revoke_lock),
            self._route(wire.RESET_USER, self._reset_user, "done"),
            self._route(wire.GET_OUTBOX, self._outbox, "mails"),
            self._route(wire.GET_DECISIONS, lambda _: calls.decisions(), "decisions"),
            self._route(wire.GET_REWARD_SESSIONS, lambda _: calls.reward_sessions(), "sessions"),
            self._route(wire.GET_REWARD_CONFIGURATION, self._reward_configuration, "configuration"),
            self._route(wire.GET_CLOCK, self._read_clock),
            self._route(wire.ADVANCE_CLOCK, self._advance_clock),
        ]

    def error_response(self, error: ServiceError, request: Request) -> Response:
        challenge: tuple[Header, ...] = ((b"www-authenticate", b'Bearer realm="operator"'),)
        headers = challenge if error.status == 401 else retry_after(error)
        return Response(error.status, json.dumps({"error": error.message}).encode("ascii"), JSON, headers)

    def key_attempt(self, request: Request) -> KeyAttempt | None:
        key = request.header(b"authorization")
        return KeyAttempt("the operator API", key) if key else None

    def _route(self, endpoint: Endpoint, work: _Work, name: str = "") -> Route:
        """Return the route whose response is the object that `work` gives, or an object with it under `name`."""

        async def checked_work(request: Request) -> Response:
            self._check(request)
            result = await work(request)
            return Response(200, msgspec.json.encode({name: result} if name else result))

        return Route(endpoint, checked_work, _MAX_BODY_BYTES if endpoint.method == "POST" else 0)

    def _check(self, request: Request) -> None:
        """Refuse callers from elsewhere before a key is compared: they learn nothing about it."""
        if not is_from_this_machine(request):
            raise ServiceError(_NOT_LOCAL, status=403)
        if not self._loopback_names.is_served(request.fields.get(b"host", b"")):
            raise ServiceError(_WRONG_HOST, status=421)
        own_origin = f"http://{request.header(b'host')}"
        if request.header(b"origin") not in ("", own_origin) or request.header(b"sec-fetch-site").endswith("-site"):
            raise ServiceError(_FOREIGN_ORIGIN, status=403)
        given = _BEARER.fullmatch(request.header(b"authorization"))
        if given is None or Secret(given[1]) != self._key:  # compared in constant time
            raise KeyRejected(KEY_WRONG, status=401)

    # -- what the endpoints do ----------------------------------------------------------------------------

    async def _issue_lock(self, _: Request) -> dict[str, str]:
        lock, master_key, read_key = await self._calls.issue_lock()
        return {"lock": lock, "master_key": master_key.reveal(), "read_key": read_key.reveal()}

    async def _revoke_lock(self, request: Request) -> dict[str, str | None]:
        lock = request.values["lock"]
        return {"lock": lock, "thing": await self._calls.revoke_lock(lock)}

    async def _reset_user(self, request: Request) -> list[str]:
        if done := await self._calls.reset_user(request.values["alias"]):
            return done
        raise NotFound(_NO_USER, status=404)

    async def _outbox(self, _: Request) -> list[dict[str, Any]]:
        mails = map(msgspec.to_builtins, await self._calls.mails())
        return [{name: mail[name] for name in wire.MAIL_FIELDS} for mail in mails]

    async def _reward_configuration(self, _: Request) -> dict[str, Any]:
        return self._calls.reward_rules()

    async def _read_clock(self, _: Request) -> dict[str, Any]:
        return {"now": self._clock.now(), "advances": isinstance(self._clock, SteppedClock)}

    async def _advance_clock(self, request: Request) -> dict[str, Any]:
        if not isinstance(self._clock, SteppedClock):
            raise Conflict(_REAL_CLOCK)
        try:
            self._clock.advance(seconds=msgspec.json.decode(request.body, type=dict[str, float])["seconds"])
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            raise MalformedRequest(_BAD_SECONDS) from None
        except ValueError as error:  # back in time, or beyond its end
            raise MalformedRequest(str(error)) from None
        return await self._read_clock(request)
