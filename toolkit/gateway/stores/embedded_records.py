"""Records of the embedded store: the durable ones in RocksDB, the ephemeral ones in the memory of the process.

Both answer each call by one evaluation on the event loop, so each call is atomic. A durable one is evaluated when the
batch before it is durable, and answered when its own batch is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from struct import Struct
from typing import Any, NamedTuple, Protocol, TypeVar

from rocksdict import WriteBatch

from toolkit.gateway.stores.embedded_database import Database

T = TypeVar("T")
Watcher = Callable[[str, bytes | None], None]

# Expired records are invisible at once. They are removed bit by bit: after so many changes, so many are looked at.
_CHANGES_A_SWEEP, _RECORDS_A_SWEEP = 64, 256
_NEVER = -1
_EXPIRES = Struct(">q")


class Record(NamedTuple):
    """A value, and when it expires (milliseconds since the epoch) if it does."""

    value: bytes
    expires: int | None

    def is_live(self, now: int) -> bool:
        """Whether it has not expired."""
        return self.expires is None or self.expires > now


Changes = Mapping[str, Record | None]
Evaluate = Callable[[], tuple[Any, Changes]]


class Table(Protocol):
    """Where records are kept, live or expired."""

    def get(self, space: str, key: str) -> Record | None:
        """Return the record of a key."""
        ...

    def scan(self, space: str) -> Iterable[tuple[str, Record]]:
        """Give all records of a space."""
        ...

    def committed(self, space: str, key: str) -> Record | None:
        """Return the record of a key, without what is changed but not durable yet."""
        ...

    def committed_scan(self, space: str) -> Iterable[tuple[str, Record]]:
        """Give all records of a space, without what is changed but not durable yet."""
        ...

    def change(self, space: str, changes: Changes, now: int) -> None:
        """Make all changes, or raise before the first; None removes."""
        ...


class MemoryTable:
    """Ephemeral records: they never reach a disk."""

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, Record]] = {}
        self._changes = 0

    def get(self, space: str, key: str) -> Record | None:
        """Return the record of a key."""
        return self._spaces.get(space, {}).get(key)

    def scan(self, space: str) -> Iterable[tuple[str, Record]]:
        """Give all records of a space."""
        return list(self._spaces.get(space, {}).items())

    committed, committed_scan = get, scan  # a change is made at once

    def change(self, space: str, changes: Changes, now: int) -> None:
        """Make all changes."""
        records = self._spaces.setdefault(space, {})
        for key, record in changes.items():
            if record is None:
                records.pop(key, None)
            else:
                records[key] = record
        self._changes += len(changes)
        if self._changes > max(2_000, sum(map(len, self._spaces.values()))):
            self._changes = 0
            for name, kept in self._spaces.items():
                self._spaces[name] = {key: record for key, record in kept.items() if record.is_live(now)}


class DiskTable:
    """Durable records, under the key ``R``, length of the space (2), space, key."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # What the requests of the batch that is being made have changed.
        self._pending: dict[bytes, Record | None] = {}
        self._changes = 0
        self._swept = b"R"

    def begin(self, writes: WriteBatch) -> None:
        """Begin a batch: what was pending is durable, or it failed."""
        self._writes = writes
        self._pending.clear()

    def committed(self, space: str, key: str) -> Record | None:
        """Return the record of a key, without what is pending."""
        value = self._database.get(_prefix(space) + key.encode())
        return None if value is None else _decoded(value)

    def committed_scan(self, space: str) -> Iterator[tuple[str, Record]]:
        """Give all records of a space, without what is pending."""
        prefix = _prefix(space)
        for key, value in self._database.items(prefix, prefix):
            yield key[len(prefix) :].decode(), _decoded(value)

    def get(self, space: str, key: str) -> Record | None:
        """Return the record of a key."""
        place = _prefix(space) + key.encode()
        return self._pending[place] if place in self._pending else self.committed(space, key)

    def scan(self, space: str) -> Iterable[tuple[str, Record]]:
        """Give all records of a space."""
        prefix = _prefix(space)
        changed = {
            key[len(prefix) :].decode(): record for key, record in self._pending.items() if key.startswith(prefix)
        }
        found = {**dict(self.committed_scan(space)), **changed}
        return [(key, record) for key, record in found.items() if record is not None]

    def change(self, space: str, changes: Changes, now: int) -> None:
        """Make all changes in the batch."""
        prefix = _prefix(space)
        encoded = [(prefix + key.encode(), record) for key, record in changes.items()]
        self._changes += len(encoded)
        if self._changes >= _CHANGES_A_SWEEP:
            self._changes = 0
            self._sweep(now)
        for key, record in encoded:
            self._pending[key] = record
            if record is None:
                self._writes.delete(key)
            else:
                self._writes.put(key, _encoded(record))

    def _sweep(self, now: int) -> None:
        items = self._database.items(self._swept, b"R")
        found = list(islice(items, _RECORDS_A_SWEEP))
        for key, value in found:
            if key not in self._pending and not _decoded(value).is_live(now):
                self._writes.delete(key)
        self._swept = found[-1][0] + b"\0" if len(found) == _RECORDS_A_SWEEP else b"R"


class RecordRequest:
    """One call: how it is evaluated, what it changes, and where its result goes."""

    __slots__ = ("_evaluate", "_records", "_result", "changes", "future", "space")

    def __init__(self, records: EmbeddedRecords, space: str, evaluate: Evaluate) -> None:
        self._records = records
        self._evaluate = evaluate
        self._result: Any = None
        self.space = space
        self.changes: Changes = {}
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def prepare(self) -> None:
        """Evaluate the call and make its changes in the batch."""
        self._result, changes = self._evaluate()
        if changes:
            self._records.change(self.space, changes)
        self.changes = changes

    def settle(self) -> None:
        """Tell the watchers, then answer the caller."""
        self._records.announce(self.space, self.changes)
        if not self.future.done():
            self.future.set_result(self._result)

    def fail(self, error: Exception) -> None:
        """Tell the caller why there is no result."""
        if not self.future.done():
            self.future.set_exception(error)


class WatchRequest(RecordRequest):
    """A call of `watch`: the watcher hears of what is there when it is evaluated, then of every change behind it."""

    __slots__ = ("_present", "_watcher")

    def __init__(self, records: EmbeddedRecords, space: str, watcher: Watcher) -> None:
        super().__init__(records, space, self._read)
        self._watcher = watcher
        self._present: dict[str, bytes] = {}

    def _read(self) -> tuple[Callable[[], None], Changes]:
        self._present = self._records.live(self.space)
        return lambda: self._records.end_watch(self.space, self._watcher), {}

    def settle(self) -> None:
        """Tell the watcher what is there, then answer the caller."""
        self._records.begin_watch(self.space, self._watcher, self._present)
        super().settle()


class EmbeddedRecords:
    """See `toolkit.gateway.stores.Records`.

    Parameters
    ----------
    table
        Where the records are kept.
    submit
        Has a request prepared and settled.
    read
        Runs a long read.
    now
        The gateway's clock in milliseconds since the epoch; decides what has expired.
    """

    def __init__(
        self,
        table: Table,
        submit: Callable[[RecordRequest], None],
        read: Callable[[Callable[[], Any]], asyncio.Future[Any]],
        now: Callable[[], int],
    ) -> None:
        self._table = table
        self._submit = submit
        self._read = read
        self._now = now
        self._watchers: dict[str, list[Watcher]] = {}
        self._loop = asyncio.get_running_loop()
        self._unknown: set[tuple[str, str]] = set()

    def get(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value, or None."""
        return run_now(lambda: self._value(self._table.committed(space, key)))

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> asyncio.Future[None]:
        """Set the value."""
        return self._request(space, lambda: (None, {key: Record(value, expires)}))

    def take(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value and remove it."""

        def evaluate() -> tuple[bytes | None, Changes]:
            value = self._value(self._table.get(space, key))
            return value, {} if value is None else {key: None}

        return self._request(space, evaluate)

    def swap(
        self,
        space: str,
        expected: Mapping[str, bytes | None],
        changes: Mapping[str, bytes | None],
        expires: int | None = None,
    ) -> asyncio.Future[bool]:
        """Make all changes if every expected value still stands."""

        def evaluate() -> tuple[bool, Changes]:
            if any(self._value(self._table.get(space, key)) != value for key, value in expected.items()):
                return False, {}
            return True, {k: None if value is None else Record(value, expires) for k, value in changes.items()}

        return self._request(space, evaluate)

    def count(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> asyncio.Future[int]:
        """Add one, or return 0 where that would pass `limit`."""

        def evaluate() -> tuple[int, Changes]:
            found = self._table.get(space, key)
            live = found if found is not None and found.is_live(self._now()) else Record(b"0", expires)
            number = int(live.value) + 1
            if limit is not None and number > limit:
                return 0, {}
            return number, {key: live._replace(value=b"%d" % number)}

        return self._request(space, evaluate)

    def scan(self, space: str) -> asyncio.Future[dict[str, bytes]]:
        """Return all values of the space."""
        return self._read(lambda: self._live(self._table.committed_scan(space)))

    def watch(self, space: str, watcher: Watcher) -> asyncio.Future[Callable[[], None]]:
        """Call `watcher` with every present value, then with every change."""
        request = WatchRequest(self, space, watcher)
        self._submit(request)
        return request.future

    # -- for the requests ---------------------------------------------------------------------------------

    def change(self, space: str, changes: Changes) -> None:
        """Make all changes, or none."""
        self._table.change(space, changes, self._now())

    def live(self, space: str) -> dict[str, bytes]:
        """Return all values of the space as a request sees them."""
        return self._live(self._table.scan(space))

    def begin_watch(self, space: str, watcher: Watcher, present: Mapping[str, bytes]) -> None:
        """Tell a watcher what is there, and from now on every change."""
        self._tell([watcher], present)
        self._watchers.setdefault(space, []).append(watcher)

    def end_watch(self, space: str, watcher: Watcher) -> None:
        """Tell a watcher nothing more."""
        if watcher in self._watchers.get(space, ()):
            self._watchers[space].remove(watcher)

    def announce(self, space: str, changes: Changes) -> None:
        """Tell the watchers what has changed."""
        if watchers := self._watchers.get(space):
            values = {key: None if record is None else record.value for key, record in changes.items()}
            self._tell(tuple(watchers), values)

    def forget(self, requests: Iterable[RecordRequest]) -> None:
        """Remember what these requests have changed: a write failed, and the changes may be there or not."""
        self._unknown |= {(request.space, key) for request in requests for key in request.changes}

    def tell_recovered(self) -> None:
        """Tell the watchers the values of the keys whose write failed."""
        unknown, self._unknown = self._unknown, set()
        for space, key in unknown:
            self._tell(tuple(self._watchers.get(space, ())), {key: self._value(self._table.committed(space, key))})

    def _request(self, space: str, evaluate: Evaluate) -> asyncio.Future[Any]:
        request = RecordRequest(self, space, evaluate)
        self._submit(request)
        return request.future

    def _tell(self, watchers: Iterable[Watcher], values: Mapping[str, bytes | None]) -> None:
        for watcher in watchers:
            for key, value in values.items():
                try:
                    watcher(key, value)
                except Exception as error:  # a watcher's mistake must not leave the caller waiting
                    self._loop.call_exception_handler({"message": "a store's watcher failed", "exception": error})

    def _value(self, record: Record | None) -> bytes | None:
        return record.value if record is not None and record.is_live(self._now()) else None

    def _live(self, records: Iterable[tuple[str, Record]]) -> dict[str, bytes]:
        now = self._now()
        return {key: record.value for key, record in records if record.is_live(now)}


def run_now(job: Callable[[], T]) -> asyncio.Future[T]:
    """Return the result of a job that takes no time."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    try:
        future.set_result(job())
    except Exception as error:  # raised to whoever awaits it
        future.set_exception(error)
    return future


def _prefix(space: str) -> bytes:
    name = space.encode()
    return b"R" + len(name).to_bytes(2, "big") + name


def _encoded(record: Record) -> bytes:
    return _EXPIRES.pack(_NEVER if record.expires is None else record.expires) + record.value


def _decoded(value: bytes) -> Record:
    (expires,) = _EXPIRES.unpack_from(value)
    return Record(value[_EXPIRES.size :], None if expires == _NEVER else expires)
