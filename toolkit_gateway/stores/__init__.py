"""The Store protocol: how services keep their state. It knows no HTTP and no rule of a service.

Every call is made from the gateway's event loop. What a call returns is committed: with a durable store it
survives ``kill -9`` and power loss.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

#: After a failover or restart, a shared store continues above the next multiple of this: it may lack some numbers.
NUMBERS_PER_EPOCH = 1_000_000_000


class Entry(NamedTuple):
    """One entry of a journal.

    ``sequence`` counts up by one within its journal (after a failover or restart, a shared store skips numbers, but
    uses none twice), ``at`` is in milliseconds since 1970, ``id`` is an identifier that the writer chooses.
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
#: Values by key; None for a key without a value.
Values = Mapping[str, bytes | None]


class CompareAndSet(NamedTuple):
    """What a commit expects and changes in one space (None: absent, or remove); `expires` is of all new values."""

    space: str
    expected: Values
    changes: Values
    expires: int | None = None
    is_ephemeral: bool = False


class Journals(Protocol):
    """Named append-only sequences. What is read comes oldest first."""

    def append(
        self, name: str, entries: Sequence[NewEntry], keep: int | None = None, floor: int | None = None
    ) -> Future[list[Entry]]:
        """Append all entries in order or none; the future is done when they are committed.

        With `keep`, entries before the last `keep` are dropped from time to time; with `floor`, only those numbered
        up to `floor`.
        """

    def last(self, name: str, count: int, below: int | None = None) -> Awaitable[list[Entry]]:
        """Return the last `count` entries or fewer; with `below`, only of those numbered below it."""

    def after(self, name: str, sequence: int, count: int | None = None) -> Awaitable[list[Entry]]:
        """Return the entries numbered above `sequence`, at most `count` of them."""

    def names(self, prefix: str, count: int) -> Awaitable[list[str]]:
        """Return at most `count` names with this prefix, the most recently written first.

        A shared store may order them by times that lag by some seconds.
        """

    def subscribe(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with every entry committed from now on, by any gateway, in order.

        It runs on the event loop and must not block. Returns a function to unsubscribe. Entries that other
        gateways commit while the store is unreachable arrive, in order, when it can be reached again.
        """

    def is_live(self, name: str) -> bool:
        """Whether subscribers of this name get what is committed now; False while the store cannot be reached."""


class Records(Protocol):
    """Small values by space and key. One call makes all of its changes together, or none.

    `expires` is in milliseconds since 1970; a value that has expired counts as absent.
    """

    def get(self, space: str, key: str) -> Awaitable[bytes | None]: ...

    def get_many(self, space: str, keys: Collection[str]) -> Awaitable[Values]:
        """Return the values of these keys as they are at one moment."""

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> Future[None]: ...

    def compare_and_set(
        self, space: str, expected: Values, changes: Values, expires: int | None = None
    ) -> Future[bool]:
        """Make all changes (None: remove) and return True, or False if a value is not as expected (None: absent)."""

    def increment(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> Future[int]:
        """Add one and return the new count; if it would exceed `limit`, change nothing and return 0.

        The first call sets `expires`; later ones do not change it.
        """

    def scan(self, space: str) -> Awaitable[dict[str, bytes]]:
        """Return all values of the space."""

    def subscribe(self, space: str, subscriber: Callable[[str, bytes | None], None]) -> Awaitable[Callable[[], None]]:
        """Call `subscriber` with every present value, then with every committed change (None: removed).

        A change made through this store reaches the subscriber before the change returns. Returns a function to
        unsubscribe; if the subscriber fails at a present value, raises StoreUnavailable and does not call it again.
        """


class Store(Protocol):
    """Where a gateway keeps the state of its services."""

    #: Dweets of things, decisions of the reward engine.
    journals: Journals
    #: What survives a restart: locks, alerts, aliases, stock.
    records: Records
    #: Codes, fingerprints, sessions: an embedded store keeps them in memory only; a shared one until they expire.
    ephemeral: Records

    async def open(self) -> None:
        """Open the store, to be used on the running event loop."""

    async def close(self) -> None:
        """Commit the changes submitted so far, and close every file, thread and socket."""

    def commit(self, changes: Sequence[CompareAndSet], appends: Mapping[str, Sequence[NewEntry]]) -> Future[bool]:
        """Make all changes and append all entries (by journal), and return True; or do nothing.

        It returns False if a value is not as expected. The names of all spaces and journals of a commit begin with the
        same tag in braces, as ``{rewards}views`` does: a Redis Cluster keeps what has the same tag on one node. Raises
        ValueError otherwise. Ephemeral values that an embedded store keeps in memory only do not change if the outcome
        is unknown.
        """
