"""The mobile network: the small interface that a real one implements, and the simulated one of the demo world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Protocol

from toolkit.identity.service.subscribers import Subscriber


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a phone's call reached the gateway.

    ``peer`` is the address that the call came from. ``address`` is the phone's own: the peer's, or what a simulated
    handset on this machine says. ``headers`` are those of the call with lower-case names: a carrier that enriches
    headers puts the subscriber there.
    """

    peer: str
    address: str
    headers: Mapping[str, str]


class Carrier(Protocol):
    """What the service asks mobile networks. Implement these five to plug in a real header enrichment."""

    async def supports(self, short_code: str) -> bool:
        """Whether this is the short code of a carrier that can identify phones now."""

    async def serving(self, address: str) -> str | None:
        """Return the short code of the carrier that this address belongs to."""

    async def identify(self, arrival: Arrival) -> Subscriber | None:
        """Return whose phone made this call, only if its network is certain."""

    async def subscriber(self, subscriber_id: str) -> Subscriber | None:
        """Return what is known of a subscriber now."""

    async def name_of(self, short_code: str) -> str:
        """Return the name that people know the carrier by."""


@dataclass(frozen=True, slots=True)
class Network:
    """A carrier of the simulation: short code, name, address blocks, and whether it still serves."""

    short_code: str
    name: str
    blocks: tuple[str, ...] = ()
    retired: bool = False


class SimulatedCarrier:
    """Mobile networks in memory, for the demo world and for tests.

    The first half of each block of addresses is mobile, the second half is fixed line and Wi-Fi: a phone there is
    reachable but not identified.
    """

    def __init__(self, networks: Iterable[Network] = (), subscribers: Iterable[Subscriber] = ()) -> None:
        self._networks = {network.short_code: network for network in networks}
        self._blocks = [
            (ip_network(block), network.short_code) for network in self._networks.values() for block in network.blocks
        ]
        self._by_id: dict[str, Subscriber] = {}
        self._by_address: dict[str, str] = {}
        for subscriber in subscribers:
            self.put(subscriber)

    def put(self, subscriber: Subscriber) -> None:
        """Add a subscriber, or change the one with this id."""
        self._by_id[subscriber.id] = subscriber
        self._by_address[subscriber.device_ip] = subscriber.id

    async def supports(self, short_code: str) -> bool:
        network = self._networks.get(short_code)
        return network is not None and not network.retired

    async def serving(self, address: str) -> str | None:
        parsed = ip_address(address)
        return next((code for block, code in self._blocks if parsed in block), None)

    async def identify(self, arrival: Arrival) -> Subscriber | None:
        """Return whose phone made this call, only if it came over the mobile half of a network."""
        found = self._by_address.get(arrival.address)
        return self._by_id[found] if found is not None and self._is_mobile(arrival.address) else None

    async def subscriber(self, subscriber_id: str) -> Subscriber | None:
        return self._by_id.get(subscriber_id)

    async def name_of(self, short_code: str) -> str:
        return self._networks[short_code].name

    def _is_mobile(self, address: str) -> bool:
        parsed = ip_address(address)
        block = next((block for block, _ in self._blocks if parsed in block), None)
        return block is not None and int(parsed) - int(block.network_address) < block.num_addresses // 2


def wifi_address(address: str) -> str:
    """Return the same phone's address while it is on Wi-Fi: as far into the other half of an IPv4 /24.

    Examples
    --------
    >>> wifi_address("203.0.113.7")
    '203.0.113.135'
    """
    return str(ip_address(int(ip_address(address)) + 128))
