"""What callers make a gateway hold and do, by address: connections, bytes of requests, late answers, and time.

Each address that has connections has an `Account`. Above a bound of `Limits`, the connection that began first in the
account that holds most is closed: a caller who takes too much is cut off, and the others are served. The connection of
a trusted proxy belongs to the account of the caller whose request it carries.

The time of the event loop is shared too. In each round of the loop, the connections of an address work for at most
`Limits.turn_seconds`. What is left waits, and in the next rounds addresses, and then their connections, take turns.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import IPv6Address
from time import perf_counter

from toolkit.endpoint import is_loopback, parsed_address
from toolkit_gateway.http.limits import LIMITS, Bound, OpenConnection

#: The kinds of things that are counted.
CONNECTIONS, REQUEST_BYTES, LATE_ANSWERS = range(3)
# File descriptors for all else: the store, child processes, the mail server.
_OTHER_DESCRIPTORS = 128


@lru_cache(1_024)
def source_of(address: str) -> str:
    """Return the address; of IPv6 only the first four groups, and one name for the whole of this machine.

    A subscriber has a whole /64, and a program on this machine may call from 16 million addresses.
    """
    if is_loopback(address):
        return "127.0.0.1"
    parsed = parsed_address(address)
    return parsed.exploded[:19] if isinstance(parsed, IPv6Address) else address


class Account:
    """What the connections of one address hold together, and which of them wait for a turn."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.held = [0, 0, 0]
        self.shares: dict[Share, OpenConnection] = {}  # the oldest first
        self.queue: deque[Share] = deque()
        self.spent = 0.0  # seconds of work in this round of the event loop

    @property
    def is_busy(self) -> bool:
        """Whether its connections wait for their turns."""
        return len(self.queue) > 0 or self.spent > LIMITS.turn_seconds


class Share:
    """What one connection holds of its account."""

    __slots__ = ("_accounts", "account", "address", "held", "is_late", "is_queued")

    def __init__(self, accounts: "Accounts", address: str) -> None:
        self._accounts = accounts
        #: The address of the caller whose request came last.
        self.address = address
        self.account: Account | None = None  # once it is open and until it is closed
        self.held = [0, 0, 0]
        self.is_queued = False
        self.is_late = False

    def hold(self, kind: int, amount: int) -> None:
        """Set how much of a kind the connection holds."""
        if self.account is not None and amount != self.held[kind]:
            self._accounts.add(self, self.account, kind, amount - self.held[kind])

    @contextmanager
    def answering_late(self) -> Iterator[None]:
        """Count a late answer in the block; its task is cancelled when the caller leaves or is cut off."""
        self.is_late = True
        self.hold(LATE_ANSWERS, 1)
        try:
            yield
        finally:
            self.hold(LATE_ANSWERS, 0)
            self.is_late = False


class Accounts:
    """The accounts of all connections of a server."""

    def __init__(self) -> None:
        self._by_source: dict[str, Account] = {}
        self._held = [0, 0, 0]
        self._queues: dict[Account, None] = {}  # accounts whose connections wait, in the order of their turns
        self._at_work: list[Account] = []  # accounts whose connections have worked in this round of the event loop
        self._descriptors = _open_files_limit() - _OTHER_DESCRIPTORS

    # -- what is held -----------------------------------------------------------------------------------------

    def open(self, connection: OpenConnection, address: str) -> Share:
        share = Share(self, address)
        self._join(share, connection)
        share.hold(CONNECTIONS, 1)
        return share

    def move(self, share: Share, address: str) -> None:
        """Count a connection for another caller: it is that of a trusted proxy."""
        share.address = address
        if share.account is None or share.account.source == source_of(address):
            return
        held, connection = share.held, share.account.shares[share]
        self.close(share)
        self._join(share, connection)
        for kind, amount in enumerate(held):
            share.hold(kind, amount)

    def close(self, share: Share) -> None:
        """Count a connection no more."""
        account, share.account = share.account, None
        if account is None:
            return
        del account.shares[share]
        for kind, amount in enumerate(share.held):
            account.held[kind] -= amount
            self._held[kind] -= amount
        share.held = [0, 0, 0]
        if not account.shares:
            del self._by_source[account.source]

    @property
    def is_empty(self) -> bool:
        return not self._by_source and not any(self._held)

    def add(self, share: Share, account: Account, kind: int, change: int) -> None:
        share.held[kind] += change
        account.held[kind] += change
        self._held[kind] += change
        if change > 0:
            bound = self._bound(kind)
            while account.held[kind] > bound.of_one:
                self._close_first(account, kind)
            while self._held[kind] > bound.in_total:
                self._close_first(max(self._by_source.values(), key=lambda each: each.held[kind]), kind)

    def _bound(self, kind: int) -> Bound:
        if kind == CONNECTIONS:
            # A process that has no descriptors left cannot accept a connection from anybody.
            return Bound(*(min(number, self._descriptors) for number in LIMITS.connections))
        return LIMITS.request_bytes if kind == REQUEST_BYTES else LIMITS.late_answers

    def _join(self, share: Share, connection: OpenConnection) -> None:
        source = source_of(share.address)
        account = share.account = self._by_source.setdefault(source, Account(source))
        account.shares[share] = connection

    def _close_first(self, account: Account, kind: int) -> None:
        share, connection = next(pair for pair in account.shares.items() if pair[0].held[kind])
        self.close(share)
        connection.abort()

    # -- turns ------------------------------------------------------------------------------------------------

    def run(self, share: Share) -> None:
        """Let a connection work that has something to do: at once if its account has time left, else in its turn."""
        account = share.account
        if account is None or share.is_queued:
            return
        if not account.is_busy:
            began = perf_counter()
            is_unfinished = account.shares[share].take_turn()
            self.spend(account, perf_counter() - began)
            if not is_unfinished:
                return
        self._enqueue(account, share)

    def spend(self, account: Account, seconds: float) -> None:
        """Count work of a connection in this round of the event loop."""
        if not account.spent:
            if not self._at_work:
                asyncio.get_running_loop().call_soon(self._end_round)
            self._at_work.append(account)
        account.spent += seconds

    def _end_round(self) -> None:
        for account in self._at_work:
            account.spent = 0.0
        self._at_work.clear()

    def _enqueue(self, account: Account, share: Share) -> None:
        share.is_queued = True
        account.queue.append(share)
        if not self._queues:
            asyncio.get_running_loop().call_soon(self._take_turns)
        self._queues[account] = None

    def _take_turns(self) -> None:
        """Let the connections that wait work for the time of one turn."""
        end = perf_counter() + LIMITS.turn_seconds
        while self._queues and perf_counter() < end:
            account = next(iter(self._queues))
            del self._queues[account]
            share = account.queue.popleft()
            share.is_queued = False
            if share.account is not None and share.account.shares[share].take_turn():
                share.is_queued = True
                account.queue.append(share)
            if account.queue:
                self._queues[account] = None  # now behind the other accounts
        if self._queues:
            asyncio.get_running_loop().call_soon(self._take_turns)


def _open_files_limit() -> int:
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
