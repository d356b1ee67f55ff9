"""Stored dweets of a day or an hour as JSON or CSV, written piece by piece while they are read."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator

import msgspec

from toolkit.dweets import wire
from toolkit.dweets.service.stored_range import StoredRange
from toolkit.errors import MalformedRequest

_TOO_WIDE = f"a CSV has at most {wire.MAX_CSV_COLUMNS} columns: ask for json, or for an hour"
_TOO_DEEP = "a dweet is nested too deeply for CSV: ask for json"
# A spreadsheet treats a text that starts with one of these as a formula, unless an apostrophe precedes it.
_FORMULA = tuple("=+-@\t\r")


class _Record(msgspec.Struct):
    created: str
    content: msgspec.Raw


_read_record = msgspec.json.Decoder(_Record).decode
_read_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_text = msgspec.json.Decoder(str).decode


async def json_pieces(stored: StoredRange, callback: str | None) -> AsyncIterator[bytes]:
    """Yield the response, newest record first; with a `callback` it is a JSONP script."""
    before, _, behind = wire.succeeded("getting", "dweets", b"[]").partition(b"[]")
    if callback is not None:
        opening, closing = wire.script_around(callback)
        before, behind = opening + before, behind + closing
    separator = before + b"["
    async for records in stored.blocks(newest_first=True):
        if records:
            body = b",".join(records)
            yield separator + (body if callback is None else wire.safe_in_script(body))
            separator = b","
    yield (b"]" if separator == b"," else separator + b"]") + behind


async def csv_names(stored: StoredRange) -> list[str]:
    """Return the names in all contents, in order of appearance; MalformedRequest if CSV cannot hold them."""
    names: dict[str, None] = {}

    def collect(record: bytes) -> None:
        names.update(dict.fromkeys(_fields(record)[1]))
        if len(names) > wire.MAX_CSV_COLUMNS:
            raise MalformedRequest(_TOO_WIDE)

    try:
        await stored.scan(collect)
    except RecursionError:
        raise MalformedRequest(_TOO_DEEP) from None
    return list(names)


async def csv_pieces(stored: StoredRange, names: list[str]) -> AsyncIterator[bytes]:
    """Yield the rows, oldest first: created, then a column per name."""
    yield _written([["created", *map(harmless, names)]])
    async for records in stored.blocks(newest_first=False):
        rows = []
        for created, values in map(_fields, records):
            rows.append([created, *(_cell(values[name]) if name in values else "" for name in names)])
        yield _written(rows)


def _fields(record: bytes) -> tuple[str, dict[str, msgspec.Raw]]:
    """Return ``created``, and the JSON of each value in the content."""
    read = _read_record(record)
    content = read.content
    return read.created, _read_object(content) if bytes(content).startswith(b"{") else {"content": content}


def _cell(value: msgspec.Raw) -> str:
    text = bytes(value)
    if text.startswith(b'"'):
        return harmless(_read_text(text))
    return "" if text == b"null" else text.decode("utf-8")


def harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _written(rows: list[list[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode("utf-8")
