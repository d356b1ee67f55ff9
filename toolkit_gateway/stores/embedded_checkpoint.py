"""A small file beside the database that says how much the folder must hold, so that the next start notices a loss.

RocksDB takes a log that was cut for an interrupted write, and a missing database for a new one. The file is written at
the start, at a clean stop, after each change of a lock and every few seconds, but no change waits for it: a loss of the
last seconds before a crash is not noticed.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from toolkit.errors import StoreUnavailable, counted
from toolkit.system.files import write_whole

log = logging.getLogger("toolkit_gateway")

_SECONDS_BETWEEN_WRITES = 5.0


class Checkpoint(msgspec.Struct, frozen=True):
    #: The number of the last change, as RocksDB counts them.
    last_change: int
    locks: int
    is_clean: bool = False

    def difference(self, now: "Checkpoint") -> str:
        """Return what is missing now; empty if nothing is."""
        if now.last_change >= self.last_change:
            return ""
        when = "when it was stopped" if self.is_clean else "while its gateway ran"
        return f"it held {self} {when}, and holds {now} now"

    def __str__(self) -> str:
        return f"{counted(self.last_change, 'change')} and {counted(self.locks, 'lock')}"


def checkpoint_file(folder: Path) -> Path:
    return folder / "checkpoint.json"


def read_checkpoint(folder: Path) -> Checkpoint:
    """Return the last checkpoint of a folder; that of an empty folder if it has none."""
    file = checkpoint_file(folder)
    try:
        return msgspec.json.decode(file.read_bytes(), type=Checkpoint)
    except (FileNotFoundError, NotADirectoryError):
        return Checkpoint(0, 0)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        raise StoreUnavailable(
            f"{file} cannot be read, so the gateway does not know what its folder must hold: restore the folder from a "
            "backup, or remove this file if nothing is missing"
        ) from None


class CheckpointWriter:
    """Writes the checkpoints of an open database; `measure` returns None while nobody knows what the database holds."""

    def __init__(
        self,
        folder: Path,
        measure: Callable[[], Checkpoint | None],
        run_in_thread: Callable[[Callable[[], None]], asyncio.Future[None]],
    ) -> None:
        self._file = checkpoint_file(folder)
        self._measure = measure
        self._run_in_thread = run_in_thread
        self._written: Checkpoint | None = None
        self._has_failed = False
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._write(self._measure())
        self._task = asyncio.ensure_future(self._write_regularly())

    def write_soon(self) -> None:
        self._is_due.set()

    async def close(self) -> None:
        """Write the checkpoint of a clean stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if (checkpoint := self._measure()) is not None:
            await self._write(msgspec.structs.replace(checkpoint, is_clean=True))

    async def _write_regularly(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_BETWEEN_WRITES):
                    await self._is_due.wait()
            self._is_due.clear()
            await self._write(self._measure())

    async def _write(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None or checkpoint == self._written:
            return
        try:
            await self._run_in_thread(partial(write_whole, self._file, msgspec.json.encode(checkpoint), 0o600))
            self._written, self._has_failed = checkpoint, False
        except OSError as error:  # the older checkpoint stays, which asks for less
            if not self._has_failed:
                log.warning("a loss of the last changes would not be noticed: %s", error)
            self._has_failed = True
