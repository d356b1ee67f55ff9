"""Journals in SQLite: all appends that wait become one statement."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from toolkit.gateway.stores import Draft, Entry, Follower, Meanwhile
from toolkit.gateway.stores.group_commit import GroupCommit, transaction
from toolkit.gateway.stores.journal_tables import JournalTables, are_one_statement, insert, names
from toolkit.gateway.stores.waiting_append import WaitingAppend

# To wake the loop while the store's thread writes costs as much as preparing the answers to about so many lines.
_LINES_WORTH_A_CALL = 24


class _Append(WaitingAppend):
    """An append on its way to the store's thread, which knows the number ``before`` its lines."""

    __slots__ = ("_entries", "before")

    def __init__(self, *given: Any) -> None:  # noqa: ANN401
        super().__init__(*given)
        self.before = 0
        self._entries: list[Entry] = []

    def entries(self) -> list[Entry]:
        """Return its lines; a transaction that was tried again may have given them other numbers."""
        if not self._entries or self._entries[0].sequence != self.before + 1:
            self._entries = self.numbered(self.before)
        return self._entries


class EmbeddedJournals:
    """See `toolkit.gateway.stores.Journals`."""

    def __init__(self, commits: GroupCommit) -> None:
        self._commits = commits
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Append] = deque()
        self._scheduled = False
        self._followers: dict[str, list[Follower]] = {}
        self._tables = JournalTables()  # used by the store's thread only

    # -- writing ------------------------------------------------------------------------------------------

    def append(
        self,
        name: str,
        drafts: Sequence[Draft],
        keep: int | None = None,
        floor: int | None = None,
        meanwhile: Meanwhile | None = None,
    ) -> asyncio.Future[list[Entry]]:
        """Append all drafts in order, or none."""
        append = _Append(name, drafts, keep, floor, meanwhile, self._loop.create_future())
        if not drafts:
            append.settle([])
            return append.future
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

    def forget(self) -> None:
        """Look anew for what is there: a transaction was undone."""
        self._tables.forget()

    def _write_all(self, connection: sqlite3.Connection, taken: list[_Append]) -> list[_Append]:
        # Cleared before the queue is emptied: an append that comes now is either taken here or asks for a new turn.
        self._scheduled = False
        self._take(taken)
        with contextlib.ExitStack() as whole:
            unknown = {append.name for append in taken if not self._tables.has(connection, append.name)}
            if unknown:
                whole.enter_context(transaction(connection))
                for name in unknown:
                    self._tables.add(connection, name)
            fields: list[object] = []
            for append in taken:
                append.before = self._tables.take_numbers(append.name, append.drafts, fields)
            floors = [floor for append in taken if (floor := _prune_floor(append)) is not None]
            if floors or not are_one_statement(fields):
                whole.enter_context(transaction(connection))
            if sum([len(append.drafts) for append in taken]) >= _LINES_WORTH_A_CALL:
                # Behind the callers of the last transaction, who may still have to be answered.
                self._loop.call_soon_threadsafe(self._loop.call_soon, _prepare_all, taken)
            insert(connection, fields)
            for name, number in floors:
                self._tables.drop(connection, name, number)
        return taken

    def _take(self, taken: list[_Append]) -> None:
        with contextlib.suppress(IndexError):  # empty; asking first would race with the other thread
            while True:
                taken.append(self._waiting.popleft())

    def _deliver_all(self, appends: list[_Append]) -> None:
        # Each follower hears of its journal once, before anybody is answered.
        written: dict[str, list[Entry]] = {}
        for append in appends:
            if append.name in self._followers:
                written.setdefault(append.name, []).extend(append.entries())
        for name, entries in written.items():
            for follower in tuple(self._followers.get(name, ())):  # one may end itself or another
                self._tell(follower, entries)
        for append in appends:
            append.settle(append.entries())

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
        last = self._read(name, 0, "ORDER BY key DESC LIMIT ?", count)
        return self._commits.run(lambda connection: last(connection)[::-1])

    def after(self, name: str, sequence: int, count: int | None = None) -> asyncio.Future[list[Entry]]:
        """Return the lines numbered above `sequence`, oldest first."""
        return self._commits.run(self._read(name, sequence, "ORDER BY key LIMIT ?", -1 if count is None else count))

    def between(self, name: str, start: int, end: int) -> asyncio.Future[list[Entry]]:
        """Return the lines with ``start <= at < end``, oldest first."""
        return self._commits.run(self._read(name, 0, "AND at >= ? AND at < ? ORDER BY key", start, end))

    def find(self, name: str, id: str) -> asyncio.Future[Entry | None]:  # noqa: A002
        """Return the line with this identifier."""
        found = self._read(name, 0, "AND id = ? LIMIT 1", id)
        return self._commits.run(lambda connection: next(iter(found(connection)), None))

    def names(self, prefix: str, count: int) -> asyncio.Future[list[str]]:
        """Return the names with this prefix, the most recently written first."""
        return self._commits.run(lambda connection: names(connection, prefix, count))

    def _read(self, name: str, after: int, rest: str, *given: object) -> Callable[[sqlite3.Connection], list[Entry]]:
        return lambda connection: self._tables.read(connection, name, after, rest, *given)

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


def _prepare_all(appends: Sequence[_Append]) -> None:
    for append in appends:
        append.entries()
        append.prepare()


def _prune_floor(append: _Append) -> tuple[str, int] | None:
    """Return the name, and the number up to which lines go; None where none are due."""
    if append.keep is None:
        return None
    # Now and then: when the numbers pass a multiple of a quarter of what is kept.
    step = max(append.keep // 4, 64)
    last = append.before + len(append.drafts)
    if append.before // step == last // step or last <= append.keep:
        return None
    end = last - append.keep
    return append.name, end if append.floor is None else min(end, append.floor)
