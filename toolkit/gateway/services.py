"""The only place where the services meet: they are opened and closed together, over one store."""

from __future__ import annotations

from contextlib import AsyncExitStack

from toolkit.dweets.service.delivery import MailDelivery, MailFolder, SmtpDelivery
from toolkit.dweets.service.dweets import DweetService
from toolkit.endpoint import is_loopback
from toolkit.gateway.access import Proxies
from toolkit.gateway.app import Application
from toolkit.gateway.configuration import Configuration
from toolkit.gateway.exchange import Routes
from toolkit.gateway.routes.dweets import DweetRoutes
from toolkit.gateway.routes.handwriting import HandwritingRoutes
from toolkit.gateway.routes.identity import IdentityRoutes
from toolkit.gateway.routes.operator import OperatorRoutes
from toolkit.gateway.routes.pages import PageRoutes, StaticRoutes
from toolkit.gateway.routes.rewards import RewardRoutes
from toolkit.handwriting.service.handwriting import HandwritingService
from toolkit.identity.service.callers import IdentitySettings
from toolkit.identity.service.identity import IdentityService
from toolkit.operator.folder import OperatorFolder
from toolkit.outside_world import OutsideWorld
from toolkit.rewards.configuration import RewardSettings
from toolkit.rewards.service.rewards import RewardService
from toolkit.secret import Secret
from toolkit.stores import Store


class Services:
    dweets: DweetService
    handwriting: HandwritingService
    identity: IdentityService
    rewards: RewardService
    operator_key: Secret

    def __init__(self, store: Store, world: OutsideWorld, configuration: Configuration) -> None:
        self.store = store
        self.world = world
        self.configuration = configuration
        self.operator_folder = OperatorFolder(configuration.gateway.folder)
        self._delivery = _mail_delivery(configuration)

    async def open(self) -> Application:
        await self.store.open()
        # From here on the folder is ours; a command that found an old address would send the operator key there.
        self.operator_folder.remove_address()
        settings, gateway = self.configuration, self.configuration.gateway
        self.dweets = DweetService(self.store, self.world, settings.dweets, self._delivery)
        self.handwriting = HandwritingService(self.world, settings.handwriting)
        self.identity = IdentityService(self.store, self.world, settings.identity or IdentitySettings())
        self.rewards = RewardService(self.store, self.world, settings.rewards or RewardSettings())
        try:
            self.operator_key = self.operator_folder.kept_key()
            await self.dweets.open()
            await self.rewards.open()
            for lock, key in settings.dweets.locks.items():
                await self.dweets.locks.adopt(lock, key.reveal())
        except BaseException:  # the caller closes only what was opened completely
            await self.close()
            raise
        # The first also answers for paths that belong to no service.
        routes: list[Routes] = [
            DweetRoutes(self.dweets, cors=gateway.cors),
            HandwritingRoutes(self.handwriting, cors=gateway.cors),
            IdentityRoutes(self.identity, on_loopback=is_loopback(gateway.host), public_url=gateway.public_url),
            RewardRoutes(self.rewards, public_url=gateway.public_url),
            OperatorRoutes(self),
            StaticRoutes(),
        ]
        pages = PageRoutes(self.dweets)
        timings = self.world.timings
        return Application(routes, gateway.hosts, Proxies(gateway.trusted_proxies), pages, timings.wrong_key)

    async def close(self) -> None:
        async with AsyncExitStack() as closing:  # closes all, in reverse order, even if one of them raises
            if self._delivery is not None:
                closing.callback(self._delivery.close)
            closing.push_async_callback(self.store.close)
            closing.callback(self.operator_folder.remove_address)
            closing.push_async_callback(self.rewards.close)
            closing.push_async_callback(self.dweets.close)
            closing.push_async_callback(self.handwriting.close)


def _mail_delivery(configuration: Configuration) -> MailDelivery | None:
    folder, smtp = configuration.gateway.folder, configuration.dweets.smtp
    if smtp is not None:
        return SmtpDelivery(smtp.reveal())
    return None if folder is None else MailFolder(folder / "outbox")
