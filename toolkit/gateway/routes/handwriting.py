"""Routes of handwriting; see `toolkit.gateway.exchange.Routes`."""

import json
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from toolkit.errors import InvalidParameters, KeyRejected, MalformedRequest, NotFound, RateLimited, ServiceError
from toolkit.gateway.exchange import Handler, Header, Request, Response, Route, Routes, retry_after
from toolkit.handwriting import wire
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.service.handwriting import Caller, HandwritingService, etag_of
from toolkit.handwriting.service.query import check_query, listing_of
from toolkit.handwriting.wire import Format
from toolkit.rate_limit import Allowance

_JSON = b"application/json; charset=utf-8"
_NO_STORE: Header = (b"cache-control", b"no-store")
_ROUTER_TEXTS = {404: wire.NOT_FOUND, 405: wire.METHOD_NOT_ALLOWED}

_Call = Callable[[Request, Caller], Awaitable[Response]]


class HandwritingRoutes(Routes):
    segments = frozenset({b"handwritings", b"render"})
    too_many_keys = RateLimited(wire.RATE_EXCEEDED)

    def __init__(self, service: HandwritingService, *, cors: bool) -> None:
        self._service = service
        self.headers = ((b"access-control-allow-origin", b"*"),) if cors else ()
        renders = {endpoint: partial(self._render, kind) for kind, endpoint in wire.RENDER_ENDPOINTS.items()}
        self.table = [
            Route(wire.GET_LISTING, self._admitted(self._listing)),
            Route(wire.GET_HANDWRITING, self._admitted(self._record)),
            *(Route(endpoint, self._admitted(render), cancellable=True) for endpoint, render in renders.items()),
            Route(wire.POST_LETTER, self._admitted(self._letter), wire.MAX_LETTER_BYTES, cancellable=True),
        ]

    def refuse(self, error: ServiceError, request: Request) -> Response:
        if not request.values and error.status in _ROUTER_TEXTS and not isinstance(error, InvalidParameters):
            error = ServiceError(_ROUTER_TEXTS[error.status], status=error.status)
        challenge: tuple[Header, ...] = ((b"www-authenticate", b'Basic realm="handwriting"'),)
        headers = challenge if error.status == 401 else retry_after(error)
        return Response(error.status, wire.error_body(error), _JSON, (_NO_STORE, *headers))

    def wrong_key(self, error: KeyRejected, request: Request) -> str | None:
        is_given = b"authorization" in request.fields or bool(request.query.get("apikey"))
        return "handwriting" if is_given else None

    def _admitted(self, call: _Call) -> Handler:
        """Check the key and the rate of a call; every response tells what is left of the rate."""

        async def admit_and_call(request: Request) -> Response:
            check_query(request.query_string)
            caller = self._service.caller(request.query, request.header(b"authorization"))
            try:
                left = self._service.admit(caller)
                response = await call(request, caller)
            except RateLimited as error:
                left, response = self._service.allowance(caller), self.refuse(error, request)
            except ServiceError as error:
                response = self.refuse(error, request)
            response.headers += _rate_headers(left)
            return response

        return admit_and_call

    async def _listing(self, request: Request, caller: Caller) -> Response:
        return _json(self._service.listing(listing_of(request.query)))

    async def _record(self, request: Request, caller: Caller) -> Response:
        return _json(self._service.record(request.values["id"]))

    async def _render(self, kind: Format, request: Request, caller: Caller) -> Response:
        parameters = await self._service.checked(request.query, kind, caller)
        name = etag_of(parameters)
        if name is not None and f'"{name}"' in request.header(b"if-none-match"):
            return Response(304, b"", headers=_caching_headers(name))
        return _picture(kind, await self._service.render(parameters, caller), _caching_headers(name))

    async def _letter(self, request: Request, caller: Caller) -> Response:
        kind = next((kind for kind in wire.LETTER_KINDS if kind == request.values["kind"]), None)
        if kind is None:
            raise NotFound(wire.NOT_FOUND)
        try:
            text = msgspec.json.decode(request.body, type=dict[str, str])["text"]
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError):
            raise MalformedRequest(wire.LETTER_BODY) from None
        parameters = await self._service.checked({**request.query, "text": text}, kind, caller, is_letter=True)
        return _picture(kind, await self._service.render(parameters, caller), (_NO_STORE,))


def _picture(kind: Format, done: Handwritten, caching: tuple[Header, ...]) -> Response:
    figures = ((name.lower().encode("ascii"), text.encode("ascii")) for name, text in done.headers().items())
    return Response(200, done.data, wire.CONTENT_TYPES[kind].encode("ascii"), (*caching, *figures))


def _json(data: object) -> Response:
    return Response(200, json.dumps(data, ensure_ascii=False).encode("utf-8"), _JSON, (_NO_STORE,))


def _caching_headers(name: str | None) -> tuple[Header, ...]:
    if name is None:
        return (_NO_STORE,)
    return ((b"etag", f'"{name}"'.encode("ascii")), (b"cache-control", b"private, max-age=86400"))


def _rate_headers(allowance: Allowance) -> tuple[Header, ...]:
    names = (b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-reset")
    return tuple((name, b"%d" % number) for name, number in zip(names, allowance, strict=True))
