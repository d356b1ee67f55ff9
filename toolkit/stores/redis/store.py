"""One Redis, however many servers it is made of, as a store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from redis.exceptions import ResponseError

from toolkit.errors import StoreUnavailable
from toolkit.stores import Journals, Records
from toolkit.stores.redis.address import RedisAddress
from toolkit.stores.redis.durability import UNREACHABLE, problem_of, reason_of, warnings_about
from toolkit.stores.redis.journals import RedisJournals
from toolkit.stores.redis.nodes import Node, Topology
from toolkit.stores.redis.records import RedisRecords

log = logging.getLogger("toolkit.gateway")


class RedisStore:
    """Keep everything in a Redis that any number of gateways share; the clock `now` decides what has expired."""

    def __init__(self, url: str, now: Callable[[], int]) -> None:
        self.address = RedisAddress(url)
        self._now = now

    def __repr__(self) -> str:
        return self.address.shown

    async def open(self) -> None:
        """Connect; raise StoreUnavailable if this Redis is not there, too old, a replica, or refuses us."""
        self.topology = Topology(self.address)
        self.journals: Journals = RedisJournals(self.topology)
        self.records: Records = RedisRecords(self.topology, "records", self._now)
        self.ephemeral: Records = RedisRecords(self.topology, "ephemeral", self._now)
        try:
            await self.topology.read()
            tags = {self.topology.node_of(tag): tag for tag in self.topology.tags}
            for node, tag in tags.items():
                await self._examine(node)
                # A user who may not write is refused here, before the gateway answers anybody.
                await node.beat(tag, self.topology.key(tag, "epochs"))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self.topology.close()

    async def _examine(self, node: Node) -> None:
        fsync = None
        try:
            async with asyncio.timeout(node.timeout):
                info = await node.client.info()
                with contextlib.suppress(ResponseError):  # a user without this permission gets no warning
                    fsync = (await node.client.config_get("appendfsync")).get("appendfsync")
        except UNREACHABLE as error:
            raise StoreUnavailable(f"{node.shown} cannot be used now: {reason_of(error)}") from None
        if problem := problem_of(info, self.address):
            raise StoreUnavailable(f"{node.shown} {problem}")
        for warning in warnings_about(info, fsync, self.address.replicas):
            log.warning("%s: %s", node.shown, warning)
