"""Stored dweets of a day or an hour: read in blocks to limit the memory, and written as JSON or CSV piece by piece."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable

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
    """The entries of a journal with ``start <= at < end`` (milliseconds since the epoch); call `scan` first.

    All ranges share `slots`, so that only some hold entries in memory. Entries that retention drops before `blocks`
    reads them are left out.
    """

    def __init__(self, journals: Journals, name: str, start: int, end: int, slots: asyncio.Semaphore) -> None:
        self._journals = journals
        self._name = name
        self._start = start
        self._end = end
        self._slots = slots
        self._blocks: list[list[int]] = []  # the numbers of the first and the last entry
        self._oldest: Entry | None = None  # of the whole journal
        self._size = 0  # bytes since the start of the last block, with those of other entries in between

    @property
    def is_small(self) -> bool:
        return len(self._blocks) < 2

    @property
    def deleted(self) -> wire.DeletedDweets | None:
        """The entries that retention has dropped, if some of them may have been in the range."""
        if self._oldest is None or self._start >= self._oldest.at:
            return None
        number = (self._oldest.sequence - 1) % NUMBERS_OF_AN_EPOCH
        return wire.DeletedDweets(number, wire.created_text(self._oldest.at)) if number else None

    async def scan(self, visit: Callable[[bytes], None] = lambda record: None) -> None:
        """Find the blocks and call `visit` with each record; an error of `visit` ends the scan."""
        last: int | None = 0
        while last is not None:
            async with self._slots:
                last = await self._scan_after(last, visit)

    async def _scan_after(self, sequence: int, visit: Callable[[bytes], None]) -> int | None:
        """Scan some entries; return the sequence number of the last one if more may follow."""
        entries, visited = await self._journals.after(self._name, sequence, _ENTRIES_A_READ), 0
        if sequence == 0 and entries:
            self._oldest = entries[0]
        for entry in entries:
            self._size += len(entry.data)
            if not self._is_inside(entry):
                continue
            if self._blocks and self._size <= BLOCK_BYTES:
                self._blocks[-1][1] = entry.sequence
            else:
                self._blocks.append([entry.sequence, entry.sequence])
                self._size = len(entry.data)
            visit(entry.data)
            visited += len(entry.data)
            if visited > BLOCK_BYTES:  # give other requests a turn
                visited = 0
                await asyncio.sleep(0)
        return entries[-1].sequence if len(entries) == _ENTRIES_A_READ else None

    async def blocks(self, *, newest_first: bool) -> AsyncIterator[list[bytes]]:
        for first, last in self._blocks[::-1] if newest_first else self._blocks:
            async with self._slots:
                entries = await self._journals.after(self._name, first - 1, last - first + 1)
            # After a failover numbers are missing, so the entries may reach beyond the block.
            records = [entry.data for entry in entries if entry.sequence <= last and self._is_inside(entry)]
            yield records[::-1] if newest_first else records

    def _is_inside(self, entry: Entry) -> bool:
        # Check each entry: the times are not sorted if a clock was set back.
        return self._start <= entry.at < self._end


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

    def collect(record: bytes) -> None:
        names.update(dict.fromkeys(_fields(record)[1]))
        if len(names) > wire.MAX_CSV_COLUMNS:
            raise MalformedRequest(_TOO_MANY_COLUMNS)

    try:
        await stored.scan(collect)
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
