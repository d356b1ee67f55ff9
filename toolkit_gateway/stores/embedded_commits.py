"""Group commit of the embedded store, on the event loop.

All changes that arrive in one turn of the loop are one batch, which is written and synced on the next turn. Nothing
else runs on the loop until the disk answers: handing a batch to a thread and back takes more time than most syncs.

====================  ===============================================================  ==============================
state                 what happens                                                     next state
====================  ===============================================================  ==============================
idle                  a change arrives: the commit is scheduled for the next turn      scheduled
scheduled             the batch is written, and each caller gets its result            idle; scheduled if more waits
scheduled             writing fails: the callers of the batch get OutcomeUnknown       the same, and failed
scheduled and failed  a task reopens the database, since it refuses further writes     recovering
recovering            it is reopened; the changes that came in the meantime wait       scheduled
recovering            it cannot be reopened yet: the changes that wait fail            idle, and failed
====================  ===============================================================  ==============================
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from rocksdict import WriteBatch

from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit_gateway.stores.embedded_database import Change, Database

# A batch takes no further change beyond this many rows, so that others on the event loop get their turn: preparing them
# takes some milliseconds.
_ROWS_PER_BATCH = 2_000
# After a write that took longer than this, the next one begins some turns of the loop later: a read of the database
# takes about five turns, and would otherwise wait for a sync in each; and what comes in these turns joins the batch.
_SECONDS_OF_SLOW_WRITE, _TURNS_AFTER_SLOW_WRITE = 0.0005, 20
_BUG = "the store failed because of a bug of the gateway; see its log"


class Part(Protocol):
    """What prepares changes, and shows them once they are written."""

    def begin_batch(self, batch: WriteBatch) -> None:
        """Begin a batch: that before it is written, or has failed."""

    def announce(self) -> None:
        """Show what the batch has changed to readers and subscribers."""

    def recover(self) -> None:
        """Show what a failed batch has changed all the same, as the reopened database has it."""


class EmbeddedCommits:
    """Commit the changes of all parts in the order of their submission."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.parts: Sequence[Part] = ()
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Change] = deque()
        self._is_scheduled = False
        self._turns_to_wait = 0
        #: Whether the changes of the last batch may have been made or not.
        self.has_failed = False
        self._recovery: asyncio.Task[None] | None = None
        self.is_closed = False

    def add_to_next_batch(self, change: Change) -> Change:
        if self.is_closed:
            change.fail(StoreUnavailable("the gateway is stopping"))
            return change
        self._waiting.append(change)
        if not self._is_scheduled:
            self._schedule()
        return change

    async def close(self) -> None:
        """Refuse new changes, and commit those that were submitted."""
        self.is_closed = True
        while self._is_scheduled:
            if self._recovery is None:
                await asyncio.sleep(0)
            else:
                await asyncio.wait([self._recovery])  # a caller that gives up does not cancel it

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        if self._turns_to_wait:
            self._turns_to_wait -= 1
            self._schedule()
            return
        if self.has_failed:
            self._recovery = self._loop.create_task(self._recover())
            return
        prepared: list[Change] = []
        failure: StoreUnavailable = OutcomeUnknown(_BUG)
        self.has_failed = True
        try:
            self._write(prepared)
            self.has_failed = False
        except StoreUnavailable as error:
            failure = error
        finally:
            for change in prepared:
                if self.has_failed:
                    change.fail(failure)
                else:
                    change.settle()
            self._go_on()

    def _write(self, prepared: list[Change]) -> None:
        waiting, batch = self._waiting, WriteBatch(raw_mode=True)
        for part in self.parts:
            part.begin_batch(batch)
        while waiting and len(batch) < _ROWS_PER_BATCH:
            change = waiting.popleft()
            prepared.append(change)  # before it can raise: also after a panic of RocksDB each caller gets an answer
            try:
                change.result = change.prepare(batch)
            except Exception as error:  # one caller's mistake must not fail the others
                change.fail(error)
        if not batch.is_empty():
            started = time.perf_counter()
            self.database.write(batch)
            if time.perf_counter() - started > _SECONDS_OF_SLOW_WRITE:
                self._turns_to_wait = _TURNS_AFTER_SLOW_WRITE
        for part in self.parts:
            part.announce()

    async def _recover(self) -> None:
        failure = StoreUnavailable(_BUG)
        try:
            await self.database.reopen()
            for part in self.parts:  # if something cannot be read here, the next attempt begins with it
                part.recover()
            self.has_failed = False
        except StoreUnavailable as error:
            failure = error
        finally:
            while self.has_failed and self._waiting:
                self._waiting.popleft().fail(failure)
            self._recovery = None
            self._go_on()

    def _go_on(self) -> None:
        self._is_scheduled = False
        if self._waiting:
            self._schedule()
