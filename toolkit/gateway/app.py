"""Request in, response out: finds the handler, and makes a response of every error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

from toolkit.errors import MalformedRequest, NotFound, ServiceError, ServiceFailure
from toolkit.gateway.access import Hosts, Proxies, wrong_host
from toolkit.gateway.exchange import Answer, Header, Pending, Request, Response, Routes, Stream
from toolkit.gateway.router import Router
from toolkit.stores import OutcomeUnknown, StoreUnavailable

T = TypeVar("T")

log = logging.getLogger("toolkit.gateway")

UNAVAILABLE = "the gateway cannot keep or read anything right now, try again"
UNCERTAIN = "the gateway lost its store while it was asked: look whether this was done before you try again"


class Application:
    """The services behind one HTTP server.

    Parameters
    ----------
    services
        The routes of each service; the first one also answers for unknown paths.
    hosts
        The host names that are answered; None for any.
    proxies
        Whose word about the address of a caller counts.
    """

    def __init__(self, services: Sequence[Routes], hosts: Hosts | None = None, proxies: Proxies | None = None) -> None:
        self._router = Router(services)
        self._hosts = hosts
        self._proxies = proxies or None
        #: Header lines that every response of a service has; None is for what no service was asked.
        self.common_headers: dict[Routes | None, bytes] = {None: b""}
        for routes in services:
            headers = ((b"x-content-type-options", b"nosniff"), *routes.headers)
            self.common_headers[routes] = b"".join([b"%b: %b\r\n" % header for header in headers])

    def begin(self, request: Request, *, is_proxied: bool = False) -> int:
        """Find the route of a request whose head is complete, and return how large its body may be.

        A request `is_proxied` where its target names the server, as a client does that uses the gateway as its proxy.
        """
        if log.isEnabledFor(logging.INFO):
            request.started = perf_counter()
        self._router.find(request)
        hosts, host = self._hosts, request.fields.get(b"host")
        # A browser sends a Host, and names the server in the target only if its user set the gateway as its proxy.
        if hosts is not None and host not in hosts.known and not (host is None or is_proxied or hosts.is_served(host)):
            request.refusal = self.refuse(request, wrong_host())
            return 0
        if self._proxies is not None:
            self._proxies.resolve(request)
        return request.route.max_body if request.route is not None else 0

    def answer(self, request: Request) -> Answer | Pending:
        """Return the response, a stream, or what they wait for."""
        if request.refusal is not None:
            return request.refusal
        if request.route is None:
            return self._no_route(request)
        try:
            answer = request.route.handler(request)
        except Exception as error:  # a mistake of ours gets a response too
            return self.refuse(request, error)
        if isinstance(answer, (Response, Pending, Stream)):
            return answer
        return Pending(asyncio.ensure_future(answer), _same)

    def answer_after(self, request: Request, done: asyncio.Future[Any], respond: Callable[[Any], Answer]) -> Answer:
        """Return the answer that waited for a future."""
        try:
            return respond(done.result())
        except Exception as error:  # as above
            return self.refuse(request, error)

    def refuse(self, request: Request, error: BaseException) -> Response:
        """Return the response to an error, in the dialect of the service."""
        assert request.routes is not None, "it was routed"
        if isinstance(error, StoreUnavailable):
            log.error("%s", error)
            text = UNCERTAIN if isinstance(error, OutcomeUnknown) else UNAVAILABLE
            response = request.routes.refuse(ServiceFailure(text, status=503), request)
            return response._replace(headers=(*response.headers, (b"retry-after", b"1")))
        if not isinstance(error, ServiceError):
            # A traceback prints source lines, never values; it is still only for debugging the gateway.
            trace = error if log.isEnabledFor(logging.DEBUG) else None
            log.error("%s %s failed: %s", request.method, shown(request), type(error).__name__, exc_info=trace)
            error = ServiceFailure("the gateway failed at this request")
        return request.routes.refuse(error, request)

    def _no_route(self, request: Request) -> Response:
        assert request.routes is not None, "it was routed"
        allowed = self._router.methods(request.raw_path)
        if not allowed:
            return request.routes.refuse(NotFound("we couldn't find this", status=404), request)
        allow: Header = (b"allow", ", ".join(allowed).encode("ascii"))
        if request.method == "OPTIONS" and request.routes.cross_origin:
            permissions = (
                allow,
                (b"access-control-allow-methods", allow[1]),
                (b"access-control-allow-headers", b"content-type, accept"),
                (b"access-control-max-age", b"86400"),
            )
            return Response(204, b"", headers=permissions)
        error = MalformedRequest(f"use {' or '.join(allowed)} here", status=405)
        response = request.routes.refuse(error, request)
        return response._replace(headers=(*response.headers, allow))


def _same(answer: T) -> T:
    return answer


def log_response(request: Request, status: int) -> None:
    """Log method, path, status and time of one response: never its query, which holds keys."""
    milliseconds = (perf_counter() - request.started) * 1000
    log.info("%s %s %d %.1f ms", request.method, shown(request), status, milliseconds)


def shown(request: Request) -> str:
    """Return the path as a log may have it."""
    return request.raw_path.decode("ascii", "replace")
