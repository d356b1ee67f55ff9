"""`connect` and the connection that it returns: one object with a client for each service."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from toolkit.argument_checks import checked_arguments, described
from toolkit.errors import InvalidArgument
from toolkit.http_client import MAX_RESPONSE_BYTES, HttpSession, checked_base_url
from toolkit.public_api import Closable, PublicNames, interrupts_deferred
from toolkit.secret import Secret
from toolkit.system.nearest_name import advice

if TYPE_CHECKING:
    from toolkit.dweets.client.dweets import DweetClient
    from toolkit.handwriting.client.handwriting import HandwritingClient
    from toolkit.identity.client.identity import IdentityClient
    from toolkit.operator.client import OperatorClient
    from toolkit.rewards.client import RewardClient
    from toolkit_gateway import Gateway

Service = Literal["dweets", "handwriting", "rewards", "identity"]
# The apikey if the caller gives none: a gateway without configured apikeys accepts any key.
DEFAULT_KEY = Secret("notebook")
CREDENTIALS = ("apikey", "gatewaykey", "app_key", "ApiClientId", "OtherApiClientId")
SERVICES: tuple[Service, ...] = ("dweets", "handwriting", "rewards", "identity")


@checked_arguments
def connect(
    gateway: Gateway | str | None = None,
    *,
    base_urls: Mapping[Service, str] | None = None,
    credentials: Mapping[str, str | Secret] | None = None,
    operator_key: str | Secret | None = None,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
) -> Connection:
    """Connect to a gateway, or to any servers that implement the specification.

    Parameters
    ----------
    gateway
        A running `Gateway`, or its URL. None takes ``$TOOLKIT_URL`` if it is set, and otherwise starts an embedded
        gateway in this process.
    base_urls
        The base URLs of services that run on other servers.
    credentials
        Keys by their names on the wire: ``apikey``, ``gatewaykey``, ``app_key`` and ``ApiClientId``. An embedded
        gateway with the demo world has its own keys. Keys in environment variables (``$TOOLKIT_APIKEY``, ...) are sent
        only to the gateway at ``$TOOLKIT_URL`` or in this process.
    operator_key
        The key of the gateway's operator, from the file ``operator.key`` of its data folder. Not needed for a gateway
        in this process, nor in `toolkit lab`, which sets ``$TOOLKIT_OPERATOR_KEY`` and ``$TOOLKIT_URL``.
    max_response_bytes
        A call whose response is larger, also after it was unpacked, raises UnexpectedReply; 64 MiB. Streams of dweets
        have no end, so only their single dweets are limited.

    Returns
    -------
    Connection
        With ``.dweets``, ``.handwriting``, ``.rewards``, ``.identity`` and ``.operator``. Close the connection, or use
        it in a ``with`` statement, to stop the gateway that it started. InvalidArgument if a URL is not http or https,
        or contains a user name, a password or a query; ExtraMissing if an embedded gateway needs the extra ``gateway``.

    Examples
    --------
    >>> with connect() as tk:
    ...     len(tk.dweets.post("kitchen", {"celsius": 21.5}))
    1
    """
    return Connection(gateway, dict(base_urls or {}), dict(credentials or {}), operator_key, max_response_bytes)


class Connection(PublicNames, Closable):
    """Clients of all services. Made by `connect`.

    If a key is missing, the call that needs it raises InvalidArgument. After `close`, every call raises
    ConnectionClosed.
    """

    def __init__(
        self,
        gateway: Gateway | str | None,
        base_urls: dict[Service, str],
        credentials: dict[str, str | Secret],
        operator_key: str | Secret | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self._is_closed = False
        if max_response_bytes < 1:
            raise InvalidArgument(f"max_response_bytes must be at least 1, not {max_response_bytes}")
        self._max_response_bytes = max_response_bytes
        for name, given, allowed in ("base_urls", base_urls, SERVICES), ("credentials", credentials, CREDENTIALS):
            if unknown := sorted(map(str, set(given) - set(allowed))):
                raise InvalidArgument(f"{name} cannot have {unknown[0][:40]!r}{advice(unknown[0], allowed)}")
        self._base_urls = {service: checked_base_url(url) for service, url in base_urls.items()}
        self._credentials = {name: Secret(value) for name, value in credentials.items()}
        self._operator_key = None if operator_key is None else Secret(operator_key)
        self._sessions: dict[str, HttpSession] = {}
        self.gateway: Gateway | None = None
        self._started_gateway: Gateway | None = None
        self.base_url = checked_base_url(self._resolved_url(gateway))

    def _resolved_url(self, gateway: Gateway | str | None) -> str:
        if gateway is None:
            gateway = os.environ.get("TOOLKIT_URL") or None
        if gateway is None:
            with interrupts_deferred():
                from toolkit_gateway import Gateway

            self._started_gateway = gateway = Gateway()
        if isinstance(gateway, str):
            return gateway
        if not hasattr(gateway, "base_url"):
            raise InvalidArgument(f"gateway is a Gateway or a str or None, not {described(gateway)}")
        self.gateway = gateway
        return gateway.base_url

    @cached_property
    @interrupts_deferred()
    def dweets(self) -> DweetClient:
        """Thing messaging: post, read, listen, lock, alert."""
        from toolkit.dweets.client.dweets import DweetClient

        return DweetClient(self._session("dweets"))

    @cached_property
    @interrupts_deferred()
    def handwriting(self) -> HandwritingClient:
        """Handwriting: the hands, and texts rendered as PNG, PDF, SVG or animation."""
        from toolkit.handwriting.client.handwriting import HandwritingClient

        return HandwritingClient(self._session("handwriting"), self._credential("handwriting", "apikey", DEFAULT_KEY))

    @cached_property
    @interrupts_deferred()
    def rewards(self) -> RewardClient:
        """Mobile rewards: sessions, moments and their analysis; needs a gatewaykey and an app_key."""
        from toolkit.rewards.client import RewardClient

        return RewardClient(self._session("rewards"), partial(self._credential, "rewards"), self._now)

    @cached_property
    @interrupts_deferred()
    def identity(self) -> IdentityClient:
        """Mobile identity and checkout data: authentication, eligibility and payments; needs an ApiClientId."""
        from toolkit.identity.client.identity import IdentityClient

        return IdentityClient(self._session("identity"), lambda: self._credential("identity", "ApiClientId"), self._now)

    @cached_property
    @interrupts_deferred()
    def operator(self) -> OperatorClient:
        """For the person who runs the gateway: locks, reward decisions, alert mails and clock."""
        from toolkit.operator.client import OperatorClient

        if self.gateway is not None:
            key = self._operator_key or self.gateway.operator_key
            return OperatorClient(self._session_to(self.gateway.operator_url), key)
        known_key = self._operator_key or self._from_environment("operator_key", self.base_url)
        return OperatorClient(self._session_to(self.base_url), known_key)

    @property
    def _now(self) -> Callable[[], int] | None:
        return None if self.gateway is None else self.gateway.clock.now

    def close(self) -> None:
        """Close all connections and streams, and stop the gateway if `connect` started it; calls then fail."""
        self._is_closed = True
        for session in self._sessions.values():
            session.close()
        if self._started_gateway is not None:
            self._started_gateway.close()

    def _session(self, service: Service) -> HttpSession:
        return self._session_to(self._base_urls.get(service, self.base_url))

    def _session_to(self, base_url: str) -> HttpSession:
        if base_url not in self._sessions:
            # An embedded gateway stops when it is garbage-collected, so each client keeps a reference to it.
            self._sessions[base_url] = HttpSession(base_url, self.gateway, self._max_response_bytes)
            if self._is_closed:  # a service is used for the first time after close()
                self._sessions[base_url].close()
        return self._sessions[base_url]

    def _from_environment(self, name: str, base_url: str) -> Secret | None:
        """Return a key from an environment variable, but only for the gateway at $TOOLKIT_URL or in this process."""
        url_in_process = "" if self.gateway is None else self.gateway.base_url
        if base_url.rstrip("/") not in (url_in_process, os.environ.get("TOOLKIT_URL", "").rstrip("/")):
            return None
        return Secret(os.environ.get(f"TOOLKIT_{name.upper()}", "")) or None

    def _credential(self, service: Service, name: str, default: Secret | None = None) -> Secret:
        base_url = self._base_urls.get(service, self.base_url)
        demo_keys = self.gateway.credentials if self.gateway is not None and base_url == self.gateway.base_url else {}
        key = self._credentials.get(name) or demo_keys.get(name) or self._from_environment(name, base_url) or default
        if not key:
            raise InvalidArgument(
                f"{name} is missing: set $TOOLKIT_{name.upper()} together with $TOOLKIT_URL, or use "
                f"toolkit.connect(credentials={{{name!r}: Secret(...)}}) with a key of the gateway's configuration. "
                "To try the service: toolkit.connect(toolkit.Gateway.demo())"
            )
        return key

    def __repr__(self) -> str:
        if not hasattr(self, "base_url"):
            return "<Connection, not made>"
        return f"<Connection to {self.base_url}{', closed' if self._is_closed else ''}>"
