"""Records in SQLite: each call is one step of the store's thread, so each is atomic by itself."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping

from toolkit.gateway.stores import cannot_watch
from toolkit.gateway.stores.group_commit import GroupCommit

Watcher = Callable[[str, bytes | None], None]

# Expired rows are invisible at once; they are swept away after this many writes.
_WRITES_A_SWEEP = 2_000


def records_table(schema: str) -> str:
    """Return the statement that makes the table of records in `schema`."""
    return f"""
    CREATE TABLE IF NOT EXISTS {schema}.records (
        space TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, expires INTEGER,
        PRIMARY KEY (space, key)
    ) WITHOUT ROWID
    """


class EmbeddedRecords:
    """See `toolkit.gateway.stores.Records`."""

    def __init__(self, commits: GroupCommit, schema: str, now: Callable[[], int]) -> None:
        self._commits = commits
        self._table = f"{schema}.records"
        self._now = now
        self._watchers: dict[str, list[Watcher]] = {}
        self._writes = 0

    def get(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value, or None."""
        return self._commits.run(lambda connection: self._read(connection, space, key))

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> asyncio.Future[None]:
        """Set the value."""
        return self._commits.run(
            lambda connection: self._write(connection, space, key, value, expires),
            lambda _: self._announce(space, {key: value}),
        )

    def take(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value and remove it."""

        def work(connection: sqlite3.Connection) -> bytes | None:
            value = self._read(connection, space, key)
            if value is not None:
                self._remove(connection, space, key)
            return value

        return self._commits.run(work, lambda value: self._announce(space, {} if value is None else {key: None}))

    def swap(
        self,
        space: str,
        expected: Mapping[str, bytes | None],
        changes: Mapping[str, bytes | None],
        expires: int | None = None,
    ) -> asyncio.Future[bool]:
        """Make all changes if every expected value still stands."""

        def work(connection: sqlite3.Connection) -> bool:
            if any(self._read(connection, space, key) != value for key, value in expected.items()):
                return False
            for key, value in changes.items():
                if value is None:
                    self._remove(connection, space, key)
                else:
                    self._write(connection, space, key, value, expires)
            return True

        return self._commits.run(work, lambda done: self._announce(space, changes if done else {}))

    def count(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> asyncio.Future[int]:
        """Add one, or return 0 where that would pass `limit`."""

        def work(connection: sqlite3.Connection) -> int:
            present = self._read(connection, space, key)
            number = int(present or 0) + 1
            if limit is not None and number > limit:
                return 0
            if present is None:
                self._write(connection, space, key, b"%d" % number, expires)
            else:
                sql = f"UPDATE {self._table} SET value = ? WHERE space = ? AND key = ?"
                connection.execute(sql, (b"%d" % number, space, key))
            return number

        return self._commits.run(work, lambda number: self._announce(space, {key: b"%d" % number} if number else {}))

    def scan(self, space: str) -> asyncio.Future[dict[str, bytes]]:
        """Return all values of the space."""
        sql = f"SELECT key, value FROM {self._table} WHERE space = ? AND (expires IS NULL OR expires > ?)"
        return self._commits.run(lambda connection: dict(connection.execute(sql, (space, self._now())).fetchall()))

    def watch(self, space: str, watcher: Watcher) -> asyncio.Future[Callable[[], None]]:
        """Call `watcher` with every present value, then with every change."""
        watchers = self._watchers.setdefault(space, [])
        sql = f"SELECT key, value FROM {self._table} WHERE space = ? AND (expires IS NULL OR expires > ?)"
        present: dict[str, bytes] = {}

        def stop() -> None:
            if watcher in watchers:
                watchers.remove(watcher)

        def work(connection: sqlite3.Connection) -> Callable[[], None]:
            present.clear()
            present.update(connection.execute(sql, (space, self._now())).fetchall())
            return stop

        def begin(stop: Callable[[], None]) -> None:
            try:
                for key, value in present.items():
                    watcher(key, value)
            except Exception as error:  # the caller must know that nothing is watched
                fail(cannot_watch(space, error))
                return
            watchers.append(watcher)
            if not watching.done():
                watching.set_result(stop)

        def fail(error: Exception) -> None:
            if not watching.done():
                watching.set_exception(error)

        watching: asyncio.Future[Callable[[], None]] = asyncio.get_running_loop().create_future()
        self._commits.submit(work, begin, fail)
        return watching

    # -- in the store's thread -----------------------------------------------------------------------------

    def _read(self, connection: sqlite3.Connection, space: str, key: str) -> bytes | None:
        sql = f"SELECT value, expires FROM {self._table} WHERE space = ? AND key = ?"
        row = connection.execute(sql, (space, key)).fetchone()
        if row is None or (row[1] is not None and row[1] <= self._now()):
            return None
        value: bytes = row[0]
        return value

    def _write(self, connection: sqlite3.Connection, space: str, key: str, value: bytes, expires: int | None) -> None:
        connection.execute(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?, ?, ?)", (space, key, value, expires))
        self._writes += 1
        if self._writes % _WRITES_A_SWEEP == 0:
            connection.execute(f"DELETE FROM {self._table} WHERE expires <= ?", (self._now(),))

    def _remove(self, connection: sqlite3.Connection, space: str, key: str) -> None:
        connection.execute(f"DELETE FROM {self._table} WHERE space = ? AND key = ?", (space, key))

    # -- on the event loop ---------------------------------------------------------------------------------

    def _announce(self, space: str, changes: Mapping[str, bytes | None]) -> None:
        for watcher in tuple(self._watchers.get(space, ())):
            for key, value in changes.items():
                try:
                    watcher(key, value)
                except Exception as error:  # one watcher's mistake must not cost the others their news
                    loop = asyncio.get_running_loop()
                    loop.call_exception_handler({"message": "a watcher of records failed", "exception": error})
