"""The only place where the services meet: they are opened and closed together, over one store."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from toolkit.endpoint import is_loopback
from toolkit.secret import Secret
from toolkit_gateway.configuration import Configuration
from toolkit_gateway.dweets.dweets import DweetService
from toolkit_gateway.dweets.lock_records import lock_rows, revoke
from toolkit_gateway.dweets.mail_delivery import MailFolder, SmtpDelivery
from toolkit_gateway.handwriting.handwriting import HandwritingService
from toolkit_gateway.http.access import Proxies
from toolkit_gateway.http.app import Application
from toolkit_gateway.http.exchange import Routes
from toolkit_gateway.http.key_attempts import KeyAttempts
from toolkit_gateway.identity.callers import IdentitySettings
from toolkit_gateway.identity.identity import IdentityService
from toolkit_gateway.operator_folder import read_or_make_key, remove_address
from toolkit_gateway.rewards.rewards import RewardService
from toolkit_gateway.rewards.settings import RewardSettings
from toolkit_gateway.routes.dweets import DweetRoutes
from toolkit_gateway.routes.handwriting import HandwritingRoutes
from toolkit_gateway.routes.identity import IdentityRoutes
from toolkit_gateway.routes.operator import OperatorCalls, OperatorRoutes
from toolkit_gateway.routes.pages import PageRoutes
from toolkit_gateway.routes.rewards import RewardRoutes
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import Store


class Services:
    dweets: DweetService
    identity: IdentityService
    rewards: RewardService
    operator_key: Secret

    def __init__(self, store: Store, runtime: Runtime, configuration: Configuration) -> None:
        self.store = store
        self.runtime = runtime
        self._configuration = configuration

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Application]:
        """Open everything, and close it in reverse order at the end or after an error, even if one part fails."""
        store, runtime, settings = self.store, self.runtime, self._configuration
        async with AsyncExitStack() as closing:
            await store.open()
            closing.push_async_callback(store.close)
            # The folder is locked now. Remove an earlier gateway's address, or a command sends the operator key there.
            if (folder := settings.gateway.folder) is not None:
                remove_address(folder)
                closing.callback(remove_address, folder)
            self.operator_key = read_or_make_key(folder)
            self.rewards = RewardService(store, runtime, settings.rewards or RewardSettings())
            closing.push_async_callback(self.rewards.close)
            self.dweets = DweetService(store, runtime, settings.dweets, self._mail_delivery())
            closing.push_async_callback(self.dweets.close)
            handwriting = HandwritingService(runtime, settings.handwriting)
            closing.push_async_callback(handwriting.close)
            self.identity = IdentityService(store, runtime, settings.identity or IdentitySettings())
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
            OperatorRoutes(self.operator_key, self.runtime.clock, self._operator_calls()),
            PageRoutes(self.dweets, self.runtime.clock),
        ]
        proxies = Proxies(gateway.trusted_proxies) if gateway.trusted_proxies else None
        timings = self.runtime.timings
        return Application(routes, gateway.hosts, proxies, KeyAttempts(timings.key_interval, timings.longest_key_wait))

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

    def _mail_delivery(self) -> MailFolder | SmtpDelivery:
        folder, smtp = self._configuration.gateway.folder, self._configuration.dweets.smtp
        if smtp is not None:
            return SmtpDelivery(smtp, self.runtime.timings.mail_limit)
        return MailFolder(folder and folder / "outbox")
