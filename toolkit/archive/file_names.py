"""The files of an archive and their names.

::

    FOLDER/writer.lock
    FOLDER/thing=kitchen/2026-01-01_2026-03-31.e1.000000000001-000000002160.parquet
    FOLDER/thing=kitchen/2026-04-01_2026-04-01.e1.000000002161-000000002184.parquet

A name holds the first and last day (UTC), the epoch and the range of sequence numbers, without a gap. A file is
written under another name, synced and renamed, so names always match the rows, and no other index is needed. A merged
file covers the files it was made of until those are removed; readers ignore covered files.

A server numbers the dweets of a thing 1, 2, 3, ... If it restarts its numbers, because it is another server or has lost
its data, the archive starts a new epoch. Numbers that are missing within an epoch, except those that a
failover skips, are a gap: the server deleted those dweets before they were archived.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from toolkit.errors import ArchiveUnusable

UNFINISHED = ".unfinished"
_PREFIX = "thing="
_DAY = r"(\d{4}-\d{2}-\d{2})"
_NAME = re.compile(rf"{_DAY}_{_DAY}\.e(\d+)\.(\d+)-(\d+)\.parquet")
# Most file systems limit a name to 255 bytes; the escaped name of a thing may be longer, so it is cut into pieces.
_LONGEST_PIECE = 200
# After a failover, a Redis store continues above the next multiple of this number; the numbers between are no gap.
_FAILOVER_MULTIPLE = 1_000_000_000
_PLAIN_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")


class ArchiveFile(NamedTuple):
    """A file with all dweets from `first` to `last` of one epoch."""

    path: Path
    thing: str
    first_day: str
    last_day: str
    epoch: int
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first + 1


class Position(NamedTuple):
    """An epoch and a sequence number in it."""

    epoch: int
    sequence: int


class Gap(NamedTuple):
    """Missing numbers, `first` to `last`, between the days `after` and `before`; `after` is None at the start."""

    epoch: int
    first: int
    last: int
    after: str | None
    before: str

    @property
    def missing(self) -> int:
        return self.last - self.first + 1


def missing_between(last: int, first: int) -> tuple[int, int] | None:
    """Return the first and last number missing between two consecutive rows, or None."""
    start = max(last + 1, (first - 1) // _FAILOVER_MULTIPLE * _FAILOVER_MULTIPLE + 1)
    return (start, first - 1) if start < first else None


def gaps_of(files: Sequence[ArchiveFile]) -> Iterator[Gap]:
    """Yield the gaps of a thing, whose files are given in order."""
    for earlier, file in zip([None, *files], files, strict=False):
        last = earlier.last if earlier is not None and earlier.epoch == file.epoch else 0
        if missing := missing_between(last, file.first):
            yield Gap(file.epoch, *missing, earlier and earlier.last_day, file.first_day)


def last_numbers(folder: Path) -> dict[str, int]:
    """Return the sequence number of the last row of each thing."""
    return {thing: files[-1].last for thing, files in all_files(folder).items()}


def folder_name(thing: str) -> str:
    """Return the path of a thing's folder, valid on every file system; a long name becomes nested folders."""
    escaped = "".join(chr(byte) if byte in _PLAIN_BYTES else f"%{byte:02x}" for byte in thing.encode("utf-8"))
    pieces = [escaped[start : start + _LONGEST_PIECE] for start in range(0, len(escaped), _LONGEST_PIECE)]
    return _PREFIX + "~/".join(pieces)


def file_name(first_day: str, last_day: str, start: Position, last: int) -> str:
    """Return the name of a file with the rows from `start` to the number `last`."""
    return f"{first_day}_{last_day}.e{start.epoch}.{start.sequence:012d}-{last:012d}.parquet"


def thing_files(folder: Path, thing: str) -> list[ArchiveFile]:
    if not folder.is_dir():  # such as a disk that is no longer there
        raise ArchiveUnusable(f"there is no folder {folder} any more")
    return drop_covered(_listed(folder / folder_name(thing), thing))


def all_files(folder: Path) -> dict[str, list[ArchiveFile]]:
    files = {thing: drop_covered(_listed(path, thing)) for path, thing in _thing_folders(folder)}
    return {thing: files[thing] for thing in sorted(files) if files[thing]}


def leftover_files(folder: Path) -> Iterator[Path]:
    for subfolder, thing in _thing_folders(folder):
        used = {file.path for file in thing_files(folder, thing)}
        yield from (path for path in _paths(subfolder) if path.suffix in (".parquet", UNFINISHED) and path not in used)


def drop_covered(files: Iterable[ArchiveFile]) -> list[ArchiveFile]:
    # In this order only an earlier file can cover a file: of those with the same first number, the longest comes first.
    uncovered: list[ArchiveFile] = []
    for file in sorted(files, key=lambda file: (file.epoch, file.first, -file.last)):
        if not uncovered or (file.epoch, file.first) > (uncovered[-1].epoch, uncovered[-1].last):
            uncovered.append(file)
        elif file.last > uncovered[-1].last:
            raise ArchiveUnusable(f"{file.path} and {uncovered[-1].path.name} overlap: move one of them away")
    return uncovered


def _thing_folders(folder: Path, parent: str = "") -> Iterator[tuple[Path, str]]:
    for path in _paths(folder):
        name = parent + path.name
        if name.endswith(".parquet"):
            raise _foreign(path)
        if not (name.startswith(_PREFIX) and path.is_dir()):
            continue
        if name.endswith("~"):
            yield from _thing_folders(path, name.removesuffix("~"))
            continue
        thing = unquote(name.removeprefix(_PREFIX), errors="replace")
        if folder_name(thing).replace("~/", "") != name:
            raise _foreign(path)
        yield path, thing


def _listed(folder: Path, thing: str) -> list[ArchiveFile]:
    # While files are merged, a listing may miss the old names and the new one: list again if the folder changed.
    while True:
        try:
            before = folder.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        files = [_parsed(path, thing) for path in _paths(folder) if path.suffix == ".parquet"]
        if folder.stat().st_mtime_ns == before:
            return files


def _paths(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise ArchiveUnusable(f"the archive's folder {folder} cannot be read: {error.strerror}") from None


def _parsed(path: Path, thing: str) -> ArchiveFile:
    if match := _NAME.fullmatch(path.name):
        first_day, last_day, *numbers = match.groups()
        file = ArchiveFile(path, thing, first_day, last_day, *map(int, numbers))
        if 1 <= file.first <= file.last and file.first_day <= file.last_day:
            return file
    raise _foreign(path)


def _foreign(path: Path) -> ArchiveUnusable:
    return ArchiveUnusable(f"{path} does not belong to this archive: move it away")
