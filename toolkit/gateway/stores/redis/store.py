"""One Redis, however many servers it is made of, as a store: opened, examined and closed together."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from toolkit.gateway.stores import Journals, Records, StoreUnavailable
from toolkit.gateway.stores.redis.address import redis_address
from toolkit.gateway.stores.redis.calls import FutureCall
from toolkit.gateway.stores.redis.channels import Channels
from toolkit.gateway.stores.redis.journals import RedisJournals
from toolkit.gateway.stores.redis.lane import Lane
from toolkit.gateway.stores.redis.promise import check, info_of, shortcomings
from toolkit.gateway.stores.redis.records import RedisRecords
from toolkit.gateway.stores.redis.servers import Place, Servers

log = logging.getLogger("toolkit.gateway")


class RedisStore:
    """Keep everything in a Redis that any number of gateways share.

    Parameters
    ----------
    url
        Where it is; see `toolkit.gateway.stores.redis.address`.
    now
        The gateway's clock in milliseconds since the epoch; decides what has expired.

    Raises
    ------
    BadAddress
        The URL cannot be read.
    """

    def __init__(self, url: str, now: Callable[[], int]) -> None:
        self.address = redis_address(url)
        self._now = now

    def __repr__(self) -> str:
        return self.address.shown

    async def open(self) -> None:
        """Connect, and see whether this Redis can be used.

        Raises
        ------
        StoreUnavailable
            It is not there, too old, a replica, or refuses us.
        """
        self._servers = Servers(self.address)
        self._channels = Channels(self._servers)
        self._journals = RedisJournals(self._servers, self._channels)
        self._records = RedisRecords(self._servers, self._channels, "records", self._now)
        self._fleeting = RedisRecords(self._servers, self._channels, "fleeting", self._now)
        self.journals: Journals = self._journals
        self.records: Records = self._records
        self.fleeting: Records = self._fleeting
        try:
            await self._servers.open()
            for place in self._servers.places():
                await self._examine(place)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Send what was asked for, and let go of every socket."""
        await self._servers.close()
        for part in (self._journals, self._records, self._fleeting):
            part.close()
        await self._channels.close()

    async def _examine(self, place: Place) -> None:
        reading, writing = self._servers.reading(place), self._servers.writing(place)
        info = info_of(await _answer(reading, b"INFO"))
        check(info, self.address)
        fsync = None
        with contextlib.suppress(StoreUnavailable):  # who may not ask for this is not told of it
            settings = await _answer(reading, b"CONFIG", b"GET", b"appendfsync")
            fsync = settings[1].decode("ascii") if settings else None
        for shortcoming in shortcomings(info, fsync, self.address):
            log.warning("the Redis at %s: %s", self.address.shown, shortcoming)
        # This connection registers with the server: who may not write is told here, before anybody is answered.
        await _answer(writing, b"PING")


async def _answer(lane: Lane, *command: bytes) -> Any:  # noqa: ANN401
    call = FutureCall(*command)
    lane.submit(call)
    return await call.future
