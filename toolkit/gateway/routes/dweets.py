"""Routes of section A."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import orjson

from toolkit.dweets import wire
from toolkit.dweets.content import checked_batch, checked_content, content_of_form, content_of_pairs
from toolkit.dweets.service.dweets import DweetService
from toolkit.dweets.service.things import HotThing
from toolkit.dweets.stream import EVENT_HEARTBEAT, encode_event, encode_frame, encode_position
from toolkit.errors import InvalidArgument, MalformedRequest, NotFound, ServiceError
from toolkit.gateway.exchange import Header, Pending, Request, Response, Route, Stream, Writer
from toolkit.stores import Entry

_JAVASCRIPT = b"application/javascript; charset=utf-8"
_EVENTS = b"text/event-stream"
_CSV = b"text/csv; charset=utf-8"
_ANY_ORIGIN: tuple[Header, ...] = ((b"access-control-allow-origin", b"*"),)

# All but streams, which have no end to put a bracket at.
_WholeHandler = Callable[[Request], Response | Pending | Awaitable[Response]]

# The body may be longer than the content: white space around it, percent-encoding of a form.
_POST_BYTES = 4 * wire.MAX_DWEET_BYTES


def _receipt(entries: list[Entry]) -> Response:
    (entry,) = entries
    return Response(200, wire.posted(entry.data, entry.id))


class DweetRoutes:
    """See `toolkit.gateway.exchange.Routes`."""

    segments = frozenset({b"dweet", b"dweets", b"get", b"listen", b"lock", b"unlock", b"remove", b"alert"})

    def __init__(self, service: DweetService, *, cors: bool) -> None:
        self._service = service
        self.cross_origin = cors
        self.headers: tuple[Header, ...] = (*(_ANY_ORIGIN if cors else ()), (b"cache-control", b"no-store"))
        self.table = [
            Route(wire.POST_DWEET, self._post, _POST_BYTES),
            Route(wire.LATEST, _jsonp(self._reading(_latest_of, 1))),
            Route(wire.HISTORY, _jsonp(self._reading(_history_of, wire.HISTORY_LENGTH))),
            Route(wire.LISTEN, self._listen),
            Route(wire.POST_DWEETS, self._post_batch, wire.MAX_BATCH_BYTES),
            Route(wire.POST_UNNAMED, self._post_unnamed, _POST_BYTES),
            Route(wire.POST_QUIETLY, self._post_quietly, _POST_BYTES),
            Route(wire.GET_DWEET, _jsonp(self._post), safe=False),
            Route(wire.GET_UNNAMED, _jsonp(self._post_unnamed), safe=False),
            Route(wire.GET_QUIETLY, self._post_quietly, safe=False),
            Route(wire.STORED, _jsonp(self._stored)),
            Route(wire.STATS, _jsonp(self._stats)),
            Route(wire.SET_LOCK, _jsonp(self._lock), safe=False),
            Route(wire.UNLOCK, _jsonp(self._unlock), safe=False),
            Route(wire.REMOVE_LOCK, _jsonp(self._remove_lock), safe=False),
            Route(wire.SET_ALERT, _jsonp(self._set_alert), safe=False),
            Route(wire.GET_ALERT, _jsonp(self._get_alert)),
            Route(wire.REMOVE_ALERT, _jsonp(self._remove_alert), safe=False),
        ]

    def refuse(self, error: ServiceError, request: Request) -> Response:
        """Write a failure: HTTP 200, but for what is no operation of this service at all."""
        if error.status == 413 and not request.raw_path.startswith(b"/dweets/"):
            error = wire.too_large(wire.MAX_DWEET_BYTES)  # told by the server, which knows only of bodies
        is_no_operation = error.status == 421 or (error.status in (404, 405) and not request.values)
        status = error.status if is_no_operation else 200
        response = Response(status, wire.failed(error))
        callback = request.query.get("callback", "")
        # A script element shows its page no failure but one that is a script too.
        return _called(callback, response) if request.method == "GET" and wire.is_callback(callback) else response

    # -- posting ------------------------------------------------------------------------------------------

    def _post(self, request: Request) -> Pending:
        return self._posted(request, request.values["thing"])

    def _post_unnamed(self, request: Request) -> Pending:
        return self._posted(request, self._service.fresh_name())

    def _posted(self, request: Request, thing: str, respond: Callable[[list[Entry]], Response] = _receipt) -> Pending:
        key = request.query.get("key") if request.query_string else None
        return Pending(self._service.post_all(thing, [_content(request)], key), respond)

    def _post_quietly(self, request: Request) -> Pending:
        return self._posted(request, request.values["thing"], lambda _: Response(204, b""))

    async def _post_batch(self, request: Request) -> Response:
        contents = checked_batch(request.body)
        entries = await self._service.post_all(request.values["thing"], contents, request.query.get("key"))
        data = b"[%b]" % b",".join([wire.receipt(entry.data, entry.id) for entry in entries])
        return Response(200, wire.succeeded("dweeting", "dweets", data))

    # -- reading ------------------------------------------------------------------------------------------

    def _reading(self, respond: Callable[[HotThing], Response], length: int) -> _WholeHandler:
        service = self._service

        def read(request: Request) -> Response | Pending:
            thing = request.values["thing"]
            hot = service.readable(thing, request.query.get("key") if request.query_string else None, length)
            return respond(hot) if hot is not None else Pending(service.load(thing, length), respond)

        return read

    async def _stored(self, request: Request) -> Response:
        query = _checked(wire.STORED.checked_query, request)
        thing, kind = request.values["thing"], query.get("responseType", "json")
        records = await self._service.stored(thing, query.get("key"), query["date"], query.get("hour"))
        if kind == "csv":
            try:
                return Response(200, _as_csv(records), _CSV)
            except RecursionError:
                raise MalformedRequest("a dweet is nested too deeply for CSV: ask for json") from None
        if kind != "json":
            raise MalformedRequest("responseType must be csv or json")
        return Response(200, wire.succeeded("getting", "dweets", b"[%b]" % b",".join(reversed(records))))

    async def _stats(self, request: Request) -> Response:
        return _succeeded("getting", "stats", {"active_things": await self._service.stats()})

    async def _listen(self, request: Request) -> Stream:
        thing, query = request.values["thing"], request.query
        key = query.get("key")
        events = "text/event-stream" in request.header(b"accept")
        since = query.get("since") or (request.header(b"last-event-id") if events else "") or None
        number = await self._service.streams.position(thing, key, since)
        encode = encode_event if events else encode_frame

        async def start(writer: Writer) -> Callable[[], None]:
            if events:
                writer.write(encode_position(number))
            return await self._service.streams.listen(thing, key, number, encode, writer)

        return Stream(start, _EVENTS, heartbeat=EVENT_HEARTBEAT) if events else Stream(start, b"application/json")

    # -- locks and alerts ---------------------------------------------------------------------------------

    async def _lock(self, request: Request) -> Response:
        thing, lock = wire.checked_thing(request.values["thing"]), request.query.get("lock", "")
        await self._service.locks.lock(thing, lock, request.query.get("key"))
        return _succeeded("locking", thing, lock)

    async def _unlock(self, request: Request) -> Response:
        thing = wire.checked_thing(request.values["thing"])
        await self._service.locks.unlock(thing, request.query.get("key"))
        return _succeeded("unlocking", "thing", thing)

    async def _remove_lock(self, request: Request) -> Response:
        lock = request.values["lock"]
        await self._service.locks.remove(lock, request.query.get("key"))
        return _succeeded("removing", "lock", lock)

    async def _set_alert(self, request: Request) -> Response:
        values = request.values
        alert = await self._service.set_alert(
            values["who"], values["thing"], values["condition"], request.query.get("key")
        )
        return _succeeded("alerting", "alert", alert.response())

    async def _get_alert(self, request: Request) -> Response:
        alert, status = await self._service.get_alert(request.values["thing"], request.query.get("key"))
        return _succeeded("getting", "alert", {"status": status, **alert.response()})

    async def _remove_alert(self, request: Request) -> Response:
        thing = request.values["thing"]
        await self._service.remove_alert(thing, request.query.get("key"))
        return _succeeded("removing", "alert", {"thing": thing})


def _content(request: Request) -> bytes:
    if request.method != "POST":
        return content_of_pairs(request.pairs)
    is_form = request.fields.get(b"content-type", b"").startswith(b"application/x-www-form-urlencoded")
    return content_of_form(request.body) if is_form else checked_content(request.body)


def _latest_of(thing: HotThing) -> Response:
    record = thing.latest()
    if record is None:
        raise NotFound(wire.NOT_FOUND)
    return Response(200, b'{"this":"succeeded","by":"getting","the":"dweets","with":[%b]}' % record)


def _history_of(thing: HotThing) -> Response:
    records = thing.history()
    if records is None:
        raise NotFound(wire.NOT_FOUND)
    return Response(200, b'{"this":"succeeded","by":"getting","the":"dweets","with":%b}' % records)


def _succeeded(by: str, the: str, data: object) -> Response:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Response(200, wire.succeeded(by, the, text.encode("utf-8")))


def _checked(check: Callable[[dict[str, str]], dict[str, str]], request: Request) -> dict[str, str]:
    try:
        return check(request.query)
    except InvalidArgument as error:
        raise MalformedRequest(str(error)) from None


def _jsonp(handler: _WholeHandler) -> _WholeHandler:
    """Wrap the answer of a GET in the function named by ``callback``, where one is."""

    def handle(request: Request) -> Response | Pending | Awaitable[Response]:
        callback = request.query.get("callback") if request.query_string else None
        if callback is None:
            return handler(request)
        if not wire.is_callback(callback):  # before anything is done: a GET may post or lock
            raise MalformedRequest("callback must be the name of a function")
        answer = handler(request)
        if isinstance(answer, Pending):
            return Pending(answer.future, lambda result: _called(callback, answer.respond(result)))
        return _called(callback, answer) if isinstance(answer, Response) else called_later(callback, answer)

    async def called_later(callback: str, answer: Awaitable[Response]) -> Response:
        return _called(callback, await answer)

    return handle


def _called(callback: str, response: Response) -> Response:
    if response.content_type == _CSV:
        return response
    # The comment keeps the file from being read as anything but a script; the two separators end a line there.
    safe = response.body.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")
    return response._replace(body=b"/**/%b(%b);" % (callback.encode("ascii"), safe), content_type=_JAVASCRIPT)


def _as_csv(records: list[bytes]) -> bytes:
    """Write records as CSV: created, then a column for each name of their contents, in order of appearance."""
    import csv
    import io

    rows = [orjson.loads(record) for record in records]
    contents = [row["content"] if isinstance(row["content"], dict) else {"content": row["content"]} for row in rows]
    names = list(dict.fromkeys(name for content in contents for name in content))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(["created", *names])
    for row, content in zip(rows, contents, strict=True):
        writer.writerow([row["created"], *(_cell(content.get(name)) for name in names)])
    return out.getvalue().encode("utf-8")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
