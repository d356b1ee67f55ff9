"""Journals in Redis: each is one stream, and all appends that wait for one hash tag become one script call."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any

from toolkit.stores import Draft, Entry, Follower
from toolkit.stores.group_commit import failed
from toolkit.stores.redis.batches import Argument, Call
from toolkit.stores.redis.listener import Subscription
from toolkit.stores.redis.scripts import APPEND
from toolkit.stores.redis.topology import Topology
from toolkit.stores.subscribers import Subscribers

# An entry is one field of a stream entry, packed, because every field costs Redis time: its time, the lengths of its id
# and of its data; both follow.
_ENTRY = Struct(">dII")
_HEAD = Struct(">dddI")  # see append.lua
_ENTRIES_A_READ = 1_000
# A name that is no longer followed is often followed again at once: its channel stays open for so long.
_SECONDS_TO_LINGER = 2.0
_SECONDS_FOR_RESPONSE = 0.001

# Makes an Entry of its fields, twice as fast as Entry(*fields).
_entry: Callable[[tuple[int, int, str, bytes]], Entry] = partial(tuple.__new__, Entry)


class Append(Call):
    """One append to one journal; all of a group are one script call."""

    __slots__ = ("drafts", "floor", "journals", "keep", "key", "name", "packed")

    def __init__(
        self, journals: RedisJournals, name: str, drafts: Sequence[Draft], keep: int | None, floor: int | None
    ) -> None:
        tag, self.key = journals.place(name)
        super().__init__(tag)
        self.packed = b"".join([_packed(draft) for draft in drafts])
        self.journals, self.name, self.drafts = journals, name, drafts
        self.keep, self.floor = -1 if keep is None else keep, -1 if floor is None else floor
        self.writes, self.entries = True, len(drafts)
        self.size += len(self.packed)

    def command(self, group: Sequence[Append], run: Sequence[bytes]) -> Sequence[Argument]:
        stem, epochs, names = self.journals.keys[self.tag]
        keys = [epochs, names, *[append.key for append in group]]
        appends = [append.head() + append.packed for append in group]
        return (b"EVALSHA", APPEND, len(keys), *keys, *run, len(stem) + 1, *appends)

    def head(self) -> bytes:
        # A master that died may have lost numbers that were heard of here.
        subscription = self.journals.subscriptions.get(self.name)
        used = 0 if subscription is None else subscription.position or 0
        return _HEAD.pack(used, self.keep, self.floor, self.entries)

    def answer(self, group: Sequence[Append], response: Sequence[int]) -> None:
        for append, before, last in zip(group, response[::2], response[1::2], strict=True):
            drafts = enumerate(append.drafts, last - append.entries + 1)
            append.result = [_entry((number, at, id_, data)) for number, (at, id_, data) in drafts]
            subscription = self.journals.subscriptions.get(append.name)
            if subscription is None:
                append.settle()
            else:
                subscription.offer(before, append.result, append.settle)


class RedisJournals:
    """See `toolkit.stores.Journals`."""

    is_shared = True

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.subscriptions: dict[str, JournalSubscription] = {}
        self.keys = {tag: [topology.key(tag, key) for key in ("journal:", "epochs", "names")] for tag in topology.tags}

    def place(self, name: str) -> tuple[str, bytes]:
        """Return the hash tag of a journal and the key of its stream; its channel is named like the key."""
        data, tags = name.encode("utf-8"), self.topology.tags
        tag = tags[zlib.crc32(data) % len(tags)]
        return tag, self.keys[tag][0] + data

    def append(
        self, name: str, drafts: Sequence[Draft], keep: int | None = None, floor: int | None = None
    ) -> asyncio.Future[list[Entry]]:
        try:
            append = Append(self, name, drafts, keep, floor)
        except UnicodeEncodeError as error:
            return failed(error)
        if drafts:
            return self.topology.node_of(append.tag).writing.submit(append)
        append.future.set_result([])
        return append.future

    async def last(self, name: str, count: int) -> list[Entry]:
        await self._begin(name)
        return (await self._read(name, b"XREVRANGE", b"+", b"-", count))[::-1]

    async def after(self, name: str, sequence: int, count: int | None = None) -> list[Entry]:
        await self._begin(name)
        if count is not None:
            return await self._read(name, b"XRANGE", f"(0-{sequence}", b"+", count)
        return [entry async for page in self.pages(name, sequence) for entry in page]

    async def between(self, name: str, start: int, end: int) -> list[Entry]:
        await self._begin(name)
        return [entry async for page in self.pages(name, 0) for entry in page if start <= entry.at < end]

    async def find(self, name: str, id: str) -> Entry | None:  # noqa: A002
        await self._begin(name)
        end = "+"
        # Newest first: a caller that resumes a stream asks for a recent entry.
        while page := await self._read(name, b"XREVRANGE", end, b"-", _ENTRIES_A_READ):
            for entry in page:
                if entry.id == id:
                    return entry
            end = f"(0-{page[-1].sequence}"
        return None

    async def names(self, prefix: str, count: int) -> list[str]:
        of_tags = await asyncio.gather(*(self._names(tag, prefix, count) for tag in self.topology.tags))
        found = sorted((-at, name) for names in of_tags for name, at in names)
        return [name for _, name in found[:count]]

    async def pages(self, name: str, sequence: int) -> AsyncIterator[list[Entry]]:
        """Give the entries numbered above `sequence`, also before it is known where followers begin."""
        page = None
        while page is None or len(page) == _ENTRIES_A_READ:
            page = await self._read(name, b"XRANGE", f"(0-{sequence}", b"+", _ENTRIES_A_READ)
            yield page
            sequence = page[-1].sequence if page else sequence

    def last_number(self, name: str) -> asyncio.Future[int]:
        """Return the number of the last entry before all that this gateway appends from now on."""
        tag, key = self.place(name)
        newest = Call(
            tag, b"XREVRANGE", key, b"+", b"-", b"COUNT", 1, read=lambda rows: rows and int(rows[0][0][2:]) or 0
        )
        return self.topology.node_of(tag).writing.submit(newest)

    async def _begin(self, name: str) -> None:
        # What is read must reach up to where the followers begin, or what lies between would be missed.
        if subscription := self.subscriptions.get(name):
            await subscription.begin()

    def _read(
        self, name: str, command: bytes, start: str | bytes, end: bytes, count: int
    ) -> asyncio.Future[list[Entry]]:
        tag, key = self.place(name)
        return self._ask(Call(tag, command, key, start, end, b"COUNT", count, read=_entries))

    async def _names(self, tag: str, prefix: str, count: int) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = []
        for last in (count + 100, -1):  # all of them only where many have another prefix
            rows = await self._ask(Call(tag, b"ZREVRANGE", self.keys[tag][2], 0, last, b"WITHSCORES"))
            names = [(name.decode("utf-8"), float(at)) for name, at in zip(rows[::2], rows[1::2], strict=True)]
            found = [(name, at) for name, at in names if name.startswith(prefix)]
            if len(found) >= count or len(names) <= last:
                break
        return found

    def _ask(self, call: Call) -> asyncio.Future[Any]:
        # Not behind the writes: a long history holds up none of them.
        return self.topology.node_of(call.tag).reading.submit(call)

    def follow(self, name: str, follower: Follower) -> Callable[[], None]:
        subscription = self.subscriptions.get(name)
        if subscription is None:
            subscription = self.subscriptions[name] = JournalSubscription(self, name)
            subscription.listen()
        end = subscription.followers.add(follower)

        def stop() -> None:
            end()
            if not subscription.followers:
                asyncio.get_running_loop().call_later(_SECONDS_TO_LINGER, self._forget, subscription)

        return stop

    def is_heard(self, name: str) -> bool:
        subscription = self.subscriptions.get(name)
        return subscription is not None and subscription.is_live

    def close(self) -> None:
        for subscription in self.subscriptions.values():
            subscription.close()

    def _forget(self, subscription: JournalSubscription) -> None:
        if not subscription.followers and self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            subscription.close()


class JournalSubscription(Subscription):
    """The followers of one journal: they get every entry in order, none twice, and none is missed.

    Entries come as the responses to this gateway's own appends; a message says that there are others, which are read.
    ``position`` is the number delivered last, None until it is known where to begin.
    """

    def __init__(self, journals: RedisJournals, name: str) -> None:
        super().__init__(journals.topology, *journals.place(name))
        self.name = name
        self.followers: Subscribers[[Sequence[Entry]]] = Subscribers()
        self.position: int | None = None
        self._journals = journals
        # Asked for at once, so that whatever this gateway appends from now on comes after it.
        self._last_number = journals.last_number(name)
        self.refresh()

    async def begin(self) -> None:
        """Find out where to begin, unless that is known; raise StoreUnavailable while Redis is away."""
        if self._last_number.done() and self._last_number.exception() is not None:
            self._last_number = self._journals.last_number(self.name)
        number = await asyncio.shield(self._last_number)
        if self.position is None:  # else own entries have come first
            self.position = number

    def on_message(self, data: bytes) -> None:
        # If it is an own append, its response is as good as here.
        self._loop.call_later(_SECONDS_FOR_RESPONSE, self._catch_up, int(data))

    def offer(self, before: int, entries: Sequence[Entry], then: Callable[[], None]) -> None:
        """Deliver entries of this gateway, and call `then`; `before` is the number before the first of them."""
        if self.position is None or before <= self.position:
            self._deliver(entries)
            then()
        else:  # others are missing in between
            self.refresh().add_done_callback(lambda _: then())

    def _catch_up(self, number: int) -> None:
        if number > (self.position or 0):
            self.refresh()

    async def read(self) -> None:
        await self.begin()
        async for page in self._journals.pages(self.name, self.position or 0):
            if page:
                self._deliver(page)

    def _deliver(self, entries: Sequence[Entry]) -> None:
        position, last = self.position or 0, entries[-1].sequence
        if last > position:
            self.position = last
            self.followers.tell([entry for entry in entries if entry.sequence > position])


def _packed(draft: Draft) -> bytes:
    at, text, data = draft
    id_ = text.encode("utf-8")
    return _ENTRY.pack(at, len(id_), len(data)) + id_ + data


def _entries(rows: Sequence[Any]) -> list[Entry]:
    """Read entries as XRANGE returns them: an id ``0-number`` and a packed field."""
    found = []
    for number, (_, packed) in rows:
        at, id_size, data_size = _ENTRY.unpack_from(packed)
        data_at = _ENTRY.size + id_size
        id_ = packed[_ENTRY.size : data_at].decode("utf-8")
        found.append(_entry((int(number[2:]), int(at), id_, packed[data_at : data_at + data_size])))
    return found
