"""One thing being recorded: its stream followed for ever, without loss, without duplicate, also when renumbered."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from toolkit.dweets.archive.files import missing_between
from toolkit.dweets.archive.rows import Row
from toolkit.dweets.archive.writer import Position
from toolkit.dweets.content import content_of
from toolkit.dweets.stream import EventReader, StreamedDweet
from toolkit.errors import ServiceError, ToolkitError, UnexpectedReply, Unreachable
from toolkit.http_session import HttpStream

log = logging.getLogger("toolkit.recording")

OpenStream = Callable[[str, int | None], HttpStream]
Take = Callable[[str, int, Row], None]

# Seconds before each further attempt to connect; the last one is repeated.
_WAITS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_CREATED_LENGTH = len("2026-01-01T00:00:00.000Z")


class _Renumbered(Exception):
    """The server counts anew: it is another one, or has lost what it had."""


class RecordedThing:
    """Follow one thing in a thread of its own.

    Parameters
    ----------
    thing
        Its name.
    open_stream
        Opens its stream after a sequence number, or with only what is new.
    take
        Takes a row and its epoch; may wait, so that a server is not read faster than the disk writes.
    position, last
        How far the thing is archived, and the last row there.
    """

    def __init__(self, thing: str, open_stream: OpenStream, take: Take, position: Position, last: Row | None) -> None:
        self.thing = thing
        self._open_stream = open_stream
        self._take = take
        self._epoch, self._sequence = position
        self._last = last
        self._stopped = threading.Event()
        self._stream: HttpStream | None = None
        self._complaint = ""
        self._thread = threading.Thread(target=self._follow, name=f"recording {thing}", daemon=True)

    def check(self) -> None:
        """Raise what the server refuses, before anything begins."""
        self._last_number()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the stream; `join` waits until the thread has ended."""
        self._stopped.set()
        stream = self._stream
        if stream is not None:
            stream.stop()

    def join(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()

    @property
    def position(self) -> Position:
        """The last row that was taken, on disk or on its way there."""
        return Position(self._epoch, self._sequence)

    # -- connecting ---------------------------------------------------------------------------------------

    def _follow(self) -> None:
        attempt = 0
        while not self._stopped.is_set():
            try:
                self._resume()
                attempt = 0  # the stream ended, as it does when the gateway restarts
            except _Renumbered:
                self._begin_anew()
                continue
            except ToolkitError as error:
                self._complain(error)
            self._stopped.wait(_WAITS[min(attempt, len(_WAITS) - 1)])
            attempt += 1

    def _complain(self, error: ToolkitError) -> None:
        complaint = f"{self.thing}: {error}"
        if complaint != self._complaint and not self._stopped.is_set():
            level = logging.ERROR if isinstance(error, ServiceError) else logging.WARNING
            log.log(level, "%s; trying again until it works", complaint)
        self._complaint = complaint

    def _begin_anew(self) -> None:
        log.warning(
            "%s: the server counts anew (it is another one, or lost what it had); what comes now is epoch %d",
            self.thing,
            self._epoch + 1,
        )
        self._epoch, self._sequence, self._last = self._epoch + 1, 0, None

    def _resume(self) -> None:
        if self._last_number() < self._sequence:
            raise _Renumbered
        # From one before: the first dweet must be the last one we have, or this is not the server that sent it.
        self._read(self._opened(max(self._sequence - 1, 0)))

    def _last_number(self) -> int:
        """Return the number of the last dweet that the server has."""
        stream = self._opened(None)
        reader = EventReader()
        try:
            for piece in stream:
                for _ in _fed(reader, piece):
                    pass
                if reader.last_id is not None:
                    return reader.last_id
        finally:
            stream.stop()
            stream.close()
        raise Unreachable(f"the stream of {self.thing} ended before it began")

    def _opened(self, since: int | None) -> HttpStream:
        stream = self._open_stream(self.thing, since)
        if "event-stream" not in stream.content_type:
            stream.close()
            raise UnexpectedReply("the server does not number its dweets: nothing can be recorded exactly once from it")
        self._stream = stream
        if self._stopped.is_set():
            stream.stop()
        return stream

    # -- reading ------------------------------------------------------------------------------------------

    def _read(self, stream: HttpStream) -> None:
        reader = EventReader()
        try:
            for piece in stream:
                for streamed in _fed(reader, piece):
                    if self._stopped.is_set():
                        return
                    self._arrived(streamed)
        finally:
            stream.close()

    def _arrived(self, streamed: StreamedDweet) -> None:
        row = _row(streamed)
        self._complaint = ""
        if row.sequence <= self._sequence:
            if row.sequence < self._sequence or not _is_same(row, self._last):
                raise _Renumbered
            return
        if missing := missing_between(self._sequence, row.sequence):
            log.warning("%s: the server no longer keeps the dweets %d to %d; they are missing", self.thing, *missing)
        self._take(self.thing, self._epoch, row)
        self._sequence, self._last = row.sequence, row


def _fed(reader: EventReader, piece: bytes) -> Iterator[StreamedDweet]:
    try:
        yield from reader.feed(piece)
    except ValueError:
        raise _unreadable() from None


def _row(streamed: StreamedDweet) -> Row:
    try:
        record: Any = orjson.loads(streamed.record)
        created = record["created"]
        at = (datetime.fromisoformat(created) - _EPOCH) // _MICROSECOND
        content = content_of(streamed.record) if len(created) == _CREATED_LENGTH else orjson.dumps(record["content"])
    except (ValueError, KeyError, TypeError):
        raise _unreadable() from None
    if streamed.sequence is None:
        raise _unreadable()
    return Row(streamed.sequence, at, None, content)


def _unreadable() -> UnexpectedReply:
    return UnexpectedReply("the stream is not in the form of a numbered dweet stream")


def _is_same(row: Row, archived: Row | None) -> bool:
    # A stream of events may write line ends inside of a content otherwise than it was posted.
    return archived is not None and row.at == archived.at and row.content.split() == archived.content.split()
