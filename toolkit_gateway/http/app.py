"""Find the handler of each request, and turn each error into a response."""

import errno
import logging
import re
from collections import defaultdict
from collections.abc import Awaitable, Iterator, Sequence
from time import monotonic, perf_counter
from typing import Any

from toolkit.endpoint import decode_once
from toolkit.errors import (
    KeyRejected,
    MalformedRequest,
    NotFound,
    OutcomeUnknown,
    ServiceError,
    ServiceFailure,
    StoreUnavailable,
)
from toolkit_gateway.http.access import Hosts, Proxies
from toolkit_gateway.http.exchange import (
    Answer,
    Handler,
    Header,
    KeyAttempt,
    Request,
    Response,
    Route,
    Routes,
    header_lines,
)
from toolkit_gateway.http.key_attempts import KeyAttempts
from toolkit_gateway.http.limits import LIMITS

log = logging.getLogger("toolkit_gateway")

_WRONG_HOST = "this gateway does not answer to that host name: its operator can allow it with --allow-host NAME"
_UNAVAILABLE = "the gateway cannot keep or read anything right now, try again"
_UNCERTAIN = "the gateway lost its store during this request: check whether it was done before you try again"

# While the store is away, every request fails: the log gets one line in this time.
_SECONDS_BETWEEN_LINES = 60.0
# The log shows so many bytes of a path; a caller may send 256 KiB.
_MAX_SHOWN_BYTES = 1_000
_KEY_IN_PATH = re.compile(rb"((?:key|vfp)(?:=|%(?:25)*3d)).*", re.IGNORECASE | re.DOTALL)
_PREFLIGHT: tuple[Header, ...] = (
    (b"access-control-allow-headers", b"content-type, accept"),
    (b"access-control-max-age", b"86400"),
)


class Application:
    """The services behind one HTTP server; the first one also answers for unknown paths."""

    def __init__(
        self,
        services: Sequence[Routes],
        hosts: Hosts | None = None,
        proxies: Proxies | None = None,
        keys: KeyAttempts | None = None,
    ) -> None:
        self._hosts = hosts
        self._proxies = proxies
        self._keys = keys
        self._next_line, self._unlogged = 0.0, 0
        self._fallback = services[0]
        #: The pages for browsers, which also answer browsers at unknown paths.
        pages = (routes for routes in services if any(route.for_browsers for route in routes.table))
        self._pages = next(pages, self._fallback)
        self._by_segment = {segment: routes for routes in services for segment in routes.first_segments}
        # Routes by the segments before their first value: one or two routes have the same ones.
        self._by_prefix: defaultdict[bytes, list[tuple[Routes, Route]]] = defaultdict(list)
        # If only the last segment is a value, as in the hot paths, one lookup without a pattern finds the route.
        self._by_method: defaultdict[str, dict[bytes, tuple[Routes, Route, str]]] = defaultdict(dict)
        for routes, route in [(service, route) for service in services for route in service.table]:
            route = route._replace(handler=self._limiting_keys(routes, route.handler))
            text, _, names = route.endpoint.template.partition("/{")
            prefix, name = text.encode("ascii"), names.removesuffix("}")
            self._by_prefix[prefix].append((routes, route))
            for method in route.methods if name.isidentifier() and not route.for_browsers else ():
                self._by_method[method][prefix] = routes, route, name
        self._longest_prefix = max(prefix.count(b"/") for prefix in self._by_prefix)
        #: Header lines that every response of a service has; None is for input that is no request.
        self.common_headers: dict[Routes | None, bytes] = {None: b""}
        for routes in services:
            self.common_headers[routes] = header_lines([(b"x-content-type-options", b"nosniff"), *routes.headers])

    def find_handler(self, request: Request, *, is_url: bool = False) -> int:
        """Find the handler of a request whose head is complete, and return how many bytes its body may have."""
        if log.isEnabledFor(logging.INFO):
            request.started = perf_counter()
        prefix, _, value = request.raw_path.rpartition(b"/")
        entry = self._by_method[request.method].get(prefix)
        if entry is not None and value:
            request.routes, request.route, name = entry
            request.values = {name: decode_once(value)}
        else:
            request.routes, request.route, request.values = self._find_route(request)
        route = request.route
        request.handler, max_body = (self._no_route, 0) if route is None else (route.handler, route.max_body)
        hosts, host = self._hosts, request.fields.get(b"host")
        # Only browsers matter: they always send a Host, and an absolute target only to a proxy that their user chose.
        if hosts is not None and host not in hosts.accepted and not (host is None or is_url or hosts.is_served(host)):
            response = self.error_response(request, ServiceError(_WRONG_HOST, status=421))  # RFC 9110, 15.5.20
            request.handler = lambda _: response
            return 0
        if self._proxies is not None:
            self._proxies.resolve(request)
        return max_body

    def max_head(self, method: str, path: bytes) -> int:
        """Return how many bytes the head of a request may have, of whose path perhaps only the first part has come."""
        segments = path.split(b"/", self._longest_prefix)
        prefixes = [b"/".join(segments[:count]) for count in range(1, len(segments) + 1)]
        routes = [route for prefix in prefixes for _, route in self._by_prefix.get(prefix, ())]
        is_long = any(route.has_long_query and method in route.methods for route in routes)
        return LIMITS.long_head_bytes if is_long else LIMITS.head_bytes

    def _find_route(self, request: Request) -> tuple[Routes, Route | None, dict[str, str]]:
        for routes, route, values in self._routes_of_path(request.raw_path):
            if request.method in route.methods and (request.wants_page or not route.for_browsers):
                return routes, route, values
        return self._routes_without_match(request), None, {}

    def _routes_without_match(self, request: Request) -> Routes:
        """Return the routes that refuse an unknown path or method."""
        if request.method in ("GET", "HEAD") and request.wants_page and not any(self._routes_of_path(request.raw_path)):
            return self._pages
        return self._by_segment.get(request.raw_path[1:].partition(b"/")[0], self._fallback)

    def _routes_of_path(self, raw_path: bytes) -> Iterator[tuple[Routes, Route, dict[str, str]]]:
        """Yield the routes whose path this is, and the values in it: look up its first segments, the longest first."""
        segments = raw_path.split(b"/", self._longest_prefix)
        for count in range(len(segments), 0, -1):
            for routes, route in self._by_prefix.get(b"/".join(segments[:count]), ()):
                values = route.endpoint.path_values(raw_path)
                if values is not None:
                    yield routes, route, values

    def _limiting_keys(self, routes: Routes, handler: Handler) -> Handler:
        """Return the handler for requests whose keys may be guesses."""
        if (keys := self._keys) is None:
            return handler

        def handle(request: Request) -> Answer | Awaitable[Any]:
            attempt = routes.key_attempt(request)
            if attempt is None or keys.is_known(request.client, attempt):
                return handler(request)
            return try_key(request, attempt)

        async def try_key(request: Request, attempt: KeyAttempt) -> Any:  # noqa: ANN401
            if not keys.take(request.client):
                with request.share.answering_late():
                    if not await keys.wait(request.client):
                        return self.error_response(request, routes.too_many_keys)
            is_right = None
            try:
                answer = handler(request)
                if isinstance(answer, Awaitable):
                    answer = await answer
                is_right = True
                return answer
            except KeyRejected as error:
                is_right = False if routes.is_wrong_key(error) else None
                raise
            finally:
                keys.settle(request.client, attempt, is_right=is_right)

        return handle

    def error_response(self, request: Request, error: BaseException) -> Response:
        """Return the response to an error, in the dialect of the service."""
        assert request.routes is not None, "the head of the request was complete"
        if isinstance(error, StoreUnavailable) or getattr(error, "errno", 0) in (errno.EMFILE, errno.ENFILE):
            self.log_unavailable(error)
            text = _UNCERTAIN if isinstance(error, OutcomeUnknown) else _UNAVAILABLE
            response = request.routes.error_response(ServiceFailure(text, status=503), request)
            response.headers += ((b"retry-after", b"1"),)
            return response
        if not isinstance(error, ServiceError):
            # A traceback prints source lines, never values. Still it is logged only for debugging the gateway.
            trace = error if log.isEnabledFor(logging.DEBUG) else None
            log.error("%s %s failed: %s", request.method, shown_path(request), type(error).__name__, exc_info=trace)
            error = ServiceFailure("the gateway failed at this request")
        return request.routes.error_response(error, request)

    def log_unavailable(self, error: BaseException) -> None:
        """Log that the store or a file cannot be used, with the number of such errors since the last line."""
        if (now := monotonic()) < self._next_line:
            self._unlogged += 1
            return
        log.error("%s%s", error, f" ({self._unlogged} more errors before)" if self._unlogged else "")
        self._next_line, self._unlogged = now + _SECONDS_BETWEEN_LINES, 0

    def _no_route(self, request: Request) -> Response:
        assert request.routes is not None, "find_handler() has set it"
        if request.raw_path == b"*":  # OPTIONS for the whole server, which some use as a ping
            return Response(200, b"", b"text/plain")
        routes = [route for _, route, _ in self._routes_of_path(request.raw_path) if not route.for_browsers]
        allowed = sorted({method for route in routes for method in route.methods})
        if not allowed:
            return request.routes.error_response(NotFound("we couldn't find this", status=404), request)
        allow: Header = (b"allow", ", ".join(allowed).encode("ascii"))
        if request.method == "OPTIONS" and request.routes.cross_origin:
            return Response(204, b"", headers=(allow, (b"access-control-allow-methods", allow[1]), *_PREFLIGHT))
        error = MalformedRequest(f"use {' or '.join(allowed)} here", status=405)
        response = request.routes.error_response(error, request)
        response.headers += (allow,)
        return response


def log_response(request: Request, status: int) -> None:
    """Log one response, without the query, which holds keys."""
    milliseconds = (perf_counter() - request.started) * 1000
    log.info("%s %s %d %.1f ms", request.method, shown_path(request), status, milliseconds)


def shown_path(request: Request) -> str:
    """Return the path as a log shows it; a query that was escaped by mistake may hold a key there."""
    return _KEY_IN_PATH.sub(rb"\1***", request.raw_path[:_MAX_SHOWN_BYTES]).decode("ascii", "replace")
