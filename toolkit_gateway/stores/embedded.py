"""The embedded store: journals and durable records in one RocksDB, ephemeral records in memory.

All changes that wait are one RocksDB batch, which is written and synced together. So an acknowledged change of a
journal or of a durable record survives ``kill -9`` and power loss.
"""

import shutil
import tempfile
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from rocksdict import WriteBatch

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import CompareAndSet, Journals, NewEntry, Records
from toolkit_gateway.stores.embedded_checkpoint import Checkpoint, CheckpointWriter, read_checkpoint
from toolkit_gateway.stores.embedded_commits import EmbeddedCommits
from toolkit_gateway.stores.embedded_database import Change, Database
from toolkit_gateway.stores.embedded_journals import EmbeddedJournals
from toolkit_gateway.stores.embedded_records import ROW_PREFIX, EmbeddedRecords, Row
from toolkit_gateway.stores.hash_tag import common_tag


class EmbeddedStore:
    """Keep everything in a folder, which is made if missing.

    None means a temporary folder: writes to it are not synced, and it is removed when the store closes. `now` is the
    gateway's clock in milliseconds since 1970; it decides what has expired. `locks` are the space and the first
    characters of the keys of records whose loss would make private things public: a checkpoint has their number.
    """

    def __init__(self, folder: Path | None, now: Callable[[], int], locks: tuple[str, str] | None = None) -> None:
        self._folder = folder
        self._now = now
        self._locks = locks

    def __repr__(self) -> str:
        return str(self._folder) if self._folder is not None else "memory"

    async def open(self, *, accepts_loss: bool = False) -> None:
        """Open the database; raise StoreUnavailable if the folder is in use, damaged, or cannot be written.

        It is also raised if the folder has lost changes since its last checkpoint, unless that is accepted.
        """
        async with AsyncExitStack() as opened:
            folder, self._lock_keys = self._folder, set[str]()
            #: What was missing when the store was opened, if that was accepted.
            self.loss = ""
            checkpoint = Checkpoint(0, 0) if folder is None else read_checkpoint(folder)
            if folder is not None and not Database.is_in(folder):  # before an empty one is made
                self._check_loss(folder, checkpoint, Checkpoint(0, 0), accepts_loss=accepts_loss)
            if folder is None:
                # Not RocksDB's environment in memory: rocksdict would still write a file to the folder.
                # Nor a TemporaryDirectory: a forked process would remove it at its end.
                folder = Path(tempfile.mkdtemp(prefix="toolkit-gateway-"))
                opened.callback(shutil.rmtree, folder, ignore_errors=True)
            self._database = database = Database(folder, is_synced=self._folder is not None)
            await database.open()
            opened.push_async_callback(database.close)
            self._commits = commits = EmbeddedCommits(database)
            self._journals = EmbeddedJournals(database, commits)
            self._records, self._ephemeral = EmbeddedRecords(self._now, commits), EmbeddedRecords(self._now)
            # The ephemeral records first: a subscriber of another part may change them at once.
            commits.parts = self._ephemeral, self._journals, self._records
            self._records.load(await database.run_in_reader(lambda: list(database.items(ROW_PREFIX))))
            self.journals: Journals = self._journals
            self.records: Records = self._records
            self.ephemeral: Records = self._ephemeral
            if self._folder is not None:
                writer = CheckpointWriter(self._folder, self._measure, database.run_in_reader)
                if self._locks is not None:
                    await self.records.subscribe(self._locks[0], partial(self._count_lock, self._locks[1], writer))
                self._check_loss(self._folder, checkpoint, self._measure_now(), accepts_loss=accepts_loss)
                await writer.start()
                opened.push_async_callback(writer.close)
            self._opened = opened.pop_all()

    def _count_lock(self, prefix: str, writer: CheckpointWriter, key: str, value: bytes | None) -> None:
        if key.startswith(prefix):
            (self._lock_keys.discard if value is None else self._lock_keys.add)(key)
            writer.write_soon()

    def _measure_now(self) -> Checkpoint:
        return Checkpoint(self._database.last_change, len(self._lock_keys))

    def _measure(self) -> Checkpoint | None:
        return None if self._commits.has_failed else self._measure_now()

    def _check_loss(self, folder: Path, before: Checkpoint, now: Checkpoint, *, accepts_loss: bool) -> None:
        self.loss = self.loss or before.difference(now)
        if self.loss and not accepts_loss:
            raise StoreUnavailable(
                f"the folder {folder} has lost data: {self.loss}; restore it from a backup, or accept the loss by "
                f"`toolkit accept-loss {folder}`: things whose locks are lost become public"
            )

    def durable_rows(self) -> list[Row]:
        """Return all durable records that have not expired, by space and key."""
        return self._records.rows()

    async def close(self) -> None:
        """Commit the changes submitted so far, and close the folder."""
        try:
            await self._commits.close()
        finally:
            await self._opened.aclose()

    def commit(self, changes: Sequence[CompareAndSet], appends: Mapping[str, Sequence[NewEntry]]) -> Future[bool]:
        common_tag([*(change.space for change in changes), *appends])
        return self._commits.add_to_next_batch(Change(partial(self._prepare, changes, appends))).future

    def _prepare(
        self, changes: Sequence[CompareAndSet], appends: Mapping[str, Sequence[NewEntry]], batch: WriteBatch
    ) -> bool:
        additions: list[Callable[[WriteBatch], object]] = []
        for conditional in changes:
            records = self._ephemeral if conditional.is_ephemeral else self._records
            is_expected, changed = records.evaluate(conditional)
            if not is_expected:
                return False
            additions.append(records.stage(conditional.space, changed))
        additions += [self._journals.stage(name, entries) for name, entries in appends.items() if entries]
        for add in additions:
            add(batch)
        return True
