"""One Redis, however many servers it is made of, as a store."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from toolkit.errors import StoreUnavailable
from toolkit.stores import Journals, Records
from toolkit.stores.redis.address import redis_address
from toolkit.stores.redis.batches import BEAT, Argument, Call
from toolkit.stores.redis.durability import check, info_of, warnings_about
from toolkit.stores.redis.journals import RedisJournals
from toolkit.stores.redis.records import RedisRecords
from toolkit.stores.redis.topology import Node, Topology

log = logging.getLogger("toolkit.gateway")


class RedisStore:
    """Keep everything in a Redis that any number of gateways share; the clock `now` decides what has expired."""

    def __init__(self, url: str, now: Callable[[], int]) -> None:
        self.address = redis_address(url)
        self._now = now

    def __repr__(self) -> str:
        return self.address.shown

    async def open(self) -> None:
        """Connect; raise StoreUnavailable if this Redis is not there, too old, a replica, or refuses us."""
        self._topology = Topology(self.address)
        self._journals = RedisJournals(self._topology)
        self._records = RedisRecords(self._topology, "records", self._now)
        self._ephemeral = RedisRecords(self._topology, "ephemeral", self._now)
        self.journals: Journals = self._journals
        self.records: Records = self._records
        self.ephemeral: Records = self._ephemeral
        try:
            await self._topology.find()
            masters = {self._topology.node_of(tag): tag for tag in self._topology.tags}
            for node, tag in masters.items():
                await self._examine(node, tag)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._topology.close()
        for part in (self._journals, self._records, self._ephemeral):
            part.close()

    async def _examine(self, node: Node, tag: str) -> None:
        async def ask(*arguments: Argument, **options: Any) -> Any:  # noqa: ANN401
            return await node.reading.submit(Call(tag, *arguments, **options))

        info = info_of(await ask(b"INFO"))
        check(info, self.address)
        fsync = None
        with contextlib.suppress(StoreUnavailable):  # a user without this permission gets no warning
            settings = await ask(b"CONFIG", b"GET", b"appendfsync")
            fsync = settings[1].decode("ascii") if settings else None
        for warning in warnings_about(info, fsync, self.address):
            log.warning("the Redis at %s: %s", self.address.shown, warning)
        # A user who may not write is refused here, before the gateway answers anybody.
        key = self._topology.key(tag, "epochs")
        await ask(script=BEAT, keys=[key, key])
