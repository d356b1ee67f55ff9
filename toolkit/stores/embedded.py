"""The embedded store: journals and durable records in one RocksDB, ephemeral records in memory.

All requests that wait are one batch of RocksDB, written and synced at once: an acknowledged change survives
``kill -9`` and power loss, whether it is of a journal or of a record.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from toolkit.stores import Journals, Records
from toolkit.stores.embedded_database import Database
from toolkit.stores.embedded_journals import Append, EmbeddedJournals
from toolkit.stores.embedded_records import EmbeddedRecords, MemoryRows, RecordRequest
from toolkit.stores.group_commit import GroupCommit, run_now

_Request = Append | RecordRequest


class EmbeddedStore:
    """Keep everything in a folder.

    Parameters
    ----------
    folder
        The folder; made if missing. None: a temporary one, removed at the end, whose writes are not synced.
    now
        The gateway's clock in milliseconds since the epoch; decides what has expired.
    """

    def __init__(self, folder: Path | None, now: Callable[[], int]) -> None:
        self._folder = folder
        self._now = now
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        return str(self._folder) if self._folder is not None else "memory"

    async def open(self) -> None:
        """Open the database; raise StoreUnavailable if the folder is in use, damaged, or cannot be written."""
        folder = self._folder
        if folder is None:
            # Not RocksDB's environment in memory: rocksdict writes a file to the folder all the same.
            self._temporary = tempfile.TemporaryDirectory(prefix="toolkit-gateway-", ignore_cleanup_errors=True)
            folder = Path(self._temporary.name)
        self._database = Database(folder, is_synced=self._folder is not None)
        try:
            await self._database.open()
        except BaseException:
            self._remove_temporary()
            raise
        self._commits: GroupCommit[_Request] = GroupCommit(self._write)
        self._unknown: list[_Request] = []  # a write failed: these changes may have been made or not
        self._journals = EmbeddedJournals(self._database, self._commits)
        self._records = EmbeddedRecords(self._database, self._commits.submit, self._database.read, self._now)
        self.journals: Journals = self._journals
        self.records: Records = self._records
        self.ephemeral: Records = EmbeddedRecords(MemoryRows(), None, run_now, self._now)

    async def close(self) -> None:
        """Commit what was asked for and close the folder."""
        await self._commits.close()
        await self._database.close()
        self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def _write(self, requests: Sequence[_Request]) -> Awaitable[None] | None:
        if self._database.has_failed:
            return self._recover_and_write(requests)
        self._journals.encodes_early = True
        self._write_batch(requests, self._commits.write_next)
        return None

    async def _recover_and_write(self, requests: Sequence[_Request]) -> None:
        await self._database.recover()
        unknown, self._unknown = self._unknown, []
        for request in unknown:
            if isinstance(request, Append):
                self._journals.announce_what_is_there(request)
            else:
                self._records.announce_what_is_there(request)
        for request in requests:
            request.result = []  # appends that were numbered behind the failed ones
        is_over = asyncio.Event()
        self._write_batch(requests, is_over.set)
        await is_over.wait()

    def _write_batch(self, requests: Sequence[_Request], end: Callable[[], None]) -> None:
        """Write the batch, call `end` when the next one can be written, and answer the callers."""
        self._records.begin()
        prepared = [request for request in requests if request.result or self._prepare(request)]
        appends = [request for request in prepared if isinstance(request, Append)]
        writes = self._journals.take_batch(appends)
        if writes.is_empty():
            self._end(prepared, appends, end, None)
        else:
            self._database.write(writes, partial(self._end, prepared, appends, end))

    def _prepare(self, request: _Request) -> bool:
        try:
            if isinstance(request, Append):
                self._journals.prepare(request)
            else:
                self._records.prepare(request, self._journals.writes)
        except Exception as error:  # one caller's mistake costs no other anything
            request.fail(error)
            return False
        return True

    def _end(
        self,
        requests: Sequence[_Request],
        appends: Sequence[Append],
        end: Callable[[], None],
        error: Exception | None,
    ) -> None:
        if error is None:
            end()  # the next batch is handed to the disk before these answers are sent
            self._journals.announce(appends)
            for request in requests:
                request.settle()
        else:
            self._journals.forget()
            self._unknown += requests
            for request in requests:
                request.fail(error)
            end()
