"""Routes of the pages for browsers, which JSON clients never see; see `toolkit.gateway.exchange.Routes`."""

from __future__ import annotations

import importlib.metadata

from toolkit.dweets.service.dweets import DweetService
from toolkit.endpoint import Endpoint
from toolkit.errors import KeyRejected, NotFound, ServiceError
from toolkit.gateway.exchange import Header, Request, Response, Route, WrongKey
from toolkit.gateway.landing_page import landing_page, policy

LANDING = Endpoint("GET", "/")
README = Endpoint("GET", "/readme")

_HTML = b"text/html; charset=utf-8"
_TEXT = b"text/plain; charset=utf-8"


class LandingRoutes:
    segments: frozenset[bytes] = frozenset()
    cross_origin = False

    def __init__(self, service: DweetService) -> None:
        self._service = service
        self.headers: tuple[Header, ...] = (
            (b"cache-control", b"no-store"),
            (b"vary", b"accept"),
            (b"content-security-policy", policy().encode("ascii")),
            (b"referrer-policy", b"no-referrer"),
        )
        self.table = [Route(LANDING, self._page), Route(README, self._readme)]

    def refuse(self, error: ServiceError, request: Request) -> Response:
        """Answer with a sentence, as a person reads it."""
        return Response(error.status, error.message.encode("utf-8", "replace"), _TEXT)

    def wrong_key(self, error: KeyRejected, request: Request) -> WrongKey | None:
        return None

    async def _page(self, request: Request) -> Response:
        dweets = await self._service.newest_of_public_things()
        return Response(200, landing_page(dweets, request.base_url or "http://HOST:PORT"), _HTML)

    def _readme(self, request: Request) -> Response:
        try:
            text = importlib.metadata.metadata("gateway-toolkit")["Description"]
        except importlib.metadata.PackageNotFoundError:
            raise NotFound("this toolkit runs from its sources: README.md lies beside them") from None
        return Response(200, text.encode("utf-8"), _TEXT)
