"""The Store protocol: what services need to keep, and nothing about HTTP or a service's rules.

Every call is made from the gateway's event loop. What a call answers is committed: with a durable store it
survives ``kill -9`` and power loss.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

#: A store whose master died goes on above the next multiple of this, since numbers may have been lost with it.
NUMBERS_PER_EPOCH = 1_000_000_000


class Entry(NamedTuple):
    """One entry of a journal.

    ``sequence`` counts up by one within its journal (a store whose master died may leave numbers out, and uses none
    twice), ``at`` is milliseconds since the epoch, ``id`` is the writer's own identifier.
    """

    sequence: int
    at: int
    id: str
    data: bytes


class NewEntry(NamedTuple):
    """An entry that has no number yet."""

    at: int
    id: str
    data: bytes


Subscriber = Callable[[Sequence[Entry]], None]
#: Values by key; None where there is none.
Values = Mapping[str, bytes | None]


class Journals(Protocol):
    """Named append-only sequences. What is read comes oldest first."""

    def append(
        self, name: str, entries: Sequence[NewEntry], keep: int | None = None, floor: int | None = None
    ) -> Future[list[Entry]]:
        """Append all entries in order or none; done when they are committed.

        With `keep`, older entries than about the last `keep` are dropped now and then; never one of the last `keep`,
        and with `floor` never one numbered above it.
        """

    def last(self, name: str, count: int, below: int | None = None) -> Awaitable[list[Entry]]:
        """Return at most the last `count` entries, of those that are numbered below `below` if it is given."""

    def after(self, name: str, sequence: int, count: int | None = None) -> Awaitable[list[Entry]]:
        """Return the entries numbered above `sequence`, at most `count` of them."""

    def names(self, prefix: str, count: int) -> Awaitable[list[str]]:
        """Return at most `count` names with this prefix, the most recently written first.

        A shared store may order them by times that lag by some seconds.
        """

    def subscribe(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with every entry committed from now on, by any gateway, in order.

        It runs on the event loop and must not block. Returns the call that ends the subscription. What other gateways
        commit while the store cannot be reached comes, in order, once it can be again.
        """

    def is_live(self, name: str) -> bool:
        """Whether subscribers of this name get what is committed now; False while the store cannot be reached."""


class Records(Protocol):
    """Small values by space and key. All changes of one call are made at once, or none.

    `expires` is in milliseconds since the epoch; a value that has expired is not there.
    """

    def get(self, space: str, key: str) -> Awaitable[bytes | None]: ...

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> Future[None]: ...

    def compare_and_set(
        self, space: str, expected: Values, changes: Values, expires: int | None = None
    ) -> Future[bool]:
        """Make all changes if every expected value still stands (None: absent); None in `changes` removes."""

    def increment(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> Future[int]:
        """Add one and return the new count, or 0 and change nothing where it would pass `limit`.

        `expires` is set with the first count and kept by later ones.
        """

    def scan(self, space: str) -> Awaitable[dict[str, bytes]]:
        """Return all values of the space."""

    def subscribe(self, space: str, subscriber: Callable[[str, bytes | None], None]) -> Awaitable[Callable[[], None]]:
        """Call `subscriber` with every present value, then with every committed change (None: removed).

        A change made through this store has reached the subscriber before its own call is answered. Returns the call
        that ends it, or raises StoreUnavailable if the subscriber fails at a present value, and does not call it again.
        """


class Store(Protocol):
    """What a gateway keeps its services' state in."""

    #: Dweets of things, decisions of the reward engine.
    journals: Journals
    #: What survives a restart: locks, alerts, aliases, stock.
    records: Records
    #: Codes, fingerprints, sessions: an embedded store keeps them in memory only; a shared one until they expire.
    ephemeral: Records

    async def open(self) -> None:
        """Make the store ready; the running loop becomes its loop."""

    async def close(self) -> None:
        """Commit what was asked for and close every file, thread and socket."""
