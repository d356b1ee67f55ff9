"""Records of the embedded store, all in memory; those that are durable are in RocksDB too.

The key of a row is ``R``, the length of the space (2 bytes), space and key; its value begins with the expiry (8 bytes).
"""

from asyncio import Future
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from rocksdict import WriteBatch

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import CompareAndSet, Values
from toolkit_gateway.stores.embedded_commits import EmbeddedCommits
from toolkit_gateway.stores.embedded_database import Change, damaged_row
from toolkit_gateway.stores.group_commit import done_future
from toolkit_gateway.stores.subscribers import RecordSubscriber, RecordSubscribers

ROW_PREFIX = b"R"
_EXPIRES, _NEVER = Struct(">q"), (1 << 63) - 1
# Expired records are invisible at once. They are removed after this many changes, or one per record if that is more.
_MIN_CHANGES_TO_SWEEP = 2_000


class Record(NamedTuple):
    """A value, and when it expires (milliseconds since the epoch) if it does."""

    value: bytes
    expires: int | None = None


class Row(NamedTuple):
    """A record with its space and key."""

    space: str
    key: str
    value: bytes
    expires: int | None


Changes = Mapping[str, Record | None]
#: Returns the result of a call, and what it changes.
Evaluate = Callable[[], tuple[Any, Changes]]


class EmbeddedRecords:
    """See `toolkit_gateway.stores.Records`.

    A change is evaluated when the batch before it is written, and returns when its own batch is written.
    Without `commits` the records are ephemeral, and a change returns at once, unless it is part of a commit. `now`
    decides what has expired.
    """

    def __init__(self, now: Callable[[], int], commits: EmbeddedCommits | None = None) -> None:
        self._now = now
        self._commits = commits
        self._spaces: defaultdict[str, dict[str, Record]] = defaultdict(dict)
        self._subscribers: defaultdict[str, RecordSubscribers] = defaultdict(RecordSubscribers)
        # What this batch has changed so far: by space and key, and in order.
        self._pending: dict[tuple[str, str], Record | None] = {}
        self._batch: list[tuple[str, Changes]] = []
        self._changes_left = _MIN_CHANGES_TO_SWEEP

    async def get(self, space: str, key: str) -> bytes | None:
        self._check_open()
        record = self._live(self._spaces[space].get(key))
        return record and record.value

    async def get_many(self, space: str, keys: Collection[str]) -> Values:
        self._check_open()
        records = self._spaces[space]
        live = {key: self._live(records.get(key)) for key in keys}
        return {key: record and record.value for key, record in live.items()}

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> Future[None]:
        return self._change(space, lambda: (None, {key: Record(value, expires)}))

    def compare_and_set(
        self, space: str, expected: Values, changes: Values, expires: int | None = None
    ) -> Future[bool]:
        conditional = CompareAndSet(space, expected, changes, expires)
        return self._change(space, lambda: self.evaluate(conditional))

    def increment(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> Future[int]:
        def evaluate() -> tuple[int, Changes]:
            record = self._find(space, key) or Record(b"0", expires)
            number = int(record.value) + 1
            if limit is not None and number > limit:
                return 0, {}
            return number, {key: record._replace(value=b"%d" % number)}

        return self._change(space, evaluate)

    async def scan(self, space: str) -> dict[str, bytes]:
        self._check_open()
        return {key: record.value for key, record in self._spaces[space].items() if self._live(record)}

    def rows(self) -> list[Row]:
        """Return all records that have not expired, by space and key."""
        records = ((space, key, record) for space, held in self._spaces.items() for key, record in held.items())
        return sorted(Row(space, key, *record) for space, key, record in records if self._live(record))

    async def subscribe(self, space: str, subscriber: RecordSubscriber) -> Callable[[], None]:
        return self._subscribers[space].announce_and_subscribe(space, subscriber, await self.scan(space))

    # -- for batches --------------------------------------------------------------------------------------

    def load(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        for key, value in rows:
            end = 3 + int.from_bytes(key[1:3], "big")
            self._spaces[key[3:end].decode()][key[end:].decode()] = _decoded(key, value)

    def begin_batch(self, batch: WriteBatch | None) -> None:
        """Begin a batch: what was pending is written, or has failed."""
        self._pending.clear()
        if self._commits is None:
            self._batch.clear()  # ephemeral changes of a commit that failed are not made
        if self._changes_left < 0:
            self._sweep(batch)

    def announce(self) -> None:
        """Show the changes of the batch to readers and subscribers."""
        written, self._batch = self._batch, []
        for space, changes in written:
            self._apply(space, changes)

    def recover(self) -> None:
        """Show what the database holds after a failed write: the changes may have been made or not."""
        while self._batch and self._commits is not None:
            space, changes = self._batch[0]
            rows = {key: self._commits.database.get(_row_key(space, key)) for key in changes}
            records = {key: None if row is None else _decoded(_row_key(space, key), row) for key, row in rows.items()}
            del self._batch[0]
            self._apply(space, records)

    def _change(self, space: str, evaluate: Evaluate) -> Future[Any]:
        if self._commits is not None:
            return self._commits.add_to_next_batch(Change(partial(self._prepare, space, evaluate))).future
        self.begin_batch(None)
        result = self._prepare(space, evaluate, None)
        self.announce()
        return done_future(result)

    def _prepare(self, space: str, evaluate: Evaluate, batch: WriteBatch | None) -> Any:  # noqa: ANN401
        result, changes = evaluate()
        self.stage(space, changes)(batch)
        return result

    def evaluate(self, conditional: CompareAndSet) -> tuple[bool, Changes]:
        space, expected, changes, expires, _ = conditional
        for key, value in expected.items():
            record = self._find(space, key)
            if (record and record.value) != value:
                return False, {}
        return True, {key: None if value is None else Record(value, expires) for key, value in changes.items()}

    def stage(self, space: str, changes: Changes) -> Callable[[WriteBatch | None], None]:
        """Return a function that adds changes to the batch, and cannot fail: the batch has changes of others too."""
        rows: dict[bytes, bytes | None] = {}
        if self._commits is not None:
            rows = {_row_key(space, key): record and _encoded(record) for key, record in changes.items()}

        def add(batch: WriteBatch | None) -> None:
            for row, value in rows.items():
                assert batch is not None
                if value is None:
                    batch.delete(row)
                else:
                    batch.put(row, value)
            self._pending.update({(space, key): record for key, record in changes.items()})
            self._batch.append((space, changes))

        return add

    def _apply(self, space: str, changes: Changes) -> None:
        records = self._spaces[space]
        for key, record in changes.items():
            if record is None:
                records.pop(key, None)
            else:
                records[key] = record
        self._changes_left -= len(changes)
        if subscribers := self._subscribers.get(space):
            subscribers.announce({key: record and record.value for key, record in changes.items()})

    def _sweep(self, batch: WriteBatch | None) -> None:
        """Remove the expired records."""
        for space, records in self._spaces.items():
            for key in [key for key, record in records.items() if not self._live(record)]:
                del records[key]
                if batch is not None and self._commits is not None:
                    batch.delete(_row_key(space, key))
        self._changes_left = max(sum(map(len, self._spaces.values())), _MIN_CHANGES_TO_SWEEP)

    def _check_open(self) -> None:
        if self._commits is not None and self._commits.is_closed:
            raise StoreUnavailable("the gateway is stopping")

    def _find(self, space: str, key: str) -> Record | None:
        path = space, key
        return self._live(self._pending[path] if path in self._pending else self._spaces[space].get(key))

    def _live(self, record: Record | None) -> Record | None:
        """Return a record that has not expired, or None."""
        return record if record and (record.expires is None or record.expires > self._now()) else None


def _row_key(space: str, key: str) -> bytes:
    name = space.encode()
    return ROW_PREFIX + len(name).to_bytes(2, "big") + name + key.encode()


def _encoded(record: Record) -> bytes:
    return _EXPIRES.pack(_NEVER if record.expires is None else record.expires) + record.value


def _decoded(key: bytes, row: bytes) -> Record:
    if len(row) < _EXPIRES.size:
        raise damaged_row(key)
    (expires,) = _EXPIRES.unpack_from(row)
    return Record(row[_EXPIRES.size :], None if expires == _NEVER else expires)
