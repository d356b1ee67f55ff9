"""Find the route of a raw path: by its first segment, then by the endpoints' own templates."""

from __future__ import annotations

from collections.abc import Sequence

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
        self._by_segment: dict[bytes, list[tuple[Routes, Route, tuple[str, ...]]]] = {}
        for routes in services:
            for route in routes.table:
                segment = _first_segment(route.endpoint.literal_prefix)
                self._by_segment.setdefault(segment, []).append((routes, route, route.methods))

    def find(self, request: Request) -> None:
        """Set the request's service, and its route and path values where there is one."""
        method, raw_path = request.method, request.raw_path
        segment = _first_segment(raw_path)
        for routes, route, methods in self._by_segment.get(segment, ()):
            if method in methods:
                values = route.endpoint.path_values(raw_path)
                if values is not None:
                    request.routes, request.route, request.values = routes, route, values
                    return
        request.values = {}
        request.routes = self._owners.get(segment, self._fallback)

    def methods(self, raw_path: bytes) -> list[str]:
        """Return the methods that this path takes."""
        candidates = self._by_segment.get(_first_segment(raw_path), ())
        fitting = [methods for _, route, methods in candidates if route.endpoint.path_values(raw_path) is not None]
        return sorted({method for methods in fitting for method in methods})


def _first_segment(raw_path: bytes) -> bytes:
    return raw_path[1:].partition(b"/")[0]
