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
from toolkit.gateway.exchange import JSON, Header, Request, Response, Route, Routes, WrongKey
from toolkit.operator import wire
from toolkit.outside_world import SteppedClock
from toolkit.rewards import wire as rewards_wire
from toolkit.secret import Secret

if TYPE_CHECKING:
    from toolkit.gateway.services import Services

_Work = Callable[[Request], Awaitable[dict[str, Any]]]
_BEARER = re.compile(r"Bearer +(\S+) *", re.IGNORECASE)


class OperatorRoutes(Routes):
    segments = frozenset({b"operator"})
    headers: tuple[Header, ...] = ((b"cache-control", b"no-store"),)

    def __init__(self, services: Services) -> None:
        self._services = services
        self._loopback_names = Hosts()
        self.table = [
            self._route(wire.GET_LOCKS, self._locks),
            self._route(wire.ISSUE_LOCK, self._issue_lock),
            self._route(wire.REVOKE_LOCK, self._revoke_lock),
            self._route(wire.REPAIR_LOCK, self._repair),
            self._route(wire.REPAIR_THING, self._repair),
            self._route(wire.RESET_USER, self._reset_user),
            self._route(wire.GET_OUTBOX, self._outbox),
            self._route(wire.GET_DECISIONS, self._decisions),
            self._route(wire.GET_REWARD_SESSIONS, self._reward_sessions),
            self._route(wire.GET_REWARD_CONFIGURATION, self._reward_configuration),
            self._route(wire.GET_RETENTION, self._retention),
            self._route(wire.GET_CLOCK, self._clock),
            self._route(wire.ADVANCE_CLOCK, self._advance),
        ]

    def refuse(self, error: ServiceError, request: Request) -> Response:
        headers: tuple[Header, ...] = ()
        if error.status == 401:
            headers = ((b"www-authenticate", b'Bearer realm="operator"'),)
        elif isinstance(error, RateLimited):
            headers = ((b"retry-after", b"1"),)
        return Response(error.status, wire.failed(error), JSON, headers)

    def wrong_key(self, error: KeyRejected, request: Request) -> WrongKey | None:
        return WrongKey("the operator API", RateLimited(wire.TOO_MANY_WRONG_KEYS)) if error.status == 401 else None

    def _route(self, endpoint: Endpoint, work: _Work) -> Route:
        async def handle(request: Request) -> Response:
            self._check(request)
            return Response(200, msgspec.json.encode(await work(request)))

        return Route(endpoint, handle, wire.MAX_BODY_BYTES if endpoint.method == "POST" else 0)

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

    # -- locks --------------------------------------------------------------------------------------------

    async def _locks(self, _: Request) -> dict[str, Any]:
        return {"locks": await lock_rows(self._services.store.records)}

    async def _issue_lock(self, _: Request) -> dict[str, Any]:
        lock, master_key, read_key = await self._services.dweets.locks.issue()
        return {"lock": lock, "master_key": master_key.reveal(), "read_key": read_key.reveal()}

    async def _revoke_lock(self, request: Request) -> dict[str, Any]:
        lock = request.values["lock"]
        return {"lock": lock, "thing": await revoke(self._services.store.records, lock)}

    async def _repair(self, request: Request) -> dict[str, Any]:
        return {"done": await repair(self._services.store.records, **request.values)}

    # -- users of mobile identity ---------------------------------------------------------------------------

    async def _reset_user(self, request: Request) -> dict[str, Any]:
        if done := await self._services.identity.reset(request.values["alias"]):
            return {"done": done}
        raise NotFound(wire.NO_USER, status=404)

    # -- what the gateway keeps -----------------------------------------------------------------------------

    async def _outbox(self, _: Request) -> dict[str, Any]:
        """Every dweet that was acknowledged before has been evaluated."""
        await self._services.dweets.alerts.settle()
        mails = map(msgspec.to_builtins, await self._services.dweets.email_queue.mails())
        return {"mails": [{name: mail[name] for name in wire.MAIL_FIELDS} for mail in mails]}

    async def _decisions(self, _: Request) -> dict[str, Any]:
        return {"decisions": await self._services.rewards.decisions()}

    async def _reward_sessions(self, _: Request) -> dict[str, Any]:
        return {"sessions": await self._services.rewards.sessions()}

    async def _reward_configuration(self, _: Request) -> dict[str, Any]:
        return {"configuration": self._services.rewards.configuration.table()}

    async def _retention(self, _: Request) -> dict[str, Any]:
        settings = self._services.dweets.settings
        rows: list[tuple[str, int | None, int | None]] = [
            ("dweets of each thing", settings.keep, None),
            ("finished alert mails", settings.finished_mails, None),
            ("reward decisions", None, None),
            ("reward pages", None, rewards_wire.VIEW_SECONDS),
        ]
        if settings.archive is not None:
            rows.insert(1, ("dweets in the archive", None, None))
        return {"retention": [dict(zip(wire.RETENTION_FIELDS, row, strict=True)) for row in rows]}

    # -- the clock ----------------------------------------------------------------------------------------

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
