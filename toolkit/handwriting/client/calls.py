"""Calls of section B: each sends the key, and failures become errors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec

from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidArgument, UnexpectedReply
from toolkit.handwriting import wire
from toolkit.handwriting.client.hands_on_offer import NameBook
from toolkit.handwriting.client.style import Style
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.parameters import Format
from toolkit.http_client import HttpReply, HttpSession, Value
from toolkit.public_names import PublicNames
from toolkit.secret import Secret

_ENDPOINTS: dict[Format, Endpoint] = {
    "png": wire.RENDER_PNG,
    "pdf": wire.RENDER_PDF,
    "svg": wire.RENDER_SVG,
    "replay": wire.RENDER_REPLAY,
}


class HandwritingCalls(PublicNames):
    """What all calls of section B share.

    Parameters
    ----------
    session
        Calls to a server that speaks section B of the specification.
    apikey
        The consumer key.
    """

    def __init__(self, session: HttpSession, apikey: Secret) -> None:
        self._session = session
        self._apikey = apikey

    def __repr__(self) -> str:
        return f"<Handwriting at {self._session.base_url}>"

    def rendered(self, text: str, handwriting: str, kind: Format, style: Style) -> Handwritten:
        """Have `text` rendered; see `toolkit.handwriting.client.handwriting.HandwritingClient.png`.

        Raises
        ------
        InvalidArgument
            No such handwriting, or a value that cannot be; nothing was rendered.
        InvalidParameters
            The service refused; the message holds all problems.
        """
        if not isinstance(text, str):
            raise InvalidArgument(f"text is a str, not {type(text).__name__}")
        if len(text) > wire.MAX_TEXT:
            raise InvalidArgument(wire.TEXT_TOO_LONG)
        handwriting_id = self._names.id_of(handwriting)
        sent = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        if sent != text:
            raise InvalidArgument(wire.TEXT_NOT_UTF8)
        query = {"handwriting_id": handwriting_id, "text": text, **style.query(kind)}
        began = time.perf_counter()
        reply = self._call(_ENDPOINTS[kind], query=query)
        milliseconds = (time.perf_counter() - began) * 1000
        done = Handwritten.received(reply.body, reply.headers, kind, self._names.title_of(handwriting_id), milliseconds)
        if kind == "png":
            return done
        again = replace(style, random_seed=done.seed)
        return replace(done, preview=lambda: self.rendered(text, handwriting_id, "png", again).data)

    def _listing(self, query: Mapping[str, Value | None]) -> list[dict[str, Any]]:
        """Return the records of all pages; there are no more once a page is empty, or has nothing new."""
        records: dict[str, dict[str, Any]] = {}
        while True:
            page = {**query, "limit": str(wire.MAX_LIMIT), "offset": str(len(records))}
            new = {str(record["id"]): record for record in _records(self._call(wire.LISTING, query=page))}
            if new.keys() <= records.keys():
                return list(records.values())
            records |= new

    @cached_property
    def _names(self) -> NameBook:
        return NameBook({str(record["id"]): str(record["title"]) for record in self._listing({})})

    def _call(
        self,
        endpoint: Endpoint,
        values: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, Value | None] | None = None,
    ) -> HttpReply:
        full: dict[str, Value | None] = {"apikey": self._apikey, **(query or {})}
        reply = self._session.call(endpoint, values or {}, query=full)
        if reply.status != 200:
            request = f"{endpoint.method} {endpoint.path_for(**(values or {}))}"
            raise wire.error_of(reply.status, reply.headers, reply.body, request=request)
        return reply


def record_of(reply: HttpReply) -> dict[str, Any]:
    """Return the one record of a reply."""
    return _checked(_json(reply))


def _records(reply: HttpReply) -> list[dict[str, Any]]:
    listed = _json(reply)
    if not isinstance(listed, list):
        raise UnexpectedReply("the listing of handwritings is not an array")
    return [_checked(record) for record in listed]


def _checked(record: object) -> dict[str, Any]:
    if not isinstance(record, dict) or not all(name in record for name in wire.RECORD_FIELDS[:4]):
        raise UnexpectedReply(f"a handwriting without {', '.join(wire.RECORD_FIELDS[:4])}")
    return record


def _json(reply: HttpReply) -> Any:  # noqa: ANN401
    try:
        return msgspec.json.decode(reply.body)
    except (ValueError, RecursionError):
        raise UnexpectedReply("the answer is not JSON") from None
