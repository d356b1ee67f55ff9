"""Routes of dweets; see `toolkit_gateway.http.exchange.Routes`."""

import json
from asyncio import Future
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from toolkit.dweets import wire
from toolkit.dweets.content import checked_content
from toolkit.endpoint import Endpoint
from toolkit.errors import KeyRejected, MalformedRequest, NotFound, RateLimited, ServiceError
from toolkit_gateway.dweets import refusals, replies
from toolkit_gateway.dweets.contents import checked_batch, content_names, content_of_form, content_of_pairs
from toolkit_gateway.dweets.dweets import DweetService
from toolkit_gateway.dweets.stored_days import StoredRange, csv_pieces, json_pieces
from toolkit_gateway.dweets.thing_cache import BATCH_BYTES, CachedThing
from toolkit_gateway.http.exchange import (
    JSON,
    Answer,
    Header,
    KeyAttempt,
    Request,
    Response,
    Route,
    Routes,
    Stream,
)
from toolkit_gateway.http.limits import StreamWriter
from toolkit_gateway.stores import Entry

_CSV = b"text/csv; charset=utf-8"
_EVENTS = b"text/event-stream"
_JAVASCRIPT = b"application/javascript; charset=utf-8"
_ANY_ORIGIN: tuple[Header, ...] = ((b"access-control-allow-origin", b"*"),)

# The body may be longer than the content: white space around it, percent-encoding of a form.
_POST_BYTES = 4 * wire.MAX_DWEET_BYTES


class DweetRoutes(Routes):
    first_segments = frozenset({b"dweet", b"dweets", b"get", b"listen", b"lock", b"unlock", b"remove", b"alert"})
    too_many_keys = RateLimited(refusals.RATE_EXCEEDED)

    def __init__(self, service: DweetService, *, cors: bool) -> None:
        self._service = service
        self.cross_origin = cors
        retention = wire.RETENTION_HEADER.lower().encode("ascii"), b"%d" % service.settings.keep
        self.headers = (*(_ANY_ORIGIN if cors else ()), (b"cache-control", b"no-store"), retention)
        kept = wire.MAIL_HEADER.lower().encode("ascii"), wire.MAIL_KEPT.encode("ascii")
        mail: tuple[Header, ...] = (kept,) if service.keeps_mails else ()
        table = [
            Route(wire.POST_DWEET, self._post, _POST_BYTES, respond=_posted),
            Route(wire.POST_DWEETS, self._post_batch, wire.MAX_BATCH_BYTES),
            Route(wire.POST_UNNAMED, self._post_unnamed, _POST_BYTES, respond=_posted),
            Route(wire.POST_QUIETLY, self._post, _POST_BYTES, respond=_posted_quietly),
            Route(wire.POST_QUIETLY_BY_GET, self._post, safe=False, respond=_posted_quietly, has_long_query=True),
            Route(wire.LISTEN, self._listen),
            self._reading(wire.GET_LATEST, 1, _latest_of),
            self._reading(wire.GET_HISTORY, wire.HISTORY_LENGTH, CachedThing.history),
            Route(wire.POST_DWEET_BY_GET, self._post, safe=False, respond=_posted, has_long_query=True),
            Route(wire.POST_UNNAMED_BY_GET, self._post_unnamed, safe=False, respond=_posted, has_long_query=True),
            Route(wire.GET_STORED, self._stored),
            Route(wire.GET_STATS, self._stats),
            Route(wire.SET_LOCK, self._lock, safe=False),
            _operation(wire.UNLOCK, "unlocking", "thing", service.locks.unlock),
            _operation(wire.REMOVE_LOCK, "removing", "lock", service.locks.remove),
            _operation(wire.SET_ALERT, "alerting", "alert", service.alerts.set, headers=mail, has_long_query=True),
            _operation(wire.GET_ALERT, "getting", "alert", service.alerts.get, safe=True, headers=mail),
            _operation(wire.REMOVE_ALERT, "removing", "alert", service.alerts.remove),
        ]
        # Any page can load a script, so without CORS no response is one, and a callback is ignored.
        self.table = [_jsonp(route) if cors and wire.CALLBACK in route.endpoint.query else route for route in table]

    def error_response(self, error: ServiceError, request: Request) -> Response:
        """Return the response to an error: with HTTP 200, unless the request is no operation of this service."""
        if error.status == 413 and not request.raw_path.startswith(b"/dweets/"):
            error = wire.too_large()  # callers need the limit of a dweet, not that of the body
        is_no_operation = error.status == 421 or (error.status in (404, 405) and not request.values)
        status = error.status if is_no_operation else 200
        response = Response(status, replies.failed(error))
        callback = request.query.get(wire.CALLBACK, "") if self.cross_origin else ""
        # A script element can only load a script, so a failure is one too.
        return _as_script(callback, response) if request.method == "GET" and replies.is_callback(callback) else response

    def key_attempt(self, request: Request) -> KeyAttempt | None:
        if not request.query_string or not (key := request.query.get("key")):
            return None
        query = request.query
        assert request.route is not None, "only a route calls this"
        lock = query.get("lock") if request.route.endpoint is wire.SET_LOCK else request.values.get("lock")
        # The thing tells nothing: a guesser may try the same lock on any thing.
        lock = lock or self._service.locks.lock_of_thing(request.values.get("thing", ""))
        # The log keeps the name, and no lock has a longer one.
        return KeyAttempt(f"the lock {lock[: wire.MAX_THING_BYTES]!a}", key) if lock else None

    def is_wrong_key(self, error: KeyRejected) -> bool:
        return error.message in (refusals.KEY_WRONG, refusals.LOCK_OR_KEY_WRONG)

    # -- posting ------------------------------------------------------------------------------------------

    def _post(self, request: Request) -> Future[list[Entry]]:
        key = request.query.get("key") if request.query_string else None
        return self._service.post_all(request.values["thing"], [_content(request)], key)

    def _post_unnamed(self, request: Request) -> Future[list[Entry]]:
        request.values["thing"] = self._service.fresh_name()
        return self._post(request)

    async def _post_batch(self, request: Request) -> Response:
        contents = checked_batch(request.body)
        entries = await self._service.post_all(request.values["thing"], contents, request.query.get("key"))
        data = b"[%b]" % b",".join([replies.receipt(entry.data, entry.id) for entry in entries])
        return Response(200, replies.succeeded("dweeting", "dweets", data))

    # -- reading ------------------------------------------------------------------------------------------

    def _reading(self, endpoint: Endpoint, length: int, body_of: Callable[[CachedThing], bytes | None]) -> Route:
        def read_or_load(request: Request) -> Response | Awaitable[CachedThing]:
            thing, key = request.values["thing"], request.query.get("key") if request.query_string else None
            cached = self._service.readable_thing(thing, key, length)
            return respond(cached) if cached is not None else self._service.things.load(thing, length)

        def respond(thing: CachedThing) -> Response:
            body = body_of(thing)
            if body is None:
                raise NotFound(refusals.NOT_FOUND)
            return Response(200, body)

        return Route(endpoint, read_or_load, respond=respond)

    async def _stored(self, request: Request) -> Response | Stream:
        query = {name: value for name, value in request.query.items() if value}
        if "date" not in query:
            raise MalformedRequest("date is required")
        kind = query.get("responseType", "json")
        thing, key, hour = request.values["thing"], query.get("key"), query.get("hour")
        stored = await self._service.stored_range(thing, key, query["date"], hour)
        if kind not in ("csv", "json"):
            raise MalformedRequest("responseType must be csv or json")
        if kind == "csv":
            return await _in_pieces(stored, csv_pieces(stored), _CSV)
        callback = query.get(wire.CALLBACK) if self.cross_origin else None
        return await _in_pieces(stored, json_pieces(stored, callback), JSON if callback is None else _JAVASCRIPT)

    async def _stats(self, request: Request) -> Response:
        newest = await self._service.active_things()
        things = [{"thing": thing, "keywords": content_names(record)} for thing, record in newest]
        return _succeeded("getting", "stats", {"active_things": things})

    async def _listen(self, request: Request) -> Stream:
        thing, query = request.values["thing"], request.query
        key = query.get("key")
        events = "text/event-stream" in request.header(b"accept")
        since = query.get("since") or (request.header(b"last-event-id") if events else "") or None
        number = await self._service.streams.position(thing, key, since)
        encode = replies.encode_event if events else replies.encode_frame

        async def begin_listening(writer: StreamWriter) -> Callable[[], None]:
            if events:
                writer.write(replies.encode_position(number))
            return await self._service.streams.listen(thing, key, number, encode, writer)

        return Stream(begin_listening, _EVENTS, replies.EVENT_HEARTBEAT) if events else Stream(begin_listening, JSON)

    async def _lock(self, request: Request) -> Response:
        thing, lock = request.values["thing"], request.query.get("lock", "")
        await self._service.locks.lock(thing, lock, request.query.get("key"))
        return _succeeded("locking", thing, lock)


def _operation(
    endpoint: Endpoint,
    by: str,
    the: str,
    work: Callable[..., Awaitable[object]],
    *,
    safe: bool = False,
    headers: tuple[Header, ...] = (),
    has_long_query: bool = False,
) -> Route:
    """Return a route that calls `work` with the values of the path and the key, and responds with its result."""

    async def answer(request: Request) -> Response:
        response = _succeeded(by, the, await work(**request.values, key=request.query.get("key")))
        return replace(response, headers=headers)

    return Route(endpoint, answer, safe=safe, has_long_query=has_long_query)


def _content(request: Request) -> bytes:
    if request.method != "POST":
        return content_of_pairs(request.pairs)
    is_form = request.media_type == "application/x-www-form-urlencoded"
    return content_of_form(request.body) if is_form else checked_content(request.body)


def _posted(entries: list[Entry]) -> Response:
    (entry,) = entries
    return Response(200, replies.posted(entry.data, entry.id))


def _posted_quietly(_: list[Entry]) -> Response:
    return Response(204, b"")


def _latest_of(thing: CachedThing) -> bytes | None:
    dweet = thing.latest()
    return dweet and b'{"this":"succeeded","by":"getting","the":"dweets","with":[%b]}' % dweet


async def _in_pieces(stored: StoredRange, pieces: AsyncIterator[bytes], content_type: bytes) -> Response | Stream:
    """Return the pieces as a response, or as a stream if they are too large to be held at once."""
    headers: tuple[Header, ...] = ()
    if deleted := await stored.deleted():
        headers = ((wire.GONE_HEADER.lower().encode("ascii"), deleted.header_value().encode("ascii")),)
    first_part = b""
    async for piece in pieces:
        first_part += piece
        if len(first_part) > BATCH_BYTES:
            break
    else:
        return Response(200, first_part, content_type, headers)

    async def write_pieces(writer: StreamWriter) -> Callable[[], None]:
        nonlocal first_part
        writer.write(first_part)
        first_part = b""  # not held in memory while the caller reads the rest
        await writer.drain()
        async for piece in pieces:
            writer.write(piece)
            await writer.drain()
        writer.end()
        return lambda: None

    return Stream(write_pieces, content_type, is_finite=True, headers=headers)


def _succeeded(by: str, the: str, data: object) -> Response:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Response(200, replies.succeeded(by, the, text.encode("utf-8")))


def _jsonp(route: Route) -> Route:
    """Return the route with each response wrapped in a call of the function ``callback``, if the query names one."""

    def answer_call(request: Request) -> Answer | Awaitable[Any]:
        if not request.query_string or "callback" not in request.query:
            return route.handler(request)
        if not replies.is_callback(request.query["callback"]):  # before anything is done: a GET may post or lock
            raise MalformedRequest("callback must be the name of a function")
        return answer_in_script(request)

    async def answer_in_script(request: Request) -> Answer:
        answer = route.handler(request)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, Stream):  # the pieces of a JSON stream already call the callback
            return answer
        response = answer if isinstance(answer, Response) else route.respond(answer)
        return _as_script(request.query["callback"], response)

    return route._replace(handler=answer_call)


def _as_script(callback: str, response: Response) -> Response:
    if response.content_type in (_CSV, _JAVASCRIPT):  # CSV stays CSV; a stored day is already wrapped
        return response
    before, after = replies.jsonp_wrapper(callback)
    body = before + replies.safe_in_script(response.body) + after
    return replace(response, body=body, content_type=_JAVASCRIPT)
