"""The mobile network: the small interface that a real one implements, and the simulated one of the demo world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Annotated, Protocol, runtime_checkable

from msgspec import Meta

from toolkit.errors import InvalidArgument
from toolkit.identity.service.subscribers import Subscriber
from toolkit.settings import Table, Text


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a phone's call reached the gateway."""

    #: The address that the call came from.
    peer: str
    #: The phone's own address: the peer's, or the one that a simulated handset on this machine names.
    address: str
    #: With lower-case names. A carrier that enriches headers puts the subscriber here.
    headers: Mapping[str, str]


@runtime_checkable
class Carrier(Protocol):
    """What the service asks mobile networks; implement it to connect a real one."""

    async def supports(self, short_code: str) -> bool:
        """Whether this is the short code of a carrier that can identify phones now."""

    async def serving(self, address: str) -> str | None:
        """Return the short code of the carrier that this address belongs to."""

    async def identify(self, arrival: Arrival) -> Subscriber | None:
        """Return whose phone made this call, or None if its network is not certain."""

    async def subscriber(self, subscriber_id: str) -> Subscriber | None: ...

    async def name_of(self, short_code: str) -> str: ...


class Network(Table, frozen=True):
    """A simulated carrier and its address blocks."""

    short_code: Annotated[str, Meta(pattern="^[A-Z0-9]{2,8}$")]
    name: Text
    networks: tuple[str, ...] = ()
    retired: bool = False

    def __post_init__(self) -> None:
        for number, block in enumerate(self.networks):
            try:
                ip_network(block)
            except ValueError:
                raise InvalidArgument(f"networks[{number}]: expected an address block, as 203.0.113.0/24") from None


class SimulatedCarrier:
    """Mobile networks in memory, for the demo world and for tests.

    The first half of each address block is mobile, the second half is Wi-Fi, where a phone is not identified.
    """

    def __init__(self, networks: Iterable[Network] = (), subscribers: Iterable[Subscriber] = ()) -> None:
        self._networks = {network.short_code: network for network in networks}
        self._blocks = [
            (ip_network(block), network.short_code) for network in self._networks.values() for block in network.networks
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
    """Return the phone's address on Wi-Fi: the same place in the other half of an IPv4 /24."""
    return str(ip_address(int(ip_address(address)) + 128))
