"""Journals in Redis: each is one stream, and all appends that wait for one hash tag become one script call."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any

from toolkit.stores import Entry, NewEntry, Subscriber
from toolkit.stores.group_commit import failed
from toolkit.stores.redis.batches import APPEND, Argument, Call, Run
from toolkit.stores.redis.listener import Subscription
from toolkit.stores.redis.topology import Topology
from toolkit.stores.subscribers import Subscribers

# An entry is one packed field, because every field costs Redis time: its time, two lengths, its id and its data.
_ENTRY = Struct(">dII")
_HEAD = Struct(">dddIB")  # see append.lua
_ENTRIES_A_READ = 1_000
# Updating the index of names costs Redis as much as an append: a busy journal's time in it may lag by so long.
_MILLISECONDS_INDEXED, _MOST_INDEXED = 5_000, 100_000
# A name that is left by its last subscriber often gets another at once: its channel stays open for so long.
_SECONDS_TO_LINGER = 2.0
_SECONDS_FOR_RESPONSE = 0.001

# Makes an Entry of its fields, twice as fast as Entry(*fields).
_entry: Callable[[tuple[int, int, str, bytes]], Entry] = partial(tuple.__new__, Entry)


class Append(Call):
    """One append to one journal; all of a group are one script call."""

    __slots__ = ("drafts", "floor", "journals", "keep", "key", "name", "packed", "run")

    def __init__(
        self, journals: RedisJournals, name: str, drafts: Sequence[NewEntry], keep: int | None, floor: int | None
    ) -> None:
        tag, self.key = journals.place(name)
        super().__init__(tag)
        self.packed = b"".join([_packed(draft) for draft in drafts])
        self.journals, self.name, self.drafts = journals, name, drafts
        self.keep, self.floor = -1 if keep is None else keep, -1 if floor is None else floor
        self.writes, self.entries = True, len(drafts)
        self.size += len(self.packed)

    def command(self, group: Sequence[Append], run: Run) -> Sequence[Argument]:
        stem, epochs, names = self.journals.keys[self.tag]
        keys = [epochs, names, *[append.key for append in group]]
        appends = [append.head(run) + append.packed for append in group]
        return (b"EVALSHA", APPEND, len(keys), *keys, *run, len(stem) + 1, *appends)

    def head(self, run: Run) -> bytes:
        # A master that died may have lost numbers that were heard of here.
        subscription = self.journals.subscriptions.get(self.name)
        used = 0 if subscription is None else subscription.position or 0
        indexed_run, indexed_at = self.journals.indexed.get(self.name, (None, 0))
        is_indexed = indexed_run is run and abs(self.drafts[-1].at - indexed_at) < _MILLISECONDS_INDEXED
        self.run = None if is_indexed else run
        return _HEAD.pack(used, self.keep, self.floor, self.entries, not is_indexed)

    def answer(self, group: Sequence[Append], response: Sequence[int]) -> None:
        subscriptions = self.journals.subscriptions
        for append, before, last in zip(group, response[::2], response[1::2], strict=True):
            drafts = enumerate(append.drafts, last - append.entries + 1)
            append.result = [_entry((number, at, id_, data)) for number, (at, id_, data) in drafts]
            if append.run is not None:
                self.journals.remember_index(append.name, append.run, append.drafts[-1].at)
            if subscription := subscriptions.get(append.name):
                subscription.offer(before, append.result, append.settle)
            else:
                append.settle()


class RedisJournals:
    """See `toolkit.stores.Journals`."""

    is_shared = True

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.subscriptions: dict[str, JournalSubscription] = {}
        self.keys = {tag: [topology.key(tag, key) for key in ("journal:", "epochs", "names")] for tag in topology.tags}
        # When a journal was last written to the index of names, and on which connection: a server that comes back may
        # have lost it.
        self.indexed: dict[str, tuple[Run, int]] = {}

    def place(self, name: str) -> tuple[str, bytes]:
        """Return the hash tag of a journal, and the key of its stream and name of its channel."""
        data, tags = name.encode("utf-8"), self.topology.tags
        tag = tags[zlib.crc32(data) % len(tags)]
        return tag, self.keys[tag][0] + data

    def append(
        self, name: str, drafts: Sequence[NewEntry], keep: int | None = None, floor: int | None = None
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
        """Yield the entries numbered above `sequence`, also before it is known where subscribers begin."""
        while page := await self._read(name, b"XRANGE", f"(0-{sequence}", b"+", _ENTRIES_A_READ):
            yield page
            if len(page) < _ENTRIES_A_READ:
                break
            sequence = page[-1].sequence

    def remember_index(self, name: str, run: Run, at: int) -> None:
        if len(self.indexed) >= _MOST_INDEXED:
            self.indexed.clear()
        self.indexed[name] = run, at

    async def _begin(self, name: str) -> None:
        # What is read must reach up to where the subscribers begin, or what lies between would be missed.
        if subscription := self.subscriptions.get(name):
            await subscription.begin()

    def _read(self, name: str, command: bytes, start: Argument, end: bytes, count: int) -> asyncio.Future[list[Entry]]:
        tag, key = self.place(name)
        # Not behind the writes: a long history holds up none of them.
        reading = self.topology.node_of(tag).reading
        return reading.submit(Call(tag, command, key, start, end, b"COUNT", count, read=_entries))

    async def _names(self, tag: str, prefix: str, count: int) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = []
        for last in (count + 100, -1):  # all of them only where many have another prefix
            call = Call(tag, b"ZREVRANGE", self.keys[tag][2], 0, last, b"WITHSCORES")
            rows = await self.topology.node_of(tag).reading.submit(call)
            names = [(name.decode("utf-8"), float(at)) for name, at in zip(rows[::2], rows[1::2], strict=True)]
            found = [(name, at) for name, at in names if name.startswith(prefix)]
            if len(found) >= count or len(names) <= last:
                break
        return found

    def subscribe(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        subscription = self.subscriptions.get(name)
        if subscription is None:
            subscription = self.subscriptions[name] = JournalSubscription(self, name)
            subscription.listen()
        end = subscription.subscribers.add(subscriber)

        def stop() -> None:
            end()
            if not subscription.subscribers:
                asyncio.get_running_loop().call_later(_SECONDS_TO_LINGER, self._forget, subscription)

        return stop

    def is_live(self, name: str) -> bool:
        return name in self.subscriptions and self.subscriptions[name].is_live

    def close(self) -> None:
        for subscription in self.subscriptions.values():
            subscription.close()

    def _forget(self, subscription: JournalSubscription) -> None:
        if not subscription.subscribers and self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            subscription.close()


class JournalSubscription(Subscription):
    """The subscribers of one journal: they get every entry in order, none twice, and none is missed.

    Entries are the responses to this gateway's own appends; a message says that there are others, which are read.
    """

    def __init__(self, journals: RedisJournals, name: str) -> None:
        super().__init__(journals.topology, *journals.place(name))
        self.name = name
        self.subscribers: Subscribers[[Sequence[Entry]]] = Subscribers()
        self.position: int | None = None  # the number delivered last; None until it is known where to begin
        self._journals = journals
        self._newest = self._read_newest()
        self.refresh()

    async def begin(self) -> None:
        """Find out where to begin, unless that is known; raise StoreUnavailable while Redis is away."""
        if self._newest.done() and self._newest.exception() is not None:
            self._newest = self._read_newest()
        newest = await asyncio.shield(self._newest)
        if self.position is None:  # else own entries have come first
            self.position = newest[0].sequence if newest else 0

    def _read_newest(self) -> asyncio.Future[list[Entry]]:
        # In the order of the writes, so that whatever this gateway appends from now on comes after it.
        call = Call(self.tag, b"XREVRANGE", self.channel, b"+", b"-", b"COUNT", 1, read=_entries)
        return self._topology.node_of(self.tag).writing.submit(call)

    def on_message(self, data: bytes) -> None:
        # If it is an own append, its response is as good as here.
        self._loop.call_later(_SECONDS_FOR_RESPONSE, self._catch_up, int(data))

    def offer(self, before: int, entries: Sequence[Entry], then: Callable[[], None]) -> None:
        """Deliver entries of this gateway, the first of them after number `before`, then call `then`."""
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
            self._deliver(page)

    def _deliver(self, entries: Sequence[Entry]) -> None:
        position, last = self.position or 0, entries[-1].sequence
        if last > position:
            self.position = last
            self.subscribers.tell([entry for entry in entries if entry.sequence > position])


def _packed(draft: NewEntry) -> bytes:
    id_ = draft.id.encode("utf-8")
    return _ENTRY.pack(draft.at, len(id_), len(draft.data)) + id_ + draft.data


def _entries(rows: Sequence[Any]) -> list[Entry]:
    found = []
    for number, (_, packed) in rows:
        at, id_size, data_size = _ENTRY.unpack_from(packed)
        data_at = _ENTRY.size + id_size
        id_ = packed[_ENTRY.size : data_at].decode("utf-8")
        found.append(_entry((int(number[2:]), int(at), id_, packed[data_at : data_at + data_size])))
    return found
