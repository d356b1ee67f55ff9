"""Rows of a frame as rows of an archive: written as JSON column by column where that is possible."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from tqdm.auto import tqdm

from toolkit.dweets.archive.rows import Row, base_columns, table_of, table_with
from toolkit.dweets.archive.writer import ArchiveWriter
from toolkit.dweets.calls import checked_name
from toolkit.dweets.content_batches import checked_sizes
from toolkit.dweets.content_columns import contents_of
from toolkit.errors import InvalidArgument

# While one file is on its way to the disk, another one is made.
_THREADS = 4


def write_frames(writer: ArchiveWriter, frames: Iterable[tuple[str, pd.DataFrame]], *, progress: bool) -> int:
    """Write each frame behind what is archived of its thing; return how many rows they have.

    Raises
    ------
    InvalidArgument, ArchiveUnusable
        A frame cannot be written; earlier ones are, each of them whole.
    """
    count = 0
    on_their_way: deque[tuple[str, Future[int]]] = deque()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="archive") as threads:
        for thing, frame in tqdm(frames, unit="thing", disable=not progress):
            checked_name(thing)
            # Of one thing never two at once: the second follows on the first.
            while len(on_their_way) > _THREADS or any(name == thing for name, _ in on_their_way):
                count += on_their_way.popleft()[1].result()
            on_their_way.append((thing, threads.submit(_write, writer, frame, thing)))
        return count + sum(future.result() for _, future in on_their_way)


def _write(writer: ArchiveWriter, frame: pd.DataFrame, thing: str) -> int:
    table = rows_of_frame(frame, thing, writer.position(thing).sequence + 1)
    if table.num_rows:
        writer.append_table(thing, table)
    return int(table.num_rows)


def rows_of_frame(frame: pd.DataFrame, thing: str, first: int) -> pa.Table:
    """Return each row of a frame as a dweet, numbered from `first`; its index says when it was created.

    Raises
    ------
    InvalidArgument
        No ascending DatetimeIndex, or a row that cannot be the content of a dweet.
    """
    times = _times(frame.index)
    content = frame.reset_index(drop=True)
    if not len(frame):
        return table_of(thing, [Row(first, 0, None, b"{}")]).slice(0, 0)
    if all(_is_plain(name, content[name]) for name in content.columns) and content.columns.is_unique:
        return _column_by_column(content, thing, first, times)
    contents = list(contents_of(content))
    checked_sizes(contents)
    numbered = zip(range(first, first + len(contents)), times.tolist(), contents, strict=True)
    return table_of(thing, [Row(number, at, None, written) for number, at, written in numbered])


def _times(index: pd.Index) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if not isinstance(index, pd.DatetimeIndex) or not index.is_monotonic_increasing or index.hasnans:
        raise InvalidArgument("a frame needs a DatetimeIndex in ascending order: try frame.set_index(...).sort_index()")
    utc = index.tz_localize("UTC") if index.tz is None else index.tz_convert("UTC")
    return utc.as_unit("us").asi8


def _is_plain(name: object, column: pd.Series[Any]) -> bool:
    """Tell whether the column is numbers without gaps, and its name stays as it is."""
    if not isinstance(name, str) or "." in name or not isinstance(column.dtype, np.dtype):
        return False
    return column.dtype.kind in "iu" or (column.dtype.kind == "f" and bool(np.isfinite(column.to_numpy()).all()))


def _column_by_column(
    content: pd.DataFrame, thing: str, first: int, times: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> pa.Table:
    pieces: list[pa.Array | str] = []
    leaves: dict[str, pa.Array] = {}
    for name in content.columns:
        is_float = content[name].dtype.kind == "f"
        values = pa.array(content[name].to_numpy(dtype="float64" if is_float else "int64"))
        leaves[name] = values
        key = json.dumps(name, ensure_ascii=False)
        pieces += [f"{',' if pieces else '{'}{key}:", _as_text(values)]
    written = pc.binary_join_element_wise(*pieces, "}", "") if pieces else pa.array(["{}"] * len(content))
    base = base_columns(thing, np.arange(first, first + len(content)), times)
    return table_with(base | {"transaction": pa.nulls(len(content), pa.string()), "content": written}, leaves)


def _as_text(values: pa.Array) -> pa.Array:
    texts = values.cast(pa.string())
    if pa.types.is_integer(values.type):
        return texts
    # Arrow writes 21.0 as 21, which would come back as a whole number.
    has_point = pc.or_(pc.match_substring(texts, "."), pc.match_substring(texts, "e"))
    return pc.if_else(has_point, texts, pc.binary_join_element_wise(texts, ".0", ""))
