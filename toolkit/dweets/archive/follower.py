"""The follower: archives the dweets of a source, in a thread, until it is stopped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from toolkit.dweets.archive.file_names import Position, missing_between
from toolkit.dweets.archive.parquet_files import Row
from toolkit.dweets.archive.writer import ArchiveWriter
from toolkit.errors import ArchiveUnusable, StoreUnavailable, TimedOut, counted
from toolkit.public_names import Closable, PublicNames

#: The number of an epoch, and new rows of the epoch in ascending order.
Batch = tuple[int, Sequence[Row]]
#: The followers of this process, by resolved folder.
running_followers: WeakValueDictionary[Path, Follower] = WeakValueDictionary()
# The follower waits at least this many times as long as the last write took (unless woken), for larger files.
_MIN_PAUSE_PER_WRITE = 4.0


class Progress:
    """The position of a thing that is being archived; gaps and new epochs are logged."""

    def __init__(self, thing: str, position: Position, last: Row | None, log: logging.Logger) -> None:
        self.thing = thing
        self.epoch, self.sequence = position
        self._signature = last and _signature(last)
        self._log = log

    @property
    def resume_after(self) -> int:
        """One before the position, so that the last archived row is read again and compared."""
        return max(self.sequence - 1, 0)

    def recognises(self, first: Row | None) -> bool:
        """Whether the server continues the archived epoch; `first` is its first row after `resume_after`, if any."""
        if self.sequence == 0:
            return True
        if first is None or first.sequence < self.sequence:
            return False
        return first.sequence > self.sequence or _signature(first) == self._signature

    def advance(self, row: Row) -> None:
        """Move the position to a row, and log a gap before the row."""
        if missing := missing_between(self.sequence, row.sequence):
            self._log.warning("%s: gap: the server has deleted the dweets %d to %d", self.thing, *missing)
        self.sequence, self._signature = row.sequence, _signature(row)

    def start_epoch(self) -> None:
        """Begin again at number 1, because the server has other rows than the archive."""
        self.epoch, self.sequence, self._signature = self.epoch + 1, 0, None
        self._log.warning("%s: the server restarted its sequence numbers; starting epoch %d", self.thing, self.epoch)


def _signature(row: Row) -> tuple[int, int]:
    # A hash, because contents may be large. White space is unified: an event stream may change line ends.
    return row.at, hash(b" ".join(row.content.split()))


class Source(Protocol):
    """Where a follower gets its rows from; after StoreUnavailable, the follower tries again."""

    received: int  #: rows that were collected so far; 0 if the source collects none

    def open(self, writer: ArchiveWriter, wake: Callable[[], None]) -> None:
        """Start after the last archived row of each thing; ToolkitError if the server refuses a thing.

        The source collects rows in bounded memory; `wake` makes the follower write them soon.
        """

    def things(self, *, complete: bool) -> Iterable[str]:
        """Return the things that may have rows to archive; unless `complete`, for speed, only the likely ones."""

    def batches(self, thing: str) -> Generator[Batch]:
        """Yield the rows of a thing that are not archived. The caller writes each batch before it asks for the next."""

    def stop(self) -> None:
        """Collect no more rows."""


class Follower(PublicNames, Closable):
    """Archives the dweets of a source every `seconds`, or earlier if many wait. Returned by ``tk.dweets.record``.

    Attributes
    ----------
    dweets : int
        The number of dweets written so far.
    """

    def __init__(self, folder: Path, source: Source, seconds: float, log: logging.Logger) -> None:
        self.folder = folder
        self._source = source
        self._seconds = min(seconds, threading.TIMEOUT_MAX)
        self._log = log
        self.dweets = 0
        self._logged_error = ""
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._flushing = threading.Lock()
        self._writer = ArchiveWriter(folder)
        try:
            self._writer.clean()
            source.open(self._writer, self._wake.set)
        except BaseException:
            self._writer.close()
            raise
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
        self._thread.start()
        running_followers[folder.resolve()] = self

    @property
    def received(self) -> int:
        """The number of dweets received so far, written or not."""
        return max(self.dweets, self._source.received)

    def flush(self) -> int:
        """Write the received dweets and return `dweets`.

        Dweets that cannot be written (ArchiveUnusable) are tried again later.
        """
        return self._write(complete=True)

    def _write(self, *, complete: bool) -> int:
        failure: ArchiveUnusable | None = None
        with self._flushing:
            for thing in self._source.things(complete=complete):
                try:
                    self._archive(thing)
                except ArchiveUnusable as error:  # the folder of one thing may be the cause, so go on with the others
                    failure = error
        if failure is not None:
            raise failure
        return self.dweets

    def _archive(self, thing: str) -> None:
        count_before = self.dweets
        with closing(self._source.batches(thing)) as batches:
            for epoch, rows in batches:
                self._writer.append(thing, rows, epoch)
                self.dweets += len(rows)
        if self.dweets > count_before:
            self._writer.merge(thing)

    def wait(self, dweets: int, timeout: float = 30.0) -> int:
        """Wait until this number of dweets is received, write them, return `dweets`; TimedOut at timeout or `close`."""
        deadline = time.monotonic() + timeout
        while self.received < dweets:
            if self._stopped.wait(0.01) or time.monotonic() > deadline:
                raise TimedOut(f"{self.received:,} of {counted(dweets, 'dweet')} received after {timeout:g} s")
        return self.flush()

    def close(self, *, flush: bool = True) -> int:
        """Write the received dweets (unless `flush` is False), unlock the folder, and return `dweets`.

        Dweets that cannot be written (ArchiveUnusable) are still on the server.
        """
        if self._stopped.is_set():
            return self.dweets
        self._stopped.set()
        running_followers.pop(self.folder.resolve(), None)
        self._wake.set()
        self._thread.join()
        self._source.stop()
        try:
            return self.flush() if flush else self.dweets
        finally:
            self._writer.close()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else "running"
        return f"<Follower that writes to {self.folder}, {counted(self.dweets, 'dweet')}, {state}>"

    def _run(self) -> None:
        pause = self._seconds
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._stopped.is_set():
                return
            began = time.monotonic()
            try:
                self._write(complete=False)
                self._logged_error = ""
            except (ArchiveUnusable, StoreUnavailable) as error:
                if str(error) != self._logged_error:
                    self._log.error("%s; nothing is lost, trying again", error)
                self._logged_error = str(error)
                self._stopped.wait(self._seconds)
            pause = max(self._seconds, _MIN_PAUSE_PER_WRITE * (time.monotonic() - began))
