"""`connect` and the connection that it returns: one object with a client for each service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from toolkit.argument_checks import checked_arguments, described
from toolkit.errors import InvalidArgument
from toolkit.public_names import PublicNames
from toolkit.secret import Secret

if TYPE_CHECKING:
    from toolkit.dweets.client.dweets import DweetClient
    from toolkit.gateway import Gateway
    from toolkit.handwriting.client.handwriting import HandwritingClient
    from toolkit.http_client import HttpSession
    from toolkit.identity.client.identity import IdentityClient
    from toolkit.rewards.client.rewards import RewardClient

Service = Literal["dweets", "handwriting", "rewards", "identity"]
# A gateway without configured keys takes any, so that a notebook works at once.
ANY_APIKEY = Secret("notebook")
SERVICES: tuple[Service, ...] = ("dweets", "handwriting", "rewards", "identity")


@checked_arguments
def connect(
    gateway: Gateway | str | None = None,
    *,
    base_urls: Mapping[Service, str] | None = None,
    credentials: Mapping[str, str | Secret] | None = None,
) -> Connection:
    """Connect to a gateway, or to any servers that implement the specification.

    Parameters
    ----------
    gateway
        A running `Gateway`, or its URL. None takes ``$TOOLKIT_URL`` if it is set, and otherwise starts an embedded
        gateway in this process.
    base_urls
        The base URLs of single services that are elsewhere.
    credentials
        Keys by their names on the wire (``apikey``, ``gatewaykey``, ``app_key``, ``ApiClientId``, ...). An embedded
        gateway with the demo world brings its own.

    Returns
    -------
    Connection
        With ``.dweets``, ``.handwriting``, ``.rewards`` and ``.identity``. Close it, or use it in a ``with``
        statement, to stop what it started.

    Examples
    --------
    >>> with connect() as tk:
    ...     len(tk.dweets.post("kitchen", {"celsius": 21.5}))
    1
    """
    return Connection(gateway, dict(base_urls or {}), dict(credentials or {}))


class Connection(PublicNames):
    """Clients of all services. Made by `connect`."""

    def __init__(
        self,
        gateway: Gateway | str | None,
        base_urls: dict[Service, str],
        credentials: dict[str, str | Secret],
    ) -> None:
        if unknown := set(base_urls) - set(SERVICES):
            raise InvalidArgument(f"base_urls knows {', '.join(SERVICES)}, not {', '.join(sorted(unknown))}")
        self._base_urls = base_urls
        self._credentials = {name: Secret(value) for name, value in credentials.items()}
        self._sessions: dict[str, HttpSession] = {}
        self.gateway: Gateway | None = None
        self._started: Gateway | None = None
        self.base_url = self._resolve(gateway)

    def _resolve(self, gateway: Gateway | str | None) -> str:
        if gateway is None:
            gateway = os.environ.get("TOOLKIT_URL") or None
        if gateway is None:
            from toolkit.gateway import Gateway

            self._started = gateway = Gateway()
        if isinstance(gateway, str):
            return gateway
        if not hasattr(gateway, "base_url"):
            raise InvalidArgument(f"gateway is a Gateway or a str or None, not {described(gateway)}")
        self.gateway = gateway
        return gateway.base_url

    @cached_property
    def dweets(self) -> DweetClient:
        """Thing messaging: post, read, listen, lock, alert."""
        from toolkit.dweets.client.dweets import DweetClient

        return DweetClient(self._session("dweets"))

    @cached_property
    def handwriting(self) -> HandwritingClient:
        """Handwriting: the hands, and texts rendered as PNG, PDF, SVG or replay."""
        from toolkit.handwriting.client.handwriting import HandwritingClient

        return HandwritingClient(self._session("handwriting"), self._credential("apikey", ANY_APIKEY))

    @cached_property
    def rewards(self) -> RewardClient:
        """Mobile rewards: sessions, moments and their analysis; needs a gatewaykey and an app_key."""
        from toolkit.rewards.client.rewards import RewardClient

        now = self.gateway.clock.now if self.gateway is not None else None
        keys = self._credential("gatewaykey"), self._credential("app_key")
        return RewardClient(self._session("rewards"), *keys, now)

    @cached_property
    def identity(self) -> IdentityClient:
        """Mobile identity and checkout data: authentication, eligibility and payments; needs an ApiClientId."""
        from toolkit.identity.client.identity import IdentityClient

        now = self.gateway.clock.now if self.gateway is not None else None
        return IdentityClient(self._session("identity"), self._credential("ApiClientId"), now)

    def close(self) -> None:
        """Close all connections, and stop the gateway if `connect` started it."""
        for session in self._sessions.values():
            session.close()
        if self._started is not None:
            self._started.stop()

    def _session(self, service: Service) -> HttpSession:
        from toolkit.http_client import HttpSession

        base_url = self._base_urls.get(service, self.base_url)
        if base_url not in self._sessions:
            # An embedded gateway stops when it is garbage-collected: a client alone must keep it alive.
            self._sessions[base_url] = HttpSession(base_url, keeps=self.gateway)
        return self._sessions[base_url]

    def _credential(self, name: str, otherwise: Secret | None = None) -> Secret:
        demo = self.gateway.credentials if self.gateway is not None else {}
        variable = f"TOOLKIT_{name.upper()}"
        found = self._credentials.get(name) or demo.get(name) or Secret(os.environ.get(variable, "")) or otherwise
        if not found:
            raise InvalidArgument(
                f"{name} is missing. To try it out, use the demo world, which brings its own: "
                f"toolkit.connect(toolkit.Gateway.demo()). For a gateway that knows your key, set ${variable} or use "
                f"toolkit.connect(credentials={{{name!r}: Secret(...)}})"
            )
        return found

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Connection to {self.base_url}>" if hasattr(self, "base_url") else "<Connection, not made>"
