"""Record things into an archive: streams on one side, files on the other, and a buffer of bounded size between."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from toolkit.dweets.archive.recorded_thing import OpenStream, RecordedThing
from toolkit.dweets.archive.rows import Row
from toolkit.dweets.archive.writer import ArchiveWriter
from toolkit.errors import ArchiveUnusable

log = logging.getLogger("toolkit.recording")

# So many times what is written at once may wait in memory; then the streams wait too.
_MOST_WAITING = 4
_MOST_BYTES = 64 * 1024 * 1024
# A share of the time that writing may take: with very many things each file holds more rows instead.
_PAUSE_FACTOR = 4.0


class _Waiting:
    """Rows on their way to the disk, by thing and epoch in the order of their arrival."""

    def __init__(self, rows: int) -> None:
        self._at_once = rows
        self._rows: dict[tuple[str, int], list[Row]] = {}
        self._count = self._bytes = 0
        self._is_open = True
        self.changed = threading.Condition()

    def put(self, thing: str, epoch: int, row: Row) -> None:
        """Add a row; waits while too many are there."""
        with self.changed:
            self.changed.wait_for(lambda: not self._is_open or not self._is_too_much())
            if not self._is_open:
                return  # it is not archived, and so comes again next time
            self._rows.setdefault((thing, epoch), []).append(row)
            self._count += 1
            self._bytes += len(row.content)
            if self.is_due:
                self.changed.notify_all()

    def __len__(self) -> int:
        return self._count

    def _is_too_much(self) -> bool:
        return self._count >= _MOST_WAITING * self._at_once or self._bytes >= _MOST_BYTES

    @property
    def is_due(self) -> bool:
        """Whether so many are there that they are written at once."""
        return self._count >= self._at_once or self._bytes >= _MOST_BYTES // 2

    def all(self) -> dict[tuple[str, int], list[Row]]:
        """Return what is there now; it stays until it is `written`."""
        with self.changed:
            return {key: list(rows) for key, rows in self._rows.items()}

    def written(self, key: tuple[str, int], rows: Sequence[Row]) -> None:
        """Forget rows that are on disk."""
        with self.changed:
            rest = self._rows[key][len(rows) :]
            if rest:
                self._rows[key] = rest
            else:
                del self._rows[key]
            self._count -= len(rows)
            self._bytes -= sum(len(row.content) for row in rows)
            self.changed.notify_all()

    def close(self) -> None:
        """Take no more rows, and let go of who waits to give one."""
        with self.changed:
            self._is_open = False
            self.changed.notify_all()


class Recording:
    """Things on their way into an archive. Made by ``tk.dweets.record``; runs by itself until `stop`.

    Parameters
    ----------
    open_stream
        Opens the stream of a thing after a sequence number.
    things, folder
        What is recorded, and where to.
    seconds, rows
        When what has come is written.

    Raises
    ------
    ToolkitError
        The folder cannot be written, or the server refuses a thing.
    """

    def __init__(
        self, open_stream: OpenStream, things: Sequence[str], folder: Path, *, seconds: float, rows: int
    ) -> None:
        self.folder = folder
        self._seconds = seconds
        self._waiting = _Waiting(rows)
        self._written = 0
        self._complaint = ""
        self._stopped = threading.Event()
        self._writing = threading.Lock()
        self._writer = ArchiveWriter(folder)
        try:
            self._writer.clean()
            self._things = [self._thing(name, open_stream) for name in things]
            for thing in self._things:
                thing.check()
        except BaseException:
            self._writer.close()
            raise
        self._flusher = threading.Thread(target=self._flush_now_and_then, name="recording", daemon=True)
        for thing in self._things:
            thing.start()
        self._flusher.start()

    def _thing(self, name: str, open_stream: OpenStream) -> RecordedThing:
        writer = self._writer
        return RecordedThing(name, open_stream, self._waiting.put, writer.position(name), writer.last(name))

    @property
    def dweets(self) -> int:
        """How many dweets this recording has written so far."""
        return self._written

    def flush(self) -> int:
        """Write what has come so far and return `dweets`.

        Raises
        ------
        ArchiveUnusable
            The disk does not take it. It is tried again later; what does not fit into memory stays at the server.
        """
        failure: ArchiveUnusable | None = None
        with self._writing:
            for key, rows in self._waiting.all().items():
                try:
                    self._write(*key, rows)
                except ArchiveUnusable as error:  # of one thing perhaps: the others are written all the same
                    failure = error
        if failure is not None:
            raise failure
        return self._written

    def _write(self, thing: str, epoch: int, rows: list[Row]) -> None:
        self._writer.append(thing, rows, epoch)
        self._written += len(rows)
        self._waiting.written((thing, epoch), rows)
        self._writer.join(thing)

    def wait(self, dweets: int, timeout: float = 30.0) -> int:
        """Wait until so many dweets are written, write them sooner than usual, and return how many are.

        Raises
        ------
        TimeoutError
            They have not come within `timeout` seconds.
        """
        until = time.monotonic() + timeout
        while self._written + len(self._waiting) < dweets:
            if self._stopped.wait(0.01) or time.monotonic() > until:
                raise TimeoutError(f"{self._written} of {dweets} dweets recorded after {timeout} seconds")
        return self.flush()

    def stop(self) -> int:
        """Write what has come, end all streams, and return `dweets`. Calling it again is fine.

        Raises
        ------
        ArchiveUnusable
            The disk did not take the last ones; they are still at the server, for the next recording.
        """
        if self._stopped.is_set():
            return self._written
        self._stopped.set()
        self._waiting.close()
        for thing in self._things:
            thing.stop()
        for thing in self._things:
            thing.join()
        self._flusher.join()
        try:
            return self.flush()
        finally:
            self._writer.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else "running"
        return f"<Recording of {len(self._things)} things to {self.folder}, {self._written:,} dweets, {state}>"

    def _flush_now_and_then(self) -> None:
        pause = self._seconds
        while not self._stopped.is_set():
            with self._waiting.changed:
                self._waiting.changed.wait_for(lambda: self._stopped.is_set() or self._waiting.is_due, pause)
            began = time.monotonic()
            try:
                self.flush()
                self._complaint = ""
            except ArchiveUnusable as error:
                if str(error) != self._complaint:
                    log.error("%s; what comes waits at the server, trying again", error)
                self._complaint = str(error)
                self._stopped.wait(self._seconds)
            pause = max(self._seconds, _PAUSE_FACTOR * (time.monotonic() - began))
