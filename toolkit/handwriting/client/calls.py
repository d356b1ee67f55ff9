"""The requests that `HandwritingClient` sends to the handwriting service."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import NotRequired, TypeAlias, TypedDict, TypeVar

import msgspec

from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidArgument, UnexpectedReply, warn_caller
from toolkit.handwriting import wire
from toolkit.handwriting.client.style import Style, query_of, scaled_query
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import Format
from toolkit.http_client import HttpReply, HttpSession, StrOrSecret
from toolkit.secret import Secret

#: The smallest and the largest rating; None means no bound.
Bounds: TypeAlias = tuple[float | None, float | None]
Query: TypeAlias = Mapping[str, StrOrSecret | None]
Body: TypeAlias = Mapping[str, object]

ROW_COLUMNS = {
    "id": "str",
    "title": "str",
    "date_created": "datetime64[us, UTC]",
    "date_modified": "datetime64[us, UTC]",
    **dict.fromkeys(wire.RATINGS, "Int64"),
}


class HandwritingRow(TypedDict):
    """One handwriting of a server's list; ratings may be missing, since the specification has none."""

    id: str
    title: str
    date_created: str
    date_modified: str
    rating_neatness: NotRequired[int | None]
    rating_cursivity: NotRequired[int | None]
    rating_embellishment: NotRequired[int | None]
    rating_character_width: NotRequired[int | None]


DecodedT = TypeVar("DecodedT")


class HandwritingCalls:
    """Sends requests to the service and parses the responses."""

    def __init__(self, session: HttpSession, apikey: Secret) -> None:
        self.base_url = session.base_url
        self._session = session
        self._apikey = apikey

    def listing(self, query: Query) -> list[HandwritingRow]:
        """Return the records of all pages; the last page is empty, or has no new record."""
        records: dict[str, HandwritingRow] = {}
        while True:
            page = {**query, "limit": str(wire.MAX_LIMIT), "offset": str(len(records))}
            found = self._decoded(list[HandwritingRow], wire.GET_LISTING, {}, page)
            new = {record["id"]: record for record in found}
            if new.keys() <= records.keys():
                return list(records.values())
            records |= new

    def record(self, handwriting: str) -> HandwritingRow:
        """Return one handwriting by its id or title."""
        return self._decoded(HandwritingRow, wire.GET_HANDWRITING, {"id": id_of(handwriting, self.titles)}, {})

    def rendered(self, text: str, handwriting: str, kind: Format, style: Style) -> Handwritten:
        """Write a text in the format `kind`; see `HandwritingClient.png` for the result and the errors."""
        _check_text(text, wire.MAX_TEXT_LENGTH, wire.TEXT_TOO_LONG)
        query = {"text": text, **query_of(style, kind)}
        done = self._request_rendering(wire.RENDER_ENDPOINTS[kind], kind, handwriting, query)
        if kind == "png":
            return done
        again: Style = {**style, "random_seed": done.seed}
        return replace(done, preview=lambda: self.rendered(text, handwriting, "png", again).data)

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
        _check_text(text, wire.MAX_LETTER_LENGTH, wire.LETTER_TOO_LONG)
        query = query_of(style, kind)
        if kind != "pdf":
            query = {**scaled_query(query, dpi / 72), "page_number": str(page_number)}
        return self._request_rendering(wire.POST_LETTER, kind, handwriting, query, {"text": text})

    @cached_property
    def titles(self) -> dict[str, str]:
        """All titles by id."""
        return {record["id"]: record["title"] for record in self.listing({})}

    def _request_rendering(
        self, endpoint: Endpoint, kind: Format, handwriting: str, query: dict[str, str], body: Body | None = None
    ) -> Handwritten:
        handwriting_id = id_of(handwriting, self.titles)
        began = time.perf_counter()
        reply = self._call(endpoint, {"kind": kind}, {"handwriting_id": handwriting_id, **query}, body)
        milliseconds = (time.perf_counter() - began) * 1000
        return Handwritten.from_response(reply.body, reply.headers, kind, self.titles[handwriting_id], milliseconds)

    def _decoded(self, shape: type[DecodedT], endpoint: Endpoint, values: Mapping[str, str], query: Query) -> DecodedT:
        """Return the decoded body of a response, such as ``list[HandwritingRow]``, or raise UnexpectedReply."""
        try:
            return msgspec.json.decode(self._call(endpoint, values, query).body, type=shape)
        except msgspec.ValidationError as error:
            raise UnexpectedReply(f"the response is not a list of handwritings: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise UnexpectedReply(f"the response to {endpoint} is not JSON") from None

    def _call(self, endpoint: Endpoint, values: Mapping[str, str], query: Query, body: Body | None = None) -> HttpReply:
        reply = self._session.call(endpoint, values, query={"apikey": self._apikey, **query}, body=body)
        if reply.status != 200:
            request = f"{endpoint.method} {endpoint.path_for(**values)}"
            raise wire.error_of(reply.status, reply.headers, reply.body, request=request)
        return reply


def id_of(name: str, titles: dict[str, str]) -> str:
    """Return the id of the handwriting whose id or title (in any case) is `name`; `titles` has all titles by id."""
    if name in titles:
        return name
    ids = {title.casefold(): handwriting_id for handwriting_id, title in titles.items()}
    if name.casefold() in ids:
        return ids[name.casefold()]
    near = difflib.get_close_matches(name.casefold(), ids, n=3, cutoff=0.5)
    hint = ", ".join(titles[ids[title]] for title in near)
    advice = f"the nearest titles are {hint}" if hint else "see available()"
    raise InvalidArgument(f"there is no handwriting {name!r}: {advice}")


def _check_text(text: str, most: int, too_long: str) -> None:
    if len(text) > most:
        raise InvalidArgument(too_long)
    if text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") != text:
        raise InvalidArgument(wire.TEXT_NOT_UTF8)
