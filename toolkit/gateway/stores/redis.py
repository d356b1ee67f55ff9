"""The store for many gateways: Redis or Valkey, as one server, behind Sentinel, or as a cluster.

How to read it: `redis_address` reads the URL, `redis_servers` knows which server has a key, `redis_lane` carries
calls there and back, `redis_scripts` is what happens inside of Redis. On these stand `redis_journals` (with
`redis_appends` and `redis_index`) and `redis_records`. What other gateways write is heard by `redis_channels` and
put in order by `redis_feed`.

What an acknowledgement means is a setting of that Redis, and of the URL's ``replicas``: see the README.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from toolkit.gateway.stores import Journals, Records, StoreUnavailable
from toolkit.gateway.stores.redis_address import BadAddress, redis_address
from toolkit.gateway.stores.redis_channels import Channels
from toolkit.gateway.stores.redis_journals import RedisJournals
from toolkit.gateway.stores.redis_lane import FutureCall
from toolkit.gateway.stores.redis_promise import check, info_of, shortcomings
from toolkit.gateway.stores.redis_records import RedisRecords
from toolkit.gateway.stores.redis_servers import Place, Servers

log = logging.getLogger("toolkit.gateway")


class RedisStore:
    """Keep everything in a Redis that any number of gateways share.

    Parameters
    ----------
    url
        Where it is; see `toolkit.gateway.stores.redis_address`.
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
        info = info_of(await self._ask(place, b"INFO"))
        check(info, self.address)
        fsync = None
        with contextlib.suppress(StoreUnavailable):  # who may not ask for this is not told of it
            settings = await self._ask(place, b"CONFIG", b"GET", b"appendfsync")
            fsync = settings[1].decode("ascii") if settings else None
        for shortcoming in shortcomings(info, fsync, self.address):
            log.warning("the Redis at %s: %s", self.address.shown, shortcoming)

    async def _ask(self, place: Place, *command: bytes) -> Any:  # noqa: ANN401
        call = FutureCall(*command)
        self._servers.reading(place).submit(call)
        return await call.future


__all__ = ["BadAddress", "RedisStore"]
