"""Rows for archives: numbered, one a second, with their number as content."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from toolkit.archive.archive import Archive
from toolkit.archive.parquet_files import Row
from toolkit.archive.writer import ArchiveWriter

START = 1_767_225_600_000_000  # 2026-01-01
SECOND = 1_000_000


def rows(first: int, last: int, *, every: int = SECOND) -> list[Row]:
    return [Row(n, START + n * every, f"id-{n}", json.dumps({"n": n}).encode()) for n in range(first, last + 1)]


def contents(*values: object, first: int = 1) -> list[Row]:
    written = [json.dumps(value, ensure_ascii=False).encode() for value in values]
    return [Row(n, START + n * SECOND, None, content) for n, content in enumerate(written, first)]


def archived(folder: Path, thing: str, pieces: Iterable[list[Row]]) -> Archive:
    """Write each piece as a file of its own, and open the archive."""
    with ArchiveWriter(folder) as writer:
        for piece in pieces:
            writer.append(thing, piece)
    return Archive(folder)


def numbers(archive: Archive, thing: str) -> list[int]:
    """What the contents of `rows` tell, in the order in which a history gives them."""
    history: pd.DataFrame = archive.history(thing)
    return history["n"].tolist() if len(history) else []
