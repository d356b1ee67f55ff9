"""A running gateway, as a notebook or the command line holds it."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakSet

from msgspec import to_builtins

from toolkit.dweets.service.delivery import FolderDelivery, SmtpDelivery
from toolkit.dweets.service.dweets import DweetSettings
from toolkit.dweets.service.locks import IssuedLock
from toolkit.errors import InvalidArgument
from toolkit.gateway.access import Hosts, Proxies, is_loopback
from toolkit.gateway.demo_world import DemoWorld
from toolkit.gateway.routes.identity import SIMULATION_WARNING
from toolkit.gateway.server import ServerThread
from toolkit.gateway.services import Services
from toolkit.handwriting.service.handwriting import HandwritingSettings
from toolkit.identity.client.handset import Handset
from toolkit.identity.service.callers import IdentitySetup
from toolkit.notebook_cell import CellRun, cell_that_runs
from toolkit.outside_world import Clock, OutsideWorld, SteppedClock
from toolkit.public_names import PublicNames
from toolkit.rewards.configuration import Configuration as RewardConfiguration
from toolkit.rewards.service.partners import RewardSettings
from toolkit.secret import Secret
from toolkit.stores.embedded import EmbeddedStore
from toolkit.stores.redis.address import BadAddress
from toolkit.stores.redis.store import RedisStore

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("toolkit.gateway")

DEMO_START = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
DEMO_SEED = 2026


class Gateway(PublicNames):
    """A running gateway, served from a daemon thread of this process.

    It stops with `stop`, at the end of a ``with`` statement, with the process, when it is garbage-collected, and when
    the notebook cell that started it runs again.

    Parameters
    ----------
    folder
        Where to keep everything, durably. None: in a temporary folder, which is removed when the gateway stops.
    store
        Keep everything in this Redis instead, which any number of gateways share: ``redis://host:port/0`` or another
        URL of `toolkit.stores.redis.address`.
    host, port
        Where to listen; port 0 takes a free one.
    locks
        Master keys by lock, issued at the start.
    smtp
        ``smtp://host:port`` of the server that alert mails go to. None keeps them in `outbox`, and as ``.eml`` files
        in ``folder/outbox``.
    keep
        How many dweets of each thing are kept, at least 500; 10,000 if None. Older ones are deleted, a few at a time.
        Responses tell it in the header ``X-Dweet-Retention``.
    settings, handwriting, rewards, identity
        Keys, limits and rules of each service. Without keys, handwriting takes any that is not empty; without
        partners, rewards refuses every key; without callers, nobody may call identity.
    world
        Clock and identifiers; the real ones if None.
    exposed
        Say True to listen beyond this machine.
    archive
        A folder that every dweet of every thing is archived in, for ``tk.dweets.archive``; created if missing.
    demo
        Load the demo world; a service that is given its own setup keeps that.
    allow_hosts
        Host names that the gateway answers to besides ``localhost`` and the loopback addresses, each with any port,
        such as the name of a reverse proxy. A gateway that listens beyond this machine answers to any name if none
        are given.
    trusted_proxies
        Addresses or networks of proxies whose ``X-Forwarded-For`` or ``Forwarded`` tells the address of a caller.
    cors
        False to let no web page of another origin read the responses.

    Raises
    ------
    InvalidArgument
        The host can be reached by other machines without `exposed`; the URL of the store is wrong, or given together
        with a folder; a host name or the address of a proxy is wrong.
    CannotServe
        The gateway cannot listen on the address.
    StoreUnavailable
        The folder cannot be written, or another gateway has it open; the Redis cannot be reached.
    ArchiveUnusable
        The archive cannot be written, or somebody else writes to it.

    Examples
    --------
    >>> with Gateway() as gateway:
    ...     gateway.base_url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        store: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        locks: Mapping[str, str | Secret] | None = None,
        smtp: str | None = None,
        keep: int | None = None,
        settings: DweetSettings | None = None,
        handwriting: HandwritingSettings | None = None,
        rewards: RewardSettings | None = None,
        world: OutsideWorld | None = None,
        identity: IdentitySetup | None = None,
        exposed: bool = False,
        archive: str | os.PathLike[str] | None = None,
        demo: bool = False,
        allow_hosts: Iterable[str] = (),
        trusted_proxies: Iterable[str] = (),
        cors: bool = True,
    ) -> None:
        kept_in = Path(folder) if folder is not None else None
        if not exposed and not is_loopback(host):
            raise InvalidArgument("this host can be reached by other machines; say exposed=True if that is meant")
        self._made_in = _stop_those_of_the_last_run(cell_that_runs())
        self._world = world or OutsideWorld()
        self._demo = own = DemoWorld() if demo else None
        settings = settings or DweetSettings()
        if keep is not None:
            settings = replace(settings, keep=keep)
        if archive is not None:
            settings = replace(settings, archive=Path(archive).expanduser())
        identity = identity or (own.identity_setup() if own else IdentitySetup())
        rewards = rewards or (own.reward_settings() if own else RewardSettings())
        self._services = Services(
            store_of(kept_in, store, self._world.clock.now),
            self._world,
            settings,
            _delivery_of(smtp, kept_in),
            handwriting or (own.handwriting_settings() if own else HandwritingSettings()),
            rewards,
            identity,
            {lock: Secret(key) for lock, key in (locks or {}).items()},
            is_loopback(host),
            _hosts(host, allow_hosts, identity.settings.public_url, rewards.public_url),
            Proxies(_several(trusted_proxies)),
            cors,
        )
        # The thread holds the services, never this object: so it ends when the gateway is garbage-collected.
        self._server = ServerThread(host, port, self._services.open, self._services.close, self._world.timings.stop)
        self._server.start()
        # A clock that only steps belongs to a tutorial or a test, which no other program calls.
        if self._services.simulates_phones and not isinstance(self._world.clock, SteppedClock):
            log.warning(SIMULATION_WARNING)
        self._forgotten = weakref.finalize(self, self._server.ask_to_stop)
        self._forgotten.atexit = False  # the server itself ends with the process
        _started.add(self)
        shown = f"[{host}]" if ":" in host else host
        self.base_url = f"http://{shown}:{self._server.port}"

    @classmethod
    def demo(cls) -> Gateway:
        """Start a gateway with the demo world: a stepped clock and seeded identifiers.

        A tutorial on it prints the same every time. Nothing is kept.
        """
        clock = SteppedClock(DEMO_START, timedelta(seconds=1))
        return cls(world=OutsideWorld(clock, DEMO_SEED), demo=True)

    @property
    def clock(self) -> Clock:
        """The gateway's clock; the demo world's can be advanced."""
        return self._world.clock

    @property
    def credentials(self) -> dict[str, Secret]:
        """The demo world's keys by their names on the wire; none outside of it."""
        return self._demo.credentials if self._demo is not None else {}

    @property
    def presets(self) -> dict[str, str]:
        """The result of a flow with each simulated phone of the demo world, by preset; none outside of it."""
        return self._demo.presets if self._demo is not None else {}

    def handset(self, preset: str = "happy") -> Handset:
        """Return a simulated phone of the demo world.

        Parameters
        ----------
        preset
            One of `presets`.

        Raises
        ------
        InvalidArgument
            There is no such preset, or this is not the demo world.
        """
        if self._demo is None:
            raise InvalidArgument("only the demo world has handsets: Gateway.demo()")
        return self._demo.handset(preset)

    @property
    def outbox(self) -> pd.DataFrame:
        """The alert mails: at (UTC), thing, to, subject, text, state, error; oldest first.

        Of those sent or kept the last thousand. Every dweet that was acknowledged before has been evaluated.
        """
        from toolkit.frames import declared_frame

        texts = ("thing", "to", "subject", "text", "state", "error")
        return declared_frame(
            self._server.call(self._mails()), {"at": "datetime64[us, UTC]", **dict.fromkeys(texts, "str")}
        )

    @property
    def decisions(self) -> pd.DataFrame:
        """All decisions of the reward engine, by number; columns as in `toolkit.rewards.analysis.decision_frame`."""
        from toolkit.rewards.analysis.decision_frame import decision_frame

        return decision_frame(self._server.call(self._services.rewards.decisions()))

    @property
    def reward_configuration(self) -> RewardConfiguration:
        """The rules of the reward engine, as a what-if begins with them."""
        return self._services.reward_settings.configuration

    @property
    def reward_sessions(self) -> pd.DataFrame:
        """All reward sessions, oldest first: session_id, at (UTC), app_key_sha256, device, test."""
        from toolkit.rewards.analysis.decision_frame import SESSION_COLUMNS, decision_frame

        return decision_frame(self._server.call(self._services.rewards.sessions()), SESSION_COLUMNS)

    def issue_lock(self) -> IssuedLock:
        """Issue a lock: its name, its master key (everything) and its read key (latest, history, listen)."""
        return self._server.call(self._services.dweets.locks.issue())

    def stop(self) -> None:
        """Finish what is being answered, then close every socket and file. Calling it again is fine."""
        self._server.stop()

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        if not hasattr(self, "base_url"):  # as in a traceback of its construction
            return "<Gateway, not started>"
        state = "running" if self._server.is_running else "stopped"
        return f"<Gateway at {self.base_url}, {state}, kept in {self._services.store!r}>"

    async def _mails(self) -> list[dict[str, object]]:
        await self._services.dweets.alerts.settle()
        mails = await self._services.dweets.email_queue.mails()
        return [
            {**to_builtins(mail), "at": datetime.fromtimestamp(mail.at / 1000, UTC), "to": ", ".join(mail.to)}
            for mail in mails
        ]


#: A notebook keeps what its cells returned, and with it gateways of earlier runs.
_started: WeakSet[Gateway] = WeakSet()


def _stop_those_of_the_last_run(now: CellRun) -> CellRun:
    for other in [one for one in _started if now.replaces(one._made_in)]:
        other.stop()
        _started.discard(other)
    return now


def _hosts(listens_on: str, allowed: Iterable[str], *public_urls: str | None) -> Hosts | None:
    names = _several(allowed)
    if not is_loopback(listens_on) and not names:
        return None  # its callers may know it by names that it cannot know
    return Hosts([*names, *(name for url in public_urls if (name := urlsplit(url or "").hostname))])


def _several(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise InvalidArgument(f"give a list of texts, not {texts!r} alone")
    return list(texts)


def store_of(folder: Path | None, url: str | None, now: Callable[[], int]) -> EmbeddedStore | RedisStore:
    """Return the store in a folder, in the Redis at a URL, or in a temporary folder; it is not open yet."""
    if url is None:
        return EmbeddedStore(folder, now)
    if folder is not None:
        raise InvalidArgument("give a folder or a store, not both: everything is kept in one of them")
    try:
        return RedisStore(url, now)
    except BadAddress as error:
        raise InvalidArgument(str(error)) from None


def _delivery_of(smtp: str | None, folder: Path | None) -> SmtpDelivery | FolderDelivery | None:
    if smtp:
        return SmtpDelivery(smtp)
    return FolderDelivery(folder / "outbox") if folder is not None else None
