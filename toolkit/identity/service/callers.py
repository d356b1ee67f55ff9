"""Who may call section D, where phones may be sent to for them, and the settings of the service."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from toolkit.errors import InvalidArgument
from toolkit.identity.envelope import refusal
from toolkit.identity.service.carrier import Carrier, SimulatedCarrier
from toolkit.secret import Secret

#: RFC 6749 and NIST 800-63B both end at ten minutes for a code that is sent around.
LONGEST_LIFE = 600

_LONGEST_URL = 2048
# Checked before parsing: parsers drop tabs and line ends and read a backslash as a slash.
_PRINTABLE = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
# Only literals: `localhost`, 127.1 or 0x7f000001 may be resolved differently by another program.
_LOOPBACK = re.compile(r"(?P<host>127\.0\.0\.1|\[::1\])(?::(?P<port>[0-9]{1,5}))?")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Caller:
    """A client of the service; phones are redirected only to its `final_targets`."""

    name: str
    api_client_id: Secret
    final_targets: tuple[str, ...] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        for url in self.final_targets:
            if not is_allowed_form(url):
                raise InvalidArgument(f"{url!r} cannot be a final target: https, or http to 127.0.0.1 or [::1]")


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    #: Seconds that the first fingerprint, the final one and the code live, 1 to 600.
    first_life: int = 120
    final_life: int = 60
    code_life: int = 300
    #: For one client.
    calls_a_minute: int = 600
    #: Guesses of one client, wrong fingerprints of one client or address.
    failures_a_minute: int = 60
    #: The https origin that phones reach, if the gateway serves more than this machine.
    public_url: str | None = None
    #: Answer failures with HTTP 200, as the service of 2014 did; ``Status`` still names the failure.
    legacy_http_200: bool = False

    def __post_init__(self) -> None:
        for name in ("first_life", "final_life", "code_life"):
            if not 1 <= getattr(self, name) <= LONGEST_LIFE:
                raise InvalidArgument(f"{name} must be 1 to {LONGEST_LIFE} seconds")
        if self.public_url is not None and not is_allowed_form(self.public_url):
            raise InvalidArgument("public_url must be an https origin")


@dataclass(frozen=True, slots=True)
class IdentitySetup:
    callers: Sequence[Caller] = ()
    carrier: Carrier = field(default_factory=SimulatedCarrier)
    settings: IdentitySettings = field(default_factory=IdentitySettings)


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
