"""The writer of an archive, one per folder. It stores every row exactly once, even if the process is killed.

A file is written under an unfinished name, synced and renamed. The name holds the range of sequence numbers, so after
a crash the names show which rows are stored.
"""

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.archive.file_names import (
    UNFINISHED,
    ArchiveFile,
    Position,
    all_files,
    file_name,
    folder_name,
    leftover_files,
    thing_files,
)
from toolkit.archive.parquet_files import (
    BASE,
    Row,
    last_row,
    merged_tables,
    read_footer,
    read_rows,
    table_of_rows,
    write_parquet,
)
from toolkit.errors import ArchiveUnusable, needs_extra
from toolkit.public_api import Closable

_MOST_ROWS, _MOST_BYTES = 1_048_576, 256 * 1024 * 1024
SMALL_FILES = 16  #: this many may accumulate at the end of a thing before they are merged


class ArchiveWriter(Closable):
    """Appends to an archive. The folder is created if missing and locked until `close`.

    After a merge, the old files stay for at least `seconds_to_remove`, or until `close`: a reader may still open them.
    """

    def __init__(self, folder: Path, seconds_to_remove: float = 60.0) -> None:
        with needs_extra("archive"):  # reading an archive needs no extra
            import filelock
        self.folder = folder
        self._seconds_to_remove = seconds_to_remove
        self._restarted: set[str] = set()
        self._removable: deque[tuple[float, Path]] = deque()
        self._lock = filelock.FileLock(folder / "writer.lock", timeout=0, thread_local=False)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # locked things are archived too
            self._lock.acquire()
        except filelock.Timeout:
            message = f"another process or thread is writing to the archive {folder}: stop it, or choose another folder"
            raise ArchiveUnusable(message) from None
        except OSError as error:
            raise ArchiveUnusable(f"the archive {folder} cannot be written: {error.strerror}") from None

    def last(self, thing: str) -> Row | None:
        files = thing_files(self.folder, thing)
        return last_row(files[-1]) if files else None

    def newest(self, thing: str) -> tuple[pd.Timestamp | None, int]:
        """Return the latest time of all rows (the last row may have an earlier one), and how many rows have it."""
        files = thing_files(self.folder, thing)
        last_day = max((file.last_day for file in files), default="")
        latest = {file: read_footer(file).latest for file in files if file.last_day == last_day}
        if not latest:
            return None, 0
        newest = pd.Timestamp(max(latest.values()), unit="us", tz="UTC")
        at_newest = pc.field("created") == pa.scalar(newest, BASE.field("created").type)
        recent = [file for file in latest if latest[file] == max(latest.values())]
        return newest, sum(read_rows(file, ["sequence"], at_newest).num_rows for file in recent)

    def restart(self, thing: str) -> None:
        """Begin again at number 1 with the next row of a thing."""
        self._restarted.add(thing)

    def position(self, thing: str) -> Position:
        """Return the position of the last row, which is 0 at the start of an epoch."""
        files = thing_files(self.folder, thing)
        epoch, last = (files[-1].epoch, files[-1].last) if files else (1, 0)
        return Position(epoch + 1, 0) if thing in self._restarted else Position(epoch, last)

    def append(self, thing: str, rows: Sequence[Row]) -> None:
        """Add rows in ascending order of their numbers; skip stored rows.

        After ArchiveUnusable, append the same rows again later.
        """
        position = self.position(thing)
        for run in _runs([row for row in rows if row.sequence > position.sequence]):
            start = position._replace(sequence=run[0].sequence)
            self._write(thing, start, run[-1].sequence, iter([table_of_rows(thing, run)]))
            self._restarted.discard(thing)

    def append_table(self, thing: str, table: pa.Table) -> None:
        """Add a table with the columns of an archive file; its sequence numbers must continue those of the thing."""
        position = self.position(thing)
        start = position._replace(sequence=position.sequence + 1)
        self._write(thing, start, position.sequence + table.num_rows, iter([table]))

    def merge(self, thing: str, *, fully: bool = False) -> None:
        """Merge small files: all of them if `fully`, otherwise only those that are worth the work."""
        for files in _groups_to_merge(thing_files(self.folder, thing), fully=fully):
            self._write(thing, Position(files[0].epoch, files[0].first), files[-1].last, merged_tables(files))
            removal = time.monotonic() + self._seconds_to_remove
            self._removable += [(removal, file.path) for file in files]
        self._remove_until(time.monotonic())

    def compact(self) -> None:
        self.clean()
        for thing in all_files(self.folder):
            self.merge(thing, fully=True)

    def clean(self) -> None:
        for path in list(leftover_files(self.folder)):
            _remove(path)

    def _write(self, thing: str, start: Position, last: int, tables: Iterator[pa.Table]) -> None:
        if not self._lock.is_locked:
            raise ArchiveUnusable(f"this writer of the archive {self.folder} is closed")
        thing_folder = self.folder / folder_name(thing)
        unfinished = thing_folder / f"{start.epoch}.{start.sequence}{UNFINISHED}"
        try:
            if not thing_folder.is_dir():
                thing_folder.mkdir(parents=True)
                for parent in thing_folder.relative_to(self.folder).parents:
                    _sync_folder(self.folder / parent)
            days = write_parquet(unfinished, tables)
            os.replace(unfinished, thing_folder / file_name(*days, start, last))
            _sync_folder(thing_folder)
        except (OSError, pa.ArrowException) as error:
            _remove(unfinished)
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            raise ArchiveUnusable(f"the archive {self.folder} cannot be written: {reason}") from None

    def _remove_until(self, now: float) -> None:
        while self._removable and self._removable[0][0] <= now:
            _remove(self._removable.popleft()[1])

    def close(self) -> None:
        self._remove_until(float("inf"))
        self._lock.release()


def _groups_to_merge(files: Sequence[ArchiveFile], *, fully: bool) -> Iterator[list[ArchiveFile]]:
    """Yield groups of neighbouring files that should be one file.

    The last group still grows. Unless `fully`, files at its start stay as they are while fewer rows follow them than
    they have, so that a row is rewritten a logarithmic number of times.
    """
    groups: list[list[ArchiveFile]] = []
    rows = size = 0
    next_number: tuple[int, int] | None = None
    for file in files:
        rows, size = rows + file.rows, size + file.path.stat().st_size
        if rows > _MOST_ROWS or size > _MOST_BYTES or (file.epoch, file.first) != next_number:
            groups.append([])
            rows, size = file.rows, file.path.stat().st_size
        groups[-1].append(file)
        next_number = file.epoch, file.last + 1
    if groups and not fully:
        group = groups.pop()
        rows_after = sum(file.rows for file in group)
        is_due = len(group) > SMALL_FILES
        while group and group[0].rows > (rows_after := rows_after - group[0].rows):
            group = group[1:]
        groups += [group] if is_due else []
    yield from (group for group in groups if len(group) > 1)


def _runs(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Split the rows at gaps of their sequence numbers."""
    for _, run in groupby(enumerate(rows), key=lambda numbered: numbered[1].sequence - numbered[0]):
        yield [row for _, row in run]


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # Windows cannot open a folder; it syncs the entry with the file
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # the file is open elsewhere: readers ignore it, and the next writer removes it
        os.unlink(path)
