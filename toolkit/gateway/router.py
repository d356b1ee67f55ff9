"""Find the route of a raw path: by its first segment, then by the endpoints' own templates."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.gateway.exchange import Found, Route, Routes

_KNOWN_PATHS = 10_000
_KNOWN_PATH_BYTES = 512


class Router:
    """All routes of all services at one origin.

    Parameters
    ----------
    services
        The services' routes; the first one also answers for paths that belong to nobody.
    """

    def __init__(self, services: Sequence[Routes]) -> None:
        self._fallback = services[0]
        self._known: dict[tuple[str, bytes], Found] = {}
        self._owners = {segment: routes for routes in services for segment in routes.segments}
        self._by_segment: dict[bytes, list[tuple[Routes, Route]]] = {}
        for routes in services:
            for route in routes.table:
                segment = _first_segment(route.endpoint.literal_prefix)
                self._by_segment.setdefault(segment, []).append((routes, route))

    def find(self, method: str, raw_path: bytes) -> Found:
        """Return the route for this method and path, or who refuses it and which methods there would be.

        Things are read and written again and again, so what was found for a hot route is remembered.
        """
        found = self._known.get((method, raw_path))
        if found is None:
            found = self._search(method, raw_path)
            if found.route is not None and found.route.hot and len(raw_path) <= _KNOWN_PATH_BYTES:
                if len(self._known) >= _KNOWN_PATHS:
                    self._known.clear()
                self._known[method, raw_path] = found
        return found

    def _search(self, method: str, raw_path: bytes) -> Found:
        segment = _first_segment(raw_path)
        allowed: list[str] = []
        for routes, route in self._by_segment.get(segment, ()):
            values = route.endpoint.path_values(raw_path)
            if values is None:
                continue
            if method in route.methods:
                return Found(routes, route, values)
            allowed += route.methods
        return Found(self._owners.get(segment, self._fallback), allowed=allowed)


def _first_segment(raw_path: bytes) -> bytes:
    return raw_path[1:].partition(b"/")[0]
