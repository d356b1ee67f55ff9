"""RocksDB in a folder: opening, durable batches, and recovery after a failed write.

The only module that calls `rocksdict`, and the one place that makes our errors of its exceptions.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DbClosedError,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit.stores.embedded_folder import StoreFolder

T = TypeVar("T")
Done = Callable[[Any, Exception | None], None]

_OPTIONS = Path(__file__).with_name("rocksdb_options")
_WRITE_BUFFER, _BLOCK_CACHE, _INFO_LOG = 8 << 20, 32 << 20, 1 << 20
# Besides what it moves from its logs to tables, RocksDB writes a few small files when it opens.
_ROOM_TO_OPEN = 1 << 20
_SECONDS_BETWEEN_REOPENS = 1.0
# The MANIFEST grows with every file of RocksDB, which is seldom: so it is not looked at with every batch.
_SECONDS_BETWEEN_NOTES = 0.1


class Database:
    """A key-value database that keeps its keys in order; `is_synced` waits for the disk with every batch."""

    def __init__(self, folder: Path, *, is_synced: bool) -> None:
        self._folder = StoreFolder(folder)
        self._write_options = WriteOptions()
        self._write_options.sync = is_synced
        self._failure: Exception | None = None
        self._reopen_at = self._note_at = 0.0

    async def open(self) -> None:
        """Lock the folder and open the database."""
        self._reader, self._writer = WorkerThread("gateway-store-reads"), WorkerThread("gateway-store-writes")
        self.read = self._reader.run
        try:
            await self.read(self._acquire)
        except BaseException:
            self._end_threads()
            raise

    async def close(self) -> None:
        """Close the database and unlock the folder."""
        await self.read(self._close)
        self._end_threads()
        self._folder.release()

    @property
    def has_failed(self) -> bool:
        """Whether a write has failed, so that RocksDB refuses all further ones until `recover`."""
        return self._failure is not None

    async def recover(self) -> None:
        """Reopen the database after a failed write; raise StoreUnavailable if there is no room yet."""
        if time.monotonic() < self._reopen_at:
            raise StoreUnavailable(str(self._failure))
        try:
            # In the thread of the reads: an open iterator would keep the database open.
            await self.read(self._reopen)
        except StoreUnavailable as error:
            self._failure = error
            raise
        finally:
            self._reopen_at = time.monotonic() + _SECONDS_BETWEEN_REOPENS
        self._failure = None

    def write(self, batch: WriteBatch, done: Callable[[Exception | None], None]) -> None:
        """Write all of a batch and call `done`; after an error all of it or nothing is there, once it is reopened."""

        def end(_: None, error: Exception | None) -> None:
            self._failure = error
            done(error and OutcomeUnknown(str(error)))

        self._writer.submit(lambda: self._write(batch), end)

    def get(self, key: bytes) -> bytes | None:
        with self._adapted_errors():
            value: bytes | None = self._rocks.get(key)
            return value

    def items(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give the keys that begin with `prefix`, from `start` on, and their values."""
        return self._walk(prefix, start, "seek", "next")

    def items_backwards(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give the keys that begin with `prefix`, the last one first, and their values."""
        return self._walk(prefix, prefix + b"\xff" * 16, "seek_for_prev", "prev")

    def _walk(self, prefix: bytes, start: bytes, seek: str, move: str) -> Iterator[tuple[bytes, bytes]]:
        with self._adapted_errors():
            cursor = self._rocks.iter()
            getattr(cursor, seek)(start)
            is_valid, key_of, value_of, move_on = cursor.valid, cursor.key, cursor.value, getattr(cursor, move)
            while is_valid() and (key := key_of()).startswith(prefix):
                yield key, value_of()
                move_on()
            cursor.status()  # at a damaged block an iterator is not valid either

    # -- in the threads -----------------------------------------------------------------------------------

    def _write(self, batch: WriteBatch) -> None:
        with self._adapted_errors():
            self._rocks.write(batch, self._write_options)
        if time.monotonic() >= self._note_at:
            self._folder.note_manifest()
            self._note_at = time.monotonic() + _SECONDS_BETWEEN_NOTES

    def _acquire(self) -> None:
        self._folder.acquire()
        try:
            self._open()
        except BaseException:
            self._folder.release()
            raise

    def _open(self) -> None:
        self._folder.check_manifest()
        with self._adapted_errors():
            self._rocks = Rdict(str(self._folder.files), _options())
        self._folder.note_manifest()

    def _reopen(self) -> None:
        self._folder.check_room(sum(log.stat().st_size for log in self._folder.logs()) + _ROOM_TO_OPEN)
        self._close()
        self._open()

    def _close(self) -> None:
        with suppress(StoreUnavailable), self._adapted_errors():  # after a failed write it says so once more
            self._rocks.close()
        self._folder.note_manifest()

    def _end_threads(self) -> None:
        self._reader.close()
        self._writer.close()

    @contextmanager
    def _adapted_errors(self) -> Iterator[None]:
        try:
            yield
        except DbClosedError:
            raise StoreUnavailable("the store is closed: the gateway is stopping, or waits for room") from None
        except StoreUnavailable:
            raise
        except Exception as error:  # rocksdict raises nothing more precise
            raise StoreUnavailable(self._explained(str(error))) from None

    def _explained(self, text: str) -> str:
        if not text.startswith("Corruption"):
            return f"the store in {self._folder.path} cannot be used: {text}"
        if str(self._folder.files) not in text:  # RocksDB does not name the log whose checksum is wrong
            text += f" (in {', '.join(map(str, self._folder.logs()))})"
        return f"a file of the store in {self._folder.path} is damaged: {text}; restore the folder from a backup"


def _options() -> Options:
    options, _ = Options.load_latest(str(_OPTIONS), ignore_unknown_options=True)
    options.create_if_missing(True)
    # A torn end of the live log is a write that was interrupted, and so was never acknowledged.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_write_buffer_size(_WRITE_BUFFER)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_INFO_LOG)
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(_BLOCK_CACHE))
    tables.set_bloom_filter(10, False)
    options.set_block_based_table_factory(tables)
    return options


class WorkerThread:
    """A thread for jobs of the event loop. A read costs half the CPU time of one in a ThreadPoolExecutor."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        """Run a job, and call ``done(result, error)`` on the loop, where one of the two is None."""
        self._jobs.put((job, done))

    def run(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Return the job's result, or raise its exception, once it is done."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((job, partial(_settle, future)))
        return future

    def close(self) -> None:
        """Finish all jobs and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            job, done = given
            try:
                result, error = job(), None
            except Exception as raised:  # raised to the caller on the loop
                result, error = None, raised
            self._loop.call_soon_threadsafe(done, result, error)
            del given, job, done, result, error  # a job that waits for the next one must not keep the database open


def _settle(future: asyncio.Future[T], result: T, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
