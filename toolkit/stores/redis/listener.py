"""Sharded pub/sub: one connection to each node, for all channels that this gateway follows there.

A connection that breaks, or whose channel moved, is replaced, so that it is clear since when messages may be lost.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import TYPE_CHECKING

from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError

from toolkit.errors import StoreUnavailable
from toolkit.stores.redis.batches import BEAT, UNREACHABLE, Call
from toolkit.stores.redis.durability import reason_of

if TYPE_CHECKING:
    from toolkit.stores.redis.topology import Node, Topology

log = logging.getLogger("toolkit.gateway")

_SECONDS_TO_TRY_AGAIN = 1.0


class Subscription(ABC):
    """What hears a channel of a hash tag, and reads in Redis what its messages left out or may have left out."""

    def __init__(self, topology: Topology, tag: str, channel: bytes) -> None:
        self.tag, self.channel = tag, channel
        self.is_live = False  # whether it hears within moments of what is committed
        self._is_subscribed = False
        self._topology = topology
        self._listener: Listener | None = None
        self._loop = asyncio.get_running_loop()
        self._requested: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def read(self) -> None:
        """Read what is missing; raise StoreUnavailable if Redis is away."""

    @abstractmethod
    def on_message(self, data: bytes) -> None: ...

    def listen(self) -> None:
        """Subscribe to the channel at the node that has it now."""
        listener = self._topology.node_of(self.tag).listener
        if listener is not self._listener:
            if self._listener is not None:
                self._listener.remove(self)
            self._listener = listener
            listener.add(self)

    def on_subscribed(self) -> None:
        self._is_subscribed = True
        self.refresh()

    def on_lost(self) -> None:
        self._is_subscribed = self.is_live = False

    def refresh(self) -> asyncio.Future[None]:
        """Return a future that is done once a read that begins after this call has ended, or has failed."""
        requested = self._requested = self._requested or self._loop.create_future()
        if self._task is None and not requested.done():
            self._task = self._loop.create_task(self._run())
        return requested

    def close(self) -> None:
        if self._listener is not None:
            self._listener.remove(self)
        if self._task is not None:
            self._task.cancel()
        # From now on a refresh is done at once.
        requested = self._requested = self._requested or self._loop.create_future()
        if not requested.done():
            requested.set_result(None)

    async def _run(self) -> None:
        try:
            while self._requested is not None:
                done, self._requested = self._requested, None
                was_subscribed = self._is_subscribed
                try:
                    await self.read()
                    self.is_live = self.is_live or (was_subscribed and self._is_subscribed)
                except StoreUnavailable:
                    self._loop.call_later(_SECONDS_TO_TRY_AGAIN, self.refresh)
                finally:
                    done.set_result(None)
        finally:
            self._task = None


class Listener:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._channels: dict[bytes, Subscription] = {}
        self._changes: dict[bytes, Subscription | None] = {}
        self._is_changed = asyncio.Event()
        self._has_heard = True
        self._task: asyncio.Task[None] | None = None

    def add(self, subscription: Subscription) -> None:
        self._channels[subscription.channel] = self._changes[subscription.channel] = subscription
        self._is_changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def remove(self, subscription: Subscription) -> None:
        del self._channels[subscription.channel]
        self._changes[subscription.channel] = None
        self._is_changed.set()
        subscription.on_lost()

    def move(self) -> None:
        """Subscribe at other nodes to the channels that they have now."""
        for subscription in list(self._channels.values()):
            subscription.listen()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        node = self._node
        while self._channels:
            pubsub = node.client.pubsub()
            try:
                async with asyncio.timeout(node.timeout):
                    await pubsub.connect()
                self._changes, self._has_heard = dict(self._channels), True
                async with asyncio.TaskGroup() as group:
                    for work in (self._send(pubsub), self._hear(pubsub), self._check()):
                        group.create_task(work)
            except* UNREACHABLE as errors:  # callers get errors from their own calls; this only tries again
                log.debug("cannot listen to %s now: %s", node.shown, reason_of(errors.exceptions[0]))
            finally:
                for subscription in self._channels.values():
                    subscription.on_lost()
                await pubsub.aclose()
            await asyncio.wait([node.topology.look_again()])
            self.move()
        self._task = None

    async def _send(self, pubsub: PubSub) -> None:
        while True:
            changes, self._changes = self._changes, {}
            self._is_changed.clear()
            new: defaultdict[str, list[bytes]] = defaultdict(list)  # a command may name channels of one slot only
            for channel, subscription in changes.items():
                if subscription is None:
                    await pubsub.sunsubscribe(channel)
                else:
                    new[subscription.tag].append(channel)
            for channels in new.values():
                await pubsub.ssubscribe(*channels)
            await self._is_changed.wait()

    async def _hear(self, pubsub: PubSub) -> None:
        while True:
            message = await pubsub.get_message(timeout=None)
            self._has_heard = True
            subscription = self._channels.get(message["channel"]) if message else None
            if subscription is None:
                continue
            if message["type"] == "ssubscribe":
                subscription.on_subscribed()
            elif message["type"] == "sunsubscribe":
                raise RedisConnectionError("a slot has moved to another node")
            elif message["data"]:  # else it is a beat
                try:
                    subscription.on_message(message["data"])
                except (ValueError, TypeError):  # not our message; entries may be missing
                    subscription.on_subscribed()

    async def _check(self) -> None:
        """Fail if the node sends nothing in time, or writes no longer go to it."""
        while subscription := next(iter(self._channels.values()), None):
            self._has_heard = False
            keys = [self._node.topology.key(subscription.tag, "epochs"), subscription.channel]
            beat = Call(subscription.tag, script=BEAT, keys=keys)
            try:
                await self._node.reading.submit(beat)
            except StoreUnavailable as error:
                raise RedisConnectionError(str(error)) from None
            self.move()  # a failover that others noticed takes the channels along
            await asyncio.sleep(self._node.timeout)
            if not self._has_heard:
                raise RedisConnectionError("no message in time")
        raise RedisConnectionError("no channel is followed here")
