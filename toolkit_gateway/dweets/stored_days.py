"""Stored dweets of a day or an hour: read in batches to limit the memory, and written as JSON or CSV in pieces."""

import csv
import io
from collections.abc import AsyncIterator

import msgspec

from toolkit.dweets import wire
from toolkit.errors import MalformedRequest
from toolkit_gateway.dweets import replies
from toolkit_gateway.dweets.thing_cache import Things, journal_of
from toolkit_gateway.stores import NUMBERS_PER_EPOCH

MAX_CSV_COLUMNS = 200
_TOO_MANY_COLUMNS = f"a CSV has at most {MAX_CSV_COLUMNS} columns: ask for json, or for an hour"
_NESTED_TOO_DEEPLY = "a dweet is nested too deeply for CSV: ask for json"
# A spreadsheet treats a text that starts with one of these as a formula, unless an apostrophe precedes it.
_FORMULA_STARTS = tuple("=+-@\t\r")


class StoredRange:
    """The dweets of a thing with ``start <= at < end`` (milliseconds since the epoch), none numbered above `last`."""

    def __init__(self, things: Things, thing: str, last: int, start: int, end: int) -> None:
        self._things = things
        self._thing = thing
        self._start = start
        self._end = end
        self._last = last  # CSV reads twice: a dweet posted in between may have a name without a column

    async def deleted(self) -> wire.DeletedDweets | None:
        """Return how many dweets retention has dropped, and since when it kept them, if the range begins earlier."""
        oldest = next(iter(await self._things.journals.after(journal_of(self._thing), 0, 1)), None)
        if oldest is None or self._start >= oldest.at:
            return None
        count = (oldest.sequence - 1) % NUMBERS_PER_EPOCH
        return wire.DeletedDweets(count, replies.created_text(oldest.at)) if count else None

    async def batches(self, *, newest_first: bool) -> AsyncIterator[list[bytes]]:
        """Yield the dweets in batches of bounded size."""
        async for entries in self._things.batches(self._thing, newest_first=newest_first):
            # Check each entry: the times are not sorted if a clock was set back.
            yield [data for number, at, _, data in entries if number <= self._last and self._start <= at < self._end]


class _Dweet(msgspec.Struct):
    created: str
    content: msgspec.Raw


_decode_dweet = msgspec.json.Decoder(_Dweet).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode


async def json_pieces(stored: StoredRange, callback: str | None) -> AsyncIterator[bytes]:
    """Yield the response, newest dweet first; with a `callback` it is a JSONP script."""
    before, _, after = replies.succeeded("getting", "dweets", b"[]").partition(b"[]")
    if callback is not None:
        opening, closing = replies.jsonp_wrapper(callback)
        before, after = opening + before, after + closing
    prefix = before + b"["
    async for dweets in stored.batches(newest_first=True):
        if dweets:
            body = b",".join(dweets)
            yield prefix + (body if callback is None else replies.safe_in_script(body))
            prefix = b","
    yield (b"]" if prefix == b"," else prefix + b"]") + after


async def csv_pieces(stored: StoredRange) -> AsyncIterator[bytes]:
    """Yield a header and a row per dweet, oldest first; MalformedRequest if CSV cannot hold their names or nesting."""
    names = await _csv_names(stored)
    yield _csv_bytes([["created", *map(escape_formula, names)]])
    async for dweets in stored.batches(newest_first=False):
        rows = []
        for created, values in map(_fields, dweets):
            rows.append([created, *(_cell(values[name]) if name in values else "" for name in names)])
        yield _csv_bytes(rows)


async def _csv_names(stored: StoredRange) -> list[str]:
    """Return the names in all contents, in order of appearance."""
    names: dict[str, None] = {}
    try:
        async for dweets in stored.batches(newest_first=False):
            for dweet in dweets:
                names.update(dict.fromkeys(_fields(dweet)[1]))
                if len(names) > MAX_CSV_COLUMNS:
                    raise MalformedRequest(_TOO_MANY_COLUMNS)
    except RecursionError:
        raise MalformedRequest(_NESTED_TOO_DEEPLY) from None
    return list(names)


def _fields(dweet: bytes) -> tuple[str, dict[str, msgspec.Raw]]:
    """Return ``created``, and the JSON of each value in the content by its name."""
    parsed = _decode_dweet(dweet)
    content = parsed.content
    return parsed.created, _decode_object(content) if bytes(content).startswith(b"{") else {"content": content}


def _cell(value: msgspec.Raw) -> str:
    text = bytes(value)
    if text.startswith(b'"'):
        return escape_formula(_decode_string(text))
    return "" if text == b"null" else text.decode("utf-8")


def escape_formula(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _csv_bytes(rows: list[list[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode("utf-8")
