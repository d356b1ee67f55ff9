"""One connection to each server on which all that this process follows is heard.

A channel is named like the key that it tells of, and lives where that key lives. Whenever it is opened, also after
the connection broke, its owner is told, and reads what it may have missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, RedisError, ResponseError

from toolkit.gateway.stores import StoreUnavailable
from toolkit.gateway.stores.redis.calls import ScriptCall
from toolkit.gateway.stores.redis.lane import reason_of
from toolkit.gateway.stores.redis.link import Link, packed
from toolkit.gateway.stores.redis.scripts import BEAT
from toolkit.gateway.stores.redis.servers import Place, Servers

log = logging.getLogger("toolkit.gateway")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class Listener(NamedTuple):
    """Who follows a channel: told that it is open (again), that it is not any more, and every message."""

    on_open: Callable[[], None]
    on_shut: Callable[[], None]
    on_message: Callable[[bytes], None]


class _Ear:
    """The connection to one server."""

    def __init__(self, channels: Channels, servers: Servers, place: Place) -> None:
        self._channels = channels
        self._servers = servers
        self._place = place
        self._seconds = servers.address.timeout
        self._asked: deque[str] = deque()  # channels whose subscription is not answered yet
        self._unsent: list[bytes] = []
        self._to_send = asyncio.Event()
        self._is_connected = self._closing = False
        self._heard = True
        self.names: set[str] = set()
        self._task = asyncio.ensure_future(self._run())

    def open(self, name: str) -> None:
        """Hear a channel from now on."""
        self.names.add(name)
        if self._is_connected:  # else all names are asked for once there is a connection
            self._asked.append(name)
            self._say(b"SSUBSCRIBE", name)

    def shut(self, name: str) -> None:
        """Hear a channel no more."""
        self.names.discard(name)
        if self._is_connected:
            self._say(b"SUNSUBSCRIBE", name)

    async def close(self) -> None:
        """Hang up."""
        self._closing = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _say(self, *command: bytes | str) -> None:
        self._unsent.append(packed(command))
        self._to_send.set()

    async def _run(self) -> None:
        pause = _SHORTEST_PAUSE
        while not self._closing:
            link = None
            try:
                async with asyncio.timeout(self._seconds):
                    link = await self._servers.connect(self._place)
                self._begin()
                pause = _SHORTEST_PAUSE
                async with asyncio.TaskGroup() as group:
                    for work in (self._send(link), self._hear(link), self._check()):
                        group.create_task(work)
            except* (RedisError, OSError, TimeoutError) as errors:
                # Whoever calls is told by the lanes; here it is only tried again.
                log.debug("cannot follow %s now: %s", self._servers.address.shown, reason_of(errors.exceptions[0]))
            finally:
                self._is_connected = False
                self._channels.broken(self.names)
                if link is not None:
                    link.hang_up()
            if self._closing:  # a group of tasks that fails just then swallows the cancellation (before Python 3.13)
                return
            self._servers.look_again()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            self._channels.place_again(self.names)

    def _begin(self) -> None:
        self._asked.clear()
        self._unsent.clear()
        self._heard = self._is_connected = True
        for name in list(self.names):
            self.open(name)

    async def _send(self, link: Link) -> None:
        while True:
            await self._to_send.wait()
            self._to_send.clear()
            unsent, self._unsent = self._unsent, []
            link.send(unsent)

    async def _hear(self, link: Link) -> None:
        while True:
            try:
                kind, *rest = await link.answer()
            except ResponseError as error:  # only a subscription is refused so, and they are answered in order
                self._refused(error)
                continue
            self._heard = True
            if kind == b"smessage":
                self._channels.message(rest[0].decode("utf-8"), rest[1])
            elif kind == b"ssubscribe":
                self._channels.opened(self._asked.popleft())
            elif kind == b"sunsubscribe" and rest[0] is not None and rest[0].decode("utf-8") in self.names:
                self._servers.look_again()  # its slot has moved to another node
                raise RedisConnectionError("the slot has moved")

    def _refused(self, error: ResponseError) -> None:
        name = self._asked.popleft()
        if not isinstance(error, MovedError):
            log.warning("%s refuses to be followed: %s", self._servers.address.shown, reason_of(error))
        self._servers.look_again()
        asyncio.get_running_loop().call_later(_LONGEST_PAUSE, self._channels.place_again, {name})

    async def _check(self) -> None:
        """Notice a server that is gone without a word, or that is not the one any more that writes go to."""
        while True:
            self._heard = False
            name = next(iter(self.names), None)
            if name is None:
                self._say(b"PING")
            else:
                await self._beat(name)
                # It reaches who listens at a replica, too, but news is told only where the master knows of listeners.
                await self._servers.have_looked()
                self._channels.place_again(self.names)
            await asyncio.sleep(self._seconds)
            if not self._heard:
                raise RedisConnectionError("no answer in time")

    async def _beat(self, name: str) -> None:
        call = ScriptCall(BEAT, [name], writes=False)
        self._servers.writing(self._place).submit(call)
        try:
            await call.future
        except StoreUnavailable as error:
            raise RedisConnectionError(str(error)) from None


class Channels:
    """All that one process follows.

    Parameters
    ----------
    servers
        Where channels live.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._listeners: dict[str, Listener] = {}
        self._places: dict[str, Place] = {}
        self._ears: dict[Place, _Ear] = {}

    def open(self, name: str, listener: Listener) -> None:
        """Hear a channel from now on."""
        self._listeners[name] = listener
        self._place(name)

    def shut(self, name: str) -> None:
        """Hear a channel no more."""
        del self._listeners[name]
        self._ears[self._places.pop(name)].shut(name)

    async def close(self) -> None:
        """Hang up everywhere."""
        await asyncio.gather(*(ear.close() for ear in self._ears.values()))

    def message(self, name: str, data: bytes) -> None:
        """Pass a message on; called by the ear that heard it."""
        listener = self._listeners.get(name)
        if listener is not None and data:  # else it is a beat
            listener.on_message(data)

    def opened(self, name: str) -> None:
        """Tell a listener that its channel is open."""
        listener = self._listeners.get(name)
        if listener is not None:
            listener.on_open()

    def broken(self, names: Iterable[str]) -> None:
        """Tell listeners that messages may be lost until their channel is open again."""
        for name in names:
            if name in self._listeners:
                self._listeners[name].on_shut()

    def place_again(self, names: Iterable[str]) -> None:
        """Follow channels to where they live now."""
        for name in list(names):
            if name in self._listeners:
                there = self._servers.place(name)
                if there != self._places[name]:
                    self._ears[self._places[name]].shut(name)
                    self._place(name)

    def _place(self, name: str) -> None:
        place = self._places[name] = self._servers.place(name)
        if place not in self._ears:
            self._ears[place] = _Ear(self, self._servers, place)
        self._ears[place].open(name)
