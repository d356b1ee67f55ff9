"""Records in Redis: each space is one hash, and what one call changes is one script.

A space with subscribers is held in memory. The response to an own change is applied at once; a message names keys
whose values are read. All commands of a space go to Redis in one order, and their responses are applied in that order.
"""

from __future__ import annotations

import json
from asyncio import Future
from collections.abc import Callable, Sequence, Set
from functools import partial
from typing import Any

from toolkit.errors import StoreUnavailable
from toolkit.stores import Values
from toolkit.stores.redis.listener import Subscription
from toolkit.stores.redis.nodes import RECORDS, Argument, Command, Topology
from toolkit.stores.subscribers import RecordSubscriber, RecordSubscribers


class RedisRecords:
    """See `toolkit.stores.Records`; spaces of another kind are others."""

    def __init__(self, topology: Topology, kind: str, now: Callable[[], int]) -> None:
        self.topology, self._kind, self._now = topology, kind, now
        self.subscriptions: dict[str, RecordSubscription] = {}

    def keys(self, space: str) -> list[bytes]:
        values = self.topology.key(tag_of(space), self._kind)
        return [values, values + b":expiries"]

    def get(self, space: str, key: str) -> Future[bytes | None]:
        return self.read(space, self.value_of, b"HGET", key)

    def scan(self, space: str) -> Future[dict[str, bytes]]:
        return self.read(space, self.living, b"HGETALL")

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> Future[None]:
        arguments = b"compare_and_set", _optional(expires), 0, *_flat({key: value})
        return self._change(space, arguments, lambda _: (None, {key: value}))

    def increment(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> Future[int]:
        arguments = b"increment", key, _optional(limit), _optional(expires)
        return self._change(space, arguments, lambda count: (count, {key: b"%d" % count} if count else {}))

    def compare_and_set(
        self, space: str, expected: Values, changes: Values, expires: int | None = None
    ) -> Future[bool]:
        changes = dict(changes)
        arguments = b"compare_and_set", _optional(expires), len(expected), *_flat(expected), *_flat(changes)
        return self._change(space, arguments, lambda is_done: (bool(is_done), changes if is_done else {}))

    async def subscribe(self, space: str, subscriber: RecordSubscriber) -> Callable[[], None]:
        subscription = self.subscriptions.get(space)
        if subscription is None:
            subscription = self.subscriptions[space] = RecordSubscription(self, space)
        if not subscription.is_filled:
            await subscription.read()
        # No waiting from here on: this subscriber hears of every later change.
        return subscription.subscribers.begin(space, subscriber, subscription.values)

    def read(self, space: str, read: Callable[[Any], Any], command: bytes, *keys: str) -> Future[Any]:
        """Read values in the order of the writes: a caller reads what this gateway was asked to write before."""
        return self.topology.submit(lambda: Command(tag_of(space), command, self.keys(space)[0], *keys, read=read))

    def _change(
        self, space: str, arguments: Sequence[Argument], read: Callable[[Any], tuple[Any, Values]]
    ) -> Future[Any]:
        def apply(response: Any) -> Any:  # noqa: ANN401
            result, changes = read(response)
            if space in self.subscriptions:
                self.subscriptions[space].apply(changes)
            return result

        given = self._now(), *arguments
        return self.topology.submit(
            lambda: Command(tag_of(space), *given, script=RECORDS, keys=self.keys(space), read=apply)
        )

    def value_of(self, kept: bytes | None) -> bytes | None:
        if kept is None:
            return None
        expires, colon, value = kept.partition(b":")
        if not colon or (expires and not expires.isdigit()):
            return kept  # damaged: were it gone, nobody would see the damage
        return None if expires and int(expires) <= self._now() else value

    def living(self, rows: Sequence[bytes]) -> dict[str, bytes]:
        found = zip(rows[::2], map(self.value_of, rows[1::2]), strict=True)
        return {key.decode("utf-8", "backslashreplace"): value for key, value in found if value is not None}


class RecordSubscription(Subscription):
    """The subscribers of one space, and the values that they know."""

    def __init__(self, records: RedisRecords, space: str) -> None:
        super().__init__(records.topology, tag_of(space), records.keys(space)[0])
        self.subscribers = RecordSubscribers()
        self.values: dict[str, bytes] = {}
        self.is_filled = False
        self._records, self._space = records, space
        self._unread: set[str] | None = None  # None: all

    def on_subscribed(self) -> None:
        self._unread = None
        super().on_subscribed()

    def on_message(self, data: bytes) -> None:
        keys = set(json.loads(data))
        if self._unread is not None:
            self._unread |= keys
        self.refresh()

    def apply(self, changes: Values) -> None:
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
        self.subscribers.announce(changes)

    async def read(self) -> None:
        keys, self._unread = self._unread, set()
        try:
            if keys is None:
                await self._records.read(self._space, self._fill, b"HGETALL")
            elif keys:
                await self._records.read(self._space, partial(self._update, keys), b"HMGET", *keys)
        except StoreUnavailable:
            self._unread = None
            raise

    def _fill(self, rows: Sequence[bytes]) -> None:
        self.is_filled = True
        self._apply_differences({**dict.fromkeys(self.values), **self._records.living(rows)})

    def _update(self, keys: Set[str], kept: Sequence[bytes | None]) -> None:
        self._apply_differences({key: self._records.value_of(each) for key, each in zip(keys, kept, strict=True)})

    def _apply_differences(self, values: Values) -> None:
        self.apply({key: value for key, value in values.items() if self.values.get(key) != value})


def tag_of(space: str) -> str:
    # A hash tag ends at the first closing brace.
    return space.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


def _optional(number: int | None) -> Argument:
    return b"" if number is None else number


def _flat(values: Values) -> list[Argument]:
    flat: list[Argument] = []
    for key, value in values.items():
        flat += (key, b"" if value is None else b"1", value or b"")
    return flat
