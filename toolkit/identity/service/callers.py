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
# Checked before any parsing: parsers drop tabs and line ends and read a backslash as a slash.
_PRINTABLE = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
# Only literals. `localhost`, 127.1 or 0x7f000001 may be another machine, or another program's idea of this one.
_LOOPBACK = re.compile(r"(?P<host>127\.0\.0\.1|\[::1\])(?::(?P<port>[0-9]{1,5}))?")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Caller:
    """A client of the service: what it is called here, its ApiClientId, and where phones may be sent to for it."""

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
    """The settings of the service.

    Parameters
    ----------
    first_life, final_life, code_life
        Seconds that the first fingerprint, the final one and the code live; 1 to 600.
    calls_a_minute, failures_a_minute
        Calls of one client; and guesses of one client, wrong keys of one address, wrong fingerprints of one of both.
    public_url
        The https origin that phones reach, where the gateway serves more than this machine.
    legacy_http_200
        Answer failures with HTTP 200 and only a ``Status`` that tells the truth, as the service of 2014 did.
    """

    first_life: int = 120
    final_life: int = 60
    code_life: int = 300
    calls_a_minute: int = 600
    failures_a_minute: int = 60
    public_url: str | None = None
    legacy_http_200: bool = False

    def __post_init__(self) -> None:
        for name in ("first_life", "final_life", "code_life"):
            if not 1 <= getattr(self, name) <= LONGEST_LIFE:
                raise InvalidArgument(f"{name} must be 1 to {LONGEST_LIFE} seconds")
        if self.public_url is not None and not is_allowed_form(self.public_url):
            raise InvalidArgument("public_url must be an https origin")


@dataclass(frozen=True, slots=True)
class IdentitySetup:
    """Everything that section D needs to know from outside: its callers, the mobile networks, the settings."""

    callers: Sequence[Caller] = ()
    carrier: Carrier = field(default_factory=SimulatedCarrier)
    settings: IdentitySettings = field(default_factory=IdentitySettings)


def caller_with(api_client_id: object, callers: Sequence[Caller]) -> Caller:
    """Return the enabled caller with this ApiClientId.

    Every caller is compared, each in constant time, so that the answer's time says nothing about any of them. Unknown
    and disabled ones are refused with one text.
    """
    given = Secret(api_client_id if type(api_client_id) is str else "")
    fitting = [caller for caller in callers if caller.api_client_id == given and given]
    if not fitting or not fitting[0].enabled:
        raise refusal(1005)
    return fitting[0]


def is_allowed_form(url: str) -> bool:
    """Whether a URL could be a final target at all, of whichever client.

    Examples
    --------
    >>> is_allowed_form("http://127.0.0.1:8890/done"), is_allowed_form("http://localhost:8890/done")
    (True, False)
    """
    if len(url) > _LONGEST_URL or not _PRINTABLE.fullmatch(url):
        return False
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    literal = _LOOPBACK.fullmatch(host)
    named = {"http": literal, "https": literal or _HOST.fullmatch(host)}.get(scheme)
    if named is None or not 0 < int(named["port"] or 443) < 65536:
        return False
    # The parser must see what was just read, or one of the two is wrong.
    parts = urlsplit(url)
    if parts.netloc != host or "#" in url:
        return False
    return all(name != "vfp" for name, _ in parse_qsl(parts.query, keep_blank_values=True))


def is_registered(url: str, registered: tuple[str, ...]) -> bool:
    """Whether a URL of allowed form is one of the client's: exactly, or but for the port of a loopback literal."""
    return url in registered or any(_without_loopback_port(url) == _without_loopback_port(own) for own in registered)


def with_fingerprint(url: str, fingerprint: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}vfp={fingerprint}"


def _without_loopback_port(url: str) -> tuple[str, str] | str:
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?]", rest, maxsplit=1)[0]
    literal = _LOOPBACK.fullmatch(host)
    return url if scheme != "http" or literal is None else (literal["host"], rest.removeprefix(host))
