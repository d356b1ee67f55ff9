"""Routes of the pages for browsers, which JSON clients never see, and of the files that these pages load."""

from __future__ import annotations

import importlib.metadata

from toolkit.dweets import wire
from toolkit.dweets.service.dweets import DweetService
from toolkit.endpoint import Endpoint
from toolkit.errors import KeyRejected, NotFound, ServiceError
from toolkit.gateway.exchange import Header, Request, Response, Route, WrongKey
from toolkit.gateway.landing_page import landing_page
from toolkit.gateway.web_pages import follow_page, policy, static_files

LANDING = Endpoint("GET", "/")
README = Endpoint("GET", "/readme")
FOLLOW = Endpoint("GET", "/follow/{thing}")
STATIC = Endpoint("GET", "/static/{version}/{name}")

_HTML = b"text/html; charset=utf-8"
_TEXT = b"text/plain; charset=utf-8"
_A_YEAR: Header = (b"cache-control", b"public, max-age=31536000, immutable")
_NEVER: Header = (b"cache-control", b"no-store")


class _ForBrowsers:
    segments: frozenset[bytes] = frozenset()
    cross_origin = False
    headers: tuple[Header, ...] = ()

    def refuse(self, error: ServiceError, request: Request) -> Response:
        """Answer with a sentence, as a person reads it."""
        return Response(error.status, error.message.encode("utf-8", "replace"), _TEXT)

    def wrong_key(self, error: KeyRejected, request: Request) -> WrongKey | None:
        return None


class PageRoutes(_ForBrowsers):
    headers: tuple[Header, ...] = (_NEVER, (b"vary", b"accept"), (b"referrer-policy", b"no-referrer"))

    def __init__(self, service: DweetService) -> None:
        self._service = service
        self.table = [Route(LANDING, self._landing), Route(README, self._readme), Route(FOLLOW, self._follow)]

    async def _landing(self, request: Request) -> Response:
        dweets = await self._service.newest_of_public_things()
        return _page(landing_page(dweets, request.base_url or "http://HOST:PORT"), scripts=False)

    def _follow(self, request: Request) -> Response:
        # The page of a locked thing is the same as any other: its script asks for a key.
        return _page(follow_page(wire.checked_thing(request.values["thing"])), scripts=True)

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
        files = static_files()
        file = files.by_name.get(request.values["name"])
        if file is None:
            raise NotFound("there is no such file", status=404)
        # While gateways behind a balancer are updated, a page of one may load a file from another.
        lifetime = _A_YEAR if request.values["version"] == files.version else _NEVER
        return Response(200, file.body, file.content_type, (lifetime,))


def _page(html: bytes, *, scripts: bool) -> Response:
    return Response(200, html, _HTML, ((b"content-security-policy", policy(scripts=scripts)),))
