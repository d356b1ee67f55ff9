"""Stored dweets of a day or an hour as JSON or CSV; what is large is sent in pieces as it is read."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable

import msgspec

from toolkit.dweets import wire
from toolkit.dweets.service.stored_range import StoredRange
from toolkit.errors import MalformedRequest
from toolkit.gateway.exchange import JSON, Response, Stream
from toolkit.gateway.http_stream import StreamWriter

CSV = b"text/csv; charset=utf-8"
JAVASCRIPT = b"application/javascript; charset=utf-8"
_TOO_WIDE = f"a CSV has at most {wire.MAX_CSV_COLUMNS} columns: ask for json, or for an hour"
_TOO_DEEP = "a dweet is nested too deeply for CSV: ask for json"
# What a spreadsheet takes for a formula at the beginning of a text; an apostrophe before it makes it a text again.
_FORMULA = tuple("=+-@\t\r")


class _Record(msgspec.Struct):
    created: str
    content: msgspec.Raw


_read_record = msgspec.json.Decoder(_Record).decode
_read_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_text = msgspec.json.Decoder(str).decode


async def as_json(stored: StoredRange, callback: str | None) -> Response | Stream:
    """Return the records, newest first, in the envelope of the service; a stream calls `callback` if there is one."""
    await stored.scan()
    before, _, behind = wire.succeeded("getting", "dweets", b"[]").partition(b"[]")
    is_script = callback is not None and not stored.is_small
    if is_script:
        opening, closing = wire.script_around(callback or "")
        before, behind = opening + before, behind + closing

    async def pieces() -> AsyncIterator[bytes]:
        separator = before + b"["
        async for records in stored.blocks(newest_first=True):
            if records:
                body = b",".join(records)
                yield separator + (wire.safe_in_script(body) if is_script else body)
                separator = b","
        yield (b"]" if separator == b"," else separator + b"]") + behind

    return await _sent(stored, pieces(), JAVASCRIPT if is_script else JSON)


async def as_csv(stored: StoredRange) -> Response | Stream:
    """Return the records, oldest first: created, then a column for each name of their contents, in order of appearance.

    Raises
    ------
    MalformedRequest
        There are too many columns, or a content is nested too deeply.
    """
    names: dict[str, None] = {}

    def look(record: bytes) -> None:
        names.update(dict.fromkeys(_fields(record)[1]))
        if len(names) > wire.MAX_CSV_COLUMNS:
            raise MalformedRequest(_TOO_WIDE)

    try:
        await stored.scan(look)
    except RecursionError:
        raise MalformedRequest(_TOO_DEEP) from None

    async def pieces() -> AsyncIterator[bytes]:
        yield _written([["created", *map(_harmless, names)]])
        async for records in stored.blocks(newest_first=False):
            yield _written([_row(record, names) for record in records])

    return await _sent(stored, pieces(), CSV)


async def _sent(stored: StoredRange, pieces: AsyncIterator[bytes], content_type: bytes) -> Response | Stream:
    if stored.is_small:
        return Response(200, b"".join([piece async for piece in pieces]), content_type)

    async def start(writer: StreamWriter) -> Callable[[], None]:
        async for piece in pieces:
            writer.write(piece)
            await writer.drain()
        writer.end()
        return lambda: None

    return Stream(start, content_type, is_finite=True)


def _fields(record: bytes) -> tuple[str, dict[str, msgspec.Raw]]:
    """Return when a dweet was created, and the JSON of each value of its content."""
    read = _read_record(record)
    content = read.content
    return read.created, _read_object(content) if bytes(content).startswith(b"{") else {"content": content}


def _row(record: bytes, names: dict[str, None]) -> list[str]:
    created, values = _fields(record)
    return [created, *(_cell(values[name]) if name in values else "" for name in names)]


def _cell(value: msgspec.Raw) -> str:
    text = bytes(value)
    if text.startswith(b'"'):
        return _harmless(_read_text(text))
    return "" if text == b"null" else text.decode("utf-8")


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _written(rows: list[list[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode("utf-8")
