"""The rows of an archive as Arrow tables, and the Parquet files that hold them: write, read and merge them.

Every file has the columns of `BASE`; ``content`` is the exact JSON. Numbers, booleans and short texts in the contents
also have their own columns, named as in ``tk.dweets.history``, so that queries need not parse JSON. A column has one
type: if numbers and texts are mixed, the texts are in ``content`` only.

Files are limited by rows, not by days: DuckDB needs 0.125 ms to open a file, so a query over daily files of 1,000
things and a year would need 45 s only to open them.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from toolkit.archive.file_names import ArchiveFile
from toolkit.dweets.content_leaves import MOST_COLUMNS, frequent_leaf_columns
from toolkit.dweets.frame_rows import prefixed_texts, row_texts
from toolkit.errors import ArchiveUnusable

#: The first columns of every file. Times have microseconds, because other servers may be more precise than ours.
BASE = pa.schema(
    [
        pa.field("thing", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("created", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("transaction", pa.string()),
        pa.field("content", pa.string(), nullable=False),
    ]
)
_ROWS_PER_GROUP = 65_536
_BYTES_PER_GROUP = 64 * 1024 * 1024
LONGEST_TEXT = 256  #: longer texts are in the content only
_LONGEST_NAME = 256
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
# If a column has two types, the one with the higher rank wins.
_RANK = {pa.string(): 0, pa.bool_(): 1, pa.int64(): 2, pa.float64(): 3}
_MAX_INTEGER = 2**63 - 1
Leaves = Mapping[str, pa.Array]


class Row(NamedTuple):
    """A dweet to be archived: ``at`` is microseconds since the Unix epoch, ``content`` its exact JSON."""

    sequence: int
    at: int
    transaction: str | None
    content: bytes


def table_of_rows(thing: str, rows: Sequence[Row]) -> pa.Table:
    sequences, times, transactions, contents = zip(*rows, strict=True)
    return table_of_columns(
        thing,
        pa.array(sequences, pa.int64()),
        pa.array(times, pa.timestamp("us", tz="UTC")),
        pa.array(transactions, pa.string()),
        pa.array(contents, pa.binary()).cast(pa.string()),
        _typed_arrays([orjson.loads(content) for content in contents]),
    )


def table_of_frame(thing: str, first: int, times: np.ndarray[Any, Any], frame: pd.DataFrame) -> pa.Table:
    """Return the rows of a frame as a table; `times` are microseconds since 1970, `first` is the first number."""
    contents = row_texts(frame)
    leaves: dict[str, pa.Array] = {}
    for name in frame.columns:
        leaves |= _leaves_of_column(name, frame[name])
    frequent = set(heapq.nlargest(MOST_COLUMNS, leaves, key=lambda name: len(frame) - leaves[name].null_count))
    return table_of_columns(
        thing,
        pa.array(np.arange(first, first + len(frame))),
        pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        pa.nulls(len(frame), pa.string()),
        contents,
        {name: values for name, values in leaves.items() if name in frequent},
    )


def _leaves_of_column(name: str, column: pd.Series[Any]) -> Leaves:
    is_number = column.dtype.kind in "biuf" and not isinstance(column.dtype, pd.SparseDtype)
    if is_number or isinstance(column.dtype, pd.StringDtype):
        values = pa.array(column, from_pandas=True)
        if values.null_count == len(values):
            return {}
        if pa.types.is_floating(values.type):
            values = values.cast(pa.float64())
        elif pa.types.is_integer(values.type):
            is_too_large = values.type == pa.uint64() and pc.max(values).as_py() > _MAX_INTEGER
            values = values.cast(pa.float64() if is_too_large else pa.int64(), safe=False)
        elif not pa.types.is_boolean(values.type):
            values = values.cast(pa.string())
            is_long = pc.greater(pc.utf8_length(values), LONGEST_TEXT)
            values = pc.if_else(is_long, None, values) if pc.any(is_long).as_py() else values
        return {name: values}
    if column.isna().all():
        return {}
    texts = prefixed_texts("", column).to_pylist()
    return _typed_arrays([{name: None if text is None else orjson.loads(text)} for text in texts])


def table_of_columns(
    thing: str, sequences: pa.Array, times: pa.Array, transactions: pa.Array, contents: pa.Array, leaves: Leaves
) -> pa.Table:
    names = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(times)), pa.array([thing]))
    columns = dict(zip(BASE, (names, sequences, times, times.cast(pa.date32()), transactions, contents), strict=True))
    taken: set[str] = set()
    for name, values in leaves.items():
        column = f"content.{name}" if name.casefold() in BASE.names else name
        is_usable = name and len(name) <= _LONGEST_NAME and not _CONTROL_CHARACTER.search(name)
        # SQL names ignore case, so only the first of Temp and temp gets a column.
        if is_usable and column.casefold() not in taken and len(taken) < MOST_COLUMNS:
            taken.add(column.casefold())
            columns[pa.field(column, values.type)] = values
    return pa.table(list(columns.values()), schema=pa.schema(list(columns)))


def _typed_arrays(contents: Sequence[Any]) -> Leaves:
    leaves, *_ = frequent_leaf_columns(contents)
    typed = {name: _typed_array(values) for name, values in leaves.items()}
    return {name: values for name, values in typed.items() if values is not None}


def _typed_array(values: list[Any]) -> pa.Array | None:
    """Return the values of the winning type, null for all others; None if no value is a number, a boolean or a text."""
    for types, arrow_type in (((int, float), None), ((bool,), pa.bool_()), ((str,), pa.string())):
        if not any(type(value) in types for value in values):
            continue
        typed = [value if type(value) in types else None for value in values]
        if arrow_type == pa.string():
            return pa.array([None if text is None or len(text) > LONGEST_TEXT else text for text in typed], arrow_type)
        try:
            return pa.array(typed, arrow_type)
        except (OverflowError, pa.ArrowInvalid):  # integers beyond 64 bits, or beyond what a float holds exactly
            return pa.array([None if value is None else float(value) for value in typed], pa.float64())
    return None


def common_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of all schemas, each with its first spelling and the winning type."""
    fields: dict[str, pa.Field] = {field.name: field for field in BASE}
    for schema in dict.fromkeys(schemas):
        for field in schema:
            first = fields.setdefault(field.name.casefold(), field)
            if _RANK.get(field.type, -1) > _RANK.get(first.type, -1) and first.name not in BASE.names:
                fields[field.name.casefold()] = first.with_type(field.type)
    return pa.schema(list(fields.values()))


def fits(field: pa.Field, target: pa.Field) -> bool:
    return bool(field.type == target.type) or {field.type, target.type} == {pa.int64(), pa.float64()}


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with the columns of `schema`; a column that is missing or does not fit becomes null."""
    numbers = {field.name.casefold(): number for number, field in enumerate(table.schema)}
    columns = []
    for field in schema:
        number = numbers.get(field.name.casefold())
        if number is None or not fits(table.schema.field(number), field):
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            columns.append(table.column(number).cast(field.type, safe=False))
    return pa.table(columns, schema=schema)


class Footer(NamedTuple):
    """The metadata of a file: columns, bytes, earliest and latest time (microseconds since 1970)."""

    file: ArchiveFile
    schema: pa.Schema
    size: int
    earliest: int
    latest: int


@contextmanager
def _raising_unusable(file: ArchiveFile) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:  # a writer merged the file into another one; the reader lists the files again
        raise
    except (OSError, pa.ArrowException, ValueError):
        message = f"{file.path} is damaged or not a file of this archive: move it away, or restore it from a backup"
        raise ArchiveUnusable(message) from None


def read_footer(file: ArchiveFile) -> Footer:
    with _raising_unusable(file), pq.ParquetFile(file.path) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
        if metadata.num_rows != file.rows or schema.names[: len(BASE)] != BASE.names:
            raise ValueError
        created = BASE.get_field_index("created")
        groups = [metadata.row_group(number).column(created).statistics for number in range(metadata.num_row_groups)]
        earliest, latest = min(group.min_raw for group in groups), max(group.max_raw for group in groups)
        return Footer(file, schema, file.path.stat().st_size, earliest, latest)


def read_rows(file: ArchiveFile, columns: Sequence[str], filters: pc.Expression | None = None) -> pa.Table:
    with _raising_unusable(file):
        return pq.read_table(file.path, columns=columns, filters=filters, partitioning=None)


def last_row(file: ArchiveFile) -> Row:
    rows = read_rows(file, ["created", "transaction", "content"], pc.field("sequence") == file.last)
    with _raising_unusable(file):
        (row,) = rows.set_column(0, "created", rows.column("created").cast(pa.int64())).to_pylist()
    return Row(file.last, row["created"], row["transaction"], row["content"].encode("utf-8"))


def write_parquet(path: Path, tables: Iterator[pa.Table]) -> tuple[str, str]:
    """Write and sync a file, and return its first and last day."""
    days: set[Any] = set()
    first = next(tables)
    # With these options, a file is a third as large and a query twice as fast as with the defaults.
    distinct = ("sequence", "created", "transaction", "content")
    options = {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [name for name in first.schema.names if name not in distinct],
        "column_encoding": dict.fromkeys(distinct[:2], "DELTA_BINARY_PACKED"),
        # No query can skip rows by the least and the greatest of such texts.
        "write_statistics": [name for name in first.schema.names if name not in distinct[2:]],
        "sorting_columns": [pq.SortingColumn(first.schema.get_field_index("sequence"))],
    }
    with open(path, "wb") as file:
        with pq.ParquetWriter(file, first.schema, **options) as writer:
            for table in chain([first], tables):
                writer.write_table(table, row_group_size=_ROWS_PER_GROUP)
                days |= set(table.column("day").unique().to_pylist())
        file.flush()
        os.fsync(file.fileno())
    return min(days).isoformat(), max(days).isoformat()


def merged_tables(files: Sequence[ArchiveFile]) -> Iterator[pa.Table]:
    """Yield the rows of all files with their common columns, in tables of bounded size."""
    schema = common_schema(read_footer(file).schema for file in files)
    schema = pa.schema(list(schema)[: len(BASE) + MOST_COLUMNS])  # values of further names are in the content only
    collected: list[pa.Table] = []
    rows = size = 0
    for file in files:
        with _raising_unusable(file), pq.ParquetFile(file.path) as opened:
            for number in range(opened.num_row_groups):
                collected.append(conformed(opened.read_row_group(number), schema))
                rows, size = rows + collected[-1].num_rows, size + collected[-1].nbytes
                if rows >= _ROWS_PER_GROUP or size >= _BYTES_PER_GROUP:
                    yield pa.concat_tables(collected).unify_dictionaries()
                    collected, rows, size = [], 0, 0
    if collected:
        yield pa.concat_tables(collected).unify_dictionaries()
