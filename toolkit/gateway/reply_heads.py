"""Heads of replies, ready-made: thousands share one, and they change once a second, with the date."""

from __future__ import annotations

from collections.abc import Sequence

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from toolkit.gateway.exchange import Header, Reply, Routes

_NOSNIFF: Header = (b"x-content-type-options", b"nosniff")


def head_of(
    status: int, content_type: bytes, reply_headers: tuple[Header, ...], routes_headers: tuple[Header, ...]
) -> list[Header]:
    """Return the headers of a reply, without its length and those that are the server's own."""
    common = [_NOSNIFF, *routes_headers, *reply_headers]
    return common if status == 204 else [(b"content-type", content_type), *common]


class ReplyHeads:
    """What replies begin with, up to their length."""

    def __init__(self) -> None:
        self._starts: dict[tuple[int, bytes, tuple[Header, ...], Routes], bytes] = {}
        self._defaults: Sequence[Header] = []

    def start(self, reply: Reply, routes: Routes, defaults: Sequence[Header]) -> bytes:
        """Return the status line and the headers of a reply.

        Parameters
        ----------
        reply, routes
            What is answered, and of which service.
        defaults
            What the server sends with every reply: another list each second, as the date is among it.
        """
        if defaults is not self._defaults:
            self._defaults = defaults
            self._starts.clear()
        key = (reply.status, reply.content_type, reply.headers, routes)
        start = self._starts.get(key)
        if start is None:
            headers = [*defaults, *head_of(reply.status, reply.content_type, reply.headers, routes.headers)]
            start = STATUS_LINE[reply.status] + b"".join([b"%b: %b\r\n" % header for header in headers])
            self._starts[key] = start
        return start
