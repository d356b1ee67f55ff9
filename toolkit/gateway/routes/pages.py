"""Routes of the pages for browsers, which JSON clients never see, and of the files that these pages load."""

from __future__ import annotations

import importlib.metadata

from toolkit.dweets import wire
from toolkit.dweets.service.dweets import DweetService
from toolkit.endpoint import Endpoint
from toolkit.errors import NotFound, ServiceError
from toolkit.gateway.exchange import Header, Request, Response, Route, Routes
from toolkit.gateway.web_pages import follow_page, landing_page, static_files

LANDING = Endpoint("GET", "/")
README = Endpoint("GET", "/readme")
FOLLOW = Endpoint("GET", "/follow/{thing}")
STATIC = Endpoint("GET", "/static/{version}/{name}")

_TEXT = b"text/plain; charset=utf-8"
_A_YEAR: Header = (b"cache-control", b"public, max-age=31536000, immutable")
_NEVER: Header = (b"cache-control", b"no-store")


class _ForBrowsers(Routes):
    def refuse(self, error: ServiceError, request: Request) -> Response:
        """Answer with a sentence, as a person reads it."""
        return Response(error.status, error.message.encode("utf-8", "replace"), _TEXT)


class PageRoutes(_ForBrowsers):
    headers: tuple[Header, ...] = (_NEVER, (b"vary", b"accept"), (b"referrer-policy", b"no-referrer"))

    def __init__(self, service: DweetService) -> None:
        self._service = service
        self.table = [Route(LANDING, self._landing), Route(README, self._readme), Route(FOLLOW, self._follow)]

    async def _landing(self, request: Request) -> Response:
        dweets = await self._service.newest_of_public_things()
        return landing_page(dweets, request.base_url or "http://HOST:PORT")

    def _follow(self, request: Request) -> Response:
        # The page of a locked thing is the same as any other: its script asks for a key.
        return follow_page(wire.checked_thing(request.values["thing"]))

    def _readme(self, request: Request) -> Response:
        try:
            text = importlib.metadata.metadata("gateway-toolkit")["Description"]
        except importlib.metadata.PackageNotFoundError:
            raise NotFound("this toolkit runs from its sources: README.md lies beside them") from None
        return Response(200, text.encode("utf-8"), _TEXT)


class StaticRoutes(_ForBrowsers):
    segments = frozenset({b"static"})

    def __init__(self) -> None:
        self.table = [Route(STATIC, self._file)]

    def _file(self, request: Request) -> Response:
        version, files = static_files()
        if request.values["name"] not in files:
            raise NotFound("there is no such file", status=404)
        content_type, body = files[request.values["name"]]
        # While gateways behind a balancer are updated, a page of one may load a file from another.
        return Response(200, body, content_type, (_A_YEAR if request.values["version"] == version else _NEVER,))
