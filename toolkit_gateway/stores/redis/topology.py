"""The topology of a Redis: which node has which hash tag, also after a failover or while slots move.

==================================  ===================================================================================
what happens                        what is done
==================================  ===================================================================================
a batch cannot be sent, or breaks   its commands fail, and its node starts `refresh`; commands go on to the same node
off                                 until the layout has been read again
``MOVED``, ``ASK``, ``TRYAGAIN``    the keys are moving: `send_again` reads the layout, and then sends the commands
                                    again, until their time is over
a hash tag has another node         its subscriptions move to the listener of that node
a node is no master any more        its idle connections are closed; it is kept, since it may become a master again
==================================  ===================================================================================
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from redis import exceptions

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores.group_commit import failed_future
from toolkit_gateway.stores.redis.address import UNREACHABLE, Host, RedisAddress, reason_of
from toolkit_gateway.stores.redis.commands import Command, Group
from toolkit_gateway.stores.redis.listener import Listener, Subscription
from toolkit_gateway.stores.redis.nodes import Node

log = logging.getLogger("toolkit_gateway")

# Hash tags of journals: many more than a cluster has nodes, so that each node gets some.
_TAGS = 256
_SECONDS_BETWEEN_REFRESHES = 0.1


class Topology:
    """Which node has which hash tag. A single server, or the master that Sentinel names, counts as one node."""

    def __init__(self, address: RedisAddress) -> None:
        self.address = address
        self.tags = [str(number) for number in range(_TAGS if address.kind == "cluster" else 1)]
        self.subscriptions: set[Subscription] = set()
        self._cluster = address.cluster() if address.kind == "cluster" else None
        self._nodes: dict[Host | None, Node] = {}
        self._by_tag: dict[str, Node] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def read(self) -> None:
        """Read the layout of a cluster; raise StoreUnavailable if that fails."""
        if self._cluster is None:
            return
        try:
            await self._cluster.aclose()
            await self._cluster.initialize()
        except (*UNREACHABLE, exceptions.RedisClusterException) as error:
            raise StoreUnavailable(f"{self.address.shown_url} cannot be used now: {reason_of(error)}") from None
        finally:
            self._by_tag.clear()  # redis-py may know a newer layout, even if a node did not answer
        for subscription in self.subscriptions:
            subscription.move()
        masters = {(master.host, int(master.port)) for master in self._cluster.get_primaries()}
        for host in self._nodes.keys() - masters:  # no longer masters, but each may become one again
            await self._nodes[host].pool.disconnect(inuse_connections=False)

    async def disconnect(self) -> None:
        """Break off all commands that wait for an answer."""
        await asyncio.gather(*(node.pool.disconnect() for node in self._nodes.values()), return_exceptions=True)

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.gather(*(node.listener.close() for node in self._nodes.values()))
        if self._refreshing is not None:
            # Redis-py closes no connection of a cluster client that was cancelled while it read the layout.
            await asyncio.wait([self._refreshing], timeout=self.address.timeout)
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        await asyncio.gather(*(node.close() for node in self._nodes.values()))
        for subscription in list(self.subscriptions):
            subscription.close()
            await subscription.drain()
        if self._cluster is not None:
            await self._cluster.aclose()

    def key(self, tag: str, name: str) -> bytes:
        return f"{self.address.prefix}{{{tag}}}:{name}".encode()

    def node_of(self, tag: str) -> Node:
        if tag not in self._by_tag:
            host = None
            if self._cluster is not None:
                master = self._cluster.get_node_from_key(f"{{{tag}}}")
                assert master is not None
                host = master.host, int(master.port)
            if host not in self._nodes:
                self._nodes[host] = Node(self, host)
            self._by_tag[tag] = self._nodes[host]
        return self._by_tag[tag]

    def listener_of(self, tag: str) -> Listener:
        return self.node_of(tag).listener

    def send(self, make: Callable[[], Command]) -> asyncio.Future[Any]:
        """Send a command to the node that has its hash tag; one that cannot be encoded fails alone."""
        try:
            command = make()
        except UnicodeEncodeError as error:
            return failed_future(error)
        self.node_of(command.tag).queue(command)
        return command.future

    def send_again(self, group: Group, error: Exception) -> None:
        """Send commands again that a node refused because their keys are moving, until their time is over."""

        def queue_again(_: asyncio.Task[None]) -> None:
            for command in group:
                if asyncio.get_running_loop().time() > command.started + self.address.timeout:
                    command.fail(StoreUnavailable(f"{self.address.shown_url} is moving these keys: {reason_of(error)}"))
                else:
                    self.node_of(command.tag).queue(command)

        self.refresh().add_done_callback(queue_again)

    def refresh(self) -> asyncio.Task[None]:
        """Read the layout again, as after a failover or when a slot moved; return the task."""
        if self._refreshing is None or (self._refreshing.done() and not self._is_closed):
            self._refreshing = asyncio.create_task(self._refresh())
        return self._refreshing

    async def _refresh(self) -> None:
        try:
            if not self._is_closed:
                await self.read()
        except StoreUnavailable as error:  # callers get errors from their own commands; the next failure reads again
            log.debug("%s", error)
        await asyncio.sleep(_SECONDS_BETWEEN_REFRESHES)
