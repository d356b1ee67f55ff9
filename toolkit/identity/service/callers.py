"""Who may call section D, where phones may be sent to for them, and the settings of the service."""

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

#: RFC 6749 and NIST 800-63B both end at ten minutes for a code that is sent around.
LONGEST_LIFE = 600

Life = Annotated[int, Meta(ge=1, le=LONGEST_LIFE)]
Calls = Annotated[int, Meta(ge=1, le=10**9)]

_LONGEST_URL = 2048
# Checked before parsing: parsers drop tabs and line ends and read a backslash as a slash.
_PRINTABLE = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
# Only literals: `localhost`, 127.1 or 0x7f000001 may be resolved differently by another program.
_LOOPBACK = re.compile(r"(?P<host>127\.0\.0\.1|\[::1\])(?::(?P<port>[0-9]{1,5}))?")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::(?P<port>[0-9]{1,5}))?")


class Caller(Table, frozen=True):
    """A client of the service; phones are redirected only to its `final_targets`."""

    name: Text
    api_client_id: Secret
    final_targets: tuple[str, ...] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        for number, url in enumerate(self.final_targets):
            if not is_allowed_form(url):
                raise InvalidArgument(f"final_targets[{number}]: expected https, or http to 127.0.0.1 or [::1]")


class IdentitySettings(Table, frozen=True):
    """Who may call mobile identity, the networks that identify phones, and limits."""

    #: Without clients nobody may call.
    clients: tuple[Caller, ...] = ()
    #: The simulated carriers and their subscribers.
    carriers: tuple[Network, ...] = ()
    subscribers: tuple[Subscriber, ...] = ()
    #: An object that asks real networks instead; in Python only.
    carrier: Carrier | None = None
    #: Seconds that the first fingerprint, the final one and the code live.
    first_life: Life = 120
    final_life: Life = 60
    code_life: Life = 300
    #: For one client.
    calls_a_minute: Calls = 600
    #: Guesses of one client, wrong fingerprints of one client or address.
    failures_a_minute: Calls = 60
    #: Answer failures with HTTP 200, as the service of 2014 did; ``Status`` still names the failure.
    legacy_http_200: bool = False

    def __post_init__(self) -> None:
        if self.carrier is not None and (self.carriers or self.subscribers):
            raise InvalidArgument("carrier: simulated carriers and subscribers cannot be added to a carrier object")
        unique = {"clients": ("name", "api_client_id"), "carriers": ("short_code",), "subscribers": ("id", "device_ip")}
        for key, fields in unique.items():
            for field in fields:
                refuse_duplicates(key, getattr(self, key), field)
        known = {network.short_code for network in self.carriers}
        for number, subscriber in enumerate(self.subscribers):
            if subscriber.carrier not in known:
                raise InvalidArgument(f"subscribers[{number}].carrier: expected the short_code of one of the carriers")


def caller_with(api_client_id: object, callers: Sequence[Caller]) -> Caller:
    """Return the enabled caller with this ApiClientId; unknown and disabled ones are refused with one text."""
    # Every caller is compared, each in constant time: the time of the response must not help to guess a key.
    given = Secret(api_client_id if type(api_client_id) is str else "")
    fitting = [caller for caller in callers if caller.api_client_id == given and given]
    if not fitting or not fitting[0].enabled:
        raise refusal(1005)
    return fitting[0]


def is_allowed_form(url: str) -> bool:
    """Whether a URL could be a final target: https, or http to a loopback literal."""
    if len(url) > _LONGEST_URL or not _PRINTABLE.fullmatch(url):
        return False
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    literal = _LOOPBACK.fullmatch(host)
    named = {"http": literal, "https": literal or _HOST.fullmatch(host)}.get(scheme)
    if named is None or not 0 < int(named["port"] or 443) < 65536:
        return False
    # The parser must agree with the patterns, or one of the two is wrong.
    parts = urlsplit(url)
    if parts.netloc != host or "#" in url:
        return False
    return all(name != "vfp" for name, _ in parse_qsl(parts.query, keep_blank_values=True))


def is_registered(url: str, registered: tuple[str, ...]) -> bool:
    """Whether a URL is registered exactly, or but for the port of a loopback literal."""
    return url in registered or any(_without_loopback_port(url) == _without_loopback_port(own) for own in registered)


def _without_loopback_port(url: str) -> tuple[str, str] | str:
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?]", rest, maxsplit=1)[0]
    literal = _LOOPBACK.fullmatch(host)
    return url if scheme != "http" or literal is None else (literal["host"], rest.removeprefix(host))
