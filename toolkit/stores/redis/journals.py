"""Journals in Redis: each is one stream, and all appends that wait for one hash tag become one script call."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from toolkit.stores import Draft, Entry, Follower
from toolkit.stores.group_commit import failed
from toolkit.stores.redis.calls import Append, Argument, Call
from toolkit.stores.redis.entries import entries_of
from toolkit.stores.redis.listener import Channel, Listener
from toolkit.stores.redis.subscription import JournalSubscription
from toolkit.stores.redis.topology import Topology

_ENTRIES_A_READ = 1_000
# A name that is no longer followed is often followed again at once: its channel stays open for so long.
_SECONDS_TO_LINGER = 2.0


class RedisJournals:
    """See `toolkit.stores.Journals`. Streams live in `topology` and are heard by `listener`."""

    is_shared = True

    def __init__(self, topology: Topology, listener: Listener) -> None:
        self._topology = topology
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._subscriptions: dict[str, JournalSubscription] = {}
        self._stems = {tag: topology.key(tag, "journal:").encode("utf-8") for tag in topology.tags}

    def place(self, name: str) -> tuple[str, bytes]:
        """Return the hash tag of a journal and the key of its stream; its channel is named like the key."""
        data, tags = name.encode("utf-8"), self._topology.tags
        tag = tags[zlib.crc32(data) % len(tags)]
        return tag, self._stems[tag] + data

    def heads(self, tag: str) -> tuple[list[bytes], int]:
        """Return the keys of the epochs and of the names of a hash tag, and how long the stem of a stream's key is."""
        keys = [self._topology.key(tag, name).encode("utf-8") for name in ("epochs", "names")]
        return keys, len(self._stems[tag])

    # -- writing ------------------------------------------------------------------------------------------

    def append(
        self, name: str, drafts: Sequence[Draft], keep: int | None = None, floor: int | None = None
    ) -> asyncio.Future[list[Entry]]:
        """Append all drafts in order, or none."""
        try:
            append = Append(self, name, drafts, keep, floor)
        except UnicodeEncodeError as error:
            return failed(error)
        if drafts:
            self._topology.write(append)
        else:
            append.result = []
            append.settle()
        return append.future

    def used(self, name: str) -> int:
        """Return the highest number that was heard of here: a master that died may have lost it."""
        subscription = self._subscriptions.get(name)
        return 0 if subscription is None else subscription.position or 0

    def appended(self, name: str, appends: Sequence[Append], before: int, last: int) -> None:
        """Give numbers to what was appended, tell the followers, then the callers."""
        number = last - sum([len(append.drafts) for append in appends])
        for append in appends:
            drafts = enumerate(append.drafts, number + 1)
            append.result = [Entry(sequence, at, id_, data) for sequence, (at, id_, data) in drafts]
            number += len(append.drafts)
        subscription = self._subscriptions.get(name)
        if subscription is not None:
            subscription.offer(before, last, [entry for append in appends for entry in append.result])
        for append in appends:
            if subscription is None:
                append.settle()
            else:
                subscription.when_delivered(last, append.settle)

    # -- reading ------------------------------------------------------------------------------------------

    async def last(self, name: str, count: int) -> list[Entry]:
        """Return at most the last `count` entries, oldest first."""
        await self._begin(name)
        tag, key = self.place(name)
        return entries_of((await self._ask(tag, b"XREVRANGE", key, b"+", b"-", b"COUNT", count))[::-1])

    async def after(self, name: str, sequence: int, count: int | None = None) -> list[Entry]:
        """Return the entries numbered above `sequence`, oldest first."""
        await self._begin(name)
        return await self.read_after(name, sequence, count)

    async def between(self, name: str, start: int, end: int) -> list[Entry]:
        """Return the entries with ``start <= at < end``, oldest first."""
        await self._begin(name)
        found: list[Entry] = []
        last, is_more = 0, True
        while is_more:
            page = await self.read_after(name, last, _ENTRIES_A_READ)
            found += [entry for entry in page if start <= entry.at < end]
            if is_more := len(page) == _ENTRIES_A_READ:
                last = page[-1].sequence
        return found

    async def find(self, name: str, id: str) -> Entry | None:  # noqa: A002
        """Return the entry with this identifier."""
        await self._begin(name)
        (tag, key), end = self.place(name), b"+"
        while end:  # backwards: who asks resumes behind an entry that is not old
            rows = await self._ask(tag, b"XREVRANGE", key, end, b"-", b"COUNT", _ENTRIES_A_READ)
            for entry in entries_of(rows):
                if entry.id == id:
                    return entry
            end = b"(" + rows[-1][0] if len(rows) == _ENTRIES_A_READ else b""
        return None

    async def names(self, prefix: str, count: int) -> list[str]:
        """Return the names with this prefix, the most recently written first."""
        of_tags = await asyncio.gather(*(self._names(tag, prefix, count) for tag in self._topology.tags))
        found = sorted((-at, name) for names in of_tags for name, at in names)
        return [name for _, name in found[:count]]

    async def read_after(self, name: str, sequence: int, count: int | None = None) -> list[Entry]:
        """Return the entries numbered above `sequence`, also before it is known where followers begin."""
        tag, key = self.place(name)
        found: list[Entry] = []
        while count is None or len(found) < count:
            wanted = _ENTRIES_A_READ if count is None else min(count - len(found), _ENTRIES_A_READ)
            rows = await self._ask(tag, b"XRANGE", key, f"(0-{sequence}", b"+", b"COUNT", wanted)
            found += entries_of(rows)
            if len(rows) < wanted:
                break
            sequence = found[-1].sequence
        return found

    async def _begin(self, name: str) -> None:
        # What is read must reach up to where the followers begin, or what lies between would be missed.
        if subscription := self._subscriptions.get(name):
            await subscription.begin()

    async def _names(self, tag: str, prefix: str, count: int) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = []
        for last in (count + 100, -1):  # all of them only where many have another prefix
            rows = await self._ask(tag, b"ZREVRANGE", self._topology.key(tag, "names"), 0, last, b"WITHSCORES")
            names = [(name.decode("utf-8"), float(at)) for name, at in zip(rows[::2], rows[1::2], strict=True)]
            found = [(name, at) for name, at in names if name.startswith(prefix)]
            if len(found) >= count or len(names) <= last:
                break
        return found

    def _ask(self, tag: str, *arguments: Argument) -> asyncio.Future[Any]:
        call = Call(tag, *arguments)
        self._topology.read(call)
        return call.future

    # -- following ----------------------------------------------------------------------------------------

    def follow(self, name: str, follower: Follower) -> Callable[[], None]:
        """Call `follower` with every entry committed from now on."""
        subscription = self._subscriptions.get(name)
        if subscription is None:
            subscription = self._subscriptions[name] = JournalSubscription(self, name)
            tag, key = self.place(name)
            calls = subscription.on_subscribed, subscription.on_lost, subscription.on_message
            self._listener.subscribe(Channel(key, tag, *calls))
        end = subscription.followers.add(follower)

        def stop() -> None:
            end()
            if not subscription.followers:
                self._loop.call_later(_SECONDS_TO_LINGER, self._forget, subscription)

        return stop

    def is_heard(self, name: str) -> bool:
        """Whether followers of this name hear what is committed now."""
        subscription = self._subscriptions.get(name)
        return subscription is not None and subscription.is_live

    def last_number(self, name: str) -> asyncio.Future[int]:
        """Return the number of the last entry before all that this gateway appends from now on."""
        tag, key = self.place(name)
        call = Call(
            tag, b"XREVRANGE", key, b"+", b"-", b"COUNT", 1, read=lambda rows: int(rows[0][0][2:]) if rows else 0
        )
        self._topology.write(call)
        return call.future

    def close(self) -> None:
        """Deliver nothing any more."""
        for subscription in self._subscriptions.values():
            subscription.close()

    def _forget(self, subscription: JournalSubscription) -> None:
        name = subscription.name
        if not subscription.followers and self._subscriptions.get(name) is subscription:
            del self._subscriptions[name]
            subscription.close()
            self._listener.unsubscribe(self.place(name)[1])
