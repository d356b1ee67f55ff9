"""The calls of the handwriting service that `HandwritingClient` makes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidArgument, warn_caller
from toolkit.handwriting import wire
from toolkit.handwriting.client.hands_on_offer import Record, id_of, records_of
from toolkit.handwriting.client.style import Style, query_of, scaled
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Format
from toolkit.http_client import HttpReply, HttpSession, Value
from toolkit.secret import Secret


class HandwritingCalls:
    """Calls the service and reads its replies."""

    def __init__(self, session: HttpSession, apikey: Secret) -> None:
        self.base_url = session.base_url
        self._session = session
        self._apikey = apikey

    def listing(self, query: Mapping[str, Value | None]) -> list[Record]:
        """Return the records of all pages; the last one is empty, or has nothing new."""
        records: dict[str, Record] = {}
        while True:
            page = {**query, "limit": str(wire.MAX_LIMIT), "offset": str(len(records))}
            listed = records_of(self._call(wire.LISTING, query=page).body, list[Record])
            new = {record["id"]: record for record in listed}
            if new.keys() <= records.keys():
                return list(records.values())
            records |= new

    def record(self, handwriting: str) -> Record:
        """Return one handwriting by its id or title."""
        values = {"id": id_of(handwriting, self.titles)}
        return records_of(self._call(wire.RECORD, values).body, Record)

    def rendered(self, text: str, handwriting: str, kind: Format, style: Style) -> Handwritten:
        """Write a text in the format `kind`; see `HandwritingClient.png` for the result and the errors."""
        _check_text(text, wire.MAX_TEXT, wire.TEXT_TOO_LONG)
        handwriting_id = id_of(handwriting, self.titles)
        query = {"handwriting_id": handwriting_id, "text": text, **query_of(style, kind)}
        began = time.perf_counter()
        reply = self._call(wire.RENDER[kind], query=query)
        milliseconds = (time.perf_counter() - began) * 1000
        done = Handwritten.from_response(reply.body, reply.headers, kind, self.titles[handwriting_id], milliseconds)
        if kind == "png":
            return done
        again: Style = {**style, "random_seed": done.seed}
        return replace(done, preview=lambda: self.rendered(text, handwriting_id, "png", again).data)

    def written(self, text: str, handwriting: str, kind: Format, style: Style) -> Handwritten:
        """Write a text as `rendered` does, and warn if it does not fit."""
        done = self.rendered(text, handwriting, kind, style)
        if done.overflow:
            where = f", from the line {done.cut!r} on" if done.cut else ""
            warn_caller(f"the text does not fit, and some ink was cut off{where}: use height='auto', or letter()")
        return done

    def letter(
        self, text: str, handwriting: str, kind: Format, style: Style, *, page_number: int = 1, dpi: float = 72
    ) -> Handwritten:
        """Write a letter: a PDF of all pages, or one page in another format."""
        _check_text(text, wire.MAX_LETTER, wire.LETTER_TOO_LONG)
        handwriting_id = id_of(handwriting, self.titles)
        query = {"handwriting_id": handwriting_id, **query_of(style, kind)}
        if kind != "pdf":
            query = {**scaled(query, dpi / 72), "page_number": str(page_number)}
        began = time.perf_counter()
        reply = self._call(wire.LETTER, {"kind": kind}, query=query, body={"text": text})
        milliseconds = (time.perf_counter() - began) * 1000
        return Handwritten.from_response(reply.body, reply.headers, kind, self.titles[handwriting_id], milliseconds)

    @cached_property
    def titles(self) -> dict[str, str]:
        """All titles by id."""
        return {record["id"]: record["title"] for record in self.listing({})}

    def _call(
        self,
        endpoint: Endpoint,
        values: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, Value | None] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> HttpReply:
        full: dict[str, Value | None] = {"apikey": self._apikey, **(query or {})}
        reply = self._session.call(endpoint, values or {}, query=full, body=body)
        if reply.status != 200:
            request = f"{endpoint.method} {endpoint.path_for(**(values or {}))}"
            raise wire.error_of(reply.status, reply.headers, reply.body, request=request)
        return reply


def _check_text(text: str, most: int, too_long: str) -> None:
    if len(text) > most:
        raise InvalidArgument(too_long)
    if text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") != text:
        raise InvalidArgument(wire.TEXT_NOT_UTF8)
