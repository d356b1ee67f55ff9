"""A gateway's lease: the sign of life by which others on the same store know that its claimed work goes on.

It is a fleeting record that runs out unless it is renewed. On the embedded store it ends with the process, so a
fresh start finds no lease but its own and takes over at once; on a shared store it runs out by itself.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from toolkit.gateway.stores import Records, StoreUnavailable

# How long after its last sign of life a gateway counts as dead.
LEASE_SECONDS = 15.0
# A lease is renewed, and that of another looked at, so many times in its life.
_LOOKS = 3
_SPACE = "leases"


class Lease:
    """The lease of this gateway, and a look at those of others.

    Parameters
    ----------
    fleeting
        The store's records that end with it.
    now
        The gateway's clock in milliseconds since the epoch.
    """

    def __init__(self, fleeting: Records, now: Callable[[], int]) -> None:
        self._records = fleeting
        self._now = now
        self.owner = secrets.token_hex(8)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the lease during the block: what is claimed in it is left alone by others.

        Raises
        ------
        StoreUnavailable
            It could not be taken; the block was not entered.
        """
        await self._renew()
        renewing = asyncio.ensure_future(self._keep_renewing())
        try:
            yield
        finally:
            renewing.cancel()

    @property
    def seconds_between_looks(self) -> float:
        """How long to wait before a lease that is held is looked at again."""
        return LEASE_SECONDS / _LOOKS

    async def is_held(self, owner: str) -> bool:
        """Whether this owner, of any gateway, still shows signs of life."""
        return await self._records.get(_SPACE, owner) is not None

    async def end(self) -> None:
        """Let go: what is still claimed may be taken over at once."""
        await self._records.take(_SPACE, self.owner)

    async def _renew(self) -> None:
        await self._records.put(_SPACE, self.owner, b"1", self._now() + round(LEASE_SECONDS * 1000))

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(self.seconds_between_looks)
            try:
                await self._renew()
            except StoreUnavailable:
                continue  # nobody else can take anything over from a store that is away; the next turn renews it
