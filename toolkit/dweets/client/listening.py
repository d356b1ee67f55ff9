"""Listen to a thing: an iterator that reconnects and resumes, without loss or duplicate."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from toolkit.dweets.checked_values import checked_count
from toolkit.dweets.stream_format import RECONNECT_WAITS, EventReader, FrameReader
from toolkit.errors import InvalidArgument, ServiceFailure, ToolkitError, UnexpectedReply, Unreachable, warn_caller
from toolkit.http_client import HttpStream
from toolkit.public_api import Closable, PublicNames

if TYPE_CHECKING:
    import pandas as pd

# If a stream lasted less than this, the server ended the stream at once.
_SHORT_STREAM_SECONDS = 1.0
#: After these errors a listener connects again; the last one is from a proxy whose gateway is gone.
_PASSING_ERRORS = (Unreachable, ServiceFailure, UnexpectedReply)


class Dweet(NamedTuple):
    """One dweet of a live stream: ``time`` is ISO 8601 in UTC, ``content`` the JSON value.

    ``sequence`` is the sequence number to resume after; None if the server does not send it.
    """

    thing: str
    time: str
    content: Any
    sequence: int | None

    @property
    def created(self) -> pd.Timestamp:
        """The time as a Timestamp in UTC."""
        from toolkit.frames import utc_from_iso  # pandas takes a second: `toolkit tail` needs no Timestamp

        return utc_from_iso([self.time])[0]

    def record(self) -> dict[str, Any]:
        """Return a dict with ``thing``, ``created`` and ``content``, as in a response of the service."""
        return {"thing": self.thing, "created": self.time, "content": self.content}


class Listener(PublicNames, Closable):
    """Iterate over the dweets of a thing as they arrive. Returned by ``tk.dweets.listen``.

    The listener reconnects and resumes after the last dweet. `close` may be called from any thread.

    Attributes
    ----------
    on_connection
        Called with False when the connection is lost and with True after a reconnection, in the thread that iterates.
    on_unknown
        Called with a sentence if the thing has no dweet yet, and a public thing has nearly its name; by default, the
        sentence becomes a warning.
    position : int or None
        The sequence number of the last dweet; pass it as ``since`` to resume later.
    problem : ToolkitError or None
        Why the last attempt to connect failed, while there is no connection.

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.connect() as tk, tk.dweets.listen("door") as doors:
    ...     _ = tk.dweets.post("door", {"open": True})
    ...     next(doors).content
    {'open': True}
    """

    def __init__(
        self,
        open_stream: Callable[[int | None], HttpStream],
        since: int | None,
        patience: float,
        misspelt: Callable[[], str] = lambda: "",
    ) -> None:
        if since is not None and since < 0:
            raise InvalidArgument(f"since is a sequence number, 0 or more, not {since}")
        self._open_stream = open_stream
        self._patience = patience
        self._closed = threading.Event()
        self.position = since
        self.problem: ToolkitError | None = None
        self._stream: HttpStream | None = None
        try:
            self._stream = open_stream(since)  # raises at once if the service refuses
        except _PASSING_ERRORS as error:
            if patience < math.inf:
                raise
            self.problem = error
        self.on_connection: Callable[[bool], object] = lambda connected: None
        self.on_unknown: Callable[[str], object] = warn_caller
        self._misspelt = misspelt
        self._dweets = self._read()

    def __repr__(self) -> str:
        state = "closed" if self._closed.is_set() else "connected" if self._stream else "reconnecting"
        return f"<Listener, {state}>"

    def __iter__(self) -> Iterator[Dweet]:
        return self

    def __next__(self) -> Dweet:
        return next(self._dweets)

    @property
    def is_connected(self) -> bool:
        """Whether the stream is open. A closed stream is reopened by an iteration, but not after `close`."""
        return self._stream is not None and not self._closed.is_set()

    def close(self) -> None:
        """End the stream; an iteration in another thread stops. Calling it again is fine."""
        self._closed.set()
        stream = self._stream
        if stream is not None:
            stream.stop()
        try:
            self._dweets.close()
        except ValueError:
            return  # another thread is reading: that thread wakes up and ends the stream
        if stream is not None:
            stream.close()

    def _read(self) -> Generator[Dweet, None, None]:
        if self._stream is None:
            self._set_stream(self._reconnect(1))
        attempts = 0
        while self._stream is not None and not self._closed.is_set():
            began = time.monotonic()
            yield from self._dweets_until_broken(self._stream)
            self._set_stream(None)
            # A server that ends every stream at once counts as one that cannot be reached.
            attempts = attempts + 1 if time.monotonic() - began < _SHORT_STREAM_SECONDS else 0
            self._set_stream(self._reconnect(attempts))

    def _set_stream(self, stream: HttpStream | None) -> None:
        self._stream, self.problem = stream, None
        if not self._closed.is_set():
            self.on_connection(stream is not None)

    def _dweets_until_broken(self, stream: HttpStream) -> Iterator[Dweet]:
        reader = EventReader() if "event-stream" in stream.content_type else FrameReader()
        try:
            for piece in stream:
                for streamed in reader.feed(piece):
                    self.position = self.position if streamed.sequence is None else streamed.sequence
                    if self._closed.is_set():
                        return
                    record = orjson.loads(streamed.record)
                    datetime.strptime(record["created"], "%Y-%m-%dT%H:%M:%S.%fZ")  # ValueError: another time format
                    yield Dweet(record["thing"], record["created"], record["content"], streamed.sequence)
                if isinstance(reader, EventReader) and reader.last_id is not None:
                    is_first, self.position = self.position is None, reader.last_id
                    if is_first and self.position == 0 and (text := self._misspelt()):
                        self.on_unknown(text)
        except Unreachable:
            return  # the reconnection raises if the server stays away
        except (ValueError, KeyError, TypeError):
            raise UnexpectedReply("the stream is not in the form of a dweet stream") from None

    def _reconnect(self, attempts: int) -> HttpStream | None:
        """Open a stream, or return None if the listener is closed. Wait first if attempts have failed before."""
        began = time.monotonic()
        while not self._closed.wait(RECONNECT_WAITS[min(attempts, len(RECONNECT_WAITS)) - 1] if attempts else 0):
            attempts += 1
            try:
                stream = self._open_stream(self.position)
            except _PASSING_ERRORS as error:
                if time.monotonic() - began >= self._patience:
                    raise
                self.problem = error
                continue
            if not self._closed.is_set():
                return stream
            stream.close()  # the listener was closed while it connected
        return None


def collect_records(listen: Callable[[], Listener], n: int | None, seconds: float | None) -> list[dict[str, Any]]:
    """Return the records of the dweets that arrive, until there are `n` or `seconds` have passed."""
    if n is None and seconds is None:
        raise InvalidArgument("say when to stop: give n, seconds or both")
    if seconds is not None and not seconds >= 0:
        raise InvalidArgument(f"seconds is a number of 0 or more, not {seconds}")
    n = None if n is None else checked_count(n)
    with listen() as listener:
        timer = threading.Timer(min(math.inf if seconds is None else seconds, threading.TIMEOUT_MAX), listener.close)
        timer.daemon = True
        timer.start()
        try:
            return [dweet.record() for dweet in islice(listener, n)]
        finally:
            timer.cancel()
