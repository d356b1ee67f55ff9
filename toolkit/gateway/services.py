"""The only place where the services meet: made, opened and closed together, over one store and one world."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.dweets.service.dweets import DweetService, DweetSettings
from toolkit.dweets.service.mail import Delivery
from toolkit.gateway.exchange import Routes
from toolkit.gateway.routes.dweets import DweetRoutes
from toolkit.gateway.routes.handwriting import HandwritingRoutes
from toolkit.gateway.routes.identity import IdentityRoutes
from toolkit.gateway.routes.rewards import RewardRoutes
from toolkit.handwriting.service.handwriting import HandwritingService, HandwritingSettings
from toolkit.identity.service.callers import IdentitySetup
from toolkit.identity.service.identity import IdentityService
from toolkit.outside_world import OutsideWorld
from toolkit.rewards.service.partners import RewardSettings
from toolkit.rewards.service.rewards import RewardService
from toolkit.secret import Secret
from toolkit.stores import Store


class Services:
    """All services of one gateway.

    Parameters
    ----------
    store, world
        What they share: where all is kept; clock and identifiers.
    settings
        Limits and retention of thing messaging.
    delivery
        Sends alert mails; None keeps them in the outbox.
    handwriting
        Keys and limits of handwriting.
    rewards
        Partners and rules of mobile rewards.
    identity
        Callers, carriers and settings of section D.
    on_loopback
        Whether the gateway listens to this machine only.
    """

    def __init__(
        self,
        store: Store,
        world: OutsideWorld,
        settings: DweetSettings,
        delivery: Delivery | None,
        handwriting: HandwritingSettings,
        identity: IdentitySetup,
        rewards: RewardSettings,
        *,
        on_loopback: bool,
    ) -> None:
        self._store = store
        self._world = world
        self._settings = settings
        self._delivery = delivery
        self.reward_settings = rewards
        self._identity_setup = identity
        self._on_loopback = on_loopback
        self.dweets: DweetService
        self.handwriting = HandwritingService(world, handwriting)
        self.identity: IdentityService
        self.rewards: RewardService

    async def open(self, locks: Mapping[str, Secret]) -> None:
        """Open the store, then the services on it, and issue the given locks (master key by lock)."""
        await self._store.open()
        self.dweets = DweetService(self._store, self._world, self._settings, self._delivery)
        self.identity = IdentityService(self._store, self._world, self._identity_setup)
        self.rewards = RewardService(self._store, self._world, self.reward_settings)
        try:
            await self.dweets.open()
            await self.rewards.open()
            for lock, key in locks.items():
                await self.dweets.locks.adopt(lock, key.reveal())
        except BaseException:  # nobody closes what was never open: let go of the folder here
            await self.close()
            raise

    def routes(self, *, cors: bool) -> list[Routes]:
        """Return the routes of all services; the first also answers for paths that belong to nobody."""
        return [
            DweetRoutes(self.dweets, cors=cors),
            HandwritingRoutes(self.handwriting, cors=cors),
            IdentityRoutes(self.identity, on_loopback=self._on_loopback),
            RewardRoutes(self.rewards),
        ]

    async def close(self) -> None:
        """Close the services, then the store."""
        await self.handwriting.close()
        await self.dweets.close()
        await self.rewards.close()
        await self._store.close()
