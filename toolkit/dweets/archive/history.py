"""A history from an archive: rows in a range of time, as the frame that ``tk.dweets.history`` gives."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.dweets.archive.files import ArchiveFile, thing_files
from toolkit.dweets.archive.frames import FIRST, LAST, microseconds
from toolkit.dweets.archive.joining import read_rows
from toolkit.dweets.archive.rows import DAY
from toolkit.dweets.calls import checked_name
from toolkit.dweets.history_frame import content_frame

_SCHEMA = pa.schema({"thing": pa.string(), "created": pa.timestamp("us", "UTC"), "content": pa.string()})


def history_of(folder: Path, things: str | Iterable[str], start: int, end: int) -> pd.DataFrame:
    """Return what was created from `start` on and before `end` (microseconds), oldest first.

    Raises
    ------
    FileNotFoundError
        A file was joined into another one meanwhile.
    """
    if isinstance(things, str):
        return _frame(_read(folder, things, start, end), with_thing=False)
    tables = [_read(folder, thing, start, end) for thing in dict.fromkeys(things)]
    table = pa.concat_tables([_SCHEMA.empty_table(), *tables])
    if len(tables) > 1:
        table = table.take(pc.sort_indices(table.column("created")))  # it is stable
    return _frame(table, with_thing=True)


def _read(folder: Path, thing: str, start: int, end: int) -> pa.Table:
    created = pc.field("created").cast(pa.int64())
    tables = [_SCHEMA.empty_table()]
    for file in thing_files(folder, checked_name(thing)):
        if _may_hold(file, start, end):
            rows = read_rows(file, _SCHEMA.names, (created >= start) & (created < end))
            tables.append(rows.cast(_SCHEMA))
    return pa.concat_tables(tables)


def _may_hold(file: ArchiveFile, start: int, end: int) -> bool:
    first = microseconds(file.first_day, name="day", otherwise=FIRST)
    return first < end and start < microseconds(file.last_day, name="day", otherwise=LAST) + DAY


def _frame(table: pa.Table, *, with_thing: bool) -> pd.DataFrame:
    times = pd.DatetimeIndex(table.column("created").to_pandas(), name="created")
    contents = [orjson.loads(content) for content in table.column("content").to_pylist()]
    return content_frame(contents, times, table.column("thing").to_pylist() if with_thing else None)
