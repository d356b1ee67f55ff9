"""A running gateway, as a notebook or the command line holds it."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.argument_checks import checked_arguments, checked_keywords
from toolkit.endpoint import is_loopback
from toolkit.errors import InvalidArgument
from toolkit.public_api import Closable, PublicNames
from toolkit.secret import Secret
from toolkit.widgets.cell_runs import close_earlier
from toolkit_gateway.configuration import Configuration, Source, configuration_of
from toolkit_gateway.demo_world import DemoWorld
from toolkit_gateway.dweets.stored_records import LOCKS
from toolkit_gateway.http.server import ServerThread
from toolkit_gateway.operator_folder import write_address
from toolkit_gateway.routes.identity import SIMULATION_WARNING
from toolkit_gateway.runtime import Clock, Runtime, SteppedClock, Timings
from toolkit_gateway.services import Services
from toolkit_gateway.stores.embedded import EmbeddedStore

if TYPE_CHECKING:
    from toolkit.identity import Handset
    from toolkit_gateway.stores.redis.store import RedisStore

log = logging.getLogger("toolkit_gateway")

DEMO_START = datetime(2026, 1, 1, 9, 0, tzinfo=UTC)
DEMO_SEED = 2026
# A gateway that listens on all addresses of its machine also listens on loopback.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


class Gateway(PublicNames, Closable):
    """A running gateway, served from a daemon thread of this process.

    It stops with `close`, at the end of a ``with`` statement, with the process, when it is garbage-collected, and when
    the notebook cell that started it runs again.

    Parameters
    ----------
    folder
        Where to keep everything, durably. None: in a temporary folder, which is removed when the gateway stops.
    config
        The path of a TOML or JSON file, or a dict of its tables: ``gateway``, ``dweets``, ``handwriting``, ``rewards``
        and ``identity``. ``toolkit config example`` prints all keys with their defaults. Other arguments replace what
        the configuration says. Without ``rewards`` or ``identity`` the service has the demo world's partners,
        clients and subscribers; without keys, handwriting takes any that is not empty.
    store
        Keep everything in this Redis instead, which any number of gateways share: ``redis://host:port/0`` or another
        URL of `toolkit_gateway.stores.redis.address`.
    host, port
        Where to listen; port 0 takes a free one.
    locks
        Master keys by lock, issued at the start; at least 16 characters, at least 8 of them different.
    smtp
        ``smtp://host:port`` of the server that alert mails go to. None keeps them in ``tk.operator.outbox()``, and as
        ``.eml`` files in ``folder/outbox``.
    keep
        How many dweets of each thing are kept, at least 500; 10,000 if None. Older ones are deleted, a few at a time.
        The header ``X-Dweet-Retention`` of responses about dweets has this number.
    exposed
        Pass True to listen on an address that other machines can reach.
    archive
        A folder that every dweet of every thing is archived in, for `toolkit.Archive`; created if missing.
    clock
        The real time if None. On a `SteppedClock` each dweet takes one step and nothing else takes time, so that
        times repeat.
    seed
        A number that makes identifiers and the seeds of handwriting repeat. Keys and codes never do.
    timings
        For tests: how long the gateway waits, for each reason.

    Raises
    ------
    InvalidArgument
        A value of the configuration is wrong, or a key might be guessed; the host can be reached by other machines
        without `exposed`; other machines may call with a key that is published with the toolkit.
    CannotServe
        The gateway cannot listen on the address.
    StoreUnavailable
        The folder cannot be written, has lost data, or another gateway has it open; the Redis cannot be reached.
    ArchiveUnusable
        The archive cannot be written, or another process is writing to it.

    Examples
    --------
    >>> with Gateway() as gateway:
    ...     gateway.base_url.startswith("http://127.0.0.1:")
    True
    >>> partner = {"gatewaykey": "partner-key-of-acme", "company_token": "acme", "apps": ["app-of-acme"]}
    >>> with Gateway(config={"dweets": {"keep": 20_000}, "rewards": {"partners": [partner]}}) as gateway:
    ...     sorted(gateway.credentials)
    ['ApiClientId', 'OtherApiClientId']
    """

    @checked_keywords
    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        config: Source | None = None,
        store: str | None = None,
        host: str | None = None,
        port: int | None = None,
        locks: Mapping[str, str | Secret] | None = None,
        smtp: str | None = None,
        keep: int | None = None,
        archive: str | os.PathLike[str] | None = None,
        exposed: bool = False,
        clock: Clock | None = None,
        seed: int | None = None,
        timings: Timings | None = None,
    ) -> None:
        if host is not None and exposed is not True and not is_loopback(host):
            raise InvalidArgument("other machines can reach this host: pass exposed=True if you want that")
        changes: dict[str, dict[str, object]] = {
            "gateway": {"folder": folder, "store": store, "host": host, "port": port},
            "dweets": {"locks": locks, "smtp": smtp, "keep": keep, "archive": archive},
        }
        configuration = configuration_of(config, changes)
        self._demo = DemoWorld(configuration)
        self._runtime = Runtime(clock, seed, timings)
        settings, stop = configuration.gateway, self._runtime.timings.stop
        unopened_store = store_of(settings.folder, settings.store, self._runtime.clock.now)
        self._services = Services(unopened_store, self._runtime, self._demo.configuration)
        # The thread refers to the services, never to this object, so that a gateway can be garbage-collected.
        self._server = ServerThread(settings.host, settings.port, self._services.opened, stop)
        close_earlier(self, Gateway)
        self._server.start()
        self._log_warnings(configuration)
        self._stop_if_collected = weakref.finalize(self, self._server.ask_to_stop)
        self._stop_if_collected.atexit = False  # the server itself ends with the process
        url_host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.base_url = f"http://{url_host}:{self._server.port}"
        #: Where the operator API answers: on a loopback address.
        self.operator_url = f"http://{_LOOPBACK.get(settings.host, url_host)}:{self._server.port}"
        if settings.folder is not None:
            write_address(settings.folder, self.operator_url)

    def _log_warnings(self, configuration: Configuration) -> None:
        if self._demo.warning:
            log.warning(self._demo.warning)
        # A stepped clock is for tutorials and tests, and `configuration` lacks the demo world's clients: no warning.
        gateway, identity = configuration.gateway, configuration.identity
        simulates = is_loopback(gateway.host) and gateway.public_url is None
        if identity and identity.clients and simulates and not isinstance(self._runtime.clock, SteppedClock):
            log.warning(SIMULATION_WARNING)

    @classmethod
    def demo(cls) -> Gateway:
        """Start a gateway that prints the same every time: the demo world on a stepped clock, with a seed.

        The same as ``Gateway(clock=SteppedClock(DEMO_START, timedelta(seconds=1)), seed=DEMO_SEED)``.
        Nothing is kept.
        """
        return cls(clock=SteppedClock(DEMO_START, timedelta(seconds=1)), seed=DEMO_SEED)

    @property
    def clock(self) -> Clock:
        """The gateway's clock; a stepped one can be advanced."""
        return self._runtime.clock

    @property
    def credentials(self) -> dict[str, Secret]:
        """The demo world's keys by their names on the wire, of the services that have no configuration."""
        return self._demo.credentials

    @property
    def presets(self) -> dict[str, str]:
        """The result of a flow with each simulated phone of the demo world, by preset."""
        return self._demo.presets

    @checked_arguments
    def handset(self, preset: str = "happy") -> Handset:
        """Return a simulated phone of the demo world.

        Parameters
        ----------
        preset
            One of `presets`.

        Raises
        ------
        InvalidArgument
            There is no such preset, or the gateway has its own subscribers.
        """
        return self._demo.handset(preset)

    @property
    def operator_key(self) -> Secret:
        """The key of the operator API, which ``connect(gateway).operator`` uses."""
        return self._services.operator_key

    def close(self) -> None:
        """Answer the requests at hand, then close every socket and file. Calling it again does nothing."""
        self._server.stop()

    def __repr__(self) -> str:
        if not hasattr(self, "base_url"):  # a traceback of the constructor shows it
            return "<Gateway, not started>"
        state = "running" if self._server.is_running else "stopped"
        return f"<Gateway at {self.base_url}, {state}, kept in {self._services.store!r}>"


def store_of(folder: Path | None, url: str | Secret | None, now: Callable[[], int]) -> EmbeddedStore | RedisStore:
    """Return the store in a folder, in the Redis at a URL, or in a temporary folder; it is not open yet."""
    if url is None:
        return EmbeddedStore(folder, now, LOCKS)
    from toolkit_gateway.stores.redis.store import RedisStore  # redis-py loads slowly, and few gateways need it

    return RedisStore(Secret(url).reveal(), now)
