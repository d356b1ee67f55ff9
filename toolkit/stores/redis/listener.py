"""Sharded pub/sub: one connection to each node, on which this gateway hears all channels that it follows there.

Redis-py subscribes and parses. A connection that breaks, or whose channel moved, is replaced by a new one instead of
repaired: redis-py subscribes again with one command for all channels, which a cluster refuses where they lie in
several slots, and does not say which messages may have been lost.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError

from toolkit.stores import StoreUnavailable
from toolkit.stores.redis.calls import Call
from toolkit.stores.redis.durability import reason_of
from toolkit.stores.redis.node import UNREACHABLE, Node
from toolkit.stores.redis.scripts import BEAT
from toolkit.stores.redis.topology import Topology

log = logging.getLogger("toolkit.gateway")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_CHANNELS_A_COMMAND = 500


class Channel(NamedTuple):
    """A channel, its hash tag, and what is called once it is subscribed, when messages may be lost, and for each."""

    name: bytes
    tag: str
    on_subscribed: Callable[[], None]
    on_lost: Callable[[], None]
    on_message: Callable[[bytes], None]


class Listener:
    """All channels that this gateway follows."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._nodes: dict[Node, _NodeListener] = {}
        self._places: dict[bytes, _NodeListener] = {}

    def subscribe(self, channel: Channel) -> None:
        """Hear a channel from now on."""
        self._place(channel, self.topology.node_of(channel.tag))

    def unsubscribe(self, name: bytes) -> None:
        """Hear a channel no more."""
        self._places.pop(name).remove(name)

    async def close(self) -> None:
        """Disconnect from all nodes."""
        await asyncio.gather(*(each.close() for each in self._nodes.values()))

    def move(self, channels: Iterable[Channel]) -> None:
        """Follow channels to the nodes that have them now."""
        for channel in channels:
            node = self.topology.node_of(channel.tag)
            if self._places[channel.name].node is not node:
                self._places[channel.name].remove(channel.name)
                self._place(channel, node)

    def end(self, listener: _NodeListener) -> None:
        """Forget a node that has no channels any more."""
        self._nodes.pop(listener.node, None)

    def _place(self, channel: Channel, node: Node) -> None:
        if node not in self._nodes:
            self._nodes[node] = _NodeListener(self, node)
        self._places[channel.name] = self._nodes[node]
        self._nodes[node].add(channel)


class _NodeListener:
    """The connection to one node."""

    def __init__(self, listener: Listener, node: Node) -> None:
        self.node = node
        self._listener = listener
        self._channels: dict[bytes, Channel] = {}
        self._new: dict[bytes, Channel] = {}
        self._old: set[bytes] = set()
        self._is_changed = asyncio.Event()
        self._has_heard = True
        self._task = asyncio.create_task(self._run())

    def add(self, channel: Channel) -> None:
        self._channels[channel.name] = self._new[channel.name] = channel
        self._old.discard(channel.name)
        self._is_changed.set()

    def remove(self, name: bytes) -> None:
        del self._channels[name]
        self._new.pop(name, None)
        self._old.add(name)
        self._is_changed.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause, topology = _SHORTEST_PAUSE, self._listener.topology
        while self._channels:
            pubsub = self.node.client.pubsub()
            try:
                async with asyncio.timeout(self.node.timeout):
                    await pubsub.connect()
                pause = _SHORTEST_PAUSE
                self._new, self._old, self._has_heard = dict(self._channels), set(), True
                self._is_changed.set()
                async with asyncio.TaskGroup() as group:
                    for work in (self._send(pubsub), self._hear(pubsub), self._check()):
                        group.create_task(work)
            except* UNREACHABLE as errors:  # callers get errors from their own calls; this only tries again
                log.debug("cannot listen to %s now: %s", self.node.shown, reason_of(errors.exceptions[0]))
            finally:
                for channel in self._channels.values():
                    channel.on_lost()
                await pubsub.aclose()
            topology.look_again()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            await topology.have_looked()
            self._listener.move(list(self._channels.values()))
        self._listener.end(self)

    async def _send(self, pubsub: PubSub) -> None:
        while True:
            await self._is_changed.wait()
            self._is_changed.clear()
            new, old, self._new, self._old = self._new, self._old, {}, set()
            by_tag: dict[str, list[bytes]] = {}  # a command may name channels of one slot only
            for channel in new.values():
                by_tag.setdefault(channel.tag, []).append(channel.name)
            for names in by_tag.values():
                for start in range(0, len(names), _CHANNELS_A_COMMAND):
                    await pubsub.ssubscribe(*names[start : start + _CHANNELS_A_COMMAND])
            for name in old:
                await pubsub.sunsubscribe(name)

    async def _hear(self, pubsub: PubSub) -> None:
        while True:
            message = await pubsub.get_message(timeout=None)
            self._has_heard = True
            channel = self._channels.get(message["channel"]) if message else None
            if channel is None:
                continue
            if message["type"] == "ssubscribe":
                channel.on_subscribed()
            elif message["type"] == "sunsubscribe":
                raise RedisConnectionError("a slot has moved to another node")
            elif message["data"]:  # else it is a beat
                try:
                    channel.on_message(message["data"])
                except (ValueError, struct.error) as error:
                    raise RedisConnectionError(f"a message cannot be read: {error}") from None

    async def _check(self) -> None:
        """Notice a node that is gone without a word, or that writes do not go to any more."""
        while channel := next(iter(self._channels.values()), None):
            self._has_heard = False
            beat = Call(channel.tag, script=BEAT, keys=[channel.name])
            self.node.writing.submit(beat)
            try:
                await beat.future
            except StoreUnavailable as error:
                raise RedisConnectionError(str(error)) from None
            # A failover that others noticed takes the channels along.
            self._listener.move(list(self._channels.values()))
            await asyncio.sleep(self.node.timeout)
            if not self._has_heard:
                raise RedisConnectionError("no message in time")
        raise RedisConnectionError("no channel is followed here")
