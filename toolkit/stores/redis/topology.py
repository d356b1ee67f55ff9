"""Which server has a hash tag. Redis-py asks Sentinel at every new connection and reads the layout of a cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import RedisClusterException, ResponseError

from toolkit.errors import StoreUnavailable
from toolkit.stores.redis.address import RedisAddress
from toolkit.stores.redis.batches import UNREACHABLE, Batches, Group
from toolkit.stores.redis.durability import info_of, reason_of
from toolkit.stores.redis.listener import Listener

log = logging.getLogger("toolkit.gateway")

# Many more than a cluster has nodes, so that they all get some; few enough to send one call for each of them.
_TAGS = 256
_PAUSE = 0.1  # between two looks at the layout


class Node:
    """One server, at a `place` (host and port) of the cluster or where the URL says, and its connections."""

    def __init__(self, topology: Topology, place: tuple[str, int] | None) -> None:
        address = topology.address
        self.topology = topology
        self.shown = f"the Redis node {place[0]}:{place[1]}" if place else f"the Redis at {address.shown}"
        self.timeout = address.timeout
        self.run: tuple[bytes, ...] = ()
        self.pool = address.pool(place, self._on_connect)
        self.client = Redis(connection_pool=self.pool)
        self.writing, self.reading = Batches(self, address.replicas), Batches(self, 0)
        self.listener = Listener(self)

    async def close(self) -> None:
        await self.listener.close()
        await asyncio.gather(self.writing.close(), self.reading.close())
        await self.pool.aclose()
        if isinstance(self.pool, SentinelConnectionPool):
            await self.pool.sentinel_manager.aclose()

    async def _on_connect(self, connection: AbstractConnection) -> None:
        await connection.on_connect()
        await connection.send_command("INFO", "replication")
        info = info_of(await connection.read_response())
        node, is_promoted = b"", b""
        if self.topology.address.kind == "cluster":  # elsewhere there is one master at a time
            await connection.send_command("CLUSTER", "MYID")
            node = await connection.read_response()
            is_promoted = b"1" if info["master_replid2"].strip("0") else b""
        self.run = node, info["master_replid"].encode("ascii"), is_promoted


class Topology:
    def __init__(self, address: RedisAddress) -> None:
        self.address = address
        self.tags = [str(number) for number in range(_TAGS if address.kind == "cluster" else 1)]
        self._cluster = address.cluster() if address.kind == "cluster" else None
        self._nodes: dict[tuple[str, int] | None, Node] = {}
        self._by_tag: dict[str, Node] = {}
        self._looking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def find(self) -> None:
        """Find the nodes of a cluster; raise StoreUnavailable if none of them answers."""
        if self._cluster is None:
            return
        try:
            await self._cluster.aclose()
            await self._cluster.initialize()
        except (*UNREACHABLE, RedisClusterException) as error:
            raise StoreUnavailable(f"{self.address.shown} cannot be used now: {reason_of(error)}") from None
        finally:
            self._by_tag.clear()  # redis-py may know more than before also where a node did not answer
        masters = {(master.host, int(master.port)) for master in self._cluster.get_primaries()}
        for place in self._nodes.keys() - masters:
            node = self._nodes.pop(place)
            node.listener.move()
            self._start(node.close())

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.gather(*(node.listener.close() for node in self._nodes.values()))
        if self._looking is not None:
            # Redis-py closes no connection of a cluster client that was cancelled while it read the layout.
            await asyncio.wait([self._looking], timeout=self.address.timeout)
        await asyncio.gather(*self._tasks)
        await asyncio.gather(*(node.close() for node in self._nodes.values()))
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        if self._cluster is not None:
            await self._cluster.aclose()

    def node_of(self, tag: str) -> Node:
        if tag not in self._by_tag:
            place = None
            if self._cluster is not None:
                found = self._cluster.get_node_from_key(f"{{{tag}}}")
                assert found is not None
                place = found.host, int(found.port)
            if place not in self._nodes:
                self._nodes[place] = Node(self, place)
            self._by_tag[tag] = self._nodes[place]
        return self._by_tag[tag]

    def key(self, tag: str, name: str) -> bytes:
        return f"{self.address.prefix}{{{tag}}}:{name}".encode()

    def look_again(self) -> asyncio.Task[None]:
        """Return the task that reads the layout of a cluster again: a node is away, was demoted, or lost a slot."""
        if self._looking is None or (self._looking.done() and not self._is_closed):
            self._looking = asyncio.create_task(self._look())
        return self._looking

    def send_again(self, group: Group, error: ResponseError) -> None:
        """Send what a node refused because its keys are elsewhere or on their way, until its time is over."""
        self._start(self._send_again(group, error))

    async def _send_again(self, group: Group, error: ResponseError) -> None:
        await asyncio.wait([self.look_again()])
        for call in group:
            if asyncio.get_running_loop().time() > call.started + self.address.timeout:
                call.fail(StoreUnavailable(f"{self.address.shown} is moving these keys: {reason_of(error)}"))
            else:
                node = self.node_of(call.tag)
                (node.writing if call.writes else node.reading).submit(call)

    async def _look(self) -> None:
        try:
            if not self._is_closed:
                await self.find()
        except StoreUnavailable as error:  # callers get errors from their own calls; the next failure looks again
            log.debug("%s", error)
        await asyncio.sleep(_PAUSE)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
