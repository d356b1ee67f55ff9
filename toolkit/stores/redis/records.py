"""Records in Redis: each space is one hash, and what one call changes is one script.

A watched space is held in memory. The response to an own change is applied at once; a message names keys whose values
are read. All calls of a space go to Redis in one order, and their responses are applied in that order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from toolkit.errors import StoreUnavailable
from toolkit.stores.group_commit import failed
from toolkit.stores.redis.batches import RECORDS, Argument, Call
from toolkit.stores.redis.listener import Subscription
from toolkit.stores.redis.topology import Topology
from toolkit.stores.subscribers import Watcher, Watchers

Changes = Mapping[str, bytes | None]


class RedisRecords:
    """See `toolkit.stores.Records`; spaces of another kind are others."""

    def __init__(self, topology: Topology, kind: str, now: Callable[[], int]) -> None:
        self.topology, self._kind, self._now = topology, kind, now
        self._spaces: dict[str, _Space] = {}

    def keys(self, space: str) -> list[bytes]:
        values = self.topology.key(tag_of(space), self._kind)
        return [values, values + b":expiries"]

    def get(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        return self._read(space, b"HGET", key, read=self._living)

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> asyncio.Future[None]:
        arguments = [b"compare_and_set", _given(expires), 0, *_flat({key: value})]
        return self._change(space, arguments, lambda _: (None, {key: value}))

    def take(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        return self._change(space, [b"take", key], lambda value: (value, {} if value is None else {key: None}))

    def count(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> asyncio.Future[int]:
        arguments = [b"count", key, _given(limit), _given(expires)]
        return self._change(space, arguments, lambda number: (number, {key: b"%d" % number} if number else {}))

    def compare_and_set(
        self,
        space: str,
        expected: Mapping[str, bytes | None],
        changes: Mapping[str, bytes | None],
        expires: int | None = None,
    ) -> asyncio.Future[bool]:
        changes = dict(changes)
        arguments = [b"compare_and_set", _given(expires), len(expected), *_flat(expected), *_flat(changes)]
        return self._change(space, arguments, lambda done: (bool(done), changes if done else {}))

    def scan(self, space: str) -> asyncio.Future[dict[str, bytes]]:
        return self._read(space, b"HGETALL", read=self._all_living)

    async def watch(self, space: str, watcher: Watcher) -> Callable[[], None]:
        watched = self._spaces.get(space)
        if watched is None:
            watched = self._spaces[space] = _Space(self, space)
            watched.listen()
        if not watched.is_filled:
            await self.read(space, None, watched.fill)
        # No waiting from here on: this watcher hears of every later change.
        return watched.watchers.begin(space, watcher, watched.values)

    def close(self) -> None:
        for space in self._spaces.values():
            space.close()

    def read(self, space: str, keys: Set[str] | None, apply: Callable[[Changes], None]) -> asyncio.Future[None]:
        """Read these values of a space, or all, and apply them before the response to any later call."""
        if keys is None:
            return self._read(space, b"HGETALL", read=lambda pairs: apply(self._all_living(pairs)))
        living = self._living
        return self._read(space, b"HMGET", *keys, read=lambda kept: apply(dict(zip(keys, map(living, kept)))))  # noqa: B905

    def _read(self, space: str, command: bytes, *keys: str, read: Callable[[Any], Any]) -> asyncio.Future[Any]:
        return self._ask(lambda: Call(tag_of(space), command, self.keys(space)[0], *keys, read=read))

    def _change(
        self, space: str, arguments: Sequence[Argument], read: Callable[[Any], tuple[Any, Changes]]
    ) -> asyncio.Future[Any]:
        def apply(response: Any) -> Any:  # noqa: ANN401
            result, changes = read(response)
            if space in self._spaces:
                self._spaces[space].apply(changes)
            return result

        given = self._now(), *arguments
        return self._ask(lambda: Call(tag_of(space), *given, script=RECORDS, keys=self.keys(space), read=apply))

    def _ask(self, make: Callable[[], Call]) -> asyncio.Future[Any]:
        try:
            call = make()
        except UnicodeEncodeError as error:
            return failed(error)
        # Reads, too, in the order of the writes: a caller reads what this gateway was asked to write before.
        return self.topology.node_of(call.tag).writing.submit(call)

    def _living(self, kept: bytes | None) -> bytes | None:
        if kept is None:
            return None
        expires, colon, value = kept.partition(b":")
        if not colon or (expires and not expires.isdigit()):
            return kept  # damaged: were it gone, nobody would see the damage
        return None if expires and int(expires) <= self._now() else value

    def _all_living(self, answer: Sequence[bytes]) -> dict[str, bytes]:
        found = zip(answer[::2], map(self._living, answer[1::2]), strict=True)
        return {key.decode("utf-8", "backslashreplace"): value for key, value in found if value is not None}


class _Space(Subscription):
    """The watchers of one space, and the values that they know."""

    def __init__(self, records: RedisRecords, name: str) -> None:
        super().__init__(records.topology, tag_of(name), records.keys(name)[0])
        self.watchers = Watchers()
        self.values: dict[str, bytes] = {}
        self.is_filled = False
        self._records, self._name = records, name
        self._unread: set[str] | None = set()  # None: all

    def on_subscribed(self) -> None:
        self._unread = None
        super().on_subscribed()

    def on_message(self, data: bytes) -> None:
        keys = set(json.loads(data))
        if self._unread is not None:
            self._unread |= keys
        self.refresh()

    def fill(self, values: Changes) -> None:
        self.is_filled = True
        self._differ({**dict.fromkeys(self.values), **values})

    def apply(self, changes: Changes) -> None:
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
        self.watchers.announce(changes)

    async def read(self) -> None:
        keys, self._unread = self._unread, set()
        try:
            if keys is None or keys:
                await self._records.read(self._name, keys, self._differ if keys else self.fill)
        except StoreUnavailable:
            self._unread = None
            raise

    def _differ(self, values: Changes) -> None:
        self.apply({key: value for key, value in values.items() if self.values.get(key) != value})


def tag_of(space: str) -> str:
    # A hash tag ends at the first closing brace.
    return space.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


def _given(number: int | None) -> Argument:
    return b"" if number is None else number


def _flat(values: Changes) -> list[Argument]:
    flat: list[Argument] = []
    for key, value in values.items():
        flat += (key, b"" if value is None else b"1", value or b"")
    return flat
