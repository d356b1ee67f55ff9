"""Who may call by which name, and from where a call really comes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from toolkit.errors import InvalidArgument, ServiceError
from toolkit.gateway.exchange import Request

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[^\[\]:/@\s]{1,253})(?::[0-9]{1,5})?")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?|\[?[0-9A-Fa-f:.]{2,45}\]?")
_FORWARDED_FOR = re.compile(r'\s*for\s*=\s*("?)(?P<hop>[^;,"\s]*)\1\s*', re.IGNORECASE)
_HOP = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<v4>[0-9.]+))(?::[0-9]{1,5})?|(?P<bare>[0-9A-Fa-f:.]+)")
# Proxies in front of a gateway are few: what comes behind so many is made up.
_MOST_HOPS = 32
# Spellings of the Host header (case, ports) that are known to be right.
_MOST_SPELLINGS = 1_000

WRONG_HOST = "this gateway does not answer to that host name: its operator can allow it with --allow-host NAME"


class Hosts:
    """The host names that a gateway answers to: loopback names, and the allowed ones, each with any port.

    A web page may point its own name at the loopback address of its reader (DNS rebinding) and then read the
    gateway as its own origin. The name in the Host header gives it away.

    Parameters
    ----------
    names
        Names or addresses that are allowed besides the loopback ones.

    Raises
    ------
    InvalidArgument
        A name is none: it has a scheme, a port or a path.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {checked_name(name) for name in names}
        #: Values of the header that were found right: one lookup is all that most requests cost.
        self.known: set[bytes] = set()

    def is_served(self, value: bytes) -> bool:
        """Whether this Host header names this gateway."""
        match = _HOST.fullmatch(value.decode("latin-1"))
        if match is None or not self._allows(match["name"].lower()):
            return False
        if len(self.known) < _MOST_SPELLINGS:
            self.known.add(value)
        return True

    def _allows(self, name: str) -> bool:
        return is_loopback(name.strip("[]")) or name.strip("[]").rstrip(".") in self._names


class Proxies:
    """The proxies whose word about their callers counts.

    Parameters
    ----------
    trusted
        Addresses or networks (``10.0.0.0/8``).

    Raises
    ------
    InvalidArgument
        One of them is neither.

    Examples
    --------
    >>> Proxies(["10.0.0.0/8"]).caller("10.0.0.1", "198.51.100.7, 203.0.113.9, 10.0.0.2")
    '203.0.113.9'
    """

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks = [_checked_network(one) for one in trusted]
        self._trusts = lru_cache(1_024)(self._is_trusted)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def resolve(self, request: Request) -> None:
        """Set the address of the caller to the one that its proxy tells."""
        if not self._trusts(request.client):
            return
        x_forwarded_for, forwarded = request.header(b"x-forwarded-for"), request.header(b"forwarded")
        if x_forwarded_for or forwarded:
            request.client = self.caller(request.client, x_forwarded_for, forwarded)

    def caller(self, peer: str, x_forwarded_for: str = "", forwarded: str = "") -> str:
        """Return the last address before the trusted proxies; the peer's own where the headers do not tell it.

        A proxy that writes one of the headers passes the other on as its caller made it. So where there are both,
        they must say the same.
        """
        lists = _elements(x_forwarded_for), [_for_of(element) for element in _elements(forwarded)]
        told = {self._last_untrusted(peer, hops) for hops in lists if hops}
        return told.pop() if len(told) == 1 else peer

    def _last_untrusted(self, peer: str, hops: list[str]) -> str:
        caller = peer
        for hop in reversed(hops):
            address = _address_of(hop)
            if address is None:  # whoever wrote "unknown" or nonsense: the proxy behind it is all that is known
                break
            caller = address
            if not self._trusts(address):
                break
        return caller

    def _is_trusted(self, address: str) -> bool:
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def checked_name(name: str) -> str:
    """Return a host name in lower case and without brackets, or raise InvalidArgument."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidArgument(f"{name!r} is no host name: give a name or an address, without scheme, port or path")
    return name.lower().strip("[]").rstrip(".")


def is_loopback(host: str) -> bool:
    """Whether this is a name or an address of this machine that no other machine can reach."""
    if host == "localhost":
        return True
    address = _parsed(host)
    return address is not None and address.is_loopback


def wrong_host() -> ServiceError:
    """Return the refusal of a request for another host (RFC 9110, 15.5.20)."""
    return ServiceError(WRONG_HOST, status=421)


def _checked_network(text: str) -> _Network:
    try:
        return ip_network(text)
    except ValueError:
        raise InvalidArgument(f"{text!r} is no address or network of a proxy, as 10.0.0.5 or 10.0.0.0/8") from None


def _elements(value: str) -> list[str]:
    return value.split(",")[-_MOST_HOPS:] if value else []


def _for_of(element: str) -> str:
    """Return the address in an element of Forwarded (RFC 7239), or an empty text.

    A quoted text with a comma in it is two elements here, and neither of them is believed.
    """
    if "\\" in element or element.count('"') % 2:
        return ""
    found = [match["hop"] for part in element.split(";") if (match := _FORWARDED_FOR.fullmatch(part))]
    return found[0] if len(found) == 1 else ""


def _address_of(hop: str) -> str | None:
    match = _HOP.fullmatch(hop.strip())
    if match is None:
        return None
    address = _parsed(match["v6"] or match["v4"] or match["bare"])
    return None if address is None else str(address)


def _parsed(text: str) -> _Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
