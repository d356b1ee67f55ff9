"""What the modules of a connection share: its limits, and what its other parts may ask of it and of its stream.

`Connections` and the handlers of streams know a connection only by these protocols, so that no two modules import each
other: `HttpProtocol` and `HttpStream` implement them.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

#: A deadline that is not set.
NEVER = float("inf")


class Bound(NamedTuple):
    """How much callers may hold: all of them in total, and those of one address."""

    in_total: int
    of_one: int


@dataclass
class Limits:
    """Sizes in bytes, times in seconds; a test sets some of them."""

    #: Open connections. 2,000 listeners and 500 callers of this machine are one address.
    connections: Bound = Bound(10_000, 8_000)
    #: Memory of all requests that arrive, wait or are answered, heads and bodies; a batch of dweets has up to 8 MiB.
    request_bytes: Bound = Bound(128 * 1024 * 1024, 96 * 1024 * 1024)
    #: Answers that are late on purpose, after too many wrong keys.
    late_answers: Bound = Bound(1_000, 100)
    #: How long the connections of one address work before others have their turn.
    turn_seconds: float = 0.01
    #: Size of the head of a request; as much again for what is neither head nor body (trailers, chunk extensions). On
    #: routes with `Route.has_long_query` it is the larger one.
    head_bytes: int = 32 * 1024
    long_head_bytes: int = 256 * 1024
    #: Number of headers of a request, and of fields in its query.
    headers: int = 100
    query_fields: int = 10_000
    #: Size of a body where none is expected, and of the input after a refusal; both are read and dropped.
    dropped_bytes: int = 512 * 1024 * 1024
    #: Number of requests of a connection that wait for the one before them, and their size; then no more is read.
    waiting: int = 16
    waiting_bytes: int = 256 * 1024
    #: Size of input that is not parsed yet; then no more is read.
    unparsed_bytes: int = 64 * 1024
    #: Size of what a listener has not read yet; above it the listener is disconnected, and resumes with ``since``.
    stream_bytes: int = 4 * 1024 * 1024
    #: Size of all responses that their callers have not read yet; above it the slowest callers are disconnected.
    unread_bytes: int = 256 * 1024 * 1024
    #: How long the head of a request may take to arrive, and then its body.
    request_seconds: float = 30.0
    #: How long a connection stays open between two requests.
    idle_seconds: float = 75.0
    #: How long a caller may take to read a response: this time, and a second more per `write_rate` bytes.
    write_seconds: float = 60.0
    write_rate: float = 256 * 1024
    #: How long a connection stays open after the body of a request was refused, so that its client notices.
    drop_seconds: float = 10.0
    #: How long a stream is silent before it sends a heartbeat.
    heartbeat_seconds: float = 15.0
    #: How long the reader of a stream that is ended may take to read the rest.
    end_seconds: float = 1.0
    #: How long a server that stops waits for all connections to end.
    grace_seconds: float = 3.0


LIMITS = Limits()


class StreamWriter(Protocol):
    """The caller's end of a stream, as the handler that writes the stream sees it."""

    def write(self, *pieces: bytes) -> None:
        """Send the pieces without blocking; a reader who leaves too much unread is disconnected."""

    async def drain(self) -> None:
        """Wait until the reader has room for more."""

    def end(self) -> None:
        """Send the end of the stream."""


class OpenConnection(Protocol):
    """A connection, as `Connections` and `Accounts` see it."""

    #: The large body of the response that the caller is reading.
    unread_body: bytes

    @property
    def buffered_bytes(self) -> int:
        """Size of what is not sent yet; 0 if that is `unread_body`."""

    def take_turn(self) -> bool:
        """Do some of what there is to do, and return whether more is left."""

    def check_deadlines(self, now: float) -> None:
        """End whatever has taken too long."""

    def finish(self) -> None:
        """Accept no more requests, and close once those that came are answered."""

    def abort(self) -> None:
        """Close at once, and drop what is not sent and what is not answered."""
