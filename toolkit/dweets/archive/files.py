"""The archive on disk: which files there are, what their names tell, and which of them count.

::

    FOLDER/writer.lock
    FOLDER/thing=kitchen/2026-01-01_2026-03-31.e1.000000000001-000000002160.parquet
    FOLDER/thing=kitchen/2026-04-01_2026-04-01.e1.000000002161-000000002184.parquet

A name carries all that must be known without opening the file: the thing, the first and the last day (UTC), the epoch
(how often the server began to count anew) and the range of sequence numbers, which has no hole. A file is written
under another name, brought to the disk, and then renamed: so the names are the only bookkeeping, and it is never
behind or ahead of the rows. Where files were joined, the joined one covers the others until those are removed; who
reads ignores what is covered.

Writers and readers share this file; it needs the standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from toolkit.errors import ArchiveUnusable

# A store on Redis whose master died goes on at the next multiple of this: no dweet is missing in such a step.
_NUMBERS_AN_ERA = 1_000_000_000
UNFINISHED = ".unfinished"
LOCK_NAME = "writer.lock"
_FOLDER = re.compile(r"thing=(.+)")
_DAY = r"(\d{4}-\d{2}-\d{2})"
_NAME = re.compile(rf"{_DAY}_{_DAY}\.e(\d+)\.(\d+)-(\d+)\.parquet")
# Most file systems take 255 bytes in a name; a thing's name may be longer once it is written in ASCII.
_LONGEST_PIECE = 200
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")


class Numbers(NamedTuple):
    """A range of sequence numbers of one epoch, both ends included."""

    epoch: int
    first: int
    last: int


class ArchiveFile(NamedTuple):
    """One file that counts: its path and what its name tells."""

    path: Path
    thing: str
    first_day: str
    last_day: str
    numbers: Numbers

    @property
    def rows(self) -> int:
        """How many dweets it holds."""
        return self.numbers.last - self.numbers.first + 1


def folder_name(thing: str) -> str:
    """Return the name of a thing's folder: safe on every file system, and another one for every thing.

    Capitals are written as ``%xx`` too, because ``Kitchen`` and ``kitchen`` are one folder on many disks. Every 200
    characters a folder of its own begins, since a name may be longer than a file system allows.

    Examples
    --------
    >>> folder_name("kitchen"), folder_name("a/B")
    ('thing=kitchen', 'thing=a%2f%42')
    """
    text = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in thing.encode("utf-8"))
    pieces = [text[start : start + _LONGEST_PIECE] for start in range(0, len(text), _LONGEST_PIECE)]
    return "thing=" + "~/".join(pieces)


def file_name(first_day: str, last_day: str, numbers: Numbers) -> str:
    """Return the name of a file; in a listing the files of an epoch stand in the order of their rows.

    Examples
    --------
    >>> file_name("2026-01-01", "2026-01-02", Numbers(1, 25, 48))
    '2026-01-01_2026-01-02.e1.000000000025-000000000048.parquet'
    """
    return f"{first_day}_{last_day}.e{numbers.epoch}.{numbers.first:012d}-{numbers.last:012d}.parquet"


def thing_files(folder: Path, thing: str) -> list[ArchiveFile]:
    """Return the files of a thing that count, by epoch and sequence; none where the thing is unknown.

    Raises
    ------
    ArchiveUnusable
        A file does not belong here, or the folder cannot be read.
    """
    return counting(_listed(folder / folder_name(thing), thing))


def all_files(folder: Path) -> dict[str, list[ArchiveFile]]:
    """Return the files that count by thing, in the order of the things' names.

    Raises
    ------
    ArchiveUnusable
        A file does not belong here, or the folder cannot be read.
    """
    found = {thing: counting(_listed(place, thing)) for place, thing in _thing_folders(folder)}
    return {thing: found[thing] for thing in sorted(found) if found[thing]}


def covered_files(folder: Path) -> Iterator[Path]:
    """Return what a writer may remove at its start: files that a joined one covers, and unfinished ones."""
    for place, thing in _thing_folders(folder):
        listed = _listed(place, thing)
        keep = {file.path for file in counting(listed)}
        yield from (file.path for file in listed if file.path not in keep)
        yield from (Path(entry.path) for entry in _entries(place) if entry.name.endswith(UNFINISHED))


def counting(files: Iterable[ArchiveFile]) -> list[ArchiveFile]:
    """Return the files that no other one covers, by epoch and sequence."""
    # At the same beginning the longest comes first, so whatever ends no later than one before it is covered.
    ordered = sorted(files, key=lambda file: (file.numbers.epoch, file.numbers.first, -file.numbers.last))
    kept: list[ArchiveFile] = []
    for file in ordered:
        before = kept[-1].numbers if kept else Numbers(0, 0, 0)
        if file.numbers.epoch == before.epoch and file.numbers.first <= before.last:
            if file.numbers.last > before.last:
                raise ArchiveUnusable(
                    f"{file.path} and {kept[-1].path.name} hold the same dweets in part, which no writer does: "
                    "move one of them away"
                )
            continue
        kept.append(file)
    return kept


def missing_between(last: int, first: int) -> tuple[int, int] | None:
    """Return the first and last number that are missing between two that follow on each other, None where none is.

    Examples
    --------
    >>> missing_between(7, 8), missing_between(7, 10), missing_between(7, 1_000_000_001)
    (None, (8, 9), None)
    """
    start = max(last + 1, (first - 1) // _NUMBERS_AN_ERA * _NUMBERS_AN_ERA + 1)
    return (start, first - 1) if start < first else None


def _thing_folders(folder: Path) -> Iterator[tuple[Path, str]]:
    for entry in _entries(folder):
        if entry.name.endswith(".parquet"):
            raise _foreign(entry.path)
        if entry.is_dir() and _FOLDER.fullmatch(entry.name):
            yield from _named(Path(entry.path), entry.name.removeprefix("thing="))


def _named(place: Path, name: str) -> Iterator[tuple[Path, str]]:
    if not name.endswith("~"):
        thing = unquote(name, errors="replace")
        if folder_name(thing).replace("~/", "") != f"thing={name}":
            raise ArchiveUnusable(f"{place} is no folder of this archive: move it away")
        yield place, thing
        return
    for entry in _entries(place):
        if entry.is_dir():
            yield from _named(Path(entry.path), name.removesuffix("~") + entry.name)


def _listed(place: Path, thing: str) -> list[ArchiveFile]:
    # A name that comes and one that goes while the folder is read could both be missed: read again if it changed.
    while True:
        try:
            before = place.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        files = [_parsed(entry, thing) for entry in _entries(place) if entry.name.endswith(".parquet")]
        if place.stat().st_mtime_ns == before:
            return files


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise ArchiveUnusable(f"the archive's folder {folder} cannot be read: {error.strerror}") from None


def _parsed(entry: os.DirEntry[str], thing: str) -> ArchiveFile:
    match = _NAME.fullmatch(entry.name)
    if match is None:
        raise _foreign(entry.path)
    first_day, last_day, *numbers = match.groups()
    parsed = Numbers(*map(int, numbers))
    if not (1 <= parsed.first <= parsed.last and first_day <= last_day):
        raise _foreign(entry.path)
    return ArchiveFile(Path(entry.path), thing, first_day, last_day, parsed)


def _foreign(path: str) -> ArchiveUnusable:
    return ArchiveUnusable(f"{path} is no file of this archive: move it away")
