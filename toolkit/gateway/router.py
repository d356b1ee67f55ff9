"""Find the route of a raw path: by the text before its last segment, else by the endpoints' own patterns."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.endpoint import decode_once
from toolkit.gateway.exchange import Request, Route, Routes


class Router:
    """All routes of all services at one origin.

    Parameters
    ----------
    services
        The services' routes; the first one also answers for paths that belong to nobody.
    """

    def __init__(self, services: Sequence[Routes]) -> None:
        self._fallback = services[0]
        self._owners = {segment: routes for routes in services for segment in routes.segments}
        self._all = [(routes, route) for routes in services for route in routes.table]
        # Where only the last segment is a value, one lookup finds the route; few requests go to the others.
        self._by_prefix: dict[tuple[str, bytes], tuple[Routes, Route, str]] = {}
        self._others: list[tuple[Routes, Route]] = []
        for routes, route in self._all:
            prefix, _, name = route.endpoint.template.partition("/{")
            if name.removesuffix("}").isidentifier():
                for method in route.methods:
                    self._by_prefix[method, prefix.encode("ascii")] = routes, route, name.removesuffix("}")
            else:
                self._others.append((routes, route))

    def find(self, request: Request) -> None:
        """Set the request's service, and its route and path values where there is one."""
        method, raw_path = request.method, request.raw_path
        prefix, _, value = raw_path.rpartition(b"/")
        found = self._by_prefix.get((method, prefix))
        if found is not None and value:
            request.routes, request.route, name = found
            request.values = {name: decode_once(value)}
            return
        for routes, route in self._others:
            if method in route.methods:
                values = route.endpoint.path_values(raw_path)
                if values is not None:
                    request.routes, request.route, request.values = routes, route, values
                    return
        request.values = {}
        request.routes = self._owners.get(raw_path[1:].partition(b"/")[0], self._fallback)

    def methods(self, raw_path: bytes) -> list[str]:
        """Return the methods that this path takes."""
        fitting = [route.methods for _, route in self._all if route.endpoint.path_values(raw_path) is not None]
        return sorted({method for methods in fitting for method in methods})
