"""HTTP in, service call, HTTP out: the one ASGI application of the gateway."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from toolkit.errors import MalformedRequest, NotFound, ServiceError, ServiceFailure
from toolkit.gateway.exchange import Answer, Found, Header, Reply, Request, Routes, Stream
from toolkit.gateway.known_heads import KnownHeads
from toolkit.gateway.reply_heads import ReplyHeads, head_of
from toolkit.gateway.router import Router
from toolkit.gateway.sink import ConnectionSink
from toolkit.gateway.stores import OutcomeUnknown, StoreUnavailable

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

log = logging.getLogger("toolkit.gateway")

# A body must be here within this time; what was refused unread is drained up to these bounds, so that a client
# that sends first and reads later still sees the answer.
_BODY_SECONDS = 30.0
TOO_SLOW = f"the request did not arrive within {_BODY_SECONDS:.0f} seconds"
_DRAIN_SECONDS = 10.0
_DRAIN_BYTES = 512 * 1024 * 1024

UNAVAILABLE = "the gateway cannot keep or read anything right now, try again"
UNCERTAIN = "the gateway lost its store while it was asked: look whether this was done before you try again"

_CLOSE: Header = (b"connection", b"close")


class BodyRefused(Exception):
    """The body is too large or too slow; the rest of it is not read."""

    def __init__(self, error: ServiceError) -> None:
        super().__init__()
        self.error = error


class Application:
    """The gateway's ASGI application.

    Parameters
    ----------
    services
        The routes of each service; the first one also answers for unknown paths.
    """

    def __init__(self, services: Sequence[Routes]) -> None:
        self._router = Router(services)
        self.known_heads = KnownHeads()
        self.reply_heads = ReplyHeads()
        self._sinks: set[ConnectionSink] = set()
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"only http is served, not {scope['type']}")
        started = start_of_log_line()
        found = self._router.find(scope["method"], scope["raw_path"])
        refused = None
        request = _request(scope, found)
        try:
            request.body = await _read_body(scope, receive, found.route.max_body if found.route else 0)
            answer = await self._answer(found, request)
        except BodyRefused as refusal:
            refused = refusal
            answer = found.routes.refuse(refusal.error, request)
        if isinstance(answer, Stream):
            await self._stream(answer, scope, found.routes, receive, send)
        else:
            await _send_reply(answer, found.routes, send, receive if refused else None)
        if started:
            log_answer(request, answer.status if isinstance(answer, Reply) else 200, started)

    def end_streams(self) -> None:
        """End every open stream properly, and every new one at once; called before the server stops."""
        self._stopping = True
        for sink in list(self._sinks):
            sink.end()

    def find(self, method: str, raw_path: bytes) -> Found:
        """Return the route of a request, or who refuses it."""
        return self._router.find(method, raw_path)

    async def _answer(self, found: Found, request: Request) -> Answer:
        if found.route is None:
            return _no_route(found, request)
        try:
            answer = found.route.handler(request)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            return self.refusal(found, request, error)

    @staticmethod
    def refusal(found: Found, request: Request, error: Exception) -> Reply:
        """Make a reply of an error: the last fence, so that a mistake of ours is an answer too."""
        if isinstance(error, StoreUnavailable):
            log.error("%s", error)
            text = UNCERTAIN if isinstance(error, OutcomeUnknown) else UNAVAILABLE
            reply = found.routes.refuse(ServiceFailure(text, status=503), request)
            return reply._replace(headers=(*reply.headers, (b"retry-after", b"1")))
        if not isinstance(error, ServiceError):
            kind = type(error).__name__
            log.error("%s %s failed: %s", request.method, _shown(request), kind, exc_info=_trace(error))
            error = ServiceFailure("the gateway failed at this request")
        return found.routes.refuse(error, request)

    async def _stream(self, stream: Stream, scope: Scope, routes: Routes, receive: Receive, send: Send) -> None:
        headers = head_of(200, stream.content_type, stream.headers, routes.headers)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        sink = ConnectionSink(scope["state"]["connection"], stream.heartbeat)
        self._sinks.add(sink)
        if self._stopping:  # a listener that was ended comes back at once, and would hold up the stop
            sink.end()
        stop = None
        try:
            stop = await stream.start(sink)
            if await sink.until_over(receive):
                await send({"type": "http.response.body", "body": b""})
        except StoreUnavailable as error:  # the stream is cut off here; its reader comes back and resumes
            log.error("%s", error)
        finally:
            if stop is not None:
                stop()
            sink.close()
            self._sinks.discard(sink)


def start_of_log_line() -> float:
    """Return when a request begins, or 0 where nobody reads a line about it: then it costs this one look."""
    return time.perf_counter() if log.isEnabledFor(logging.INFO) else 0.0


def log_answer(request: Request, status: int, started: float) -> None:
    """Log method, path, status and time of one answer: never its query, which holds keys."""
    log.info("%s %s %d %.1f ms", request.method, _shown(request), status, (time.perf_counter() - started) * 1000)


def _request(scope: Scope, found: Found) -> Request:
    client = scope["client"][0] if scope["client"] else ""
    return Request(
        scope["method"], scope["raw_path"], found.values, scope["query_string"], scope["headers"], b"", client
    )


def _shown(request: Request) -> str:
    return request.raw_path.decode("ascii", "replace")


def _trace(error: Exception) -> Exception | None:
    # A traceback prints source lines, never values; it is still only for whoever debugs the gateway.
    return error if log.isEnabledFor(logging.DEBUG) else None


def _no_route(found: Found, request: Request) -> Reply:
    if not found.allowed:
        return found.routes.refuse(NotFound("we couldn't find this", status=404), request)
    allowed = sorted(set(found.allowed))
    allow: Header = (b"allow", ", ".join(allowed).encode("ascii"))
    if request.method == "OPTIONS" and found.routes.cross_origin:
        permissions = (
            allow,
            (b"access-control-allow-methods", allow[1]),
            (b"access-control-allow-headers", b"content-type, accept"),
            (b"access-control-max-age", b"86400"),
        )
        return Reply(204, b"", headers=permissions)
    error = MalformedRequest(f"use {' or '.join(allowed)} here", status=405)
    reply = found.routes.refuse(error, request)
    return reply._replace(headers=(*reply.headers, allow))


async def _read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if limit and declared.isdigit() and int(declared) > limit:
        raise BodyRefused(_too_large(limit))
    if not limit and declared == b"0" and not any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        return b""
    # Where no body is expected (limit 0) it is drained and forgotten.
    pieces, size, more = [], 0, True
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BodyRefused(MalformedRequest("the request ended before its body did"))
                size += len(message["body"])
                if size > (limit or _DRAIN_BYTES):
                    raise BodyRefused(_too_large(limit))
                if limit:
                    pieces.append(message["body"])
                more = message["more_body"]
    except TimeoutError:
        raise BodyRefused(MalformedRequest(TOO_SLOW, status=408)) from None
    return b"".join(pieces)


def _too_large(limit: int) -> MalformedRequest:
    return MalformedRequest(f"the body is larger than {limit} bytes", status=413)


async def _send_reply(reply: Reply, routes: Routes, send: Send, unread: Receive | None) -> None:
    headers = head_of(reply.status, reply.content_type, reply.headers, routes.headers)
    if reply.status != 204:
        headers.append((b"content-length", b"%d" % len(reply.body)))
    if unread is not None:
        headers.append(_CLOSE)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if unread is not None:
        await send({"type": "http.response.body", "body": reply.body, "more_body": True})
        await _drain(unread)
        reply = reply._replace(body=b"")
    await send({"type": "http.response.body", "body": reply.body})


async def _drain(receive: Receive) -> None:
    """Read and forget what a client still sends after it was refused, within bounds."""
    drained = 0
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while drained < _DRAIN_BYTES:
                message = await receive()
                drained += len(message.get("body", b""))
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return
