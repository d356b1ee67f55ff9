"""Files of an archive opened: checked, read, and joined, so that a year is not 365 files for each thing.

How large a file becomes follows the rows, not the calendar. A thing that speaks each hour has one file for years;
one that speaks ten times a second has one or more for each day. Measured with DuckDB on 8.76 million dweets of 1,000
things: opening a file costs it an eighth of a millisecond, so day files (365,000) would take 45 s to open for any
question, month files 3 s, and these files 1.3 s for all of it. One day of one thing is found by name, then by the
statistics of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from toolkit.dweets.archive.files import ArchiveFile
from toolkit.dweets.archive.rows import BASE, MOST_COLUMNS, Row, common_schema, conformed
from toolkit.errors import ArchiveUnusable

ROWS_A_GROUP = 65_536
_BYTES_A_GROUP = 64 * 1024 * 1024
#: A file with so many rows ends with its day; no file is made larger than the other two say.
ROWS_TO_END_A_DAY = 65_536
MOST_ROWS = 1_048_576
MOST_BYTES = 256 * 1024 * 1024
#: So many small files of a thing may wait at its end before they are joined.
SMALL_FILES = 16


class Footer(NamedTuple):
    """What a file tells without its rows: columns, bytes, and the first and last time (microseconds)."""

    schema: pa.Schema
    size: int
    first: int
    last: int


def read_footer(file: ArchiveFile) -> Footer:
    """Return what a file tells without its rows.

    Raises
    ------
    ArchiveUnusable
        The file is damaged, or is not what its name says.
    FileNotFoundError
        It was joined into another one meanwhile.
    """
    try:
        with pq.ParquetFile(file.path) as opened:
            metadata, schema = opened.metadata, opened.schema_arrow
            size = file.path.stat().st_size
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, ValueError):
        raise _damaged(file) from None
    if metadata.num_rows != file.rows or schema.names[: len(BASE)] != BASE.names:
        raise _damaged(file)
    return Footer(schema, size, *_times(metadata))


def _times(metadata: pq.FileMetaData) -> tuple[int, int]:
    place = BASE.get_field_index("created")
    groups = [metadata.row_group(number).column(place).statistics for number in range(metadata.num_row_groups)]
    return min(group.min_raw for group in groups), max(group.max_raw for group in groups)


def _damaged(file: ArchiveFile) -> ArchiveUnusable:
    return ArchiveUnusable(f"{file.path} is damaged or no file of this archive: move it away, or take its backup")


def read_rows(file: ArchiveFile, columns: Sequence[str], filters: pc.Expression | None = None) -> pa.Table:
    """Return rows of a file in order, those that the filter lets through.

    Raises
    ------
    ArchiveUnusable, FileNotFoundError
        As `read_footer`.
    """
    try:
        return pq.read_table(file.path, columns=columns, filters=filters, partitioning=None)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, ValueError):
        raise _damaged(file) from None


def last_row(file: ArchiveFile) -> Row:
    """Return the last row of a file."""
    names = ["sequence", "created", "transaction", "content"]
    rows = read_rows(file, names, pc.field("sequence") == file.numbers.last)
    if rows.num_rows != 1:
        raise _damaged(file)
    at = rows.column("created").cast(pa.int64())[0].as_py()
    transaction, content = rows.column("transaction")[0].as_py(), rows.column("content")[0].as_py()
    return Row(file.numbers.last, at, transaction, content.encode("utf-8"))


# -- joining -----------------------------------------------------------------------------------------------


def worth_joining(files: Sequence[ArchiveFile], *, fully: bool) -> Iterator[list[ArchiveFile]]:
    """Give groups of neighbours that had better be one file.

    Groups that have reached their end are joined whole. Of those that still grow only so much is joined that no
    file is written again before there are twice as many rows, unless `fully`.
    """
    groups = list(_groups(files))
    for number, group in enumerate(groups):
        grows = number == len(groups) - 1
        if grows and not fully:
            group = _newest(group) if len(group) > SMALL_FILES else []
        if len(group) > 1:
            yield group


def _groups(files: Sequence[ArchiveFile]) -> Iterator[list[ArchiveFile]]:
    group: list[ArchiveFile] = []
    rows = size = 0
    for file in files:
        bytes_ = file.path.stat().st_size
        if group and _ends_before(file, group, rows + file.rows, size + bytes_):
            yield group
            group, rows, size = [], 0, 0
        group.append(file)
        rows, size = rows + file.rows, size + bytes_
    if group:
        yield group


def _ends_before(file: ArchiveFile, group: list[ArchiveFile], rows: int, size: int) -> bool:
    last = group[-1]
    has_hole = file.numbers[:2] != (last.numbers.epoch, last.numbers.last + 1)
    is_long = rows - file.rows >= ROWS_TO_END_A_DAY and file.last_day > last.last_day
    return has_hole or is_long or rows > MOST_ROWS or size > MOST_BYTES


def _newest(group: list[ArchiveFile]) -> list[ArchiveFile]:
    """Return the end of a group that doubles each of its files by being joined."""
    after = sum(file.rows for file in group)
    for number, file in enumerate(group):
        after -= file.rows
        if file.rows <= after:
            return group[number:]
    return []


def joined_batches(files: Sequence[ArchiveFile]) -> Iterator[pa.Table]:
    """Give the rows of all files with the columns of all, in pieces that fit into memory.

    Raises
    ------
    ArchiveUnusable
        A file is damaged.
    """
    schema = common_schema(read_footer(file).schema for file in files)
    schema = pa.schema(list(schema)[: len(BASE) + MOST_COLUMNS])  # what has no column any more is in the content
    waiting: list[pa.Table] = []
    for file in files:
        for piece in _pieces(file):
            waiting.append(conformed(piece, schema))
            if sum(table.num_rows for table in waiting) >= ROWS_A_GROUP or _bytes(waiting) >= _BYTES_A_GROUP:
                yield pa.concat_tables(waiting).unify_dictionaries()
                waiting = []
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries()


def _pieces(file: ArchiveFile) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(file.path) as opened:
            for number in range(opened.num_row_groups):
                yield opened.read_row_group(number)
    except (OSError, pa.ArrowException, ValueError):
        raise _damaged(file) from None


def _bytes(tables: list[pa.Table]) -> int:
    return sum(table.nbytes for table in tables)
