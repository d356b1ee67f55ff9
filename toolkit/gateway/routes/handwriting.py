"""Routes of handwriting; see `toolkit.gateway.exchange.Routes`."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping

import msgspec

from toolkit.errors import (
    InvalidParameters,
    KeyRejected,
    MalformedRequest,
    NotFound,
    Overloaded,
    RateLimited,
    ServiceError,
)
from toolkit.gateway.exchange import Handler, Header, Request, Response, Route, Routes, WrongKey
from toolkit.handwriting import wire
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.service.handwriting import Caller, HandwritingService, etag_of
from toolkit.handwriting.service.query import check_query, listing_of
from toolkit.handwriting.wire import Format
from toolkit.rate_limit import Allowance

_JSON = b"application/json; charset=utf-8"
_NO_STORE: Header = (b"cache-control", b"no-store")
_ROUTER_TEXTS = {404: wire.NOT_FOUND, 405: wire.METHOD_NOT_ALLOWED}

_Call = Callable[[Request, Mapping[str, str], Caller], Awaitable[Response]]


class HandwritingRoutes(Routes):
    segments = frozenset({b"handwritings", b"render"})

    def __init__(self, service: HandwritingService, *, cors: bool) -> None:
        self._service = service
        self.headers: tuple[Header, ...] = ((b"access-control-allow-origin", b"*"),) if cors else ()
        self.table = [
            Route(wire.GET_LISTING, self._admitted(self._listing)),
            Route(wire.GET_HANDWRITING, self._admitted(self._record)),
        ]
        for kind, endpoint in wire.RENDER_ENDPOINTS.items():
            self.table.append(Route(endpoint, self._admitted(self._render(kind)), cancellable=True))
        letter = Route(wire.POST_LETTER, self._admitted(self._letter), wire.MAX_LETTER_BYTES, cancellable=True)
        self.table.append(letter)

    def refuse(self, error: ServiceError, request: Request) -> Response:
        if not request.values and error.status in _ROUTER_TEXTS and not isinstance(error, InvalidParameters):
            error = ServiceError(_ROUTER_TEXTS[error.status], status=error.status)
        headers: list[Header] = [_NO_STORE]
        if error.status == 401:
            headers.append((b"www-authenticate", b'Basic realm="handwriting"'))
        if isinstance(error, RateLimited | Overloaded):
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after))))
        return Response(error.status, wire.error_body(error), _JSON, tuple(headers))

    def wrong_key(self, error: KeyRejected, request: Request) -> WrongKey | None:
        is_given = b"authorization" in request.fields or bool(request.query.get("apikey"))
        return WrongKey("handwriting", RateLimited(wire.RATE_EXCEEDED)) if is_given else None

    def _admitted(self, call: _Call) -> Handler:
        """Check the key and the rate of a call; every response tells what is left of the rate."""

        async def handle(request: Request) -> Response:
            check_query(request.query_string)
            query = request.query
            caller = self._service.caller(query, request.header(b"authorization"))
            try:
                left = self._service.admit(caller)
                response = await call(request, query, caller)
            except RateLimited as error:
                left, response = self._service.allowance(caller), self.refuse(error, request)
            except ServiceError as error:
                response = self.refuse(error, request)
            response.headers += _left(left)
            return response

        return handle

    async def _listing(self, request: Request, query: Mapping[str, str], caller: Caller) -> Response:
        return _json(self._service.listing(listing_of(query)))

    async def _record(self, request: Request, query: Mapping[str, str], caller: Caller) -> Response:
        return _json(self._service.record(request.values["id"]))

    def _render(self, kind: Format) -> _Call:
        content_type = wire.CONTENT_TYPES[kind].encode("ascii")

        async def call(request: Request, query: Mapping[str, str], caller: Caller) -> Response:
            parameters = await self._service.checked(query, kind, caller)
            name = etag_of(parameters)
            caching = _caching(name)
            if name is not None and f'"{name}"' in request.header(b"if-none-match"):
                return Response(304, b"", content_type, caching)
            done = await self._service.render(parameters, caller)
            return Response(200, done.data, content_type, (*caching, *_figures(done)))

        return call

    async def _letter(self, request: Request, query: Mapping[str, str], caller: Caller) -> Response:
        kind = next((kind for kind in wire.LETTER_KINDS if kind == request.values["kind"]), None)
        if kind is None:
            raise NotFound(wire.NOT_FOUND)
        try:
            text = msgspec.json.decode(request.body, type=dict[str, str])["text"]
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError):
            raise MalformedRequest(wire.LETTER_BODY) from None
        parameters = await self._service.checked({**query, "text": text}, kind, caller, is_letter=True)
        done = await self._service.render(parameters, caller)
        content_type = wire.CONTENT_TYPES[kind].encode("ascii")
        return Response(200, done.data, content_type, (_NO_STORE, *_figures(done)))


def _figures(done: Handwritten) -> Iterator[Header]:
    return ((name.lower().encode("ascii"), text.encode("ascii")) for name, text in done.headers().items())


def _json(data: object) -> Response:
    return Response(200, json.dumps(data, ensure_ascii=False).encode("utf-8"), _JSON, (_NO_STORE,))


def _caching(name: str | None) -> tuple[Header, ...]:
    if name is None:
        return (_NO_STORE,)
    return ((b"etag", f'"{name}"'.encode("ascii")), (b"cache-control", b"private, max-age=86400"))


def _left(allowance: Allowance) -> tuple[Header, ...]:
    names = (b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-reset")
    return tuple((name, b"%d" % number) for name, number in zip(names, allowance, strict=True))
