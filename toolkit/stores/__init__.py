"""The Store protocol: what services need to keep, and nothing about HTTP or a service's rules.

A store has three parts:

* ``journals``: append-only, numbered, followed live (dweets of a thing, decisions of the reward engine);
* ``records``: small values by key that survive a restart (locks, alerts, aliases, stock);
* ``ephemeral``: the same, for what ends soon (codes, fingerprints, sessions): in an embedded store it is gone with a
  restart and never on disk; in one that many gateways share it lives until it expires.

Every call is made from the gateway's event loop. What a call answers is committed: with a durable store it
survives ``kill -9`` and power loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One entry of a journal.

    ``sequence`` counts up by one within its journal (a store whose master died may leave numbers out, and uses none
    twice), ``at`` is milliseconds since the epoch, ``id`` is the writer's own identifier.
    """

    sequence: int
    at: int
    id: str
    data: bytes


class Draft(NamedTuple):
    """An entry that has no number yet."""

    at: int
    id: str
    data: bytes


Follower = Callable[[Sequence[Entry]], None]


class Journals(Protocol):
    """Named append-only sequences. What is read comes oldest first."""

    #: Whether other processes write to them too.
    is_shared: bool

    def append(
        self, name: str, drafts: Sequence[Draft], keep: int | None = None, floor: int | None = None
    ) -> asyncio.Future[list[Entry]]:
        """Append all drafts in order or none; done when they are committed.

        With `keep`, older entries than about the last `keep` are dropped now and then; never one of the last `keep`,
        and with `floor` never one numbered above it.
        """

    def last(self, name: str, count: int) -> Awaitable[list[Entry]]:
        """Return at most the last `count` entries."""

    def after(self, name: str, sequence: int, count: int | None = None) -> Awaitable[list[Entry]]:
        """Return the entries numbered above `sequence`, at most `count` of them."""

    def between(self, name: str, start: int, end: int) -> Awaitable[list[Entry]]:
        """Return the entries with ``start <= at < end`` (milliseconds)."""

    def find(self, name: str, id: str) -> Awaitable[Entry | None]:  # noqa: A002
        """Return the entry with this identifier."""

    def names(self, prefix: str, count: int) -> Awaitable[list[str]]:
        """Return the names with this prefix, the most recently written first, at most `count`.

        A shared store may order them by times that lag by some seconds.
        """

    def follow(self, name: str, follower: Follower) -> Callable[[], None]:
        """Call `follower` with every entry committed from now on, by any gateway, in order.

        The follower runs on the event loop and must not block. Returns the call that ends it. What other gateways
        commit while the store cannot be reached comes, in order, once it can be again.
        """

    def is_heard(self, name: str) -> bool:
        """Whether followers of this name hear what is committed now; False while the store cannot be reached."""


class Records(Protocol):
    """Small values by space and key. What one call changes, it changes at once and whole.

    `expires` is in milliseconds since the epoch; a value that has expired is not there.
    """

    def get(self, space: str, key: str) -> asyncio.Future[bytes | None]: ...

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> asyncio.Future[None]: ...

    def take(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value and remove it: of many callers at once, exactly one gets it."""

    def compare_and_set(
        self,
        space: str,
        expected: Mapping[str, bytes | None],
        changes: Mapping[str, bytes | None],
        expires: int | None = None,
    ) -> asyncio.Future[bool]:
        """Make all changes if every expected value still stands (None: absent); None in `changes` removes."""

    def count(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> asyncio.Future[int]:
        """Add one and return the new count, or 0 and change nothing where it would pass `limit`.

        `expires` is set with the first count and kept by later ones.
        """

    def scan(self, space: str) -> asyncio.Future[dict[str, bytes]]:
        """Return all values of the space."""

    def watch(self, space: str, watcher: Callable[[str, bytes | None], None]) -> Awaitable[Callable[[], None]]:
        """Call `watcher` with every present value, then with every committed change (None: removed).

        A change made through this store has reached the watcher before its own call is answered. Returns the call
        that ends it, or raises StoreUnavailable if the watcher fails at a present value; it is not called again then.
        """


class Store(Protocol):
    """What a gateway keeps its services' state in."""

    journals: Journals
    records: Records
    ephemeral: Records

    async def open(self) -> None:
        """Make the store ready; the running loop becomes its loop."""

    async def close(self) -> None:
        """Commit what was asked for and close every file, thread and socket."""
