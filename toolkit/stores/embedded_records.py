"""Records of the embedded store: the durable ones in RocksDB, the ephemeral ones in the memory of the process.

The key of a record is ``R``, the length of its space (2 bytes), its space, its key; its value begins with its expiry.
Each call is evaluated at once on the event loop, so it is atomic. One that is durable is evaluated when the batch
before it is written, and answered when its own batch is.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from rocksdict import WriteBatch

from toolkit.stores import StoreUnavailable
from toolkit.stores.embedded_database import Database
from toolkit.stores.group_commit import Request, failed
from toolkit.stores.subscribers import Watcher, Watchers

T = TypeVar("T")

_EVERY_SPACE, _NEVER = b"R", -1
_EXPIRES = Struct(">q")
# Expired records are invisible at once, and removed after so many changes, or as many as there are records.
_LEAST_CHANGES_TO_SWEEP = 2_000


class Record(NamedTuple):
    """A value, and when it expires (milliseconds since the epoch) if it does."""

    value: bytes
    expires: int | None


Changes = Mapping[bytes, Record | None]


class MemoryRows:
    """The rows of ephemeral records: they never reach a disk."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self.get = self._rows.get
        self.put = self._rows.__setitem__

    def delete(self, key: bytes) -> None:
        """Remove a row, if it is there."""
        self._rows.pop(key, None)

    def items(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give all rows whose keys begin with `prefix`."""
        return iter([item for item in self._rows.items() if item[0].startswith(prefix)])


class RecordRequest(Request[Any]):
    """One call: how it is evaluated, what it changes, and what makes the caller's result once it is written."""

    __slots__ = ("_changes", "_evaluate", "_finish", "_records", "prefix")

    def __init__(
        self,
        records: EmbeddedRecords,
        prefix: bytes,
        evaluate: Callable[[], tuple[Any, Changes]],
        finish: Callable[[Any], Any] = lambda result: result,
    ) -> None:
        super().__init__()
        self._records, self.prefix = records, prefix
        self._evaluate, self._finish = evaluate, finish
        self._changes: Changes = {}

    def prepare(self) -> None:
        """Evaluate the call and put its changes in the batch."""
        self.result, changes = self._evaluate()
        self._records.change(changes)
        self._changes = changes

    def settle(self) -> None:
        """Tell the watchers, then answer the caller."""
        self._records.announce(self.prefix, self._changes)
        try:
            self.result = self._finish(self.result)
        except StoreUnavailable as error:
            self.fail(error)
        super().settle()

    def recover(self) -> None:
        """Tell the watchers what is there: the write failed, and the changes may have been made or not."""
        self._records.announce(self.prefix, self._records.written(self._changes))


class EmbeddedRecords:
    """See `toolkit.stores.Records`.

    `rows` holds what earlier batches have written, `submit` has a request prepared and settled, `read` runs a long
    read, and `now` is the gateway's clock, which decides what has expired.
    """

    def __init__(
        self,
        rows: Database | MemoryRows,
        submit: Callable[[RecordRequest], None],
        read: Callable[[Callable[[], Any]], asyncio.Future[Any]],
        now: Callable[[], int],
    ) -> None:
        self._rows = rows
        self._submit = submit
        self._read = read
        self._now = now
        self._watchers: defaultdict[bytes, Watchers] = defaultdict(Watchers)
        self._pending: dict[bytes, Record | None] = {}  # what this batch has changed so far
        self._changes_left = _LEAST_CHANGES_TO_SWEEP

    def get(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value, or None."""
        return run_now(lambda: self._value(_decoded(self._rows.get(_prefix(space) + key.encode()))))

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> asyncio.Future[None]:
        """Set the value."""
        return self._request(space, lambda prefix: (None, {prefix + key.encode(): Record(value, expires)}))

    def take(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value and remove it."""

        def evaluate(prefix: bytes) -> tuple[bytes | None, Changes]:
            place = prefix + key.encode()
            value = self._value(self._find(place))
            return value, {} if value is None else {place: None}

        return self._request(space, evaluate)

    def swap(
        self,
        space: str,
        expected: Mapping[str, bytes | None],
        changes: Mapping[str, bytes | None],
        expires: int | None = None,
    ) -> asyncio.Future[bool]:
        """Make all changes if every expected value still stands."""

        def evaluate(prefix: bytes) -> tuple[bool, Changes]:
            for key, value in expected.items():
                if self._value(self._find(prefix + key.encode())) != value:
                    return False, {}
            records = [None if value is None else Record(value, expires) for value in changes.values()]
            return True, dict(zip([prefix + key.encode() for key in changes], records, strict=True))

        return self._request(space, evaluate)

    def count(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> asyncio.Future[int]:
        """Add one, or return 0 where that would pass `limit`."""

        def evaluate(prefix: bytes) -> tuple[int, Changes]:
            place = prefix + key.encode()
            found = self._find(place)
            live = found if found is not None and self._is_live(found) else Record(b"0", expires)
            number = int(live.value) + 1
            if limit is not None and number > limit:
                return 0, {}
            return number, {place: live._replace(value=b"%d" % number)}

        return self._request(space, evaluate)

    def scan(self, space: str) -> asyncio.Future[dict[str, bytes]]:
        """Return all values of the space."""
        prefix = _prefix(space)
        return self._read(lambda: self._live(prefix, {}))

    def watch(self, space: str, watcher: Watcher) -> asyncio.Future[Callable[[], None]]:
        """Call `watcher` with every present value, then with every change."""
        prefix = _prefix(space)
        request = RecordRequest(
            self,
            prefix,
            lambda: (self._live(prefix, self._pending), {}),
            lambda present: self._watchers[prefix].begin(space, watcher, present),
        )
        self._submit(request)
        return request.future

    # -- for batches --------------------------------------------------------------------------------------

    def begin(self, writes: WriteBatch | MemoryRows) -> None:
        """Begin a batch: what was pending is written, or has failed."""
        self._writes = writes
        self._pending.clear()

    def change(self, changes: Changes) -> None:
        """Put all changes in the batch."""
        self._pending |= changes
        for key, record in changes.items():
            if record is None:
                self._writes.delete(key)
            else:
                self._writes.put(key, _encoded(record))
        self._changes_left -= len(changes)
        if self._changes_left < 0:
            self._changes_left = 1 << 62  # until this sweep is over
            self._read(self._expired).add_done_callback(self._remove)

    def announce(self, prefix: bytes, changes: Changes) -> None:
        """Tell the watchers of a space what has changed."""
        if watchers := self._watchers.get(prefix):
            watchers.announce({key[len(prefix) :].decode(): record and record.value for key, record in changes.items()})

    def written(self, keys: Changes) -> Changes:
        """Return what the rows hold at these keys."""
        return {key: _decoded(self._rows.get(key)) for key in keys}

    def _request(self, space: str, evaluate: Callable[[bytes], tuple[Any, Changes]]) -> asyncio.Future[Any]:
        prefix = _prefix(space)
        request = RecordRequest(self, prefix, lambda: evaluate(prefix))
        self._submit(request)
        return request.future

    def _find(self, key: bytes) -> Record | None:
        return self._pending[key] if key in self._pending else _decoded(self._rows.get(key))

    def _live(self, prefix: bytes, pending: Changes) -> dict[str, bytes]:
        found = {key: _decoded(value) for key, value in self._rows.items(prefix, prefix)}
        found |= {key: record for key, record in pending.items() if key.startswith(prefix)}
        values = ((key, self._value(record)) for key, record in found.items())
        return {key[len(prefix) :].decode(): value for key, value in values if value is not None}

    def _expired(self) -> tuple[int, list[bytes]]:
        rows = [(key, self._value(_decoded(value))) for key, value in self._rows.items(_EVERY_SPACE, _EVERY_SPACE)]
        return len(rows), [key for key, value in rows if value is None]

    def _remove(self, swept: asyncio.Future[tuple[int, list[bytes]]]) -> None:
        self._changes_left = _LEAST_CHANGES_TO_SWEEP
        if swept.cancelled() or swept.exception() is not None:
            return  # the store is closed or damaged, and its callers know; the next sweep tries again
        records, expired = swept.result()
        self._changes_left = max(records, _LEAST_CHANGES_TO_SWEEP)

        def evaluate() -> tuple[None, Changes]:
            return None, {key: None for key in expired if self._value(self._find(key)) is None}

        request = RecordRequest(self, _EVERY_SPACE, evaluate)
        request.future.add_done_callback(asyncio.Future.exception)  # nobody waits for it
        self._submit(request)

    def _is_live(self, record: Record) -> bool:
        return record.expires is None or record.expires > self._now()

    def _value(self, record: Record | None) -> bytes | None:
        return record.value if record is not None and self._is_live(record) else None


def run_now(job: Callable[[], T]) -> asyncio.Future[T]:
    """Return the result of a job that takes no time."""
    try:
        result = job()
    except Exception as error:  # raised to the caller, who awaits it
        return failed(error)
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


def _prefix(space: str) -> bytes:
    name = space.encode()
    return _EVERY_SPACE + len(name).to_bytes(2, "big") + name


def _encoded(record: Record) -> bytes:
    return _EXPIRES.pack(_NEVER if record.expires is None else record.expires) + record.value


def _decoded(value: bytes | None) -> Record | None:
    if value is None:
        return None
    (expires,) = _EXPIRES.unpack_from(value)
    return Record(value[_EXPIRES.size :], None if expires == _NEVER else expires)
