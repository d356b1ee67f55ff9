"""Heads of replies, ready-made: thousands share one, and they change once a second, with the date."""

from __future__ import annotations

from collections.abc import Sequence

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from toolkit.gateway.exchange import Header, Reply, Routes

_NOSNIFF: Header = (b"x-content-type-options", b"nosniff")

# More than all lengths of a dweet's receipt.
_HEADS = 4096


def head_of(
    status: int, content_type: bytes, reply_headers: tuple[Header, ...], routes_headers: tuple[Header, ...]
) -> list[Header]:
    """Return the headers of a reply, without its length and those that are the server's own."""
    common = [_NOSNIFF, *routes_headers, *reply_headers]
    return common if status == 204 else [(b"content-type", content_type), *common]


class ReplyHeads:
    """The heads of a gateway's replies."""

    def __init__(self) -> None:
        self._heads: dict[tuple[int, bytes, tuple[Header, ...], Routes, int], bytes] = {}
        self._defaults: Sequence[Header] = []

    def head(self, reply: Reply, routes: Routes, defaults: Sequence[Header]) -> bytes:
        """Return the status line and the headers of a reply, without the empty line that ends them.

        Parameters
        ----------
        reply, routes
            What is answered, and of which service.
        defaults
            What the server sends with every reply: another list each second, as the date is among it.
        """
        if defaults is not self._defaults:
            self._defaults = defaults
            self._heads.clear()
        status, body, content_type, headers = reply
        key = (status, content_type, headers, routes, len(body))
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            lines = [*defaults, *head_of(status, content_type, headers, routes.headers)]
            if status != 204:
                lines.append((b"content-length", b"%d" % len(body)))
            head = self._heads[key] = STATUS_LINE[status] + b"".join([b"%b: %b\r\n" % line for line in lines])
        return head
