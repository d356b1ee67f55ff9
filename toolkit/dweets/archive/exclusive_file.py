"""A lock on a folder that dies with its process: a file that one process holds open."""

from __future__ import annotations

import os
import sys
from pathlib import Path


class HeldElsewhere(Exception):
    """Another process holds the file, or another part of this one."""


class ExclusiveFile:
    """Hold a file until `release` or the end of the process, however it ends. The file itself stays and is empty.

    Raises
    ------
    HeldElsewhere
        Somebody else holds it.
    OSError
        It cannot be opened.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     held = ExclusiveFile(Path(folder) / "lock")
    ...     try:
    ...         ExclusiveFile(Path(folder) / "lock")
    ...     except HeldElsewhere:
    ...         print("held")
    ...     held.release()
    held
    """

    def __init__(self, path: Path) -> None:
        self._number: int | None = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            _lock(self._number)
        except OSError:
            self.release()
            raise HeldElsewhere(str(path)) from None

    def release(self) -> None:
        """Let go of it. Calling it again is fine."""
        if self._number is not None:
            os.close(self._number)
            self._number = None


if sys.platform == "win32":
    import msvcrt

    def _lock(number: int) -> None:
        msvcrt.locking(number, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(number: int) -> None:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
