"""The source of a recorder: the event streams of things, with one thread each."""

import logging
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import orjson

from toolkit.dweets.archive.follower import Batch, Follower, Progress
from toolkit.dweets.archive.parquet_files import Row
from toolkit.dweets.archive.writer import ArchiveWriter
from toolkit.dweets.content import content_of
from toolkit.dweets.stream_format import RECONNECT_WAITS, EventReader, StreamedDweet
from toolkit.errors import ConnectionClosed, InvalidArgument, ToolkitError, UnexpectedReply, Unreachable
from toolkit.http_client import HttpStream

log = logging.getLogger("toolkit.recording")

#: Opens the stream of a thing with the dweets after this sequence number; if it is None, with new dweets only.
OpenStream = Callable[[int | None], HttpStream]

# The streams wait while the buffer holds the rows of this many writes, or this many bytes.
_MOST_WRITES = 4
_MOST_BYTES = 64 * 1024 * 1024
_UNIX_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def start_recorder(streams: Mapping[str, OpenStream], folder: Path, seconds: float, rows: int) -> Follower:
    """Write to an archive after `seconds`, or after `rows` dweets; ToolkitError if the server refuses a thing."""
    if not streams:
        raise InvalidArgument("name at least one thing to record")
    if not (seconds > 0 and rows > 0):
        raise InvalidArgument("seconds and rows must be above 0")
    return Follower(folder, HttpSource(streams, rows), seconds, log)


class HttpSource:
    """Collects the dweets of things in a buffer, and asks for a write after `rows` of them."""

    def __init__(self, streams: Mapping[str, OpenStream], rows: int) -> None:
        self.received = self._row_count = self._byte_count = 0
        self._stream_openers = streams
        self._rows_per_write = rows
        self._rows: dict[str, list[tuple[int, Row]]] = {thing: [] for thing in streams}
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._streams: dict[str, HttpStream] = {}
        self._threads: list[threading.Thread] = []

    def open(self, writer: ArchiveWriter, wake: Callable[[], None]) -> None:
        self._wake = wake
        for thing in self._stream_openers:
            self._last_number(thing)  # raises if the server refuses the thing
            progress = Progress(thing, writer.position(thing), writer.last(thing), log)
            self._threads.append(threading.Thread(target=self._receive, args=(progress,), daemon=True))
        for thread in self._threads:
            thread.start()

    def _put(self, thing: str, epoch: int, row: Row) -> None:
        with self._changed:
            while self._row_count >= _MOST_WRITES * self._rows_per_write or self._byte_count >= _MOST_BYTES:
                if self._stopped.is_set():
                    return  # the next recorder receives this row, because it is not archived
                self._changed.wait()
            self._rows[thing].append((epoch, row))
            self.received += 1
            self._row_count += 1
            self._byte_count += len(row.content)
            if self._row_count >= self._rows_per_write or self._byte_count >= _MOST_BYTES // 2:
                self._wake()

    def things(self, *, complete: bool) -> Iterable[str]:  # always complete: the buffer holds all that was received
        return [thing for thing, rows in self._rows.items() if rows]

    def batches(self, thing: str) -> Generator[Batch]:
        waiting = self._rows[thing].copy()
        for epoch, pairs in groupby(waiting, key=itemgetter(0)):
            rows = [row for _, row in pairs]
            yield epoch, rows
            with self._changed:  # the rows stay in the buffer until they are on disk
                del self._rows[thing][: len(rows)]
                self._row_count -= len(rows)
                self._byte_count -= sum(len(row.content) for row in rows)
                self._changed.notify_all()

    def stop(self) -> None:
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        for stream in self._streams.values():
            stream.stop()
        for thread in self._threads:
            thread.join()

    def _receive(self, progress: Progress) -> None:
        attempt, logged = 0, ("", 0)
        while not self._stopped.is_set():
            try:
                if not self._resume(progress):
                    progress.start_epoch()
                    continue
                attempt = 0  # a stream ends when its gateway restarts
            except ConnectionClosed as error:
                log.error("%s is no longer recorded: %s", progress.thing, error)
                return
            except ToolkitError as error:
                news = str(error), progress.sequence  # the same error is logged again after new rows
                if news != logged and not self._stopped.is_set():
                    log.warning("%s: %s; trying again", progress.thing, error)
                logged = news
            self._stopped.wait(RECONNECT_WAITS[min(attempt, len(RECONNECT_WAITS) - 1)])
            attempt += 1

    def _resume(self, progress: Progress) -> bool:
        """Receive rows until the stream ends; return False if the server has other rows than the archive."""
        if self._last_number(progress.thing) < progress.sequence:
            return False
        with closing(self._read(progress.thing, progress.resume_after)) as pieces:
            for row in (row for _, rows in pieces for row in rows):
                if self._stopped.is_set():
                    break
                if row.sequence > progress.sequence:
                    self._put(progress.thing, progress.epoch, row)
                    progress.advance(row)
                elif not progress.recognises(row):
                    return False
        return True

    def _last_number(self, thing: str) -> int:
        """Return the number of the last dweet on the server; ToolkitError if the server refuses the thing."""
        with closing(self._read(thing, None)) as pieces:
            for last, _ in pieces:
                if last is not None:
                    return last
        raise Unreachable(f"the stream of {thing} ended before it began")

    def _read(self, thing: str, since: int | None) -> Generator[tuple[int | None, list[Row]]]:
        """Yield the last sequence number so far (or None) and the rows of each piece of the stream."""
        stream = self._streams[thing] = self._stream_openers[thing](since)
        reader = EventReader()
        try:
            if "event-stream" not in stream.content_type:
                raise UnexpectedReply("the server does not number its dweets, so they cannot be recorded exactly once")
            if self._stopped.is_set():
                stream.stop()
            for piece in stream:
                rows = [_row(streamed) for streamed in reader.feed(piece)]
                yield reader.last_id, rows
        except (ValueError, KeyError, TypeError):
            raise UnexpectedReply("the stream is not a stream of numbered dweets") from None
        finally:
            stream.stop()
            stream.close()


def _row(streamed: StreamedDweet) -> Row:
    if streamed.sequence is None:
        raise ValueError
    at = (datetime.fromisoformat(orjson.loads(streamed.record)["created"]) - _UNIX_EPOCH) // _MICROSECOND
    return Row(streamed.sequence, at, None, content_of(streamed.record))
