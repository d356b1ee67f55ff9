"""Records in Redis: each space is one hash, and all changes of one call are made by one script call.

A space with subscribers is held in memory. A response to a change of this gateway is applied at once; a message names
the keys that any gateway has changed, and their values are read. All commands of a space go to Redis in one order, and
their responses are applied in that order.
"""

from __future__ import annotations

import json
from asyncio import Future
from collections.abc import Callable, Collection, Sequence, Set
from functools import partial
from typing import Any

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import Values
from toolkit_gateway.stores.group_commit import done_future
from toolkit_gateway.stores.hash_tag import hash_tag
from toolkit_gateway.stores.redis.commands import RECORDS, Argument, Command
from toolkit_gateway.stores.redis.listener import Subscription
from toolkit_gateway.stores.redis.topology import Topology
from toolkit_gateway.stores.subscribers import RecordSubscriber, RecordSubscribers


class RedisRecords:
    """See `toolkit_gateway.stores.Records`; each kind (records, ephemeral) has its own spaces."""

    def __init__(self, topology: Topology, kind: str, now: Callable[[], int]) -> None:
        self.topology, self._kind, self._now = topology, kind, now
        self.subscriptions: dict[str, RecordSubscription] = {}

    def keys(self, space: str) -> list[bytes]:
        tag = hash_tag(space)
        rest = "" if tag is None else "/" + space[len(tag) + 2 :].replace("%", "%25").replace(":", "%3A")
        values = self.topology.key(tag_of(space), self._kind + rest)
        return [values, values + b":expiries"]

    def get(self, space: str, key: str) -> Future[bytes | None]:
        return self.read(space, self.value_of, b"HGET", key)

    def get_many(self, space: str, keys: Collection[str]) -> Future[Values]:
        def read(stored: Sequence[bytes | None]) -> Values:
            return {key: self.value_of(value) for key, value in zip(keys, stored, strict=True)}

        return self.read(space, read, b"HMGET", *keys) if keys else done_future({})

    def scan(self, space: str) -> Future[dict[str, bytes]]:
        return self.read(space, self.unexpired, b"HGETALL")

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> Future[None]:
        arguments = b"compare_and_set", optional(expires), 0, *flat({key: value})
        return self._change(space, arguments, lambda _: (None, {key: value}))

    def increment(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> Future[int]:
        arguments = b"increment", key, optional(limit), optional(expires)
        return self._change(space, arguments, lambda count: (count, {key: b"%d" % count} if count else {}))

    def compare_and_set(
        self, space: str, expected: Values, changes: Values, expires: int | None = None
    ) -> Future[bool]:
        changes = dict(changes)
        arguments = b"compare_and_set", optional(expires), len(expected), *flat(expected), *flat(changes)
        return self._change(space, arguments, lambda is_done: (bool(is_done), changes if is_done else {}))

    async def subscribe(self, space: str, subscriber: RecordSubscriber) -> Callable[[], None]:
        subscription = self.subscriptions.get(space)
        if subscription is None:
            subscription = self.subscriptions[space] = RecordSubscription(self, space)
        if not subscription.is_filled:
            await subscription.read()
        # Nothing is awaited from here on, so this subscriber gets every later change.
        return subscription.subscribers.announce_and_subscribe(space, subscriber, subscription.values)

    def read(self, space: str, read: Callable[[Any], Any], command: bytes, *keys: str) -> Future[Any]:
        """Read values in the order of the writes, so that a caller sees all earlier changes of this gateway."""
        return self.topology.send(lambda: Command(tag_of(space), command, self.keys(space)[0], *keys, read=read))

    def _change(
        self, space: str, arguments: Sequence[Argument], read: Callable[[Any], tuple[Any, Values]]
    ) -> Future[Any]:
        def apply(response: Any) -> Any:  # noqa: ANN401
            result, changes = read(response)
            self.announce(space, changes)
            return result

        timed = self._now(), *arguments
        return self.topology.send(
            lambda: Command(tag_of(space), *timed, script=RECORDS, keys=self.keys(space), read=apply)
        )

    def announce(self, space: str, changes: Values) -> None:
        if space in self.subscriptions:
            self.subscriptions[space].apply(changes)

    def value_of(self, stored: bytes | None) -> bytes | None:
        if stored is None:
            return None
        expires, colon, value = stored.partition(b":")
        if not colon or (expires and not expires.isdigit()):
            return stored  # damaged: callers must get it, or nobody would notice the damage
        return None if expires and int(expires) <= self._now() else value

    def unexpired(self, rows: Sequence[bytes]) -> dict[str, bytes]:
        values = zip(rows[::2], map(self.value_of, rows[1::2]), strict=True)
        return {key.decode("utf-8", "backslashreplace"): value for key, value in values if value is not None}


class RecordSubscription(Subscription):
    """The subscribers of one space, and the values as they were announced to them."""

    def __init__(self, records: RedisRecords, space: str) -> None:
        super().__init__(records.topology, tag_of(space), records.keys(space)[0])
        self.subscribers = RecordSubscribers()
        self.values: dict[str, bytes] = {}
        self.is_filled = False
        self._records, self._space = records, space
        self._unread: set[str] | None = None  # keys whose values must be read; None for all

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
        self._apply_differences({**dict.fromkeys(self.values), **self._records.unexpired(rows)})

    def _update(self, keys: Set[str], stored: Sequence[bytes | None]) -> None:
        self._apply_differences({key: self._records.value_of(value) for key, value in zip(keys, stored, strict=True)})

    def _apply_differences(self, values: Values) -> None:
        self.apply({key: value for key, value in values.items() if self.values.get(key) != value})


def tag_of(space: str) -> str:
    # A hash tag ends at the first closing brace.
    return hash_tag(space) or space.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


def optional(number: int | None) -> Argument:
    return b"" if number is None else number


def flat(values: Values) -> list[Argument]:
    flat: list[Argument] = []
    for key, value in values.items():
        flat += (key, b"" if value is None else b"1", value or b"")
    return flat
