"""The store on one Redis: a single server, a server behind Sentinel, or a cluster."""

import asyncio
import contextlib
import logging
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import CompareAndSet, Journals, NewEntry, Records
from toolkit_gateway.stores.redis.address import UNREACHABLE, RedisAddress, reason_of
from toolkit_gateway.stores.redis.commit import Commit
from toolkit_gateway.stores.redis.copying import RedisCopying
from toolkit_gateway.stores.redis.journals import RedisJournals
from toolkit_gateway.stores.redis.nodes import Node
from toolkit_gateway.stores.redis.records import RedisRecords
from toolkit_gateway.stores.redis.topology import Topology

log = logging.getLogger("toolkit_gateway")

_MIN_VERSION = (7, 0)


class RedisStore:
    """Keep everything in a Redis that any number of gateways share; the clock `now` decides what has expired."""

    def __init__(self, url: str, now: Callable[[], int]) -> None:
        self.address = RedisAddress(url)
        self._now = now

    def __repr__(self) -> str:
        return self.address.shown_url

    async def open(self, *, is_move_target: bool = False) -> None:
        """Connect; raise StoreUnavailable if this Redis is unreachable, too old, a replica, or refuses the user.

        It takes at most the timeout of the URL. A Redis with an unfinished move opens only as the target of a move.
        """
        self.topology = Topology(self.address)
        self._journals = RedisJournals(self.topology)
        self._records = RedisRecords(self.topology, "records", self._now)
        self._ephemeral = RedisRecords(self.topology, "ephemeral", self._now)
        self.journals: Journals = self._journals
        self.records: Records = self._records
        self.ephemeral: Records = self._ephemeral
        self.copying = RedisCopying(self.topology, self._journals)
        async with contextlib.AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self.close)
            try:
                # One time limit for all: a server that answers byte by byte would use up that of each command.
                async with asyncio.timeout(self.address.timeout):
                    await self._check_nodes()
                    marker = None if is_move_target else await self.copying.marker()
            except TimeoutError as error:
                await self.topology.disconnect()
                raise StoreUnavailable(f"{self!r} cannot be used now: {reason_of(error)}") from None
            if marker is not None:
                raise StoreUnavailable(
                    f"{self!r} has an unfinished move: run `toolkit move` again with the same folder and URL"
                )
            on_failure.pop_all()

    async def close(self) -> None:
        await self.topology.close()

    def commit(self, changes: Sequence[CompareAndSet], appends: Mapping[str, Sequence[NewEntry]]) -> Future[bool]:
        parts = [(self._ephemeral if change.is_ephemeral else self._records, change) for change in changes]
        return self.topology.send(lambda: Commit(self._journals, parts, appends, self._now()))

    async def _check_nodes(self) -> None:
        await self.topology.read()
        tags = {self.topology.node_of(tag): tag for tag in self.topology.tags}
        for node, tag in tags.items():
            await self._examine(node)
            # A user who may not write is refused here, before the gateway answers anybody.
            await node.beat(tag, self.topology.key(tag, "epochs"))

    async def _examine(self, node: Node) -> None:
        fsync = None
        try:
            info = await node.client.info()
            with contextlib.suppress(ResponseError):  # a user without this permission gets no warning
                fsync = (await node.client.config_get("appendfsync")).get("appendfsync")
        except UNREACHABLE as error:
            raise StoreUnavailable(f"{node.label} cannot be used now: {reason_of(error)}") from None
        if problem := _problem_of(info, self.address):
            raise StoreUnavailable(f"{node.label} {problem}")
        for warning in _warnings_about(info, fsync, self.address.replicas):
            log.warning("%s: %s", node.label, warning)


def _problem_of(info: Mapping[str, Any], address: RedisAddress) -> str | None:
    """Return why a server cannot be the store: it is too old, a replica, or one node of a cluster."""
    version = str(info.get("valkey_version") or info.get("redis_version", "0.0"))
    if tuple(int(part) for part in version.split(".")[:2]) < _MIN_VERSION:
        return f"is version {version}; it must be 7.0 or newer"
    if info.get("role") == "slave":
        return "is a replica; give its master, or redis+sentinel://"
    if info.get("cluster_enabled") == 1 and address.kind != "cluster":
        return "is a node of a cluster; give redis+cluster://"
    return None


def _warnings_about(info: Mapping[str, Any], fsync: str | None, replicas: int) -> list[str]:
    """Return where this Redis guarantees less than expected; `fsync` is None if the user may not read that setting."""
    warnings = []
    if info.get("aof_enabled") == 0:
        warnings.append(
            "an acknowledged dweet is in its memory only; set appendonly yes and appendfsync always for the disk"
        )
    elif fsync not in (None, "always"):
        warnings.append(f"appendfsync is {fsync}: an acknowledged dweet is on disk within about a second, not at once")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and info.get("maxmemory"):
        warnings.append(f"it forgets keys when its memory is full ({policy}); set maxmemory-policy noeviction")
    if (connected := info.get("connected_slaves", 0)) < replicas:
        warnings.append(f"{replicas} replicas must confirm what is acknowledged, and it has {connected} now")
    return warnings
