"""Sharded pub/sub: one connection to each node, for all channels that this gateway follows there.

A connection that breaks, or whose channel moved, is replaced: so it is clear from when on messages may be lost.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Protocol

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError

from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores.group_commit import GroupCommit, Request
from toolkit_gateway.stores.redis.address import UNREACHABLE, reason_of

log = logging.getLogger("toolkit_gateway")

_SECONDS_TO_RETRY = 1.0


class Server(Protocol):
    """What a listener needs of its node."""

    label: str
    timeout: float
    client: Redis

    async def beat(self, tag: str, channel: bytes) -> None: ...


class Servers(Protocol):
    """What listeners and subscriptions need of the topology."""

    subscriptions: set[Subscription]

    def listener_of(self, tag: str) -> Listener: ...

    def refresh(self) -> asyncio.Task[None]: ...


class Subscription(ABC):
    """Listens to a channel of a hash tag, and reads from Redis what messages announce and what it may have missed."""

    def __init__(self, servers: Servers, tag: str, channel: bytes) -> None:
        self.tag, self.channel = tag, channel
        self.is_live = False  # whether it gets what is committed, within moments
        self._is_subscribed = self._is_closed = False
        self._servers, self._listener = servers, servers.listener_of(tag)
        self._reads: GroupCommit[Request[None]] = GroupCommit(self._read)
        servers.subscriptions.add(self)
        self._listener.follow(self)

    @abstractmethod
    async def read(self) -> None:
        """Read what is missing; raise StoreUnavailable if Redis is away."""

    @abstractmethod
    def on_message(self, data: bytes) -> None: ...

    def on_subscribed(self) -> None:
        self._is_subscribed = True
        self.refresh()

    def on_lost(self) -> None:
        self._is_subscribed = self.is_live = False

    def move(self) -> None:
        """Subscribe to the channel at the node that has it now."""
        listener = self._servers.listener_of(self.tag)
        if listener is not self._listener:
            self._listener.unfollow(self)
            self._listener = listener
            listener.follow(self)

    def refresh(self) -> asyncio.Future[None]:
        """Request a new read, and return a future that is done when this read ends, even if it fails."""
        request: Request[None] = Request()
        request.result = None
        if self._is_closed:
            request.settle()
        else:
            self._reads.add_to_next_batch(request)
        return request.future

    def close(self) -> None:
        self._is_closed = True
        self._servers.subscriptions.discard(self)
        self._listener.unfollow(self)

    async def drain(self) -> None:
        await self._reads.close()

    async def _read(self, requests: list[Request[None]]) -> None:
        was_subscribed = self._is_subscribed
        try:
            await self.read()
            self.is_live = self.is_live or (was_subscribed and self._is_subscribed)
        except StoreUnavailable:
            asyncio.get_running_loop().call_later(_SECONDS_TO_RETRY, self.refresh)
        for request in requests:
            request.settle()


class Listener:
    def __init__(self, server: Server, servers: Servers) -> None:
        self._server, self._servers = server, servers
        self._subscriptions: dict[bytes, Subscription] = {}
        self._changed: asyncio.Queue[bytes] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def follow(self, subscription: Subscription) -> None:
        self._subscriptions[subscription.channel] = subscription
        self._changed.put_nowait(subscription.channel)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def unfollow(self, subscription: Subscription) -> None:
        del self._subscriptions[subscription.channel]
        self._changed.put_nowait(subscription.channel)
        subscription.on_lost()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        server = self._server
        while self._subscriptions:
            pubsub = server.client.pubsub()
            try:
                async with asyncio.timeout(server.timeout):
                    await pubsub.connect()
                for channel in self._subscriptions:
                    self._changed.put_nowait(channel)
                async with asyncio.TaskGroup() as group:
                    for work in (self._subscribe(pubsub), self._receive(pubsub), self._beat()):
                        group.create_task(work)
            # Another program's message may be malformed. Callers get errors from their own commands; this only retries.
            except* (*UNREACHABLE, StoreUnavailable, ValueError, TypeError) as errors:
                log.debug("cannot listen to %s now: %s", server.label, reason_of(errors.exceptions[0]))
            finally:
                for subscription in self._subscriptions.values():
                    subscription.on_lost()
                await pubsub.aclose()
            await asyncio.wait([self._servers.refresh()])
        self._task = None

    async def _subscribe(self, pubsub: PubSub) -> None:
        while channel := await self._changed.get():
            await (pubsub.ssubscribe if channel in self._subscriptions else pubsub.sunsubscribe)(channel)
            await asyncio.sleep(0)  # let other tasks run between thousands of subscriptions

    async def _receive(self, pubsub: PubSub) -> None:
        while message := await pubsub.get_message(timeout=2 * self._server.timeout):
            subscription = self._subscriptions.get(message["channel"])
            if subscription is None:
                continue
            if message["type"] == "ssubscribe":
                subscription.on_subscribed()
            elif message["type"] == "sunsubscribe":
                raise RedisConnectionError("a slot has moved to another node")
            elif message["data"]:  # an empty message is a beat
                subscription.on_message(message["data"])
        raise RedisConnectionError("no message in time")

    async def _beat(self) -> None:
        """Check again and again that the node answers and still takes writes; raise if not."""
        while subscription := next(iter(self._subscriptions.values()), None):
            await self._server.beat(subscription.tag, subscription.channel)
            await asyncio.sleep(self._server.timeout)
        raise RedisConnectionError("no channel has a subscription here")
