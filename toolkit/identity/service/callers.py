"""The clients of mobile identity with their final target URLs, and the settings of the service."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from msgspec import Meta

from toolkit.errors import InvalidArgument
from toolkit.identity.envelope import refusal
from toolkit.identity.service.carrier import Carrier, Network, Subscriber
from toolkit.secret import Secret
from toolkit.settings import Table, Text, refuse_duplicates

#: RFC 6749 (4.1.2) and NIST 800-63B recommend at most ten minutes for a code.
MAX_LIFE_SECONDS = 600

Seconds = Annotated[int, Meta(ge=1, le=MAX_LIFE_SECONDS)]
PerMinute = Annotated[int, Meta(ge=1, le=10**9)]

_MAX_URL_CHARACTERS = 2048
# Checked before parsing, because URL parsers drop tabs and line ends and read a backslash as a slash.
_PRINTABLE_PATTERN = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
# Only these two addresses: programs differ in how they resolve `localhost`, 127.1 or 0x7f000001.
_LOOPBACK_HOST_PATTERN = re.compile(r"(?P<host>127\.0\.0\.1|\[::1\])(?::(?P<port>[0-9]{1,5}))?")
_HOST_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::(?P<port>[0-9]{1,5}))?")


class Caller(Table, frozen=True):
    """A client of the service; phones are redirected only to its `final_targets`."""

    name: Text
    api_client_id: Secret
    final_targets: tuple[str, ...] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        for number, url in enumerate(self.final_targets):
            if not is_allowed_final_target(url):
                raise InvalidArgument(f"final_targets[{number}]: expected https, or http to 127.0.0.1 or [::1]")


class IdentitySettings(Table, frozen=True):
    """The section ``identity`` of a gateway's configuration."""

    #: Without clients, the service refuses every request.
    clients: tuple[Caller, ...] = ()
    #: The simulated carriers and their subscribers.
    carriers: tuple[Network, ...] = ()
    subscribers: tuple[Subscriber, ...] = ()
    #: An object that asks real mobile networks, instead of `carriers` and `subscribers`; only Python code can pass it.
    carrier: Carrier | None = None
    #: Lifetimes of the first fingerprint, the final fingerprint and the code, in seconds.
    first_life: Seconds = 120
    final_life: Seconds = 60
    code_life: Seconds = 300
    #: The limit of requests per minute and client.
    calls_a_minute: PerMinute = 600
    #: The limit of wrong guesses per minute and client, and of wrong fingerprints per minute and client or IP address.
    failures_a_minute: PerMinute = 60
    #: Send errors with HTTP status 200, as the service of 2014 did; ``Status`` still has the code.
    legacy_http_200: bool = False

    def __post_init__(self) -> None:
        if self.carrier is not None and (self.carriers or self.subscribers):
            raise InvalidArgument("carrier: give either a carrier object, or simulated carriers and subscribers")
        unique = {"clients": ("name", "api_client_id"), "carriers": ("short_code",), "subscribers": ("id", "device_ip")}
        for key, fields in unique.items():
            for field in fields:
                refuse_duplicates(key, getattr(self, key), field)
        known = {network.short_code for network in self.carriers}
        for number, subscriber in enumerate(self.subscribers):
            if subscriber.carrier not in known:
                raise InvalidArgument(f"subscribers[{number}].carrier: expected the short_code of one of the carriers")


def caller_with(api_client_id: object, callers: Sequence[Caller]) -> Caller:
    """Return the enabled caller with this ApiClientId; an unknown id and a disabled caller raise the same error."""
    # Compares the id with every caller's id in constant time, so that response times do not help to guess an id.
    given = Secret(api_client_id if type(api_client_id) is str else "")
    fitting = [caller for caller in callers if caller.api_client_id == given and given]
    if not fitting or not fitting[0].enabled:
        raise refusal(1005)
    return fitting[0]


def is_allowed_final_target(url: str) -> bool:
    """Return whether a URL may be a final target: https, or http to 127.0.0.1 or [::1]."""
    if len(url) > _MAX_URL_CHARACTERS or not _PRINTABLE_PATTERN.fullmatch(url):
        return False
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    literal = _LOOPBACK_HOST_PATTERN.fullmatch(host)
    named = {"http": literal, "https": literal or _HOST_PATTERN.fullmatch(host)}.get(scheme)
    if named is None or not 0 < int(named["port"] or 443) < 65536:
        return False
    # Refuse a URL that the parser and the patterns above read differently.
    parts = urlsplit(url)
    if parts.netloc != host or "#" in url:
        return False
    return all(name != "vfp" for name, _ in parse_qsl(parts.query, keep_blank_values=True))


def is_registered(url: str, registered: tuple[str, ...]) -> bool:
    """Return whether a URL is registered; for http to 127.0.0.1 or [::1], the port may differ."""
    return url in registered or any(_without_loopback_port(url) == _without_loopback_port(own) for own in registered)


def _without_loopback_port(url: str) -> tuple[str, str] | str:
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?]", rest, maxsplit=1)[0]
    literal = _LOOPBACK_HOST_PATTERN.fullmatch(host)
    return url if scheme != "http" or literal is None else (literal["host"], rest.removeprefix(host))
