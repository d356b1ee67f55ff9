"""The only place where the services meet: they are opened and closed together, over one store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolkit.dweets.service.delivery import FolderDelivery, SmtpDelivery
from toolkit.dweets.service.dweets import DweetService, DweetSettings
from toolkit.gateway.access import Hosts, Proxies
from toolkit.gateway.app import Application
from toolkit.gateway.exchange import Routes
from toolkit.gateway.routes.dweets import DweetRoutes
from toolkit.gateway.routes.handwriting import HandwritingRoutes
from toolkit.gateway.routes.identity import IdentityRoutes, simulates_phones
from toolkit.gateway.routes.rewards import RewardRoutes
from toolkit.handwriting.service.handwriting import HandwritingService, HandwritingSettings
from toolkit.identity.service.callers import IdentitySetup
from toolkit.identity.service.identity import IdentityService
from toolkit.outside_world import OutsideWorld
from toolkit.rewards.service.partners import RewardSettings
from toolkit.rewards.service.rewards import RewardService
from toolkit.secret import Secret
from toolkit.stores import Store


@dataclass
class Services:
    store: Store
    world: OutsideWorld
    settings: DweetSettings
    delivery: SmtpDelivery | FolderDelivery | None
    handwriting_settings: HandwritingSettings
    reward_settings: RewardSettings
    identity_setup: IdentitySetup
    #: Master keys by lock, issued when the services are opened.
    locks: Mapping[str, Secret]
    on_loopback: bool
    hosts: Hosts | None
    proxies: Proxies
    cors: bool
    dweets: DweetService = field(init=False)
    handwriting: HandwritingService = field(init=False)
    identity: IdentityService = field(init=False)
    rewards: RewardService = field(init=False)

    async def open(self) -> Application:
        await self.store.open()
        self.dweets = DweetService(self.store, self.world, self.settings, self.delivery)
        self.handwriting = HandwritingService(self.world, self.handwriting_settings)
        self.identity = IdentityService(self.store, self.world, self.identity_setup)
        self.rewards = RewardService(self.store, self.world, self.reward_settings)
        try:
            await self.dweets.open()
            await self.rewards.open()
            for lock, key in self.locks.items():
                await self.dweets.locks.adopt(lock, key.reveal())
        except BaseException:  # nobody else closes what was never open
            await self.close()
            raise
        # The first also answers for paths that belong to no service.
        routes: list[Routes] = [
            DweetRoutes(self.dweets, cors=self.cors),
            HandwritingRoutes(self.handwriting, cors=self.cors),
            IdentityRoutes(self.identity, on_loopback=self.on_loopback),
            RewardRoutes(self.rewards),
        ]
        return Application(routes, self.hosts, self.proxies, self.world.timings.wrong_key)

    @property
    def simulates_phones(self) -> bool:
        """Whether callers of identity may say which phone a call comes from."""
        setup = self.identity_setup
        return bool(setup.callers) and simulates_phones(setup.settings, on_loopback=self.on_loopback)

    async def close(self) -> None:
        await self.handwriting.close()
        await self.dweets.close()
        await self.rewards.close()
        await self.store.close()
        if self.delivery is not None:
            self.delivery.close()
