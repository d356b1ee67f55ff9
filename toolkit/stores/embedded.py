"""The embedded store: journals and durable records in one RocksDB, ephemeral records in memory.

All requests that wait are one batch of RocksDB, written and synced at once: an acknowledged change survives
``kill -9`` and power loss, whether it is of a journal or of a record.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rocksdict import WriteBatch

from toolkit.errors import StoreUnavailable
from toolkit.stores import Journals, Records
from toolkit.stores.embedded_database import Database
from toolkit.stores.embedded_journals import Append, EmbeddedJournals
from toolkit.stores.embedded_records import ROWS, EmbeddedRecords, RecordRequest
from toolkit.stores.group_commit import GroupCommit

_Request = Append | RecordRequest


class EmbeddedStore:
    """Keep everything in a folder, which is made if missing.

    None is a temporary one, removed at the end, whose writes are not synced. `now` is the gateway's clock in
    milliseconds since the epoch; it decides what has expired.
    """

    def __init__(self, folder: Path | None, now: Callable[[], int]) -> None:
        self._folder = folder
        self._now = now

    def __repr__(self) -> str:
        return str(self._folder) if self._folder is not None else "memory"

    async def open(self) -> None:
        """Open the database; raise StoreUnavailable if the folder is in use, damaged, or cannot be written."""
        async with AsyncExitStack() as opened:
            folder = self._folder
            if folder is None:
                # Not RocksDB's environment in memory: rocksdict writes a file to the folder all the same.
                temporary = tempfile.TemporaryDirectory(prefix="toolkit-gateway-", ignore_cleanup_errors=True)
                folder = Path(opened.enter_context(temporary))
            self._database = database = Database(folder, is_synced=self._folder is not None)
            await database.open()
            opened.push_async_callback(database.close)
            self._commits: GroupCommit[_Request] = GroupCommit(self._write)
            self._unknown: list[_Request] = []  # a write failed: these changes may have been made or not
            self._journals = EmbeddedJournals(database, self._commits)
            self._records = EmbeddedRecords(self._now, self._commits)
            self._records.load(await database.read(lambda: list(database.items(ROWS))))
            self.journals: Journals = self._journals
            self.records: Records = self._records
            self.ephemeral: Records = EmbeddedRecords(self._now)
            self._opened = opened.pop_all()

    async def close(self) -> None:
        """Commit what was asked for and close the folder."""
        try:
            await self._commits.close()
        finally:
            await self._opened.aclose()

    async def _write(self, requests: Sequence[_Request]) -> None:
        if self._unknown:
            await self._recover()
        batch, prepared = WriteBatch(raw_mode=True), list[_Request]()
        self._journals.begin()
        self._records.begin(batch)
        for request in requests:
            try:
                request.prepare(batch)
            except Exception as error:  # one caller's mistake costs no other anything
                request.fail(error)
            else:
                prepared.append(request)
        if not batch.is_empty():
            try:
                await self._database.write(batch)
            except StoreUnavailable:
                self._journals.forget()
                self._unknown = prepared
                raise
        self._journals.announce()
        for request in prepared:
            request.settle()

    async def _recover(self) -> None:
        """Reopen the database after a failed write, and announce what was written all the same."""
        await self._database.reopen()
        while self._unknown:  # where one cannot be read, the next recovery begins with it
            self._unknown[0].settle_after_failure(self._database)
            del self._unknown[0]
