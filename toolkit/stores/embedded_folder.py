"""The folder of an embedded store: one process holds it at a time, and only its owner may use it."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import filelock

from toolkit.errors import FolderInUse, StoreUnavailable

_OLDER = ("gateway.sqlite", "rocksdb")


class StoreFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = path / "database"
        self._lock = filelock.FileLock(path / "gateway.lock", timeout=0, mode=0o600, thread_local=False)
        self._holder = path / "gateway.pid"

    def acquire(self) -> None:
        """Make and lock the folder; raise StoreUnavailable if it is held, cannot be written, or has an older layout."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if older := [name for name in _OLDER if (self.path / name).exists()]:
                raise StoreUnavailable(
                    f"the folder {self.path} was written by a development version before 0.1 ({older[0]}), "
                    f"which this version cannot read: choose another folder, or remove {older[0]} with all its dweets"
                )
            self._lock.acquire()
            _close_to_others(self.path)
            # Not through a link: it may be another user's, from the time before the folder was closed to others.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(self._holder, flags, 0o600), "w", encoding="ascii") as holder:
                holder.write(f"{os.getpid()}\n")
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
            return f"the gateway with process id {int(self._holder.read_text())}"
        except (OSError, ValueError):  # it has only just locked the folder
            return "another gateway"


def _close_to_others(folder: Path) -> None:
    if os.name != "posix" or not stat.S_IMODE(folder.stat().st_mode) & 0o077:
        return
    try:
        folder.chmod(0o700)
    except OSError as error:
        raise StoreUnavailable(
            f"other users may use the folder {folder}, and this process cannot change that ({error.strerror}): "
            "make it accessible to its owner only (chmod 700), or choose another folder"
        ) from None
