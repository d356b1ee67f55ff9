"""The tables of the embedded journals, as the store's thread uses them.

The key of a line is one integer: the number of its journal above, its own below. SQLite puts such a line at the end of
a page and begins a new page once that is full; with a key of text and number it would look for the line's place and
split the page in halves. That makes an append an eighth faster, and the file a sixth smaller.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from functools import cache

from toolkit.gateway.stores import Draft, Entry, StoreUnavailable
from toolkit.gateway.stores.group_commit import transaction

# So many journals have so many lines each: 33 million of 275 thousand million. One fewer than fit into 63 bits, as what
# ends the last one must be a number too.
_JOURNALS, _LINES = (1 << 25) - 1, 1 << 38

_TABLES = (
    "CREATE TABLE IF NOT EXISTS journals (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "CREATE TABLE IF NOT EXISTS lines"
    " (key INTEGER PRIMARY KEY, at INTEGER NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL)",
)
# Before November 2026 there was one table, with the name of its journal in every line. Where such a gateway was used in
# between, it has numbered from one again: its lines come behind those that are here.
_CONVERSION = (
    "INSERT OR IGNORE INTO journals (name) SELECT DISTINCT name FROM journal ORDER BY name",
    f"""
    CREATE TABLE fleeting.ends AS SELECT name, ifnull((
        SELECT max(key) FROM lines WHERE key > number * {_LINES} AND key < (number + 1) * {_LINES}
    ), number * {_LINES}) AS last FROM journals ORDER BY number
    """,
    "INSERT INTO lines SELECT last + sequence, at, id, data"
    " FROM fleeting.ends CROSS JOIN journal USING (name) ORDER BY ends.rowid, sequence",
    "DROP TABLE fleeting.ends",
    "DROP TABLE journal",
)

# The time of a journal's last line takes one step in the index.
_NAMES = f"""
SELECT name, (
    SELECT at FROM lines WHERE key > number * {_LINES} AND key < (number + 1) * {_LINES} ORDER BY key DESC LIMIT 1
) AS last_at
FROM journals WHERE name >= ? AND name < ? ORDER BY last_at DESC, name LIMIT ?
"""

_FIELDS_A_LINE = 4
# Up to so many lines are one statement; the compiled ones are kept, one for each number of lines.
_LINES_A_STATEMENT = 128

log = logging.getLogger("toolkit.gateway")


class _Place:
    """Where a journal lies: the key before its first line, and that of its last."""

    __slots__ = ("first", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last


class JournalTables:
    """The journals of one database, which nobody else changes."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    def forget(self) -> None:
        """Look for everything anew: a transaction was undone."""
        self._places.clear()

    def has(self, connection: sqlite3.Connection, name: str) -> bool:
        """Whether there is a journal of this name."""
        if name in self._places:
            return True
        found = connection.execute("SELECT number FROM journals WHERE name = ?", (name,)).fetchone()
        if found is None:
            return False
        first = found[0] * _LINES
        sql = "SELECT max(key) FROM lines WHERE key > ? AND key < ?"
        (last,) = connection.execute(sql, (first, first + _LINES)).fetchone()
        self._places[name] = _Place(first, last or first)
        return True

    def add(self, connection: sqlite3.Connection, name: str) -> None:
        """Make a journal, in the transaction that writes its first line."""
        number = connection.execute("INSERT INTO journals (name) VALUES (?)", (name,)).lastrowid or 0
        if number >= _JOURNALS:
            raise StoreUnavailable("the store has no room for another name")
        self._places[name] = _Place(number * _LINES, number * _LINES)

    def take_numbers(self, name: str, drafts: Sequence[Draft], fields: list[object]) -> int:
        """Add the drafts, under the next keys of their journal, to the `fields` to insert; return the number before."""
        place = self._places[name]
        before = place.last - place.first
        if before + len(drafts) >= _LINES:
            raise StoreUnavailable("the store has no room for another line of this name")
        for key, (at, text, data) in enumerate(drafts, place.last + 1):
            fields += (key, at, text, data)
        place.last += len(drafts)
        return before

    def drop(self, connection: sqlite3.Connection, name: str, number: int) -> None:
        """Remove the lines up to this number."""
        first = self._places[name].first
        connection.execute("DELETE FROM lines WHERE key > ? AND key <= ?", (first, first + number))

    def read(self, connection: sqlite3.Connection, name: str, after: int, rest: str, *given: object) -> list[Entry]:
        """Return the lines numbered above `after`, as the `rest` of the statement says."""
        if not self.has(connection, name):
            return []
        first = self._places[name].first
        sql = f"SELECT key - ?, at, id, data FROM lines WHERE key > ? AND key < ? {rest}"
        start = first + min(max(after, 0), _LINES)
        return [Entry(*row) for row in connection.execute(sql, (first, start, first + _LINES, *given))]


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables where they are missing, and move into them what an older gateway has kept."""
    for statement in _TABLES:
        connection.execute(statement)
    if connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'journal'").fetchone():
        log.warning("the folder is from an older gateway: its lines are moved to new tables, once")
        with transaction(connection):
            for statement in _CONVERSION:
                connection.execute(statement)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # it holds every line once more


def insert(connection: sqlite3.Connection, fields: list[object]) -> None:
    """Insert lines given as one flat list of fields."""
    step = _LINES_A_STATEMENT * _FIELDS_A_LINE
    for start in range(0, len(fields), step):
        some = fields[start : start + step]
        connection.execute(_insert_sql(len(some) // _FIELDS_A_LINE), some)


def are_one_statement(fields: list[object]) -> bool:
    """Whether these lines are inserted at once, with no need of a transaction around it."""
    return len(fields) <= _LINES_A_STATEMENT * _FIELDS_A_LINE


def names(connection: sqlite3.Connection, prefix: str, count: int) -> list[str]:
    """Return the names with this prefix, the most recently written first."""
    given = (prefix, prefix + "\U0010ffff", count)
    return [row[0] for row in connection.execute(_NAMES, given)]


@cache
def _insert_sql(lines: int) -> str:
    return "INSERT INTO lines VALUES " + ",".join(["(?,?,?,?)"] * lines)
