"""Routes of handwriting; see `toolkit_gateway.http.exchange.Routes`."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import quote

import msgspec

from toolkit.errors import InvalidParameters, MalformedRequest, NotFound, RateLimited, ServiceError
from toolkit.handwriting import wire
from toolkit.handwriting.wire import FileKind
from toolkit_gateway.handwriting import refusals
from toolkit_gateway.handwriting.handwriting import Caller, HandwritingService, etag_of
from toolkit_gateway.handwriting.query import check_query, parse_listing_query
from toolkit_gateway.http.exchange import Handler, Header, KeyAttempt, Request, Response, Route, Routes, retry_after
from toolkit_gateway.ink.parameters import Rendering
from toolkit_gateway.rate_limit import Allowance

_JSON = b"application/json; charset=utf-8"
_NO_STORE: Header = (b"cache-control", b"no-store")
_ROUTER_TEXTS = {404: refusals.NOT_FOUND, 405: refusals.METHOD_NOT_ALLOWED}  # for paths and methods without a route

_CallerHandler = Callable[[Request, Caller], Awaitable[Response]]


class HandwritingRoutes(Routes):
    first_segments = frozenset({b"handwritings", b"render"})
    too_many_keys = RateLimited(refusals.RATE_EXCEEDED)

    def __init__(self, service: HandwritingService, *, cors: bool) -> None:
        self._service = service
        self.headers = ((b"access-control-allow-origin", b"*"),) if cors else ()
        self.table = [
            Route(wire.GET_LISTING, self._for_callers(self._listing)),
            Route(wire.GET_HANDWRITING, self._for_callers(self._handwriting)),
            *(
                Route(endpoint, self._for_callers(partial(self._render, kind)), cancellable=True, has_long_query=True)
                for kind, endpoint in wire.RENDER_ENDPOINTS.items()
            ),
            Route(wire.POST_LETTER, self._for_callers(self._letter), wire.MAX_LETTER_BYTES, cancellable=True),
        ]

    def error_response(self, error: ServiceError, request: Request) -> Response:
        if not request.values and error.status in _ROUTER_TEXTS and not isinstance(error, InvalidParameters):
            error = ServiceError(_ROUTER_TEXTS[error.status], status=error.status)
        challenge: tuple[Header, ...] = ((b"www-authenticate", b'Basic realm="handwriting"'),)
        headers = challenge if error.status == 401 else retry_after(error)
        return Response(error.status, refusals.error_body(error), _JSON, (_NO_STORE, *headers))

    def key_attempt(self, request: Request) -> KeyAttempt | None:
        key = request.query.get("apikey") or request.header(b"authorization")
        return KeyAttempt("handwriting", key) if key and self._service.has_keys else None

    def _for_callers(self, handler: _CallerHandler) -> Handler:
        """Check the key and the rate limit before `handler`; every response to a valid key has the rate headers."""

        async def admit_and_handle(request: Request) -> Response:
            check_query(request.query_string)
            caller = self._service.caller(request.query, request.header(b"authorization"))
            try:
                allowance = self._service.admit(caller)
                response = await handler(request, caller)
            except RateLimited as error:
                allowance, response = self._service.allowance(caller), self.error_response(error, request)
            except ServiceError as error:
                response = self.error_response(error, request)
            response.headers += _rate_headers(allowance)
            return response

        return admit_and_handle

    async def _listing(self, request: Request, caller: Caller) -> Response:
        return _json(self._service.listing(parse_listing_query(request.query)))

    async def _handwriting(self, request: Request, caller: Caller) -> Response:
        return _json(self._service.handwriting(request.values["id"]))

    async def _render(self, kind: FileKind, request: Request, caller: Caller) -> Response:
        parameters = await self._service.parse_query(request.query, kind, caller)
        etag = etag_of(parameters)
        if etag is not None and f'"{etag}"' in request.header(b"if-none-match"):
            return Response(304, b"", headers=_caching_headers(etag))
        return _file_response(await self._service.render(parameters, caller), _caching_headers(etag))

    async def _letter(self, request: Request, caller: Caller) -> Response:
        kind = next((kind for kind in wire.LETTER_KINDS if kind == request.values["kind"]), None)
        if kind is None:
            raise NotFound(refusals.NOT_FOUND)
        try:
            text = msgspec.json.decode(request.body, type=dict[str, str])["text"]
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError):
            raise MalformedRequest(refusals.LETTER_BODY) from None
        parameters = await self._service.parse_query({**request.query, "text": text}, kind, caller, is_multipage=True)
        return _file_response(await self._service.render(parameters, caller), (_NO_STORE,))


def _file_response(rendering: Rendering, caching: tuple[Header, ...]) -> Response:
    headers = ((name.lower().encode("ascii"), text.encode("ascii")) for name, text in _headers_of(rendering).items())
    return Response(200, rendering.data, wire.CONTENT_TYPES[rendering.kind].encode("ascii"), (*caching, *headers))


def _headers_of(rendering: Rendering) -> dict[str, str]:
    headers = {
        wire.SEED_HEADER: rendering.seed,
        wire.OVERFLOW_HEADER: "true" if rendering.overflow else "false",
        wire.PAGE_SIZE_HEADER: f"{round(rendering.width, 2):g}x{round(rendering.height, 2):g}",
        wire.LINES_HEADER: str(rendering.lines),
        wire.INK_SHARE_HEADER: f"{rendering.ink_share:.6f}",
    }
    if rendering.cut:
        headers[wire.CUT_HEADER] = quote(rendering.cut)
    if rendering.missing:
        headers[wire.MISSING_HEADER] = quote(rendering.missing)
    if rendering.pages > 1:
        headers[wire.PAGES_HEADER] = str(rendering.pages)
    return headers


def _json(data: object) -> Response:
    return Response(200, json.dumps(data, ensure_ascii=False).encode("utf-8"), _JSON, (_NO_STORE,))


def _caching_headers(etag: str | None) -> tuple[Header, ...]:
    if etag is None:
        return (_NO_STORE,)
    return ((b"etag", f'"{etag}"'.encode("ascii")), (b"cache-control", b"private, max-age=86400"))


def _rate_headers(allowance: Allowance) -> tuple[Header, ...]:
    names = (b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-reset")
    return tuple((name, b"%d" % number) for name, number in zip(names, allowance, strict=True))
