"""RocksDB in a folder that one process holds: opening, durable batches, and recovery after a failed write.

The only module that opens a database of `rocksdict`, and that turns its exceptions into our errors.

============  ========================================================================================================
state         what is possible
============  ========================================================================================================
open          reads from any thread, writes from the event loop
write failed  reads; RocksDB refuses further writes, and nobody knows whether the failed batch is there
reopening     reads in the reader thread, before and after: an iterator elsewhere would keep the old database open.
              If the disk has no room, it is not closed, and reads go on
closed        nothing: callers get StoreUnavailable
============  ========================================================================================================
"""

import asyncio
import os
import stat
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import filelock
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DbClosedError,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    WriteBatch,
)

from toolkit.errors import FolderInUse, OutcomeUnknown, StoreUnavailable
from toolkit_gateway.stores.group_commit import Request, failed_future
from toolkit_gateway.worker_thread import WorkerThread

T = TypeVar("T")

_DATABASE = "database"
_OPTIONS = Path(__file__).with_name("rocksdb_options")
WRITE_BUFFER, _BLOCK_CACHE, _INFO_LOG = 8 << 20, 32 << 20, 1 << 20
# Besides what it moves from its logs to tables, RocksDB writes a few small files when it opens.
_ROOM_TO_OPEN = 1 << 20
_SECONDS_BETWEEN_REOPENS = 1.0
_CLOSED_MESSAGE = "the store is closed: the gateway is stopping, or waits for room"


class Change(Request[Any]):
    """One caller's change: `prepare` puts it in a batch, and returns what the caller gets once the batch is written."""

    __slots__ = ("prepare",)

    def __init__(self, prepare: Callable[[WriteBatch], Any]) -> None:
        super().__init__()
        self.prepare = prepare


class Database:
    """A key-value database that keeps its keys in order; with `is_synced`, each write waits for the disk."""

    def __init__(self, folder: Path, *, is_synced: bool) -> None:
        self._folder = StoreFolder(folder)
        self._is_synced = is_synced
        self._failure: Exception | None = None
        self._reopen_at = 0.0
        #: While this is true, an iterator outside of `run_in_reader` would keep the old database open.
        self.is_reopening = False
        self._reader = WorkerThread("gateway-store-reads")

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether a folder has a database."""
        return (folder / _DATABASE / "CURRENT").is_file()

    async def open(self) -> None:
        """Lock the folder and open the database."""
        with ExitStack() as on_failure:
            on_failure.callback(self._release)
            await self.run_in_reader(self._folder.acquire)
            await self.run_in_reader(self._open)
            on_failure.pop_all()

    async def close(self) -> None:
        try:
            await self.run_in_reader(self._close)
        finally:
            self._release()

    async def reopen(self) -> None:
        """Reopen the database after a failed write, as RocksDB refuses further writes until then.

        Raises StoreUnavailable while the disk has no room, and within a second of the last attempt.
        """
        if time.monotonic() < self._reopen_at:
            raise StoreUnavailable(str(self._failure))
        self.is_reopening = True
        try:
            await self.run_in_reader(self._reopen)
        except StoreUnavailable as error:
            self._failure = error
            raise
        finally:
            self.is_reopening = False
            self._reopen_at = time.monotonic() + _SECONDS_BETWEEN_REOPENS

    def run_in_reader(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Run a job in the reader thread."""
        return self._reader.run(job) if self._reader.is_alive else failed_future(StoreUnavailable(_CLOSED_MESSAGE))

    def write(self, batch: WriteBatch) -> None:
        """Write and sync all of a batch; after OutcomeUnknown, all of it or none is there once it is reopened."""
        try:
            with self._adapted_errors():
                self._rocks.write(batch)
                if self._is_synced:
                    # Not by an option of `write`, which keeps Python's global lock until the disk answers: the other
                    # threads of a notebook's process would stand still.
                    self._rocks.flush_wal(sync=True)
        except StoreUnavailable as error:
            self._failure = error
            raise OutcomeUnknown(str(error)) from None

    @property
    def last_change(self) -> int:
        """The number of the last change; it only grows, also over restarts."""
        with self._adapted_errors():
            return int(self._rocks.latest_sequence_number())

    def get(self, key: bytes) -> bytes | None:
        with self._adapted_errors():
            value: bytes | None = self._rocks.get(key)
            return value

    def items(
        self, prefix: bytes, start: bytes = b"", *, backwards: bool = False
    ) -> Generator[tuple[bytes, bytes], None, None]:
        """Yield the keys that begin with `prefix`, with their values, from the key `start` or the first one on.

        With `backwards`, go from the key `start` or the last one down to the first. Close it if you do not read it to
        its end: after an error, a generator that waits would keep the database open.
        """
        with self._adapted_errors():
            cursor = self._rocks.iter()
            if backwards:
                cursor.seek_for_prev(start or prefix + b"\xff" * 16)
            else:
                cursor.seek(start or prefix)
            is_valid, key_of, value_of = cursor.valid, cursor.key, cursor.value
            move_on = cursor.prev if backwards else cursor.next
            try:
                while is_valid() and (key := key_of()).startswith(prefix):
                    yield key, value_of()
                    move_on()
                cursor.status()  # raises if the loop ended at a damaged block
            finally:  # an exception keeps the frames it came through, and an iterator keeps the database open
                del cursor, is_valid, key_of, value_of, move_on

    # -- in the reader thread -----------------------------------------------------------------------------

    def _open(self) -> None:
        with self._adapted_errors():
            self._rocks = Rdict(str(self._folder.files), _options())

    def _reopen(self) -> None:
        # Check before closing: a database that then cannot be opened could not be read either.
        self._folder.check_room(sum(log.stat().st_size for log in self._folder.logs()) + _ROOM_TO_OPEN)
        self._close()
        self._open()

    def _close(self) -> None:
        with suppress(StoreUnavailable), self._adapted_errors():  # after a failed write, closing raises that error too
            self._rocks.close()

    def _release(self) -> None:
        self._reader.end()
        self._folder.release()

    @contextmanager
    def _adapted_errors(self) -> Iterator[None]:
        try:
            yield
        except DbClosedError:
            raise StoreUnavailable(_CLOSED_MESSAGE) from None
        except Exception as error:  # rocksdict raises nothing more precise
            raise StoreUnavailable(self._explained(str(error))) from None

    def _explained(self, text: str) -> str:
        if not text.startswith("Corruption"):
            return f"the store in {self._folder.path} cannot be used: {text}"
        if str(self._folder.files) not in text:  # RocksDB does not name the log whose checksum is wrong
            text += f" (in {', '.join(map(str, self._folder.logs()))})"
        return f"a file of the store in {self._folder.path} is damaged: {text}; restore the folder from a backup"


class StoreFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / _DATABASE
        self._lock = filelock.FileLock(path / "gateway.lock", timeout=0, mode=0o600, thread_local=False)
        self._holder = path / "gateway.pid"

    def acquire(self) -> None:
        """Make and lock the folder; raise StoreUnavailable if it is held or cannot be written.

        After an error, release it: it may be locked.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire()
            _make_private(self.path)
            self._holder.write_text(f"{os.getpid()}\n", "ascii")
            self.files.mkdir(mode=0o700, exist_ok=True)
            _make_private(self.files)
        except filelock.Timeout:
            raise FolderInUse(f"the folder {self.path} is in use by {self._holder_name()}") from None
        except OSError as error:
            raise StoreUnavailable(f"the folder {self.path} cannot be used: {error}") from None

    def release(self) -> None:
        """Unlock the folder, if this process holds it."""
        if self._lock.is_locked:
            with suppress(OSError):
                self._holder.unlink(missing_ok=True)
            self._lock.release()

    def check_room(self, size: int) -> None:
        """Write a file of this size and remove it: neither quotas nor limits show in the free space of a disk."""
        try:
            with tempfile.TemporaryFile(dir=self.path) as probe:
                probe.write(bytes(size))
                probe.flush()
                os.fsync(probe.fileno())
        except OSError as error:
            raise StoreUnavailable(f"the store cannot write to {self.path}: {error.strerror}; free some room") from None

    def logs(self) -> list[Path]:
        """Return the write-ahead logs, the oldest first."""
        return sorted(self.files.glob("*.log"))

    def _holder_name(self) -> str:
        try:
            number = int(self._holder.read_text())
            return "a gateway of this process" if number == os.getpid() else f"the gateway with process id {number}"
        except (OSError, ValueError):  # the other gateway has not written its id yet
            return "another gateway"


def damaged_row(key: bytes) -> StoreUnavailable:
    return StoreUnavailable(f"the row {key[:80]!r} of the store is too short: restore the folder from a backup")


def _make_private(folder: Path) -> None:
    if os.name != "posix" or not stat.S_IMODE(folder.stat().st_mode) & 0o077:
        return
    try:
        folder.chmod(0o700)
    except OSError as error:
        raise StoreUnavailable(
            f"other users may use the folder {folder}, and this process cannot change that ({error.strerror}): "
            "make it accessible to its owner only (chmod 700), or choose another folder"
        ) from None


def _options() -> Options:
    options, _ = Options.load_latest(str(_OPTIONS), ignore_unknown_options=True)
    options.create_if_missing(True)
    # A torn end of the live log is a write that was interrupted, and so was never acknowledged.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    # RocksDB takes a truncated MANIFEST for an interrupted write, unless it has one change only: so each has one.
    options.set_max_manifest_file_size(1)
    options.set_write_buffer_size(WRITE_BUFFER)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_INFO_LOG)
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(_BLOCK_CACHE))
    tables.set_bloom_filter(10, False)
    options.set_block_based_table_factory(tables)
    return options
