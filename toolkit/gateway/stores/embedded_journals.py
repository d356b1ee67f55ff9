"""Journals in SQLite: all appends that wait become one statement."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache

from toolkit.gateway.stores import Draft, Entry, Follower
from toolkit.gateway.stores.group_commit import GroupCommit, transaction
from toolkit.gateway.stores.waiting_append import WaitingAppend

JOURNAL_TABLE = """
CREATE TABLE IF NOT EXISTS journal (
    name TEXT NOT NULL, sequence INTEGER NOT NULL, at INTEGER NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (name, sequence)
) WITHOUT ROWID
"""

# Names and the time of their last line, without reading every line: one index step a name.
_NAMES = """
WITH RECURSIVE known(name) AS (
    SELECT (SELECT name FROM journal WHERE name >= :start ORDER BY name LIMIT 1)
    UNION ALL
    SELECT (SELECT journal.name FROM journal WHERE journal.name > known.name ORDER BY journal.name LIMIT 1)
    FROM known WHERE known.name >= :start AND known.name < :end
)
SELECT name, (SELECT at FROM journal WHERE journal.name = known.name ORDER BY sequence DESC LIMIT 1) AS last_at
FROM known WHERE name >= :start AND name < :end ORDER BY last_at DESC, name LIMIT :count
"""

_COLUMNS = "sequence, at, id, data"
_ROW = "(?,?,?,?,?)"
_FIELDS_A_ROW = 5
# A batch of up to 128 rows is one statement; the compiled ones are kept, one for each number of rows.
_FIELDS_A_STATEMENT = 128 * _FIELDS_A_ROW


class _Append(WaitingAppend):
    """An append on its way to the store's thread, and its lines once they have numbers."""

    __slots__ = ("entries",)

    entries: list[Entry]


class EmbeddedJournals:
    """See `toolkit.gateway.stores.Journals`."""

    def __init__(self, commits: GroupCommit) -> None:
        self._commits = commits
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Append] = deque()
        self._scheduled = False
        self._followers: dict[str, list[Follower]] = {}
        self._numbers: dict[str, int] = {}  # last number of each journal, used by the store's thread only

    # -- writing ------------------------------------------------------------------------------------------

    def append(
        self, name: str, drafts: Sequence[Draft], keep: int | None = None, floor: int | None = None
    ) -> asyncio.Future[list[Entry]]:
        """Append all drafts in order, or none."""
        append = _Append(name, drafts, keep, floor, self._loop.create_future())
        self._waiting.append(append)
        if not self._scheduled:
            self._scheduled = True
            # Not at once: what else came in this turn of the loop goes along, and the store's thread does not fight
            # for the interpreter while requests are still being read.
            self._loop.call_soon(self.submit)
        return append.future

    def submit(self) -> None:
        """Give what waits to the store's thread."""
        taken: list[_Append] = []
        self._commits.submit(
            lambda connection: self._write_all(connection, taken),
            self._deliver_all,
            lambda error: self._fail_all(taken, error),
            atomic=True,
        )

    def forget_numbers(self) -> None:
        """Read the last numbers anew: a transaction was undone."""
        self._numbers.clear()

    def _write_all(self, connection: sqlite3.Connection, taken: list[_Append]) -> list[_Append]:
        # Cleared before the queue is emptied: an append that comes now is either taken here or asks for a new turn.
        self._scheduled = False
        self._take(taken)
        rows: list[object] = []
        for append in taken:
            last = self._last_number(connection, append.name)
            # Anew: a transaction that failed is tried again.
            append.entries = append.numbered(last)
            for entry in append.entries:
                rows += (append.name, *entry)
            self._numbers[append.name] = last + len(append.drafts)
        floors = [floor for append in taken if (floor := _prune_floor(append)) is not None]
        if len(rows) <= _FIELDS_A_STATEMENT and not floors:
            _insert(connection, rows)
        else:
            with transaction(connection):
                for start in range(0, len(rows), _FIELDS_A_STATEMENT):
                    _insert(connection, rows[start : start + _FIELDS_A_STATEMENT])
                connection.executemany("DELETE FROM journal WHERE name = ? AND sequence <= ?", floors)
        return taken

    def _take(self, taken: list[_Append]) -> None:
        with contextlib.suppress(IndexError):  # empty; asking first would race with the other thread
            while True:
                taken.append(self._waiting.popleft())

    def _last_number(self, connection: sqlite3.Connection, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            row = connection.execute("SELECT max(sequence) FROM journal WHERE name = ?", (name,)).fetchone()
            number = row[0] or 0
        return number

    def _deliver_all(self, appends: list[_Append]) -> None:
        # Each follower hears of its journal once, before anybody is answered.
        written: dict[str, list[Entry]] = {}
        for append in appends:
            if append.name in self._followers:
                written.setdefault(append.name, []).extend(append.entries)
        for name, entries in written.items():
            for follower in tuple(self._followers.get(name, ())):  # one may end itself or another
                self._tell(follower, entries)
        for append in appends:
            append.settle(append.entries)

    def _tell(self, follower: Follower, entries: Sequence[Entry]) -> None:
        try:
            follower(entries)
        except Exception as error:  # one follower's mistake must not cost the others their lines
            self._loop.call_exception_handler({"message": "a journal's follower failed", "exception": error})

    def _fail_all(self, taken: list[_Append], error: Exception) -> None:
        if not taken:  # the transaction failed before it took what waits; else that belongs to the next one
            self._scheduled = False
            self._take(taken)
        for append in taken:
            append.fail(error)

    # -- reading ------------------------------------------------------------------------------------------

    def last(self, name: str, count: int) -> asyncio.Future[list[Entry]]:
        """Return at most the last `count` lines, oldest first."""
        sql = f"SELECT {_COLUMNS} FROM journal WHERE name = ? ORDER BY sequence DESC LIMIT ?"
        return self._commits.run(lambda connection: _entries(connection, sql, name, count)[::-1])

    def after(self, name: str, sequence: int, count: int | None = None) -> asyncio.Future[list[Entry]]:
        """Return the lines numbered above `sequence`, oldest first."""
        sql = f"SELECT {_COLUMNS} FROM journal WHERE name = ? AND sequence > ? ORDER BY sequence LIMIT ?"
        limit = -1 if count is None else count
        return self._commits.run(lambda connection: _entries(connection, sql, name, sequence, limit))

    def between(self, name: str, start: int, end: int) -> asyncio.Future[list[Entry]]:
        """Return the lines with ``start <= at < end``, oldest first."""
        sql = f"SELECT {_COLUMNS} FROM journal WHERE name = ? AND at >= ? AND at < ? ORDER BY sequence"
        return self._commits.run(lambda connection: _entries(connection, sql, name, start, end))

    def find(self, name: str, id: str) -> asyncio.Future[Entry | None]:  # noqa: A002
        """Return the line with this identifier."""
        sql = f"SELECT {_COLUMNS} FROM journal WHERE name = ? AND id = ? LIMIT 1"
        return self._commits.run(lambda connection: next(iter(_entries(connection, sql, name, id)), None))

    def names(self, prefix: str, count: int) -> asyncio.Future[list[str]]:
        """Return the names with this prefix, the most recently written first."""
        given = {"start": prefix, "end": prefix + "\U0010ffff", "count": count}
        return self._commits.run(lambda connection: [row[0] for row in connection.execute(_NAMES, given)])

    def follow(self, name: str, follower: Follower) -> Callable[[], None]:
        """Call `follower` with every line committed from now on."""
        followers = self._followers.setdefault(name, [])
        followers.append(follower)

        def stop() -> None:
            if follower in followers:
                followers.remove(follower)
            if not followers:
                self._followers.pop(name, None)

        return stop

    def is_heard(self, name: str) -> bool:
        """Return True: what is committed is told by who commits it."""
        return True


def _entries(connection: sqlite3.Connection, sql: str, *given: object) -> list[Entry]:
    return [Entry(*row) for row in connection.execute(sql, given)]


def _insert(connection: sqlite3.Connection, rows: list[object]) -> None:
    """Insert rows given as one flat list of fields."""
    if rows:
        connection.execute(_insert_sql(len(rows) // _FIELDS_A_ROW), rows)


@cache
def _insert_sql(rows: int) -> str:
    return "INSERT INTO journal VALUES " + ",".join([_ROW] * rows)


def _prune_floor(append: _Append) -> tuple[str, int] | None:
    """Return the name, and the number up to which lines go; None where none are due."""
    if append.keep is None or not append.entries:
        return None
    # Now and then: when the numbers pass a multiple of a quarter of what is kept.
    step = max(append.keep // 4, 64)
    first, last = append.entries[0].sequence, append.entries[-1].sequence
    if (first - 1) // step == last // step or last <= append.keep:
        return None
    end = last - append.keep
    return append.name, end if append.floor is None else min(end, append.floor)
