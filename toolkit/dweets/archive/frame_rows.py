"""Frames as rows of an archive; numeric columns are written as JSON column by column."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from tqdm.auto import tqdm

from toolkit.dweets.archive.rows import Row, table_of, table_with
from toolkit.dweets.archive.writer import ArchiveWriter
from toolkit.dweets.arguments import checked_name, checked_times
from toolkit.dweets.content_json import row_contents

# While one file is being synced, the next ones are made.
_THREADS = 4


def write_frames(writer: ArchiveWriter, frames: Iterable[tuple[str, pd.DataFrame]], *, progress: bool) -> int:
    count = 0
    running: dict[str, Future[int]] = {}
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="archive") as threads:
        for thing, frame in tqdm(frames, unit="thing", disable=not progress):
            checked_name(thing)
            if thing in running:  # its numbers follow those of the frame before
                count += running.pop(thing).result()
            elif len(running) > _THREADS:
                count += running.pop(next(iter(running))).result()
            running[thing] = threads.submit(_write, writer, frame, thing)
        return count + sum(future.result() for future in running.values())


def _write(writer: ArchiveWriter, frame: pd.DataFrame, thing: str) -> int:
    table = rows_of_frame(frame, thing, writer.position(thing).sequence + 1)
    if table.num_rows:
        writer.append_table(thing, table)
    return int(table.num_rows)


def rows_of_frame(frame: pd.DataFrame, thing: str, first: int) -> pa.Table:
    """Return each row of a frame as a dweet, numbered from `first`; the index is its time."""
    index = checked_times(frame)
    utc = index.tz_localize("UTC") if index.tz is None else index.tz_convert("UTC")
    times = utc.as_unit("us").asi8
    content = frame.reset_index(drop=True)
    if not len(frame):
        return table_of(thing, [Row(first, 0, None, b"{}")]).slice(0, 0)
    if all(_is_plain(name, content[name]) for name in content.columns) and content.columns.is_unique:
        return _column_by_column(content, thing, first, times)
    contents = row_contents(content)
    numbered = zip(range(first, first + len(contents)), times.tolist(), contents, strict=True)
    return table_of(thing, [Row(number, at, None, written) for number, at, written in numbered])


def _is_plain(name: object, column: pd.Series[Any]) -> bool:
    if not isinstance(name, str) or "." in name or not isinstance(column.dtype, np.dtype):
        return False
    return column.dtype.kind in "iu" or (column.dtype.kind == "f" and bool(np.isfinite(column.to_numpy()).all()))


def _column_by_column(content: pd.DataFrame, thing: str, first: int, times: Any) -> pa.Table:  # noqa: ANN401
    pieces: list[pa.Array | str] = []
    leaves: dict[str, pa.Array] = {}
    for name in content.columns:
        is_float = content[name].dtype.kind == "f"
        values = leaves[name] = pa.array(content[name].to_numpy(dtype="float64" if is_float else "int64"))
        texts = values.cast(pa.string())
        if is_float:  # Arrow writes 21.0 as 21, which would be read as an integer
            has_point = pc.or_(pc.match_substring(texts, "."), pc.match_substring(texts, "e"))
            texts = pc.if_else(has_point, texts, pc.binary_join_element_wise(texts, ".0", ""))
        pieces += [f"{',' if pieces else '{'}{json.dumps(name, ensure_ascii=False)}:", texts]
    written = pc.binary_join_element_wise(*pieces, "}", "") if pieces else pa.array(["{}"] * len(content))
    sequences = pa.array(np.arange(first, first + len(content)))
    created = pa.array(times).cast(pa.timestamp("us", tz="UTC"))
    return table_with(thing, sequences, created, pa.nulls(len(content), pa.string()), written, leaves)
