"""Query strings longer than httptools can count: 9,000 characters of text take up to 110 KB when percent-encoded."""

from __future__ import annotations

from toolkit.gateway.lane import LaneProtocol

# Its parser of URLs keeps offsets in 16 bits, and refuses what they cannot hold.
_COUNTABLE = 60_000


class LongQueryProtocol(LaneProtocol):
    """The lane and uvicorn's protocol, with query strings as long as a head may be."""

    def on_headers_complete(self) -> None:
        """Hide a long query from the parser of URLs, and put it where it belongs."""
        if len(self.url) <= _COUNTABLE:
            super().on_headers_complete()
            return
        self.url, _, query = self.url.partition(b"?")
        super().on_headers_complete()
        if self._lane is not None:
            self._lane.head = self._lane.head._replace(query_string=query)
        else:
            self.scope["query_string"] = query
