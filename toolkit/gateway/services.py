"""The only place where the services meet: they are opened and closed together, over one store."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from toolkit.dweets.service.dweets import DweetService
from toolkit.dweets.service.lock_records import lock_rows, revoke
from toolkit.dweets.service.mail import MailDelivery, MailFolder, SmtpDelivery
from toolkit.endpoint import is_loopback
from toolkit.gateway.access import Proxies
from toolkit.gateway.app import Application
from toolkit.gateway.configuration import Configuration
from toolkit.gateway.exchange import Routes
from toolkit.gateway.routes.dweets import DweetRoutes
from toolkit.gateway.routes.handwriting import HandwritingRoutes
from toolkit.gateway.routes.identity import IdentityRoutes
from toolkit.gateway.routes.operator import OperatorCalls, OperatorRoutes
from toolkit.gateway.routes.pages import PageRoutes
from toolkit.gateway.routes.rewards import RewardRoutes
from toolkit.handwriting.service.handwriting import HandwritingService
from toolkit.identity.service.callers import IdentitySettings
from toolkit.identity.service.identity import IdentityService
from toolkit.operator.folder import read_or_make_key, remove_address
from toolkit.outside_world import OutsideWorld
from toolkit.rewards.configuration import RewardSettings
from toolkit.rewards.service.rewards import RewardService
from toolkit.secret import Secret
from toolkit.stores import Store


class Services:
    dweets: DweetService
    identity: IdentityService
    rewards: RewardService
    operator_key: Secret

    def __init__(self, store: Store, world: OutsideWorld, configuration: Configuration) -> None:
        self.store = store
        self.world = world
        self._configuration = configuration

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Application]:
        """Open everything, and close it in reverse order at the end or after an error, even if one part fails."""
        store, world, settings = self.store, self.world, self._configuration
        async with AsyncExitStack() as closing:
            await store.open()
            closing.push_async_callback(store.close)
            # The folder is locked now. Remove an earlier gateway's address, or a command sends the operator key there.
            if (folder := settings.gateway.folder) is not None:
                remove_address(folder)
                closing.callback(remove_address, folder)
            self.operator_key = read_or_make_key(folder)
            self.rewards = RewardService(store, world, settings.rewards or RewardSettings())
            closing.push_async_callback(self.rewards.close)
            self.dweets = DweetService(store, world, settings.dweets, _mail_delivery(settings))
            closing.push_async_callback(self.dweets.close)
            handwriting = HandwritingService(world, settings.handwriting)
            closing.push_async_callback(handwriting.close)
            self.identity = IdentityService(store, world, settings.identity or IdentitySettings())
            await self.dweets.open()
            for lock, key in settings.dweets.locks.items():
                await self.dweets.locks.adopt(lock, key.reveal())
            yield self._application(handwriting)

    def _application(self, handwriting: HandwritingService) -> Application:
        gateway = self._configuration.gateway
        routes: list[Routes] = [
            DweetRoutes(self.dweets, cors=gateway.cors),
            HandwritingRoutes(handwriting, cors=gateway.cors),
            IdentityRoutes(self.identity, on_loopback=is_loopback(gateway.host), public_url=gateway.public_url),
            RewardRoutes(self.rewards, public_url=gateway.public_url),
            OperatorRoutes(self.operator_key, self.world.clock, self._operator_calls()),
            PageRoutes(self.dweets),
        ]
        proxies = Proxies(gateway.trusted_proxies) if gateway.trusted_proxies else None
        return Application(routes, gateway.hosts, proxies, self.world.timings.wrong_key)

    def _operator_calls(self) -> OperatorCalls:
        records = self.store.records
        return OperatorCalls(
            lock_rows=partial(lock_rows, records),
            issue_lock=self.dweets.locks.issue,
            revoke_lock=partial(revoke, records),
            reset_user=self.identity.reset,
            mails=self.dweets.mails,
            decisions=self.rewards.decisions,
            reward_sessions=self.rewards.sessions,
            reward_rules=self.rewards.settings.rules.table,
        )


def _mail_delivery(configuration: Configuration) -> MailDelivery | None:
    folder, smtp = configuration.gateway.folder, configuration.dweets.smtp
    if smtp is not None:
        return SmtpDelivery(smtp.reveal())
    return None if folder is None else MailFolder(folder / "outbox")
