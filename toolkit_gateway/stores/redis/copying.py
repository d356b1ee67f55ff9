"""What a move needs of a Redis besides the store's own calls: its marker, and entries that keep their numbers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import Entry
from toolkit_gateway.stores.redis.address import UNREACHABLE, reason_of
from toolkit_gateway.stores.redis.commands import COPY, Argument, Command
from toolkit_gateway.stores.redis.journals import RedisJournals, encode_entry
from toolkit_gateway.stores.redis.nodes import Node
from toolkit_gateway.stores.redis.topology import Topology


class RedisCopying:
    """The target of a move; see `toolkit_gateway.stores.moving`."""

    def __init__(self, topology: Topology, journals: RedisJournals) -> None:
        self._topology, self._journals = topology, journals
        self._tag = topology.tags[0]
        self._marker = topology.key(self._tag, "move")

    async def marker(self) -> str | None:
        """Return the id of the unfinished move to this Redis; None without one."""
        value: bytes | None = await self._topology.send(lambda: Command(self._tag, b"GET", self._marker))
        return None if value is None else value.decode("ascii", "replace")

    async def claim(self, marker: str) -> None:
        await self._topology.send(lambda: Command(self._tag, b"SET", self._marker, marker))

    async def release(self, marker: str) -> None:
        if await self.marker() == marker:
            await self._topology.send(lambda: Command(self._tag, b"DEL", self._marker))

    async def any_key(self) -> str | None:
        """Return a key with this store's prefix; None if there is none on any node."""
        async for _, key in self._keys("*"):
            return key.decode("utf-8", "backslashreplace")
        return None

    async def remove_records(self) -> None:
        """Remove the records that an interrupted move has copied: the folder may have lost some since."""
        async for node, key in self._keys("{*}:records*"):
            await node.client.delete(key)

    async def _keys(self, pattern: str) -> AsyncIterator[tuple[Node, bytes]]:
        prefix = re.sub(r"([*?\[\]\\^])", r"\\\1", self._topology.address.prefix)
        for node in {self._topology.node_of(tag) for tag in self._topology.tags}:
            try:
                async for key in node.client.scan_iter(match=prefix + pattern, count=1000):
                    yield node, key
            except UNREACHABLE as error:
                raise StoreUnavailable(f"{node.label} cannot be used now: {reason_of(error)}") from None

    async def drop_before(self, name: str, number: int) -> None:
        """Drop entries that the folder has dropped since an interrupted move copied them."""
        tag, key = self._journals.tag_and_stream(name)
        await self._topology.send(lambda: Command(tag, b"XTRIM", key, b"MINID", f"0-{number}"))

    async def last_number(self, name: str) -> int:
        entries = await self._journals.last(name, 1)
        return entries[-1].sequence if entries else 0

    async def add(self, name: str, entries: Sequence[Entry]) -> None:
        tag, key = self._journals.tag_and_stream(name)
        stem, _, index = self._journals.keys_of(tag)
        arguments: list[Argument] = [len(stem) + 1, entries[-1].at]
        for sequence, *rest in entries:
            arguments += sequence, encode_entry(rest)
        await self._topology.send(lambda: Command(tag, *arguments, script=COPY, keys=[index, key]))
