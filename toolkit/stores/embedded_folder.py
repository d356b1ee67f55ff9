"""The folder of an embedded store: who holds it, and what is checked before RocksDB opens it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import filelock

from toolkit.stores import FolderInUse, StoreUnavailable

_OLDER_FILE = "gateway.sqlite"


class StoreFolder:
    """A folder that one process holds at a time; made if missing, for its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "rocksdb"
        self._lock = filelock.FileLock(path / "gateway.lock", timeout=0, mode=0o600, thread_local=False)
        self._holder = path / "gateway.pid"
        self._note = path / "manifest.size"
        self._noted, self._manifest = ("", 0), ""

    def acquire(self) -> None:
        """Lock the folder, unless another process holds it, it cannot be written, or it is of an older layout."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (self.path / _OLDER_FILE).exists():
                raise StoreUnavailable(
                    f"the folder {self.path} was written by a development version before 0.1 ({_OLDER_FILE}), "
                    "which this version cannot read: choose another folder, or remove that file with all its dweets"
                )
            self._lock.acquire()
            self._holder.write_text(f"{os.getpid()}\n")
            self.files.mkdir(mode=0o700, exist_ok=True)
            self.files.chmod(0o700)
        except filelock.Timeout:
            raise FolderInUse(f"the folder {self.path} is in use by {self._who()}") from None
        except OSError as error:
            self.release()
            raise StoreUnavailable(f"the folder {self.path} cannot be used: {error}") from None

    def release(self) -> None:
        """Unlock the folder, if this process holds it."""
        if self._lock.is_locked:
            with suppress(OSError):
                self._holder.unlink(missing_ok=True)
            self._lock.release()

    def check_manifest(self) -> None:
        """Refuse a MANIFEST that is shorter than it was: RocksDB takes that for an interrupted write.

        It would forget, and then remove, the files that the missing part names.
        """
        with suppress(OSError, ValueError):  # no note, or one that was being written
            name, size = self._note.read_text().split()
            found = (self.files / name).stat().st_size
            if found < int(size):
                raise StoreUnavailable(
                    f"the file {self.files / name} is damaged: it has {found} bytes and had {size}; "
                    "restore the folder from a backup"
                )

    def note_manifest(self) -> None:
        """Write down how long the MANIFEST is, if that has changed. It grows with every file of RocksDB."""
        with suppress(OSError):  # full disk: what was noted before is still true, as a MANIFEST only grows
            name = self._noted[0]
            try:  # with every batch: so one system call where nothing has changed
                fresh_size = os.stat(self._manifest).st_size
            except FileNotFoundError:
                name = (self.files / "CURRENT").read_text().strip()
                self._manifest = str(self.files / name)
                fresh_size = os.stat(self._manifest).st_size
            if (name, fresh_size) != self._noted:
                fresh = self._note.with_suffix(".new")
                fresh.write_text(f"{name} {fresh_size}\n")
                fresh.replace(self._note)
                self._noted = name, fresh_size

    def check_room(self, size: int) -> None:
        """Write and remove a file of this size: neither quotas nor limits show in the free space of a disk."""
        probe = self.path / "room.probe"
        try:
            with probe.open("wb") as file:
                file.write(bytes(size))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreUnavailable(f"the store cannot write to {self.path}: {error.strerror}; free some room") from None
        finally:
            with suppress(OSError):
                probe.unlink(missing_ok=True)

    def size_of_logs(self) -> int:
        """Return how large the write-ahead logs are, which RocksDB writes to tables when it opens them."""
        return sum(file.stat().st_size for file in self.files.glob("*.log"))

    def names_of_logs(self) -> str:
        """Return the names of the write-ahead logs, for a message."""
        return ", ".join(str(file) for file in sorted(self.files.glob("*.log")))

    def _who(self) -> str:
        try:
            return f"the gateway with process id {int(self._holder.read_text())}"
        except (OSError, ValueError):  # it has only just locked the folder
            return "another gateway"
