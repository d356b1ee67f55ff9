"""Routes of the operator API; see `toolkit.gateway.exchange.Routes`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from toolkit.dweets.service.lock_records import lock_rows, repair, revoke
from toolkit.endpoint import Endpoint
from toolkit.errors import Conflict, KeyRejected, MalformedRequest, NotFound, RateLimited, ServiceError
from toolkit.gateway.access import Hosts, is_from_this_machine
from toolkit.gateway.exchange import JSON, Header, Request, Response, Route, Routes, retry_after
from toolkit.operator import wire
from toolkit.outside_world import SteppedClock
from toolkit.rewards import wire as rewards_wire
from toolkit.secret import Secret

if TYPE_CHECKING:
    from toolkit.gateway.services import Services

_Work = Callable[[Request], Awaitable[Any]]
_BEARER = re.compile(r"Bearer +(\S+) *", re.IGNORECASE)


class OperatorRoutes(Routes):
    first_segments = frozenset({b"operator"})
    too_many_keys = RateLimited(wire.TOO_MANY_WRONG_KEYS)

    def __init__(self, services: Services) -> None:
        self._services = services
        self._loopback_names = Hosts()
        records, rewards = services.store.records, services.rewards
        self.table = [
            self._route(wire.GET_LOCKS, lambda _: lock_rows(records), "locks"),
            self._route(wire.ISSUE_LOCK, self._issue_lock),
            self._route(wire.REVOKE_LOCK, self._revoke_lock),
            self._route(wire.REPAIR_THING, lambda request: repair(records, **request.values), "done"),
            self._route(wire.RESET_USER, self._reset_user, "done"),
            self._route(wire.GET_OUTBOX, self._outbox, "mails"),
            self._route(wire.GET_DECISIONS, lambda _: rewards.decisions(), "decisions"),
            self._route(wire.GET_REWARD_SESSIONS, lambda _: rewards.sessions(), "sessions"),
            self._route(wire.GET_REWARD_CONFIGURATION, self._reward_configuration, "configuration"),
            self._route(wire.GET_RETENTION, self._retention, "retention"),
            self._route(wire.GET_CLOCK, self._clock),
            self._route(wire.ADVANCE_CLOCK, self._advance),
        ]

    def error_response(self, error: ServiceError, request: Request) -> Response:
        challenge: tuple[Header, ...] = ((b"www-authenticate", b'Bearer realm="operator"'),)
        headers = challenge if error.status == 401 else retry_after(error)
        return Response(error.status, wire.failed(error), JSON, headers)

    def wrong_key_target(self, error: KeyRejected, request: Request) -> str | None:
        return "the operator API" if error.status == 401 else None

    def _route(self, endpoint: Endpoint, work: _Work, name: str = "") -> Route:
        """Return the route whose response is the object that `work` gives, or an object with it under `name`."""

        async def checked_work(request: Request) -> Response:
            self._check(request)
            result = await work(request)
            return Response(200, msgspec.json.encode({name: result} if name else result))

        return Route(endpoint, checked_work, wire.MAX_BODY_BYTES if endpoint.method == "POST" else 0)

    def _check(self, request: Request) -> None:
        """Refuse callers from elsewhere before a key is compared: they learn nothing about it."""
        if not is_from_this_machine(request):
            raise ServiceError(wire.NOT_LOCAL, status=403)
        if not self._loopback_names.is_served(request.fields.get(b"host", b"")):
            raise ServiceError(wire.WRONG_HOST, status=421)
        own_origin = f"http://{request.header(b'host')}"
        if request.header(b"origin") not in ("", own_origin) or request.header(b"sec-fetch-site").endswith("-site"):
            raise ServiceError(wire.FOREIGN_ORIGIN, status=403)
        given = _BEARER.fullmatch(request.header(b"authorization"))
        if given is None or Secret(given[1]) != self._services.operator_key:  # compared in constant time
            raise KeyRejected(wire.KEY_WRONG, status=401)

    # -- what the endpoints do ----------------------------------------------------------------------------

    async def _issue_lock(self, _: Request) -> dict[str, str]:
        lock, master_key, read_key = await self._services.dweets.locks.issue()
        return {"lock": lock, "master_key": master_key.reveal(), "read_key": read_key.reveal()}

    async def _revoke_lock(self, request: Request) -> dict[str, str | None]:
        lock = request.values["lock"]
        return {"lock": lock, "thing": await revoke(self._services.store.records, lock)}

    async def _reset_user(self, request: Request) -> list[str]:
        if done := await self._services.identity.reset(request.values["alias"]):
            return done
        raise NotFound(wire.NO_USER, status=404)

    async def _outbox(self, _: Request) -> list[dict[str, Any]]:
        """Return the alert mails, after waiting for the evaluation of new dweets (5 seconds at most)."""
        await self._services.dweets.alerts.settle()
        mails = map(msgspec.to_builtins, await self._services.dweets.email_queue.mails())
        return [{name: mail[name] for name in wire.MAIL_FIELDS} for mail in mails]

    async def _reward_configuration(self, _: Request) -> dict[str, Any]:
        return self._services.rewards.settings.rules.table()

    async def _retention(self, _: Request) -> list[dict[str, Any]]:
        settings = self._services.dweets.settings
        rows: list[tuple[str, int | None, int | None]] = [
            ("dweets of each thing", settings.keep, None),
            ("finished alert mails", settings.finished_mails, None),
            ("reward decisions", None, None),
            ("reward pages", None, rewards_wire.VIEW_LIFETIME_SECONDS),
        ]
        if settings.archive is not None:
            rows.insert(1, ("dweets in the archive", None, None))
        return [dict(zip(wire.RETENTION_FIELDS, row, strict=True)) for row in rows]

    async def _clock(self, _: Request) -> dict[str, Any]:
        clock = self._services.world.clock
        return {"now": clock.now(), "advances": isinstance(clock, SteppedClock)}

    async def _advance(self, request: Request) -> dict[str, Any]:
        clock = self._services.world.clock
        if not isinstance(clock, SteppedClock):
            raise Conflict(wire.REAL_CLOCK)
        try:
            clock.advance(seconds=msgspec.json.decode(request.body, type=dict[str, float])["seconds"])
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            raise MalformedRequest(wire.BAD_SECONDS) from None
        except ValueError as error:  # back in time, or beyond its end
            raise MalformedRequest(str(error)) from None
        return await self._clock(request)
