"""The embedded store: journals and durable records in one RocksDB, ephemeral records in memory.

All requests that wait are one batch of RocksDB, written and synced at once: an acknowledged change survives
``kill -9`` and power loss, whether it is of a journal or of a record.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rocksdict import WriteBatch

from toolkit.stores import Journals, Records, StoreUnavailable
from toolkit.stores.embedded_database import Database
from toolkit.stores.embedded_journals import Append, EmbeddedJournals
from toolkit.stores.embedded_records import EmbeddedRecords, MemoryRows, RecordRequest, run_now
from toolkit.stores.group_commit import GroupCommit

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
        self._loop = asyncio.get_running_loop()
        self._database = Database(folder, is_synced=self._folder is not None)
        self._commits: GroupCommit[_Request] = GroupCommit(self._write)
        self._unknown: list[_Request] = []  # a write failed: these changes may have been made or not
        journals = self._journals = EmbeddedJournals(self._database, self._commits)
        records = self._records = EmbeddedRecords(self._database, self._commits.submit, self._database.read, self._now)
        self.journals: Journals = journals
        self.records: Records = records
        self.fleeting: Records = self._ephemeral()
        try:
            await self._database.open()
        except BaseException:
            self._remove_temporary()
            raise

    async def close(self) -> None:
        """Commit what was asked for and close the folder."""
        await self._commits.close()
        await self._database.close()
        self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def _ephemeral(self) -> EmbeddedRecords:
        rows = MemoryRows()

        def settle_now(request: RecordRequest) -> None:
            records.begin(rows)
            if _prepare(request):
                request.settle()

        records = EmbeddedRecords(rows, settle_now, run_now, self._now)
        return records

    async def _write(self, requests: Sequence[_Request]) -> None:
        if await self._database.recover():
            unknown, self._unknown = self._unknown, []
            for request in unknown:
                request.recover()
        writes = WriteBatch(raw_mode=True)
        self._journals.begin(writes)
        self._records.begin(writes)
        prepared = [request for request in requests if _prepare(request)]
        appends = [request for request in prepared if isinstance(request, Append)]
        if not writes.is_empty():
            try:
                await self._database.write(writes)
            except StoreUnavailable:
                self._journals.forget()
                self._unknown += prepared
                raise
        # The next batch is handed to the disk before these answers are sent.
        self._loop.call_soon(self._settle, prepared, appends)

    def _settle(self, prepared: Sequence[_Request], appends: Sequence[Append]) -> None:
        self._journals.settle(appends)
        for request in prepared:
            request.settle()


def _prepare(request: _Request) -> bool:
    try:
        request.prepare()
    except Exception as error:  # one caller's mistake costs no other anything
        request.fail(error)
        return False
    return True
