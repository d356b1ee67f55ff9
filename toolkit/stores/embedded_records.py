"""Records of the embedded store: the durable ones in RocksDB, the ephemeral ones in the memory of the process.

The key of a record is ``R``, the length of its space (2 bytes), its space, its key; its value begins with its expiry.
Each call is evaluated at once on the event loop, so it is atomic. One that is durable is evaluated when the batch
before it is written, and answered when its own batch is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import Any, NamedTuple

from rocksdict import WriteBatch

from toolkit.stores.embedded_database import Database
from toolkit.stores.group_commit import Request, run_now
from toolkit.stores.subscribers import RecordSubscriber, RecordSubscribers

_EVERY_SPACE, _NEVER = b"R", -1
_EXPIRES = Struct(">q")
# Expired records are invisible at once, and removed after so many changes, or as many as there are records.
_LEAST_CHANGES_TO_SWEEP = 2_000


class Record(NamedTuple):
    """A value, and when it expires (milliseconds since the epoch) if it does."""

    value: bytes
    expires: int | None = None


Changes = Mapping[bytes, Record | None]
_Place = Callable[[str], bytes]  # the key of a row by the key of its record


class MemoryRows:
    """The rows of ephemeral records: they never reach a disk."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self.get = self._rows.get
        self.put = self._rows.__setitem__

    def delete(self, key: bytes) -> None:
        self._rows.pop(key, None)

    def items(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([item for item in self._rows.items() if item[0].startswith(prefix)])


class RecordRequest(Request[Any]):
    """One call: how it is evaluated, and what it changes."""

    __slots__ = ("changes", "evaluate", "prefix", "records")

    def __init__(self, records: EmbeddedRecords, prefix: bytes, evaluate: Callable[[], tuple[Any, Changes]]) -> None:
        super().__init__()
        self.records, self.prefix, self.evaluate = records, prefix, evaluate
        self.result = None
        self.changes: Changes = {}

    def settle(self) -> None:
        self.records.announce(self.prefix, self.changes)
        super().settle()


class EmbeddedRecords:
    """See `toolkit.stores.Records`.

    `rows` holds what earlier batches have written, `submit` adds a request to the next batch (None: there are no
    batches), `read` runs a long read, and `now` is the gateway's clock, which decides what has expired.
    """

    def __init__(
        self,
        rows: Database | MemoryRows,
        submit: Callable[[RecordRequest], None] | None,
        read: Callable[[Callable[[], Any]], asyncio.Future[Any]],
        now: Callable[[], int],
    ) -> None:
        self._rows = rows
        self._submit = submit or self._settle_now
        self._read = read
        self._now = now
        self._subscribers: dict[bytes, RecordSubscribers] = {}
        self._pending: dict[bytes, Record | None] = {}  # what this batch has changed so far
        self._changes_left = _LEAST_CHANGES_TO_SWEEP

    def get(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        return run_now(lambda: _value_of(self._live(_decoded(self._rows.get(_prefix(space) + key.encode())))))

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> asyncio.Future[None]:
        return self._request(space, lambda place: (None, {place(key): Record(value, expires)}))

    def pop(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        def evaluate(place: _Place) -> tuple[bytes | None, Changes]:
            record = self._find(place(key))
            return (None, {}) if record is None else (record.value, {place(key): None})

        return self._request(space, evaluate)

    def compare_and_set(
        self,
        space: str,
        expected: Mapping[str, bytes | None],
        changes: Mapping[str, bytes | None],
        expires: int | None = None,
    ) -> asyncio.Future[bool]:
        def evaluate(place: _Place) -> tuple[bool, Changes]:
            if any(_value_of(self._find(place(key))) != value for key, value in expected.items()):
                return False, {}
            return True, {
                place(key): None if value is None else Record(value, expires) for key, value in changes.items()
            }

        return self._request(space, evaluate)

    def increment(
        self, space: str, key: str, limit: int | None = None, expires: int | None = None
    ) -> asyncio.Future[int]:
        def evaluate(place: _Place) -> tuple[int, Changes]:
            record = self._find(place(key)) or Record(b"0", expires)
            number = int(record.value) + 1
            if limit is not None and number > limit:
                return 0, {}
            return number, {place(key): record._replace(value=b"%d" % number)}

        return self._request(space, evaluate)

    def scan(self, space: str) -> asyncio.Future[dict[str, bytes]]:
        prefix = _prefix(space)
        return self._read(lambda: self._scan(prefix))

    def subscribe(self, space: str, subscriber: RecordSubscriber) -> asyncio.Future[Callable[[], None]]:
        def begin() -> Callable[[], None]:
            prefix = _prefix(space)
            return self._subscribers.setdefault(prefix, RecordSubscribers()).begin(
                space, subscriber, self._scan(prefix)
            )

        return run_now(begin)

    # -- for batches --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a batch: the pending changes were written, or their write failed."""
        self._pending.clear()

    def prepare(self, request: RecordRequest, writes: WriteBatch | MemoryRows) -> None:
        """Evaluate a call and put its changes in the batch."""
        request.result, request.changes = request.evaluate()
        self._pending |= request.changes
        for key, record in request.changes.items():
            if record is None:
                writes.delete(key)
            else:
                writes.put(key, _encoded(record))
        self._changes_left -= len(request.changes)
        if self._changes_left < 0:
            self._changes_left = 1 << 62  # until this sweep is over
            self._read(self._expired).add_done_callback(self._remove)

    def announce(self, prefix: bytes, changes: Changes) -> None:
        """Tell the subscribers of a space what has changed."""
        if subscribers := self._subscribers.get(prefix):
            subscribers.announce({key[len(prefix) :].decode(): _value_of(record) for key, record in changes.items()})

    def announce_what_is_there(self, request: RecordRequest) -> None:
        """Tell the subscribers what the rows hold: the write failed, and the changes may have been made or not."""
        self.announce(request.prefix, {key: _decoded(self._rows.get(key)) for key in request.changes})

    def _settle_now(self, request: RecordRequest) -> None:
        assert isinstance(self._rows, MemoryRows)
        self.begin()
        try:
            self.prepare(request, self._rows)
        except Exception as error:  # raised to the caller, who awaits it
            request.fail(error)
        else:
            request.settle()

    def _request(self, space: str, evaluate: Callable[[_Place], tuple[Any, Changes]]) -> asyncio.Future[Any]:
        prefix = _prefix(space)
        request = RecordRequest(self, prefix, lambda: evaluate(lambda key: prefix + key.encode()))
        self._submit(request)
        return request.future

    def _find(self, key: bytes) -> Record | None:
        return self._live(self._pending[key] if key in self._pending else _decoded(self._rows.get(key)))

    def _live(self, record: Record | None) -> Record | None:
        return None if record is None or (record.expires is not None and record.expires <= self._now()) else record

    def _scan(self, prefix: bytes) -> dict[str, bytes]:
        found = ((key, self._live(_decoded(value))) for key, value in self._rows.items(prefix, prefix))
        return {key[len(prefix) :].decode(): record.value for key, record in found if record is not None}

    def _expired(self) -> tuple[int, list[bytes]]:
        rows = [(key, self._live(_decoded(value))) for key, value in self._rows.items(_EVERY_SPACE, _EVERY_SPACE)]
        return len(rows), [key for key, record in rows if record is None]

    def _remove(self, swept: asyncio.Future[tuple[int, list[bytes]]]) -> None:
        self._changes_left = _LEAST_CHANGES_TO_SWEEP
        if swept.cancelled() or swept.exception() is not None:
            return  # the store is closed or damaged, and its callers know; the next sweep tries again
        records, expired = swept.result()
        self._changes_left = max(records, _LEAST_CHANGES_TO_SWEEP)
        request = RecordRequest(
            self, _EVERY_SPACE, lambda: (None, {key: None for key in expired if self._find(key) is None})
        )
        request.future.add_done_callback(asyncio.Future.exception)  # nobody waits for it
        self._submit(request)


def _value_of(record: Record | None) -> bytes | None:
    return None if record is None else record.value


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
