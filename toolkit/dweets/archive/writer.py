"""The writer of an archive: one a folder, each row exactly once, however it was ended.

A piece of rows becomes a file in three steps: written under an unfinished name, brought to the disk, renamed. The
name holds the range of sequence numbers, so after any end the names tell which rows are there.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from toolkit.dweets.archive.exclusive_file import ExclusiveFile, HeldElsewhere
from toolkit.dweets.archive.files import (
    LOCK_NAME,
    UNFINISHED,
    ArchiveFile,
    Numbers,
    all_files,
    covered_files,
    file_name,
    folder_name,
    thing_files,
)
from toolkit.dweets.archive.joining import ROWS_A_GROUP, joined_batches, last_row, worth_joining
from toolkit.dweets.archive.rows import Row, table_of
from toolkit.errors import ArchiveUnusable

# Who has listed the files just now may still open those that were joined meanwhile.
_SECONDS_TO_REMOVE = 60.0
# Rows that become columns at once: what a writer holds of them in memory stays small.
_ROWS_AT_ONCE = 50_000
_BYTES_AT_ONCE = 64 * 1024 * 1024


class Position(NamedTuple):
    """How far a thing is archived: nothing yet is epoch 1, sequence 0."""

    epoch: int = 1
    sequence: int = 0


class ArchiveWriter:
    """Append to an archive. The folder is made if missing, and is this writer's alone until `close`.

    Parameters
    ----------
    folder
        Of the archive.

    Raises
    ------
    ArchiveUnusable
        Another writer has the folder, or it cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, ArchiveWriter(Path(folder)) as writer:
    ...     writer.append("kitchen", [Row(1, 1_767_258_001_000_000, None, b'{"celsius":21.5}')])
    ...     writer.position("kitchen").sequence
    1
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, list[ArchiveFile]] = {}
        self._removable: deque[tuple[float, Path]] = deque()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = ExclusiveFile(folder / LOCK_NAME)
        except HeldElsewhere:
            raise ArchiveUnusable(
                f"somebody else writes to the archive {folder}: one writer a folder; stop it, or choose another one"
            ) from None
        except OSError as error:
            raise ArchiveUnusable(f"the archive {folder} cannot be written: {error.strerror}") from None

    # -- what is there ------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Remove what an earlier writer left behind: unfinished files, and those that a joined one covers."""
        for path in list(covered_files(self.folder)):
            _remove(path)

    def things(self) -> list[str]:
        """Return the things that are archived."""
        self._files |= {name: files for name, files in all_files(self.folder).items() if name not in self._files}
        return [name for name, files in self._files.items() if files]

    def position(self, thing: str) -> Position:
        """Return how far a thing is archived."""
        files = self._of(thing)
        return Position(files[-1].numbers.epoch, files[-1].numbers.last) if files else Position()

    def last(self, thing: str) -> Row | None:
        """Return the last row of a thing, by which a server is recognised."""
        files = self._of(thing)
        return last_row(files[-1]) if files else None

    def _of(self, thing: str) -> list[ArchiveFile]:
        if thing not in self._files:
            self._files[thing] = thing_files(self.folder, thing)
        return self._files[thing]

    # -- writing ------------------------------------------------------------------------------------------

    def append(self, thing: str, rows: Sequence[Row], epoch: int | None = None) -> None:
        """Add rows in ascending order of their sequence numbers; those that are there already are left out.

        Parameters
        ----------
        epoch
            None for the present one; a higher one where the server counts anew.

        Raises
        ------
        ArchiveUnusable
            The disk does not take it. What was written before stays, and the same rows may be appended again.
        """
        position = self.position(thing)
        epoch = position.epoch if epoch is None else epoch
        known = position.sequence if epoch == position.epoch else 0
        for run in _without_holes([row for row in rows if row.sequence > known]):
            numbers = Numbers(epoch, run[0].sequence, run[-1].sequence)
            self._write(thing, numbers, [table_of(thing, run)])

    def append_table(self, thing: str, table: pa.Table) -> None:
        """Add a table with the columns of a file, whose sequence numbers follow on the position."""
        position = self.position(thing)
        first = position.sequence + 1
        self._write(thing, Numbers(position.epoch, first, first + table.num_rows - 1), [table])

    def join(self, thing: str, *, fully: bool = False) -> None:
        """Join small files into larger ones, where it is worth it; `fully` as far as they may grow."""
        for files in worth_joining(self._of(thing), fully=fully):
            numbers = Numbers(files[0].numbers.epoch, files[0].numbers.first, files[-1].numbers.last)
            self._write(thing, numbers, joined_batches(files))
            later = time.monotonic() + _SECONDS_TO_REMOVE
            self._removable += [(later, file.path) for file in files]
        self._remove_until(time.monotonic())

    def _write(self, thing: str, numbers: Numbers, tables: Sequence[pa.Table] | Iterator[pa.Table]) -> None:
        place = self.folder / folder_name(thing)
        unfinished = place / f"{numbers.epoch}.{numbers.first}{UNFINISHED}"
        try:
            if not place.is_dir():
                place.mkdir(parents=True)
                _sync_folder(self.folder)
            days = _write_file(unfinished, numbers, tables)
            path = place / file_name(*days, numbers)
            os.replace(unfinished, path)
            _sync_folder(place)
        except (OSError, pa.ArrowException) as error:
            with contextlib.suppress(OSError):  # what the next writer removes at its start
                os.unlink(unfinished)
            raise ArchiveUnusable(f"the archive {self.folder} cannot take more: {_why(error)}") from None
        self._take(ArchiveFile(path, thing, *days, numbers))

    def _take(self, new: ArchiveFile) -> None:
        files = [file for file in self._of(new.thing) if not _covers(new, file)]
        self._files[new.thing] = sorted([*files, new], key=lambda file: file.numbers)

    def _remove_until(self, now: float) -> None:
        while self._removable and self._removable[0][0] <= now:
            _remove(self._removable.popleft()[1])

    def close(self) -> None:
        """Remove what was joined, and let go of the folder. Calling it again is fine."""
        self._remove_until(float("inf"))
        self._lock.release()

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _covers(new: ArchiveFile, old: ArchiveFile) -> bool:
    mine, its = new.numbers, old.numbers
    return mine.epoch == its.epoch and mine.first <= its.first and its.last <= mine.last


def _without_holes(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Give rows in pieces that each have no hole in their numbers and are not too many."""
    piece: list[Row] = []
    size = 0
    for row in rows:
        if piece and row.sequence <= piece[-1].sequence:
            raise ValueError("rows come in ascending order of their sequence numbers")
        is_full = len(piece) >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE
        if piece and (is_full or row.sequence != piece[-1].sequence + 1):
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += len(row.content)
    if piece:
        yield piece


def _write_file(path: Path, numbers: Numbers, tables: Sequence[pa.Table] | Iterator[pa.Table]) -> tuple[str, str]:
    """Write and sync a file; return its first and its last day."""
    days: set[Any] = set()
    rows = 0
    with open(path, "wb") as file:
        writer: pq.ParquetWriter | None = None
        for table in tables:
            writer = writer or _parquet(file, table.schema)
            writer.write_table(table, row_group_size=ROWS_A_GROUP)
            days |= set(table.column("day").unique().to_pylist())
            rows += table.num_rows
        if writer is None or rows != numbers.last - numbers.first + 1:
            raise pa.ArrowInvalid(f"{rows} rows for the numbers {numbers.first} to {numbers.last}")
        writer.close()
        _sync(file)
    return min(days).isoformat(), max(days).isoformat()


def _parquet(file: IO[bytes], schema: pa.Schema) -> pq.ParquetWriter:
    # Measured: a third of the bytes and half of the time to query, against the defaults.
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name not in ("sequence", "created", "transaction", "content")],
        column_encoding={"sequence": "DELTA_BINARY_PACKED", "created": "DELTA_BINARY_PACKED"},
        sorting_columns=[pq.SortingColumn(schema.get_field_index("sequence"))],
    )


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # a folder cannot be opened there, and its entries are on the disk with the file
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # in use elsewhere: it stays covered, and goes another time
        os.unlink(path)


def _why(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
