"""Who may call: the host names that a gateway answers to, and the address of a caller behind proxies."""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

from toolkit.endpoint import is_loopback, parsed_address
from toolkit.errors import InvalidArgument
from toolkit_gateway.http.exchange import HOST, Request

_PROXY_HEADERS = (b"forwarded", b"x-real-ip", b"via")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?|\[?[0-9A-Fa-f:.]{2,45}\]?")
_FORWARDED_FOR = re.compile(r'\s*for\s*=\s*("?)(?P<hop>[^;,"\s]*)\1\s*', re.IGNORECASE)
_HOP = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<v4>[0-9.]+))(?::[0-9]{1,5})?|(?P<bare>[0-9A-Fa-f:.]+)")
# Only so many of the last addresses are read: few proxies stand in front of a gateway, so a longer list is forged.
_MAX_HOPS = 32
# So many spellings of the Host header (case, ports) are remembered as accepted.
_MAX_SPELLINGS = 1_000


class Hosts:
    """The host names that a gateway answers to, with any port: loopback names, and those that are allowed.

    A web page may point its own name at the loopback address of its reader (DNS rebinding) and then read the
    gateway as its own origin. But the Host header then has the name of that page.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {_checked_name(name) for name in names}
        #: Values of the header that were accepted before, so that most requests cost one lookup.
        self.accepted: set[bytes] = set()

    def is_served(self, value: bytes) -> bool:
        match = HOST.fullmatch(value.decode("latin-1"))
        if match is None:
            return False
        name = match["name"].lower().strip("[]")
        if not is_loopback(name) and name.rstrip(".") not in self._names:
            return False
        if len(self.accepted) < _MAX_SPELLINGS:
            self.accepted.add(value)
        return True


class Proxies:
    """Proxies that are trusted to report the address of their caller."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks = [_checked_network(text) for text in trusted]
        self._trusts = lru_cache(1_024)(self._is_trusted)

    def resolve(self, request: Request) -> None:
        """Replace a trusted proxy's address by its caller's: the last one in its headers that is no trusted proxy."""
        if not self._trusts(request.client):
            return
        forwarded = [_forwarded_address(element) for element in _elements(request.header(b"forwarded"))]
        lists = _elements(request.header(b"x-forwarded-for")), forwarded
        callers = {self._last_untrusted(request.client, hops) for hops in lists if hops}
        # A proxy writes one of the headers and forwards the other unchanged, so both are believed only if they agree.
        if len(callers) == 1:
            request.client = callers.pop()

    def _last_untrusted(self, caller: str, hops: list[str]) -> str:
        for hop in reversed(hops):
            match = _HOP.fullmatch(hop.strip())
            address = parsed_address(match["v6"] or match["v4"] or match["bare"]) if match is not None else None
            if address is None:  # "unknown" or nonsense: keep the address of the proxy that reported it
                break
            caller = str(address)
            if not self._trusts(caller):
                break
        return caller

    def _is_trusted(self, address: str) -> bool:
        parsed = parsed_address(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidArgument("this is not a host name: give a name or an address, without scheme, port or path")
    return name.lower().strip("[]").rstrip(".")


def is_from_this_machine(request: Request) -> bool:
    """Whether the caller is a program on this machine, not a proxy, which adds headers."""
    is_proxied = any(name in _PROXY_HEADERS or name.startswith(b"x-forwarded-") for name in request.fields)
    return is_loopback(request.client) and not is_proxied


def _checked_network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError:
        raise InvalidArgument("this is not an address or network of a proxy, as 10.0.0.5 or 10.0.0.0/8") from None


def _elements(value: str) -> list[str]:
    return value.split(",")[-_MAX_HOPS:] if value else []


def _forwarded_address(element: str) -> str:
    """Return the address in an element of Forwarded (RFC 7239), or an empty string."""
    # A quoted text that contains a comma is split into two elements, and both are ignored.
    if "\\" in element or element.count('"') % 2:
        return ""
    hops = [match["hop"] for part in element.split(";") if (match := _FORWARDED_FOR.fullmatch(part))]
    return hops[0] if len(hops) == 1 else ""
