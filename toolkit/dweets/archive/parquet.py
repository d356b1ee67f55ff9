"""The Parquet files of an archive: write, read and join them.

A file has a number of rows, not a day: DuckDB needs 0.125 ms to open a file, so with daily files of 1,000 things every
query over a year would take 45 s to open them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from toolkit.dweets.archive.files import ArchiveFile
from toolkit.dweets.archive.rows import BASE, Row, common_schema, conformed
from toolkit.dweets.content_leaves import MOST_COLUMNS
from toolkit.errors import ArchiveUnusable

_ROWS_A_GROUP = 65_536
_BYTES_A_GROUP = 64 * 1024 * 1024


class Footer(NamedTuple):
    """The metadata of a file: columns, bytes, and the first and last time (microseconds)."""

    file: ArchiveFile
    schema: pa.Schema
    size: int
    first: int
    last: int


class FileLimits(NamedTuple):
    rows_to_end_a_day: int = 65_536  # a file with at least this many rows ends with its day
    most_rows: int = 1_048_576
    most_bytes: int = 256 * 1024 * 1024
    small_files: int = 16  # this many may accumulate at the end of a thing before they are joined


@contextmanager
def _checking(file: ArchiveFile) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:  # a writer joined it into another file; the reader lists the files again
        raise
    except (OSError, pa.ArrowException, ValueError):
        message = f"{file.path} is damaged or no file of this archive: move it away, or restore it from a backup"
        raise ArchiveUnusable(message) from None


def read_footer(file: ArchiveFile) -> Footer:
    with _checking(file), pq.ParquetFile(file.path) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
        if metadata.num_rows != file.rows or schema.names[: len(BASE)] != BASE.names:
            raise ValueError
        place = BASE.get_field_index("created")
        groups = [metadata.row_group(number).column(place).statistics for number in range(metadata.num_row_groups)]
        first, last = min(group.min_raw for group in groups), max(group.max_raw for group in groups)
        return Footer(file, schema, file.path.stat().st_size, first, last)


def read_rows(file: ArchiveFile, columns: Sequence[str], filters: pc.Expression | None = None) -> pa.Table:
    with _checking(file):
        return pq.read_table(file.path, columns=columns, filters=filters, partitioning=None)


def last_row(file: ArchiveFile) -> Row:
    rows = read_rows(file, ["created", "transaction", "content"], pc.field("sequence") == file.last)
    with _checking(file):
        (row,) = rows.set_column(0, "created", rows.column("created").cast(pa.int64())).to_pylist()
    return Row(file.last, row["created"], row["transaction"], row["content"].encode("utf-8"))


def write_file(path: Path, tables: Iterable[pa.Table], rows: int) -> tuple[str, str]:
    """Write and sync a file with this number of rows; return its first and last day."""
    days: set[Any] = set()
    written = 0
    with open(path, "wb") as file:
        writer: pq.ParquetWriter | None = None
        for table in tables:
            writer = writer or _parquet_writer(file, table.schema)
            writer.write_table(table, row_group_size=_ROWS_A_GROUP)
            days |= set(table.column("day").unique().to_pylist())
            written += table.num_rows
        if writer is None or written != rows:
            raise pa.ArrowInvalid(f"{written} rows instead of {rows}")
        writer.close()
        file.flush()
        os.fsync(file.fileno())
    return min(days).isoformat(), max(days).isoformat()


def _parquet_writer(file: Any, schema: pa.Schema) -> pq.ParquetWriter:  # noqa: ANN401
    # Compared to the defaults: a third of the size and half the time of a query.
    distinct = ("sequence", "created", "transaction", "content")
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name not in distinct],
        column_encoding=dict.fromkeys(distinct[:2], "DELTA_BINARY_PACKED"),
        sorting_columns=[pq.SortingColumn(schema.get_field_index("sequence"))],
    )


def groups_to_join(files: Sequence[ArchiveFile], limits: FileLimits, *, fully: bool) -> Iterator[list[ArchiveFile]]:
    """Yield groups of neighbours that should be one file.

    The last group still grows. Unless `fully`, its files are joined only if as many rows follow them, so that a row is
    rewritten a logarithmic number of times.
    """
    groups: list[list[ArchiveFile]] = []
    rows = size = 0
    for file in files:
        rows, size = rows + file.rows, size + file.path.stat().st_size
        if not groups or _starts_group(file, groups[-1][-1], rows, size, limits):
            groups.append([])
            rows, size = file.rows, file.path.stat().st_size
        groups[-1].append(file)
    if groups and not fully:
        group = groups.pop()
        behind = sum(file.rows for file in group)
        is_due = len(group) > limits.small_files
        while group and group[0].rows > (behind := behind - group[0].rows):
            group = group[1:]
        groups += [group] if is_due else []
    yield from (group for group in groups if len(group) > 1)


def _starts_group(file: ArchiveFile, last: ArchiveFile, rows: int, size: int, limits: FileLimits) -> bool:
    has_gap = (file.epoch, file.first) != (last.epoch, last.last + 1)
    starts_day = rows - file.rows >= limits.rows_to_end_a_day and file.last_day > last.last_day
    return has_gap or starts_day or rows > limits.most_rows or size > limits.most_bytes


def joined_tables(files: Sequence[ArchiveFile]) -> Iterator[pa.Table]:
    """Yield the rows of all files with their common columns, in tables of bounded size."""
    schema = common_schema(read_footer(file).schema for file in files)
    schema = pa.schema(list(schema)[: len(BASE) + MOST_COLUMNS])  # other values are in the content only
    waiting: list[pa.Table] = []
    rows = size = 0
    for file in files:
        with _checking(file), pq.ParquetFile(file.path) as opened:
            for number in range(opened.num_row_groups):
                waiting.append(conformed(opened.read_row_group(number), schema))
                rows, size = rows + waiting[-1].num_rows, size + waiting[-1].nbytes
                if rows >= _ROWS_A_GROUP or size >= _BYTES_A_GROUP:
                    yield pa.concat_tables(waiting).unify_dictionaries()
                    waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries()
