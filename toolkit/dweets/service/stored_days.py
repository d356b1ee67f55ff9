"""Stored dweets of a day or an hour: read in blocks to limit the memory, and written as JSON or CSV piece by piece."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator

import msgspec

from toolkit.dweets import wire
from toolkit.errors import MalformedRequest
from toolkit.stores import NUMBERS_OF_AN_EPOCH, Entry, Journals

BLOCK_BYTES = 256 * 1024
_ENTRIES_A_READ = 128
_TOO_MANY_COLUMNS = f"a CSV has at most {wire.MAX_CSV_COLUMNS} columns: ask for json, or for an hour"
_NESTED_TOO_DEEPLY = "a dweet is nested too deeply for CSV: ask for json"
# A spreadsheet treats a text that starts with one of these as a formula, unless an apostrophe precedes it.
_FORMULA_STARTS = tuple("=+-@\t\r")


class StoredRange:
    """The entries of a journal with ``start <= at < end`` (milliseconds since the epoch).

    All ranges share `slots`, so that only some hold a whole read in memory.
    """

    def __init__(self, journals: Journals, name: str, start: int, end: int, slots: asyncio.Semaphore) -> None:
        self._journals = journals
        self._name = name
        self._start = start
        self._end = end
        self._slots = slots

    async def deleted(self) -> wire.DeletedDweets | None:
        """Return the entries that retention has dropped, if some of them may have been in the range."""
        oldest = next(iter(await self._journals.after(self._name, 0, 1)), None)
        if oldest is None or self._start >= oldest.at:
            return None
        number = (oldest.sequence - 1) % NUMBERS_OF_AN_EPOCH
        return wire.DeletedDweets(number, wire.created_text(oldest.at)) if number else None

    async def blocks(self, *, newest_first: bool) -> AsyncIterator[list[bytes]]:
        """Yield the records in blocks of bounded size; entries that retention drops before are left out."""
        position, count = None, _ENTRIES_A_READ
        while True:
            async with self._slots:
                if newest_first:
                    entries = (await self._journals.last(self._name, count, position))[::-1]
                else:
                    entries = await self._journals.after(self._name, position or 0, count)
            block = _first_block(entries)
            is_end = len(block) == len(entries) < count
            # Check each entry: the times are not sorted if a clock was set back.
            records = [entry.data for entry in block if self._start <= entry.at < self._end]
            if block:
                position, count = block[-1].sequence, min(2 * len(block), _ENTRIES_A_READ)
            del entries, block  # hold only one block while the caller works
            yield records
            if is_end:
                return


def _first_block(entries: list[Entry]) -> list[Entry]:
    """Return the first entries that fit into a block, at least one."""
    size = 0
    for number, entry in enumerate(entries):
        size += len(entry.data)
        if size > BLOCK_BYTES and number:
            return entries[:number]
    return entries


class _DweetRecord(msgspec.Struct):
    created: str
    content: msgspec.Raw


_read_record = msgspec.json.Decoder(_DweetRecord).decode
_read_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_text = msgspec.json.Decoder(str).decode


async def json_pieces(stored: StoredRange, callback: str | None) -> AsyncIterator[bytes]:
    """Yield the response, newest record first; with a `callback` it is a JSONP script."""
    before, _, behind = wire.succeeded("getting", "dweets", b"[]").partition(b"[]")
    if callback is not None:
        opening, closing = wire.jsonp_wrapper(callback)
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
    try:
        async for records in stored.blocks(newest_first=False):
            for record in records:
                names.update(dict.fromkeys(_fields(record)[1]))
                if len(names) > wire.MAX_CSV_COLUMNS:
                    raise MalformedRequest(_TOO_MANY_COLUMNS)
    except RecursionError:
        raise MalformedRequest(_NESTED_TOO_DEEPLY) from None
    return list(names)


async def csv_pieces(stored: StoredRange, names: list[str]) -> AsyncIterator[bytes]:
    """Yield the rows, oldest first: created, then a column per name."""
    yield _csv_bytes([["created", *map(escape_formula, names)]])
    async for records in stored.blocks(newest_first=False):
        rows = []
        for created, values in map(_fields, records):
            rows.append([created, *(_cell(values[name]) if name in values else "" for name in names)])
        yield _csv_bytes(rows)


def _fields(record: bytes) -> tuple[str, dict[str, msgspec.Raw]]:
    """Return ``created``, and the JSON of each value in the content by its name."""
    read = _read_record(record)
    content = read.content
    return read.created, _read_object(content) if bytes(content).startswith(b"{") else {"content": content}


def _cell(value: msgspec.Raw) -> str:
    text = bytes(value)
    if text.startswith(b'"'):
        return escape_formula(_read_text(text))
    return "" if text == b"null" else text.decode("utf-8")


def escape_formula(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _csv_bytes(rows: list[list[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode("utf-8")
