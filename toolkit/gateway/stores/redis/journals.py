"""Journals in Redis: each is one stream, and all appends that wait for one slot become one call of one script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from toolkit.gateway.stores import Draft, Entry, Follower, StoreUnavailable
from toolkit.gateway.stores.redis.appends import Append, AppendCall
from toolkit.gateway.stores.redis.calls import FutureCall, ScriptCall
from toolkit.gateway.stores.redis.channels import Channels, Listener
from toolkit.gateway.stores.redis.index import NameIndex
from toolkit.gateway.stores.redis.journal_feed import JournalFeed
from toolkit.gateway.stores.redis.lines import entries_of
from toolkit.gateway.stores.redis.scripts import SEARCH
from toolkit.gateway.stores.redis.servers import Servers

_BYTES_WAITING = 64 * 1024 * 1024
_LINES_A_PIECE = 1_000
# Somebody who stops following a name often follows it again at once: its channel stays open for so long.
_SECONDS_TO_LINGER = 2.0


class RedisJournals:
    """See `toolkit.gateway.stores.Journals`.

    Parameters
    ----------
    servers, channels
        Where streams live, and where they are heard.
    """

    def __init__(self, servers: Servers, channels: Channels) -> None:
        self._servers = servers
        self._channels = channels
        self._loop = asyncio.get_running_loop()
        self._prefix = f"{servers.address.prefix}journal:"
        self._index = NameIndex(servers)
        self._gathering: dict[int, AppendCall] = {}
        self._bytes_waiting = 0
        self._feeds: dict[str, JournalFeed] = {}

    def key(self, name: str) -> str:
        """Return the key of a journal's stream; its channel has the same name."""
        return self._prefix + name

    # -- writing ------------------------------------------------------------------------------------------

    def append(
        self,
        name: str,
        drafts: Sequence[Draft],
        keep: int | None = None,
        floor: int | None = None,
    ) -> asyncio.Future[list[Entry]]:
        """Append all drafts in order, or none."""
        future: asyncio.Future[list[Entry]] = self._loop.create_future()
        append = Append(name, drafts, keep, floor, future)
        try:
            append.check()
        except ValueError as error:
            future.set_exception(error)
        else:
            if not drafts:
                future.set_result([])
            elif self._bytes_waiting > _BYTES_WAITING:
                future.set_exception(StoreUnavailable("too much waits for Redis"))
            else:
                self._gather(append)
        return future

    def sent(self, call: AppendCall) -> None:
        """Add nothing more to this call: it is on its way, or has failed."""
        if self._gathering.get(call.slot) is call:
            del self._gathering[call.slot]

    def over(self, call: AppendCall) -> None:
        """Forget its bytes: until it has its answer they are held here, or on their way."""
        self._bytes_waiting -= call.leave()

    def used(self, name: str) -> int:
        """Return the highest number of a journal that may be used: heard of here, or by whomever in an earlier era."""
        feed = self._feeds.get(name)
        floor = self._servers.floor(self._servers.place(self.key(name)))
        return floor if feed is None else max(floor, feed.position or 0)

    def index_key(self) -> str | None:
        """Return the key of the index that an append writes in the same step; None where it lies elsewhere."""
        return None if self._servers.is_cluster else self._index.key

    def appended(self, name: str, appends: Sequence[Append], before: int, last: int) -> None:
        """Give numbers to what was appended, tell the followers, then the callers."""
        number = last - sum(len(append.drafts) for append in appends)
        numbered: list[tuple[Append, list[Entry]]] = []
        for append in appends:
            entries = append.numbered(number)
            number += len(entries)
            numbered.append((append, entries))
        feed = self._feeds.get(name)
        if feed is None and not self._servers.is_cluster:
            for append, entries in numbered:
                append.settle(entries)
            return
        if feed is not None:
            every = [entry for _, entries in numbered for entry in entries]
            feed.offer(before, last, every)
        for append, entries in numbered:
            self._settle_later(append, entries, feed)

    def _settle_later(self, append: Append, entries: list[Entry], feed: JournalFeed | None) -> None:
        def settle() -> None:
            append.settle(entries)

        def heard() -> None:
            if self._servers.is_cluster:
                self._index.note(append.name, entries[-1].at, settle)
            else:
                settle()

        if feed is None:
            heard()
        else:
            feed.when_told(entries[-1].sequence, heard)

    def _gather(self, append: Append) -> None:
        key = self.key(append.name)
        slot = self._servers.slot(key)
        call = self._gathering.get(slot)
        if call is None or call.is_full:
            call = self._gathering[slot] = AppendCall(self, slot)
            self._bytes_waiting += call.add(append)
            self._servers.writing(self._servers.place(key)).submit(call)
        else:
            self._bytes_waiting += call.add(append)

    # -- reading ------------------------------------------------------------------------------------------

    def last(self, name: str, count: int) -> asyncio.Future[list[Entry]]:
        """Return at most the last `count` lines, oldest first."""
        command = (b"XREVRANGE", self.key(name), b"+", b"-", b"COUNT", count)
        return self._read(name, lambda: self._ask(name, *command, read=lambda lines: entries_of(lines[::-1])))

    def after(self, name: str, sequence: int, count: int | None = None) -> asyncio.Future[list[Entry]]:
        """Return the lines numbered above `sequence`, oldest first."""
        return self._read(name, lambda: self._after(name, sequence, count))

    def between(self, name: str, start: int, end: int) -> asyncio.Future[list[Entry]]:
        """Return the lines with ``start <= at < end``, oldest first."""
        return self._read(name, lambda: self._search(name, start, end, ""))

    def find(self, name: str, id: str) -> asyncio.Future[Entry | None]:  # noqa: A002
        """Return the line with this identifier."""

        async def find() -> Entry | None:
            # An empty id means any to the script.
            found = await self._search(name, -(1 << 53), 1 << 62, id)
            return next((entry for entry in found if entry.id == id), None)

        return self._read(name, find)

    def names(self, prefix: str, count: int) -> asyncio.Future[list[str]]:
        """Return the names with this prefix, the most recently written first."""
        return asyncio.ensure_future(self._index.names(prefix, count))

    def _read(self, name: str, read: Callable[[], Any]) -> asyncio.Future[Any]:
        feed = self._feeds.get(name)

        async def later() -> Any:  # noqa: ANN401
            # What is read must reach up to where the followers begin, or what lies between would be missed.
            if feed is not None and not feed.is_based:
                await feed.based()
            return await read()

        return asyncio.ensure_future(later())

    def _ask(self, name: str, *command: bytes | str | int, read: Callable[[Any], Any]) -> asyncio.Future[Any]:
        call = FutureCall(*command, read=read)
        self._servers.reading(self._servers.place(self.key(name))).submit(call)
        return call.future

    async def _after(self, name: str, sequence: int, count: int | None) -> list[Entry]:
        found: list[Entry] = []
        while count is None or len(found) < count:
            wanted = _LINES_A_PIECE if count is None else min(count - len(found), _LINES_A_PIECE)
            command = (b"XRANGE", self.key(name), f"(0-{sequence}", b"+", b"COUNT", wanted)
            piece: list[Entry] = await self._ask(name, *command, read=entries_of)
            found += piece
            if len(piece) < wanted:
                break
            sequence = piece[-1].sequence
        return found

    async def _search(self, name: str, start: int, end: int, id_: str) -> list[Entry]:
        found: list[Entry] = []
        last = 0
        while True:
            call = ScriptCall(SEARCH, [self.key(name)], start, end, id_, last, _LINES_A_PIECE, writes=False)
            self._servers.reading(self._servers.place(self.key(name))).submit(call)
            looked_at, lines = await call.future
            found += entries_of(lines)
            if not looked_at:
                return found
            last = int(looked_at[2:])

    # -- following ----------------------------------------------------------------------------------------

    def follow(self, name: str, follower: Follower) -> Callable[[], None]:
        """Call `follower` with every line committed from now on."""
        feed = self._feeds.get(name) or self._new_feed(name)
        feed.followers.append(follower)

        def stop() -> None:
            if follower in feed.followers:
                feed.followers.remove(follower)
                if not feed.followers:
                    self._loop.call_later(_SECONDS_TO_LINGER, self._let_go, feed)

        return stop

    def is_heard(self, name: str) -> bool:
        """Whether followers of this name hear what is committed now."""
        feed = self._feeds.get(name)
        return feed is not None and feed.is_live

    def close(self) -> None:
        """Hand on nothing any more."""
        for feed in self._feeds.values():
            feed.close()

    def last_number(self, name: str) -> asyncio.Future[int]:
        """Return the number of the last line before whatever this gateway appends from now on."""
        key = self.key(name)
        self._gathering.pop(self._servers.slot(key), None)  # what gathers there goes out before this call
        call = FutureCall(b"XREVRANGE", key, b"+", b"-", b"COUNT", 1, read=_number_of)
        self._servers.writing(self._servers.place(key)).submit(call)
        return call.future

    def _new_feed(self, name: str) -> JournalFeed:
        feed = self._feeds[name] = JournalFeed(self, name)
        self._channels.open(self.key(name), Listener(feed.on_open, feed.on_shut, feed.on_message))
        return feed

    def _let_go(self, feed: JournalFeed) -> None:
        if not feed.followers and self._feeds.get(feed.name) is feed:
            del self._feeds[feed.name]
            feed.close()
            self._channels.shut(self.key(feed.name))


def _number_of(lines: list[Any]) -> int:
    return int(lines[0][0][2:]) if lines else 0
