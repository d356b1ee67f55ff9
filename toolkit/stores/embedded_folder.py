"""The folder of an embedded store: which process holds it, and what is checked before RocksDB opens it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import filelock

from toolkit.errors import FolderInUse, StoreUnavailable

_OLDER_FILE = "gateway.sqlite"


class StoreFolder:
    """A folder that one process holds at a time; made if missing, for its owner only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "rocksdb"
        self._lock = filelock.FileLock(path / "gateway.lock", timeout=0, mode=0o600, thread_local=False)
        self._holder = path / "gateway.pid"
        self._note = path / "manifest.size"
        self._noted = ""

    def acquire(self) -> None:
        """Lock the folder; raise StoreUnavailable if it is held, cannot be written, or has an older layout."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (self.path / _OLDER_FILE).exists():
                raise StoreUnavailable(
                    f"the folder {self.path} was written by a development version before 0.1 ({_OLDER_FILE}), "
                    "which this version cannot read: choose another folder, or remove that file with all its dweets"
                )
            self._lock.acquire()
            _close_to_others(self.path)
            _write(self._holder, b"%d\n" % os.getpid())
            self.files.mkdir(mode=0o700, exist_ok=True)
            _close_to_others(self.files)
        except filelock.Timeout:
            raise FolderInUse(f"the folder {self.path} is in use by {self._holder_name()}") from None
        except OSError as error:
            self.release()
            raise StoreUnavailable(f"the folder {self.path} cannot be used: {error}") from None
        except StoreUnavailable:
            self.release()
            raise

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
        """Write down how long the MANIFEST is, if that has changed."""
        with suppress(OSError):  # full disk: what was noted before is still true, as a MANIFEST only grows
            name = (self.files / "CURRENT").read_text().strip()
            note = f"{name} {(self.files / name).stat().st_size}\n"
            if note != self._noted:
                fresh = self._note.with_suffix(".new")
                _write(fresh, note.encode())
                fresh.replace(self._note)
                self._noted = note

    def check_room(self, size: int) -> None:
        """Write and remove a file of this size: neither quotas nor limits show in the free space of a disk."""
        probe = self.path / "room.probe"
        try:
            _write(probe, bytes(size))
        except OSError as error:
            raise StoreUnavailable(f"the store cannot write to {self.path}: {error.strerror}; free some room") from None
        finally:
            with suppress(OSError):
                probe.unlink(missing_ok=True)

    def logs(self) -> list[Path]:
        """Return the write-ahead logs, the oldest first."""
        return sorted(self.files.glob("*.log"))

    def _holder_name(self) -> str:
        try:
            return f"the gateway with process id {int(self._holder.read_text())}"
        except (OSError, ValueError):  # it has only just locked the folder
            return "another gateway"


def _close_to_others(folder: Path) -> None:
    """Take the permissions of other users away from a folder that has some."""
    if os.name != "posix" or not stat.S_IMODE(folder.stat().st_mode) & 0o077:
        return
    try:
        folder.chmod(0o700)
    except OSError as error:
        raise StoreUnavailable(
            f"other users may use the folder {folder}, and this process cannot change that ({error.strerror}): "
            "make it accessible to its owner only (chmod 700), or choose another folder"
        ) from None


def _write(file: Path, data: bytes) -> None:
    """Write a file that only its owner may read, and wait for the disk."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
