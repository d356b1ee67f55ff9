"""Calls of section B: the key goes along, failures become errors, figures are read from the headers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

import orjson

from toolkit.contract import Endpoint
from toolkit.errors import InvalidArgument, UnexpectedReply
from toolkit.handwriting import wire
from toolkit.handwriting.hands_on_offer import NameBook
from toolkit.handwriting.handwritten import Handwritten, ink_share_of
from toolkit.handwriting.parameters import Format
from toolkit.handwriting.style import Style
from toolkit.http_session import HttpReply, HttpSession, Value
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
        """Have `text` rendered; see `toolkit.handwriting.client.HandwritingClient.png`.

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
        spent = (time.perf_counter() - began) * 1000
        return self._handwritten(reply, kind, text, handwriting_id, style, spent)

    def _handwritten(
        self, reply: HttpReply, kind: Format, text: str, handwriting_id: str, style: Style, spent: float
    ) -> Handwritten:
        figures = _Figures(reply.headers)
        seed = figures.seed
        share = figures.ink_share
        if share is None and kind == "png":
            share = ink_share_of(reply.body)
        width, height = figures.size(kind, reply.body)
        again = Style(**{**style.given(), "random_seed": seed})  # type: ignore[arg-type]
        return Handwritten(
            reply.body,
            kind,
            self._names.title_of(handwriting_id),
            seed,
            width,
            height,
            figures.lines,
            share,
            figures.overflow,
            figures.milliseconds or spent,
            None if kind == "png" else lambda: self.rendered(text, handwriting_id, "png", again).data,
        )

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
        return orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        raise UnexpectedReply("the answer is not JSON") from None


class _Figures:
    """Figures of a rendering as its headers tell them; None where a server does not."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def _get(self, name: str) -> str | None:
        return self._headers.get(name.lower())

    @property
    def seed(self) -> int | Decimal | None:
        try:
            seed = Decimal(self._get(wire.SEED_HEADER) or "none")
        except InvalidOperation:
            return None
        return int(seed) if seed == seed.to_integral_value() else seed

    @property
    def lines(self) -> int | None:
        lines = self._get(wire.LINES_HEADER) or ""
        return int(lines) if lines.isdigit() else None

    @property
    def ink_share(self) -> float | None:
        share = self._get(wire.INK_HEADER)
        return float(share) if share else None

    @property
    def overflow(self) -> bool:
        return self._get(wire.OVERFLOW_HEADER) == "true"

    @property
    def milliseconds(self) -> float:
        timing = self._get("Server-Timing") or ""
        return sum(float(part.partition("dur=")[2]) for part in timing.split(",") if "dur=" in part)

    def size(self, kind: Format, body: bytes) -> tuple[float, float]:
        """Return width and height; a PNG tells its own."""
        if kind == "png" and len(body) >= 24:
            return float(int.from_bytes(body[16:20], "big")), float(int.from_bytes(body[20:24], "big"))
        width, _, height = (self._get(wire.SIZE_HEADER) or "nanxnan").partition("x")
        return float(width), float(height)
