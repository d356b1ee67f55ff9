"""Mobile rewards without HTTP: sessions, moments, reward pages."""

import asyncio
import math
from typing import NamedTuple

import msgspec

from toolkit.rewards import wire
from toolkit.rewards.engine import Moment
from toolkit.rewards.wire import device_label
from toolkit.secret import Secret
from toolkit_gateway.rate_limit import LimitReached, RateLimit
from toolkit_gateway.rewards.forms import app_label, checked_device_id, read_form
from toolkit_gateway.rewards.ledger import Ledger, Record, RewardResponse
from toolkit_gateway.rewards.refusals import refusal
from toolkit_gateway.rewards.settings import Partner, RewardSettings
from toolkit_gateway.rewards.views import View
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import Store


class RewardRequest(NamedTuple):
    """A request that starts a session or asks for a decision at a moment."""

    gatewaykey: str | None
    cache_buster: str | None
    body: bytes
    #: The URL at which callers and browsers reach the gateway.
    base_url: str


class RewardService:
    def __init__(self, store: Store, runtime: Runtime, settings: RewardSettings) -> None:
        self._runtime = runtime
        self.settings = settings
        self._partners = {partner.gatewaykey: partner for partner in settings.partners}
        limit = settings.calls_a_minute
        self._rate_limit = limit and RateLimit(limit, limit / 60, lambda: runtime.clock.now() / 1000)
        self._ledger = Ledger(store, runtime, settings.rules)

    async def close(self) -> None:
        await self._ledger.close()

    async def respond(self, request: RewardRequest) -> RewardResponse:
        """Handle a session or moment request; errors have a code of `refusals.REFUSALS`."""
        partner, number = self._partner_of(request), request.cache_buster
        if number and not (number.isascii() and number.isdigit() and len(number) <= 13):
            raise refusal("bad_r")
        form = read_form(request.body, self._runtime.clock.now(), strict=self.settings.strict)
        if Secret(form.app_key) not in partner.apps:
            raise refusal("unknown_app")
        device = checked_device_id(form.device_id, partner.company_token)
        if self._rate_limit:
            try:
                self._rate_limit.take(device)
            except LimitReached as reached:
                seconds = math.ceil(reached.retry_after - 1e-6)
                raise refusal("too_many_requests", seconds=seconds) from None
        app, device, at = app_label(form.app_key), device_label(device), self._runtime.clock.tick()
        if form.start is None:
            moment = Moment(app, device, form.moment_id, at, form.test)
            return await self._ledger.decide(moment, request.base_url, show_arm=partner.show_arms)
        await self._ledger.start_session(app, device, at, test=form.test)
        return RewardResponse(msgspec.json.encode({"date": form.start}), None)

    async def view(self, view_id: str, token: str) -> tuple[View, bool]:
        """Return a view and whether it is claimed; raise NotFound for a wrong token, an unknown or an expired view."""
        view = await self._ledger.views.find(view_id, token, self._runtime.clock.now())
        return view, await self._ledger.views.has_event(view, wire.CLAIMED)

    async def record_event(self, view_id: str, token: str, event: str) -> None:
        """Record an event of the reader, such as ``claimed``; each event of a view counts once."""
        if event not in wire.READER_EVENTS:
            raise refusal("unknown_reward")
        view = await self._ledger.views.find(view_id, token, self._runtime.clock.now())
        await self._ledger.views.record_event(view, event, self._runtime.clock.tick())

    async def decisions(self) -> list[Record]:
        """Return all decisions in order, with the times of ``shown``, ``claimed``, ``dismissed`` (in milliseconds)."""
        records, events = await asyncio.gather(self._ledger.decisions(), self._ledger.views.event_times())
        return [{**record, **events.get(record["view_id"], {})} for record in records]

    async def sessions(self) -> list[Record]:
        return await self._ledger.sessions()

    def _partner_of(self, request: RewardRequest) -> Partner:
        if not request.gatewaykey:
            raise refusal("no_gatewaykey")
        partner = self._partners.get(Secret(request.gatewaykey))
        if partner is None:
            raise refusal("bad_gatewaykey")
        return partner
