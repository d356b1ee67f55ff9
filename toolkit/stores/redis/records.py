"""Records in Redis: each space is one hash, and what one call changes is one script.

A watched space is held in memory. The response to an own change is applied at once. A message says which keys have
changed, and their values are read: it may be another gateway's change, or an own one whose response was lost. All
calls of a space go to Redis in one order, and their responses are applied in that order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from toolkit.stores import StoreUnavailable
from toolkit.stores.group_commit import failed
from toolkit.stores.redis.calls import Argument, Call
from toolkit.stores.redis.listener import Channel, Listener
from toolkit.stores.redis.scripts import COUNT, SWAP, TAKE, Script
from toolkit.stores.redis.subscription import Refresh
from toolkit.stores.redis.topology import Topology
from toolkit.stores.subscribers import Watcher, Watchers

Changes = Mapping[str, bytes | None]


class RedisRecords:
    """See `toolkit.stores.Records`. The kinds ``records`` and ``fleeting`` do not know each other's spaces."""

    def __init__(self, topology: Topology, listener: Listener, kind: str, now: Callable[[], int]) -> None:
        self._topology = topology
        self._listener = listener
        self._kind = kind
        self._now = now
        self._spaces: dict[str, _Space] = {}

    def keys(self, space: str) -> list[bytes]:
        """Return the keys of a space: its values and their expiries."""
        values = self._topology.key(_tag(space), self._kind).encode("utf-8")
        return [values, values + b":expiries"]

    def get(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value, or None."""
        return self._ask(lambda: Call(_tag(space), b"HGET", self.keys(space)[0], key, read=self._living))

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> asyncio.Future[None]:
        """Set the value."""
        arguments = [_given(expires), 0, *_flat({key: value})]
        return self._change(SWAP, space, arguments, lambda _: (None, {key: value}))

    def take(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value and remove it."""
        return self._change(TAKE, space, [key], lambda value: (value, {} if value is None else {key: None}))

    def count(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> asyncio.Future[int]:
        """Add one, or return 0 where that would pass `limit`."""
        arguments = [key, _given(limit), _given(expires)]
        return self._change(COUNT, space, arguments, lambda number: (number, {key: b"%d" % number} if number else {}))

    def swap(
        self,
        space: str,
        expected: Mapping[str, bytes | None],
        changes: Mapping[str, bytes | None],
        expires: int | None = None,
    ) -> asyncio.Future[bool]:
        """Make all changes if every expected value still stands."""
        changes = dict(changes)
        arguments = [_given(expires), len(expected), *_flat(expected), *_flat(changes)]
        return self._change(SWAP, space, arguments, lambda done: (bool(done), changes if done else {}))

    def scan(self, space: str) -> asyncio.Future[dict[str, bytes]]:
        """Return all values of the space."""
        return self._ask(lambda: Call(_tag(space), b"HGETALL", self.keys(space)[0], read=self._all_living))

    def close(self) -> None:
        """Tell the watchers nothing any more."""
        for space in self._spaces.values():
            space.refresh.close()

    async def read(self, space: str, keys: Iterable[str] | None, apply: Callable[[Changes], None]) -> None:
        """Read these values of a space, or all, and apply them before the response to any later call."""

        def apply_some(values: Sequence[bytes | None]) -> None:
            apply(dict(zip(keys or (), map(self._living, values), strict=True)))

        def apply_all(pairs: Sequence[bytes]) -> None:
            apply(self._all_living(pairs))

        command, read = (b"HGETALL", apply_all) if keys is None else (b"HMGET", apply_some)
        await self._ask(lambda: Call(_tag(space), command, self.keys(space)[0], *(keys or ()), read=read))

    async def watch(self, space: str, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with every present value, then with every change."""
        watched = self._spaces.get(space)
        if watched is None:
            watched = self._spaces[space] = _Space(self, space)
            calls = watched.on_subscribed, watched.on_lost, watched.on_message
            self._listener.subscribe(Channel(self.keys(space)[0], _tag(space), *calls))
        if not watched.is_filled:
            await self.read(space, None, watched.fill)
        # No waiting from here on: this watcher hears of every later change.
        return watched.watchers.begin(space, watcher, watched.values)

    def _change(
        self, script: Script, space: str, arguments: Sequence[Argument], read: Callable[[Any], tuple[Any, Changes]]
    ) -> asyncio.Future[Any]:
        """Run a script; `read` makes the caller's result and the changes of its response."""

        def apply(response: Any) -> Any:  # noqa: ANN401
            result, changes = read(response)
            if space in self._spaces:
                self._spaces[space].apply(changes)
            return result

        given = (self._now(), *arguments)
        return self._ask(
            lambda: Call(_tag(space), *given, script=script, keys=self.keys(space), read=apply, writes=True)
        )

    def _ask(self, make: Callable[[], Call]) -> asyncio.Future[Any]:
        # All in the order of the writes: a caller reads what this gateway was asked to write before.
        try:
            call = make()
        except UnicodeEncodeError as error:
            return failed(error)
        self._topology.write(call)
        return call.future

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


class _Space:
    """The watchers of one space, and the values that they know."""

    def __init__(self, records: RedisRecords, name: str) -> None:
        self.watchers = Watchers()
        self.values: dict[str, bytes] = {}
        self.is_filled = False
        self._records, self._name = records, name
        self._unread: set[str] | None = set()  # None: all
        self.refresh = Refresh(self._read)

    def on_subscribed(self) -> None:
        self._unread = None
        self.refresh.request()

    def on_lost(self) -> None:
        """Do nothing: the whole space is read once it is subscribed again."""

    def on_message(self, data: bytes) -> None:
        keys = json.loads(data)
        if self._unread is not None:
            self._unread.update(keys)
        self.refresh.request()

    def fill(self, values: Changes) -> None:
        """Take all values; the watchers hear of the differences."""
        self.is_filled = True
        self._differ({**dict.fromkeys(self.values), **values})

    def apply(self, changes: Changes) -> None:
        """Tell the watchers of changes."""
        if self.refresh.is_closed:
            return
        for key, value in changes.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
        self.watchers.announce(changes)

    def _differ(self, values: Changes) -> None:
        self.apply({key: value for key, value in values.items() if self.values.get(key) != value})

    async def _read(self) -> None:
        keys, self._unread = self._unread, set()
        try:
            if keys is None or keys:
                await self._records.read(self._name, keys, self._differ if keys else self.fill)
        except StoreUnavailable:
            self._unread = None
            raise


def _tag(space: str) -> str:
    # A hash tag ends at the first closing brace.
    return space.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")


def _given(number: int | None) -> Argument:
    return b"" if number is None else number


def _flat(values: Changes) -> list[Argument]:
    flat: list[Argument] = []
    for key, value in values.items():
        flat += (key, b"" if value is None else b"1", value or b"")
    return flat
