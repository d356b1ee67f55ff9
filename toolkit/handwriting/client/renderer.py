"""`Renderer`: the requests to the service, and hands by id or title."""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import NotRequired, TypeAlias, TypedDict

import msgspec

from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidArgument, UnexpectedReply
from toolkit.handwriting import wire
from toolkit.handwriting.client.style import PageStyle, query_of, scale_query
from toolkit.handwriting.handwritten import Handwritten, Letter, rendering_of, set_resolution
from toolkit.handwriting.wire import FileKind
from toolkit.http_client import HttpReply, HttpSession, StrOrSecret
from toolkit.secret import Secret
from toolkit.system.nearest_name import nearest_names

Query: TypeAlias = Mapping[str, StrOrSecret | None]
Json: TypeAlias = Mapping[str, object]  # the JSON object in the body of a request
_PREVIEW_DPI = 96


class HandwritingRow(TypedDict):
    """One handwriting in the list of a server; the specification has no ratings, so they may be missing."""

    id: str
    title: str
    date_created: str
    date_modified: str
    rating_neatness: NotRequired[int | None]
    rating_cursivity: NotRequired[int | None]
    rating_embellishment: NotRequired[int | None]
    rating_character_width: NotRequired[int | None]


LISTING_COLUMNS = {
    "id": "str", "title": "str", "date_created": "datetime64[us, UTC]", "date_modified": "datetime64[us, UTC]",
    **dict.fromkeys(wire.RATINGS, "Int64"),
}  # fmt: skip


class Renderer:
    """Sends texts to the service with the apikey of a client, and warns of nothing."""

    def __init__(self, session: HttpSession, apikey: Secret) -> None:
        self._session = session
        self._apikey = apikey

    @property
    def base_url(self) -> str:
        return self._session.base_url

    def listing(self, query: Query) -> list[HandwritingRow]:
        """Return the complete list: request parts of it until one has no new handwriting."""
        rows: dict[str, HandwritingRow] = {}
        while True:
            part = self._listing_part({**query, "limit": str(wire.MAX_LIMIT), "offset": str(len(rows))})
            new_rows = {row["id"]: row for row in part}
            if new_rows.keys() <= rows.keys():
                return list(rows.values())
            rows |= new_rows

    @cached_property
    def titles(self) -> dict[str, str]:
        return {row["id"]: row["title"] for row in self.listing({})}

    def id_of(self, name: str) -> str:
        if name in self.titles:
            return name
        ids = {title.casefold(): handwriting_id for handwriting_id, title in self.titles.items()}
        if name.casefold() in ids:
            return ids[name.casefold()]
        titles = ", ".join(nearest_names(name, list(self.titles.values()), most=3, likeness=0.5))
        advice = f"the nearest titles are {titles}" if titles else "see available()"
        raise InvalidArgument(f"there is no handwriting {name!r}: {advice}")

    def render(self, text: str, hand: str, kind: FileKind, style: PageStyle) -> Handwritten:
        """Write a text on one page, which is as high as the text needs unless the style has a height."""
        _check_text(text, wire.MAX_TEXT_LENGTH, wire.TEXT_TOO_LONG)
        query = {"text": text, "height": "auto", **query_of(style, kind)}
        rendering = self._request_rendering(wire.RENDER_ENDPOINTS[kind], kind, hand, query)
        if kind == "png":
            return rendering
        seeded: PageStyle = {**style, "random_seed": rendering.seed}
        return replace(rendering, preview=lambda: self.render(text, hand, "png", seeded).data)

    def letter(self, text: str, hand: str, style: PageStyle) -> Letter:
        pdf = self.render_letter(text, hand, "pdf", style)
        seeded: PageStyle = {**style, "random_seed": pdf.seed}

        def render_page(number: int, dpi: float) -> Handwritten:
            return self.render_letter(text, hand, "png", seeded, page_number=number, dpi=dpi)

        return Letter(**{**vars(pdf), "preview": lambda: render_page(1, _PREVIEW_DPI).data}, render_page=render_page)

    def render_letter(
        self, text: str, hand: str, kind: FileKind, style: PageStyle, *, page_number: int = 1, dpi: float = 72
    ) -> Handwritten:
        """Write a letter: a PDF of all pages, or one page as a PNG with `dpi` pixels per inch."""
        _check_text(text, wire.MAX_LETTER_LENGTH, wire.LETTER_TOO_LONG)
        query = query_of(style, kind)
        if kind == "png":
            query = {**scale_query(query, dpi), "page_number": str(page_number)}
        rendering = self._request_rendering(wire.POST_LETTER, kind, hand, query, {"text": text})
        return replace(rendering, data=set_resolution(rendering.data, dpi)) if kind == "png" else rendering

    def _request_rendering(
        self, endpoint: Endpoint, kind: FileKind, hand: str, query: dict[str, str], body: Json | None = None
    ) -> Handwritten:
        handwriting_id = self.id_of(hand)
        began = time.perf_counter()
        reply = self._call(endpoint, {"kind": kind}, {"handwriting_id": handwriting_id, **query}, body)
        milliseconds = (time.perf_counter() - began) * 1000
        return rendering_of(reply.body, reply.headers, kind, self.titles[handwriting_id], milliseconds)

    def _listing_part(self, query: Query) -> list[HandwritingRow]:
        try:
            return msgspec.json.decode(self._call(wire.GET_LISTING, {}, query).body, type=list[HandwritingRow])
        except msgspec.ValidationError as error:
            raise UnexpectedReply(f"the response to {wire.GET_LISTING} has an unexpected form: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise UnexpectedReply(f"the response to {wire.GET_LISTING} is not JSON") from None

    def _call(self, endpoint: Endpoint, values: Mapping[str, str], query: Query, body: Json | None = None) -> HttpReply:
        reply = self._session.call(endpoint, values, query={"apikey": self._apikey, **query}, body=body)
        if reply.status != 200:
            request = f"{endpoint.method} {endpoint.path_for(**values)}"
            raise wire.error_of(reply.status, reply.headers, reply.body, request=request)
        return reply


def _check_text(text: str, max_length: int, too_long: str) -> None:
    if len(text) > max_length:
        raise InvalidArgument(f"{too_long}, not {len(text):,}")
    if text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") != text:
        raise InvalidArgument(wire.TEXT_NOT_UTF8)
