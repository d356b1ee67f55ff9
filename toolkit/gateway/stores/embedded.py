"""The embedded store: SQLite in WAL mode, in a folder or in memory.

``synchronous=FULL`` and one transaction for all that waits: an acknowledged change survives ``kill -9`` and
power loss. The fleeting records live in an attached in-memory database, so they share every line of code with
the durable ones but never reach a disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from toolkit.gateway.stores import Journals, Records, StoreUnavailable
from toolkit.gateway.stores.embedded_journals import EmbeddedJournals
from toolkit.gateway.stores.embedded_records import EmbeddedRecords, records_table
from toolkit.gateway.stores.group_commit import GroupCommit
from toolkit.gateway.stores.journal_tables import make_tables


class EmbeddedStore:
    """Keep everything in one SQLite file, or in memory.

    Parameters
    ----------
    folder
        Where the file ``gateway.sqlite`` lives; made if missing. None keeps all in memory.
    now
        The gateway's clock in milliseconds since the epoch; decides what has expired.
    """

    def __init__(self, folder: Path | None, now: Callable[[], int]) -> None:
        self._folder = folder
        self._now = now

    def __repr__(self) -> str:
        return str(self._folder) if self._folder is not None else "memory"

    async def open(self) -> None:
        """Open the database in its own thread.

        Raises
        ------
        StoreUnavailable
            The folder cannot be written, or another gateway has it open.
        """
        self._commits = GroupCommit(self._connect, lambda: journals.forget())
        journals = self._journals = EmbeddedJournals(self._commits)
        self.journals: Journals = journals
        self.records: Records = EmbeddedRecords(self._commits, "main", self._now)
        self.fleeting: Records = EmbeddedRecords(self._commits, "fleeting", self._now)
        await self._commits.open()

    async def close(self) -> None:
        """Commit what was asked for and close the file."""
        self._journals.submit()
        self._commits.close()

    def _connect(self) -> sqlite3.Connection:
        if self._folder is None:
            return _prepared(sqlite3.connect(":memory:", isolation_level=None, cached_statements=256))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = self._folder / "gateway.sqlite"
            connection = sqlite3.connect(file, isolation_level=None, cached_statements=256, timeout=0.2)
            try:
                _own(connection)
                return _prepared(connection)
            except sqlite3.Error:
                connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(_why_not_open(self._folder, error)) from None


def _own(connection: sqlite3.Connection) -> None:
    # Exclusive: one gateway a folder. A second one is told so instead of sharing half of the state.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("COMMIT")


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("ATTACH ':memory:' AS fleeting")
    make_tables(connection)
    connection.execute(records_table("main"))
    connection.execute(records_table("fleeting"))
    return connection


def _why_not_open(folder: Path, error: Exception) -> str:
    if "locked" in str(error):
        return f"another gateway has the folder {folder} open; stop it or choose another folder"
    return f"the folder {folder} cannot be used: {error}"
