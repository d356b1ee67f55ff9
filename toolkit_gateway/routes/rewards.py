"""Routes of mobile rewards; see `toolkit_gateway.http.exchange.Routes`."""

from toolkit.errors import ServiceError
from toolkit.rewards import wire
from toolkit_gateway.http.exchange import JSON, Header, KeyAttempt, Request, Response, Route, Routes, retry_after
from toolkit_gateway.rewards import refusals, reward_page
from toolkit_gateway.rewards.rewards import RewardRequest, RewardService

_HTML = b"text/html; charset=utf-8"
_PAGE_PREFIX = b"/reward/"
# A sandboxed page has no origin, so any origin may read the response to an event, which says only whether it failed.
_ANY_ORIGIN: Header = (b"access-control-allow-origin", b"*")


class RewardRoutes(Routes):
    first_segments = frozenset({b"2.0", b"reward"})
    too_many_keys = refusals.refusal("too_many_wrong_keys", seconds=1)

    def __init__(self, service: RewardService, *, public_url: str | None) -> None:
        self._service = service
        self._public_url = public_url
        # No preflight (`cross_origin`): partner keys do not belong in a browser, and the page's events need none.
        self.table = [
            Route(wire.POST_MOMENT, self._moment, wire.MAX_BODY_BYTES),
            Route(wire.GET_REWARD_PAGE, self._page),
            Route(wire.POST_EVENT, self._record_event),
        ]

    def error_response(self, error: ServiceError, request: Request) -> Response:
        """Return the error as an HTML page if a person opened a reward page, otherwise as JSON."""
        error = refusals.in_dialect(error)
        if request.raw_path.startswith(_PAGE_PREFIX) and request.method in ("GET", "HEAD"):
            document = reward_page.render_notice(error.message)
            return Response(error.status, document.html, _HTML, _page_headers(document))
        if request.raw_path.startswith(_PAGE_PREFIX):
            return Response(error.status, refusals.error_body(error), JSON, (_ANY_ORIGIN,))
        return Response(error.status, refusals.error_body(error), JSON, retry_after(error))

    def key_attempt(self, request: Request) -> KeyAttempt | None:
        key = request.query.get(wire.GATEWAYKEY)
        return KeyAttempt("mobile rewards", key) if key else None

    async def _moment(self, request: Request) -> Response:
        _check_media_types(request)
        query = request.query
        reward_request = RewardRequest(
            query.get(wire.GATEWAYKEY),
            query.get(wire.CACHE_BUSTER),
            request.body,
            self._public_url or request.base_url,
        )
        body, decision = await self._service.respond(reward_request)
        if decision is None:
            return Response(200, body)
        header = wire.DECISION_HEADER.lower().encode("ascii"), decision.encode("ascii")
        return Response(200, body, JSON, (header,))

    async def _page(self, request: Request) -> Response:
        token = request.query.get(wire.VIEW_TOKEN, "")
        view, claimed = await self._service.view(request.values["view"], token)
        document = reward_page.render_page(view, claimed=claimed)
        return Response(200, document.html, _HTML, _page_headers(document))

    async def _record_event(self, request: Request) -> Response:
        values = request.values
        await self._service.record_event(values["view"], request.query.get(wire.VIEW_TOKEN, ""), values["event"])
        return Response(204, b"", headers=(_ANY_ORIGIN,))


def _page_headers(document: reward_page.Document) -> tuple[Header, ...]:
    # The page's URL contains the token of the view, which other sites must not see.
    return (b"content-security-policy", document.csp.encode("ascii")), (b"referrer-policy", b"no-referrer")


def _check_media_types(request: Request) -> None:
    if request.media_type != "application/json":
        raise refusals.refusal("unsupported_media_type")
    accepted = request.accepted
    if accepted and accepted.isdisjoint(("application/json", "application/*", "*/*")):
        raise refusals.refusal("not_acceptable")
