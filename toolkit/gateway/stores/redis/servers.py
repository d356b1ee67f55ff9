"""Which server a key lives on, and connections to it: one server, the master that Sentinel names, or a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import random

from redis.asyncio.connection import AbstractConnection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import AskError, MovedError, RedisError

from toolkit.gateway.stores import StoreUnavailable
from toolkit.gateway.stores.redis.address import RedisAddress
from toolkit.gateway.stores.redis.calls import Call, FutureCall
from toolkit.gateway.stores.redis.lane import Lane, reason_of
from toolkit.gateway.stores.redis.link import Link
from toolkit.gateway.stores.redis.promise import info_of
from toolkit.gateway.stores.redis.scripts import ERA

# (host, port) of a server; the one place of a store that is no cluster has none.
Place = tuple[str, int]
_THE_PLACE: Place = ("", 0)
_REDIRECTIONS = 5
# More than anybody numbers in one life of a master, and few enough for its numbers to be read by people.
NUMBERS_AN_ERA = 1_000_000_000


class Servers:
    """The servers of one Redis.

    Parameters
    ----------
    address
        Where they are.
    """

    def __init__(self, address: RedisAddress) -> None:
        self.address = address
        self.is_cluster = address.kind == "cluster"
        self._sentinel = _sentinel_of(address) if address.kind == "sentinel" else None
        self._slots: list[Place] = []
        self._writing: dict[Place, Lane] = {}
        self._reading: dict[Place, Lane] = {}
        self._eras: dict[str, int] = {}
        self._floors: dict[Place, int] = {}
        self._refreshing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Find the servers.

        Raises
        ------
        StoreUnavailable
            None of them answers.
        """
        if self.is_cluster:
            await self._read_slots()

    async def close(self) -> None:
        """Send what waits, and hang up everywhere."""
        if self._refreshing is not None:
            self._refreshing.cancel()
        await asyncio.gather(*(lane.close() for lane in [*self._writing.values(), *self._reading.values()]))
        if self._sentinel is not None:
            await self._sentinel.aclose()

    def slot(self, key: str) -> int:
        """Return what keys must share to be changed in one step: their slot in a cluster, else always 0."""
        return key_slot(key.encode("utf-8")) if self.is_cluster else 0

    def place(self, key: str) -> Place:
        """Return where a key lives, as far as is known."""
        return self._slots[key_slot(key.encode("utf-8"))] if self.is_cluster else _THE_PLACE

    def places(self) -> set[Place]:
        """Return all servers that keys live on."""
        return set(self._slots) if self.is_cluster else {_THE_PLACE}

    def writing(self, place: Place) -> Lane:
        """Return the lane for what must keep its order: all that changes something."""
        return self._lane(self._writing, place)

    def reading(self, place: Place) -> Lane:
        """Return the lane for reading, so that a long history holds up no write."""
        return self._lane(self._reading, place)

    async def connect(self, place: Place) -> Link:
        """Return a new connection to the server at `place`."""
        options = dict(self.address.options)
        kind: type[AbstractConnection] = options.pop("connection_class")
        if self.is_cluster:
            options["host"], options["port"] = place
        elif self._sentinel is not None:
            options["host"], options["port"] = await self._sentinel.discover_master(self.address.service)
        # One time for a whole batch is the lane's business; none here, so that no answer costs a timer.
        connection = kind(
            **options, socket_timeout=None, socket_connect_timeout=self.address.timeout, driver_info=None, protocol=2
        )
        try:
            await connection.connect()
        except BaseException:
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                await connection.disconnect(nowait=True)
            raise
        return Link(connection)

    async def connect_to_write(self, place: Place) -> Link:
        """Return a new connection to the server at `place`, and find out in which of its lives it is.

        A server that starts or is promoted may lack what was written last, and listeners may have heard of that. So
        each life of a master is an era, and numbers its news above all that was numbered in the eras before.
        """
        link = await self.connect(place)
        try:
            replication = info_of(await link.ask(b"INFO", b"replication"))
            life = replication["master_replid"]
            if life not in self._eras:
                self._eras[life] = await self._era_of(place, link, life, replication["master_replid2"])
            self._floors[place] = self._eras[life] * NUMBERS_AN_ERA
        except BaseException:
            link.hang_up()
            raise
        return link

    async def _era_of(self, place: Place, link: Link, life: str, before: str) -> int:
        server, promoted = b"", b""
        if self.is_cluster:  # else there is one server at a time, and each further life is a new era
            server, promoted = await link.ask(b"CLUSTER", b"MYID"), b"1" if before.strip("0") else b""
        key = f"{self.address.prefix}eras"
        there = self.place(key)
        registry = link if there == place else await self.connect(there)
        try:
            era: int = await registry.ask(b"EVAL", ERA.text, 1, key, life, server, promoted)
            return era
        finally:
            if registry is not link:
                registry.hang_up()

    def floor(self, place: Place) -> int:
        """Return the number that all of the present era of a server are above."""
        return self._floors.get(place, 0)

    def _lane(self, lanes: dict[Place, Lane], place: Place) -> Lane:
        lane = lanes.get(place)
        if lane is None:
            shown = "the Redis node {}:{}".format(*place) if self.is_cluster else f"the Redis at {self.address.shown}"
            lane = lanes[place] = Lane(
                lambda: self.connect_to_write(place) if lanes is self._writing else self.connect(place),
                shown,
                self.address.timeout,
                self.address.replicas,
                lambda call, error: self._redirect(lanes, call, error),
                self.look_again,
            )
        return lane

    # -- the slots of a cluster ---------------------------------------------------------------------------

    def look_again(self) -> None:
        """Find out anew who is who: a server is away, was demoted, or has other slots now."""
        for lane in self._reading.values():  # who only reads would not notice that its server was demoted
            lane.doubt()
        if self.is_cluster and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.ensure_future(self._refresh())

    async def have_looked(self) -> None:
        """Wait until it is known who is who, where that is being found out."""
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing])

    def _redirect(self, lanes: dict[Place, Lane], call: Call, error: AskError) -> bool:
        call.redirections += 1
        if not self.is_cluster or call.redirections > _REDIRECTIONS:
            return False
        there = (error.host, error.port)
        if isinstance(error, MovedError):
            self._slots[error.slot_id] = there
            self.look_again()
        else:  # the slot is on its way: only this one call goes there
            self._lane(lanes, there).submit(FutureCall(b"ASKING", read=lambda _: None))
        self._lane(lanes, there).submit(call)
        return True

    async def _refresh(self) -> None:
        with contextlib.suppress(StoreUnavailable):  # whoever calls is told; the next failure looks again
            await self._read_slots()

    async def _read_slots(self) -> None:
        known = list(set(self._slots))
        random.shuffle(known)
        error: Exception | None = None
        for place in dict.fromkeys([*known, *self.address.hosts]):
            try:
                async with asyncio.timeout(self.address.timeout):
                    self._slots = await self._slots_by(place)
                return
            except (RedisError, OSError, TimeoutError) as failure:
                error = failure
        raise StoreUnavailable(f"{self.address.shown} cannot be used now: {reason_of(error)}")

    async def _slots_by(self, place: Place) -> list[Place]:
        link = await self.connect(place)
        try:
            answer = await link.ask(b"CLUSTER", b"SLOTS")
        finally:
            link.hang_up()
        slots: list[Place] = [("", 0)] * REDIS_CLUSTER_HASH_SLOTS
        for start, end, (host, port, *_), *_ in answer:
            slots[start : end + 1] = [(host.decode("utf-8") or place[0], port)] * (end + 1 - start)
        if ("", 0) in slots:
            raise RedisError("the cluster does not cover all slots")
        return slots


def _sentinel_of(address: RedisAddress) -> Sentinel:
    options = {name: value for name, value in address.options.items() if name.startswith("ssl_")}
    tls = issubclass(address.options["connection_class"], SSLConnection)
    limits = {"socket_timeout": address.timeout, "socket_connect_timeout": address.timeout}
    once = Retry(NoBackoff(), 0)
    return Sentinel(list(address.hosts), sentinel_kwargs={**options, **limits, "ssl": tls, "retry": once})
