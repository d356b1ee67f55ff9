"""Records in Redis: each space is one hash, and what one call changes is one script.

A space's version counts its changes. Who watches a space holds its values and the version they are of; the answer
to an own change and the message about another gateway's both carry the next one, and a gap is filled by reading
the whole space and telling the difference.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolkit.gateway.stores import cannot_watch
from toolkit.gateway.stores.redis.calls import FutureCall, ScriptCall
from toolkit.gateway.stores.redis.channels import Channels, Listener
from toolkit.gateway.stores.redis.feed import Feed
from toolkit.gateway.stores.redis.link import Argument
from toolkit.gateway.stores.redis.scripts import COUNT, PUT, SNAPSHOT, SWAP, TAKE, Script
from toolkit.gateway.stores.redis.servers import Servers

Watcher = Callable[[str, bytes | None], None]
Changes = Mapping[str, bytes | None]

_HEAD, _CHANGE = struct.Struct(">dI"), struct.Struct(">IBI")


class _Space(Feed[Changes]):
    """The watchers of one space, and what they have been told."""

    def __init__(self, records: RedisRecords, name: str) -> None:
        super().__init__()
        self.name = name
        self.watchers: list[Watcher] = []
        self.values: dict[str, bytes] = {}
        self._records = records
        self._filling = asyncio.Lock()

    def on_message(self, data: bytes) -> None:
        """Take a message of the space's channel."""
        version, changes = _changes_of_message(data)
        self.offer(version - 1, version, changes)

    async def fill(self) -> None:
        """Read all values, unless that was done before."""
        async with self._filling:
            if self.position is None:
                version, self.values = await self._records.snapshot(self.name)
                self.begin(version)

    async def _read(self, position: int) -> bool:
        version, values = await self._records.snapshot(self.name)
        if version < position:  # a master died with what this gateway had heard of
            self.position = version - 1
        if version > (self.position or 0):  # else newer changes were told while this was read
            gone = dict.fromkeys(self.values.keys() - values.keys())
            new = {key: value for key, value in values.items() if self.values.get(key) != value}
            self._take(version, {**gone, **new})
        return False

    def _hand_on(self, news: Changes, position: int) -> None:
        for key, value in news.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
            for watcher in tuple(self.watchers):
                self._tell(watcher, key, value)

    def _tell(self, watcher: Watcher, key: str, value: bytes | None) -> None:
        try:
            watcher(key, value)
        except Exception as error:  # one watcher's mistake must not cost the others their news
            self._loop.call_exception_handler({"message": "a watcher of records failed", "exception": error})


class RedisRecords:
    """See `toolkit.gateway.stores.Records`.

    Parameters
    ----------
    servers, channels
        Where spaces live, and where they are heard.
    kind
        ``records`` or ``fleeting``: two sets of spaces that do not know each other.
    now
        The gateway's clock in milliseconds since the epoch; decides what has expired.
    """

    def __init__(self, servers: Servers, channels: Channels, kind: str, now: Callable[[], int]) -> None:
        self._servers = servers
        self._channels = channels
        self._prefix = f"{servers.address.prefix}{kind}:"
        self._now = now
        self._spaces: dict[str, _Space] = {}

    # -- one key ------------------------------------------------------------------------------------------

    def get(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value, or None."""
        return self._submit(space, FutureCall(b"HGET", self._key(space), key, read=self._living))

    def put(self, space: str, key: str, value: bytes, expires: int | None = None) -> asyncio.Future[None]:
        """Set the value."""
        return self._change(PUT, space, [key, value, _given(expires)], lambda _: (None, {key: value}))

    def take(self, space: str, key: str) -> asyncio.Future[bytes | None]:
        """Return the value and remove it."""
        return self._change(TAKE, space, [key], lambda value: (value, {key: None}))

    def count(self, space: str, key: str, limit: int | None = None, expires: int | None = None) -> asyncio.Future[int]:
        """Add one, or return 0 where that would pass `limit`."""
        arguments = [key, _given(limit), _given(expires)]
        return self._change(COUNT, space, arguments, lambda number: (number, {key: b"%d" % number}))

    # -- many keys ----------------------------------------------------------------------------------------

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
        return self._change(SWAP, space, arguments, lambda done: (bool(done), changes))

    def scan(self, space: str) -> asyncio.Future[dict[str, bytes]]:
        """Return all values of the space."""
        return self._submit(space, FutureCall(b"HGETALL", self._key(space), read=self._all_living))

    def watch(self, space: str, watcher: Watcher) -> asyncio.Future[Callable[[], None]]:
        """Call `watcher` with every present value, then with every change."""
        return asyncio.ensure_future(self._watch(space, watcher))

    async def snapshot(self, space: str) -> tuple[int, dict[str, bytes]]:
        """Return the version of a space and all its values, of one moment."""
        version, values = await self._submit(space, ScriptCall(SNAPSHOT, self.keys(space), writes=False))
        return version, self._all_living(values)

    def close(self) -> None:
        """Tell nobody anything any more."""
        for space in self._spaces.values():
            space.close()

    async def _watch(self, name: str, watcher: Watcher) -> Callable[[], None]:
        space = self._spaces.get(name)
        if space is None:
            space = self._spaces[name] = _Space(self, name)
            self._channels.open(self._key(name), Listener(space.on_open, space.on_shut, space.on_message))
        await space.fill()
        # No waiting from here on: what changes is told to this watcher too.
        try:
            for key, value in space.values.items():
                watcher(key, value)
        except Exception as error:  # the caller must know that nothing is watched
            raise cannot_watch(name, error) from error
        space.watchers.append(watcher)

        def stop() -> None:
            if watcher in space.watchers:
                space.watchers.remove(watcher)

        return stop

    def _change(
        self,
        script: Script,
        space: str,
        arguments: Sequence[Argument],
        read: Callable[[Any], tuple[Any, Changes]],
    ) -> asyncio.Future[Any]:
        """Run a script; its answer is read as the caller's result and what has changed."""
        return self._submit(space, _ChangeCall(self, script, space, arguments, read))

    def first_arguments(self, space: str) -> tuple[int, int]:
        """Return the clock, and the highest version that may be used."""
        return self._now(), self._servers.floor(self._servers.place(self._key(space)))

    def _submit(self, space: str, call: FutureCall) -> asyncio.Future[Any]:
        # All in the lane of the writes: who reads finds what this gateway was asked to write before.
        key = self._key(space)
        try:
            self._servers.writing(self._servers.place(key)).submit(call)
        except UnicodeEncodeError as error:
            call.on_failure(error)
        return call.future

    def changed(self, space: str, version: int, changes: Changes, settle: Callable[[], None]) -> None:
        """Tell the watchers of a change that was made here, then its caller."""
        watched = self._spaces.get(space)
        if watched is None or not version:
            settle()
        else:
            watched.offer(version - 1, version, changes)
            watched.when_told(version, settle)

    # -- keys and values ----------------------------------------------------------------------------------

    def _key(self, space: str) -> str:
        # The braces make the space's name what decides on the slot; none of its own may stand between them.
        return f"{self._prefix}{{{space.replace('%', '%25').replace('{', '%7B').replace('}', '%7D')}}}"

    def keys(self, space: str) -> list[str]:
        """Return the keys of a space: its values, its expiries, its version."""
        values = self._key(space)
        return [values, f"{values}:expiries", f"{values}:version"]

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


class _ChangeCall(ScriptCall):
    """A change: its answer is a result and a version."""

    __slots__ = ("_records", "_space")

    def __init__(
        self,
        records: RedisRecords,
        script: Script,
        space: str,
        arguments: Sequence[Argument],
        read: Callable[[Any], tuple[Any, Changes]],
    ) -> None:
        super().__init__(script, records.keys(space), *arguments, read=read)
        self._records = records
        self._space = space

    def command(self) -> tuple[Argument, ...]:
        """Return the command, with what is known only when it is sent."""
        head = 3 + len(self._records.keys(self._space))
        command = super().command()
        return *command[:head], *self._records.first_arguments(self._space), *command[head:]

    def on_answer(self, answer: Any) -> None:  # noqa: ANN401
        """Tell the watchers, then the caller."""
        assert self._read is not None
        result, changes = self._read(answer[0])
        self._records.changed(self._space, answer[1], changes, lambda: self._settle(result))

    def _settle(self, result: Any) -> None:  # noqa: ANN401
        if not self.future.done():
            self.future.set_result(result)


def _given(number: int | None) -> Argument:
    return b"" if number is None else number


def _flat(values: Changes) -> list[Argument]:
    flat: list[Argument] = []
    for key, value in values.items():
        flat += (key, b"" if value is None else b"1", value or b"")
    return flat


def _changes_of_message(data: bytes) -> tuple[int, Changes]:
    version, count = _HEAD.unpack_from(data)
    here, changes = _HEAD.size, {}
    for _ in range(count):
        key_size, is_set, value_size = _CHANGE.unpack_from(data, here)
        here += _CHANGE.size
        end = here + key_size
        value = data[end : end + value_size]
        changes[data[here:end].decode("utf-8")] = value if is_set else None
        here = end + value_size
    return int(version), changes
