"""Journals in Redis: each is one stream, and all appends that wait for one hash tag become one script call."""

from __future__ import annotations

import asyncio
import zlib
from asyncio import Future
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from msgspec import msgpack

from toolkit_gateway.stores import Entry, NewEntry, Subscriber
from toolkit_gateway.stores.group_commit import done_future
from toolkit_gateway.stores.hash_tag import hash_tag
from toolkit_gateway.stores.redis.commands import APPEND, Argument, Command
from toolkit_gateway.stores.redis.listener import Subscription
from toolkit_gateway.stores.redis.topology import Topology
from toolkit_gateway.stores.subscribers import Subscribers

_ENTRIES_PER_PAGE = 128  # of 64 KB each at most
# How long a channel stays open without subscribers: often another one comes at once, as when a listener reconnects.
_SECONDS_TO_LINGER = 2.0
_SECONDS_FOR_RESPONSE = 0.001  # how much later than its message the response to an append may arrive

# An entry is one packed field, because every field costs Redis time.
encode_entry = msgpack.Encoder().encode
_decode = msgpack.Decoder(tuple[int, str, bytes]).decode


class Append(Command):
    """One append to one journal; all appends of a group are one script call."""

    __slots__ = ("entries", "encoded", "floor", "journals", "keep", "key", "name")

    def __init__(
        self, journals: RedisJournals, name: str, new_entries: Sequence[NewEntry], keep: int | None, floor: int | None
    ) -> None:
        tag, self.key = journals.tag_and_stream(name)
        super().__init__(tag, script=APPEND)
        self.encoded = [encode_entry(new_entry) for new_entry in new_entries]
        self.journals, self.name, self.entries = journals, name, new_entries
        self.keep, self.floor = -1 if keep is None else keep, -1 if floor is None else floor
        self.size += sum([len(entry) for entry in self.encoded])

    def arguments_of(self, group: Sequence[Append]) -> Sequence[Argument]:
        keys, head, entries = self.journals.arguments_of(self.tag, group)
        return (b"EVALSHA", APPEND, len(keys), *keys, *head, *entries)

    def read_response(self, group: Sequence[Append], response: Sequence[int]) -> None:
        *numbers, epoch = response
        self.journals.next_epochs[self.tag] = max(self.journals.next_epochs[self.tag], epoch + 1)
        for append, before, last in zip(group, numbers[::2], numbers[1::2], strict=True):
            numbered = enumerate(append.entries, last - len(append.entries) + 1)
            append.result = [Entry(number, *new_entry) for number, new_entry in numbered]
            if subscription := self.journals.subscriptions.get(append.name):
                subscription.deliver_own(before, append.result, append.settle)
            else:
                append.settle()


class RedisJournals:
    """See `toolkit_gateway.stores.Journals`."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.subscriptions: dict[str, JournalSubscription] = {}
        # By hash tag; a server that lost everything begins with this epoch, above all numbers that this gateway knows.
        self.next_epochs: defaultdict[str, int] = defaultdict(int)
        self._keys: dict[str, list[bytes]] = {}

    def tag_and_stream(self, name: str) -> tuple[str, bytes]:
        """Return the hash tag of a journal and the key of its stream, which is also the name of its channel."""
        data, tags = name.encode("utf-8"), self.topology.tags
        tag = hash_tag(name) or tags[zlib.crc32(data) % len(tags)]
        return tag, self.keys_of(tag)[0] + data

    def arguments_of(
        self, tag: str, appends: Sequence[Append]
    ) -> tuple[list[bytes], tuple[Argument, Argument], list[Argument]]:
        """Return the keys of appends, and the first and the last arguments of a script that makes them."""
        stem, *keys = self.keys_of(tag)
        arguments: list[Argument] = []
        for append in appends:
            # After a failover, the new master may lack numbers that this gateway's subscribers have received.
            subscription = self.subscriptions.get(append.name)
            used = subscription.position or 0 if subscription else 0
            keys.append(append.key)
            arguments += used, append.keep, append.floor, append.entries[-1].at, len(append.encoded), *append.encoded
        return keys, (len(stem) + 1, self.next_epochs[tag]), arguments

    def keys_of(self, tag: str) -> list[bytes]:
        """Return the beginning of each stream's key, and the keys of epochs and of names."""
        if tag not in self._keys:
            self._keys[tag] = [self.topology.key(tag, key) for key in ("journal:", "epochs", "names")]
        return self._keys[tag]

    def append(
        self, name: str, new_entries: Sequence[NewEntry], keep: int | None = None, floor: int | None = None
    ) -> Future[list[Entry]]:
        if not new_entries:
            return done_future([])
        return self.topology.send(lambda: Append(self, name, new_entries, keep, floor))

    async def last(self, name: str, count: int, below: int | None = None) -> list[Entry]:
        newest = "+" if below is None else f"(0-{below}"
        return (await self._read(name, b"XREVRANGE", newest, b"-", count))[::-1]

    async def after(self, name: str, sequence: int, count: int | None = None) -> list[Entry]:
        if count is not None:
            return await self._read(name, b"XRANGE", f"(0-{sequence}", b"+", count)
        return [entry async for page in self.pages(name, sequence) for entry in page]

    async def pages(self, name: str, sequence: int) -> AsyncIterator[list[Entry]]:
        """Yield the entries numbered above `sequence`."""
        while page := await self._read(name, b"XRANGE", f"(0-{sequence}", b"+", _ENTRIES_PER_PAGE):
            yield page
            sequence = page[-1].sequence

    async def _read(self, name: str, command: bytes, start: Argument, end: bytes, count: int) -> list[Entry]:
        # Entries must be read up to where the subscribers begin, or those in between would be missed.
        if subscription := self.subscriptions.get(name):
            await subscription.find_position()
        tag, key = self.tag_and_stream(name)
        # Not in the order of the writes, so that no write waits for a long history.
        arguments = tag, command, key, start, end, b"COUNT", count
        entries: list[Entry] = await self.topology.send(lambda: Command(*arguments, read=entries_of, in_order=False))
        return entries

    async def names(self, prefix: str, count: int) -> list[str]:
        tag = hash_tag(prefix)
        tags = self.topology.tags if tag is None else [tag]
        names_by_tag = await asyncio.gather(*(self._names(tag, prefix, count) for tag in tags))
        newest = sorted((-at, name) for names in names_by_tag for name, at in names)
        return [name for _, name in newest[:count]]

    async def _names(self, tag: str, prefix: str, count: int) -> list[tuple[str, float]]:
        for last in (count + 100, -1):  # read all names only if many of the last ones have another prefix
            arguments = tag, b"ZREVRANGE", self.keys_of(tag)[2], 0, last, b"WITHSCORES"
            rows = await self.topology.send(partial(Command, *arguments, in_order=False))
            names = [(name.decode("utf-8"), float(at)) for name, at in zip(rows[::2], rows[1::2], strict=True)]
            matching = [(name, at) for name, at in names if name.startswith(prefix)]
            if len(matching) >= count or len(names) <= last:
                break
        return matching

    def subscribe(self, name: str, subscriber: Subscriber) -> Callable[[], None]:
        if name not in self.subscriptions:
            self.subscriptions[name] = JournalSubscription(self, name)
        return self.subscriptions[name].subscribers.subscribe(subscriber)

    def is_live(self, name: str) -> bool:
        return name in self.subscriptions and self.subscriptions[name].is_live


class JournalSubscription(Subscription):
    """The subscribers of one journal: they get every entry in order, none twice, and none is missed.

    Entries come with the responses to this gateway's appends. Entries of others are read when a message announces them.
    """

    def __init__(self, journals: RedisJournals, name: str) -> None:
        super().__init__(journals.topology, *journals.tag_and_stream(name))
        self.name = name
        close_later = partial(asyncio.get_running_loop().call_later, _SECONDS_TO_LINGER, self._close_if_unused)
        self.subscribers: Subscribers[[Sequence[Entry]]] = Subscribers(close_later)
        self.position: int | None = None  # the number delivered last; None until it is known where to begin
        self._journals = journals
        self._newest = self._read_newest()
        self.refresh()

    def _close_if_unused(self) -> None:
        if not self.subscribers and self._journals.subscriptions.get(self.name) is self:
            del self._journals.subscriptions[self.name]
            self.close()

    async def find_position(self) -> None:
        """Find out where to begin, unless that is known; raise StoreUnavailable while Redis is away."""
        if self._newest.done() and self._newest.exception() is not None:
            self._newest = self._read_newest()
        newest = await asyncio.shield(self._newest)
        if self.position is None:  # not None: entries delivered during the wait have set it
            self.position = newest[0].sequence if newest else 0

    def _read_newest(self) -> Future[list[Entry]]:
        # In the order of the writes, so that all later appends of this gateway have higher numbers.
        arguments = self.tag, b"XREVRANGE", self.channel, b"+", b"-", b"COUNT", 1
        return self._journals.topology.send(lambda: Command(*arguments, read=entries_of))

    def on_message(self, data: bytes) -> None:
        # If this gateway made the append, its response arrives in a moment, and nothing needs to be read.
        asyncio.get_running_loop().call_later(_SECONDS_FOR_RESPONSE, self._catch_up, int(data))

    def deliver_own(self, before: int, entries: Sequence[Entry], then: Callable[[], None]) -> None:
        """Deliver entries of this gateway, the first of them after number `before`, then call `then`."""
        if self.position is None or before <= self.position:
            self._deliver(entries)
            then()
        else:  # entries of other gateways are missing in between
            self.refresh().add_done_callback(lambda _: then())

    def _catch_up(self, number: int) -> None:
        if number > (self.position or 0):
            self.refresh()

    async def read(self) -> None:
        await self.find_position()
        async for page in self._journals.pages(self.name, self.position or 0):
            self._deliver(page)

    def _deliver(self, entries: Sequence[Entry]) -> None:
        position, last = self.position or 0, entries[-1].sequence
        if last > position:
            self.position = last
            self.subscribers.notify([entry for entry in entries if entry.sequence > position])


def entries_of(rows: Sequence[Any]) -> list[Entry]:
    return [Entry(int(number[2:]), *_decode(packed)) for number, (_, packed) in rows]
