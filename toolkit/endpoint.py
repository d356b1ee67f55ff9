"""Endpoints: a method, a path template and a query. Clients build paths from them, and the gateway matches requests."""

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import quote, unquote_to_bytes

_PERCENT = ord("%")
_PLACEHOLDER = re.compile(r"\{(\w+)(\.\.\.)?\}")


@dataclass(frozen=True)
class Endpoint:
    """One operation of a service.

    >>> latest = Endpoint("GET", "/get/latest/dweet/for/{thing}")
    >>> latest.path_for(thing="my fridge")
    '/get/latest/dweet/for/my%20fridge'
    >>> latest.path_values(b"/get/latest/dweet/for/my%20fridge")
    {'thing': 'my fridge'}
    """

    method: str
    #: ``{thing}`` is one segment, ``{condition...}`` the rest of the path.
    template: str
    #: Names in the query; the service itself checks their values.
    query: tuple[str, ...] = ()
    _pattern: re.Pattern[bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pattern, end = "", 0
        for hit in _PLACEHOLDER.finditer(self.template):
            pattern += re.escape(self.template[end : hit.start()])
            pattern += f"(?P<{hit[1]}>{'.+' if hit[2] else '[^/]+'})"
            end = hit.end()
        pattern += re.escape(self.template[end:])
        object.__setattr__(self, "_pattern", re.compile(pattern.encode("ascii"), re.DOTALL))

    def __str__(self) -> str:
        return f"{self.method} {self.template}"

    def path_for(self, **values: str) -> str:
        """Return the path with every value percent-encoded, including slashes."""
        return _PLACEHOLDER.sub(lambda hit: quote(values[hit[1]], safe=""), self.template)

    def path_values(self, raw_path: bytes) -> dict[str, str] | None:
        hit = self._pattern.fullmatch(raw_path)
        if hit is None:
            return None
        return {name: decode_once(value) for name, value in hit.groupdict().items()}


def decode_once(raw: bytes) -> str:
    # Invalid UTF-8 becomes lone surrogates, which each service refuses with its own error.
    plain = unquote_to_bytes(raw) if _PERCENT in raw else raw
    return plain.decode("utf-8", "surrogateescape")


def is_loopback(host: str) -> bool:
    address = parsed_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def parsed_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address, or None for any other text; an IPv4-mapped IPv6 address becomes an IPv4 address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
