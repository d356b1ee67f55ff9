"""Mobile carriers: the interface for real carriers, the simulated carriers, and their subscribers.

Only the first six and last four digits of a card number are stored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Annotated, Literal, Protocol, runtime_checkable

from msgspec import Meta

from toolkit.endpoint import parsed_address
from toolkit.errors import InvalidArgument
from toolkit.identity.responses import CountryCode, OperatorName
from toolkit.settings import Table, Text


class Payment(Table, frozen=True):
    """A payment method on file: a carrier bill, or a card without its middle digits."""

    payment_type: Literal["CREDIT_CARD", "DEBIT_CARD", "CARRIER_BILL"]
    brand: Text | None = None
    first_six: Annotated[str, Meta(pattern=r"^[0-9]{6}\Z")] | None = None
    last_four: Annotated[str, Meta(pattern=r"^[0-9]{4}\Z")] | None = None
    #: How many digits the card number has. With fewer than 14, the mask hides fewer than four: these can be guessed.
    digits: Annotated[int, Meta(ge=14, le=19)] | None = None
    expiration_month: Annotated[int, Meta(ge=1, le=12)] | None = None
    expiration_year: Annotated[int, Meta(ge=2000, le=9999)] | None = None
    is_default: bool = False

    def __post_init__(self) -> None:
        for key in ("first_six", "last_four", "digits"):
            if (getattr(self, key) is None) != (self.payment_type == "CARRIER_BILL"):
                raise InvalidArgument(f"{key}: required for a card, not allowed for a carrier bill")

    @property
    def masked_number(self) -> str | None:
        if self.first_six is None or self.last_four is None or self.digits is None:
            return None
        return self.first_six + "*" * (self.digits - 10) + self.last_four


class Address(Table, frozen=True):
    line1: Text
    city: Text
    region: Text
    #: The answer to the challenge.
    postal_code: Annotated[str, Meta(pattern=r"^[0-9]{5}\Z")]
    country_code: CountryCode = "US"
    line2: Text | None = None


class Subscriber(Table, frozen=True):
    id: Text
    mobile_number: Annotated[str, Meta(pattern=r"^\+[0-9]{7,15}\Z")]
    carrier: Text
    device_ip: Text
    name: Text
    email: Text
    address: Address
    payments: tuple[Payment, ...] = ()
    account: Literal["POSTPAID", "PREPAID", "BUSINESS"] = "POSTPAID"
    state: Literal["ACTIVE", "SUSPENDED", "DEACTIVATED"] = "ACTIVE"
    #: The customer record. NONE: the carrier never created one; LOST: it should exist but is missing.
    record: Literal["PRESENT", "NONE", "LOST"] = "PRESENT"
    #: Whether the person refused to take part: then the user is not eligible.
    opted_out: bool = False
    #: Whether the payment operations require an answer to the challenge.
    asks: bool = True
    wrong_answers: Annotated[int, Meta(ge=0, le=100)] = 0

    def __post_init__(self) -> None:
        address = parsed_address(self.device_ip)
        if address is None or str(address) != self.device_ip:
            raise InvalidArgument("device_ip: expected an IP address in its normal form, such as 203.0.113.7")

    @property
    def masked_number(self) -> str:
        return "*" * 9 + self.mobile_number[-2:]


@dataclass(frozen=True, slots=True)
class PhoneRequest:
    """The request of a phone, as the gateway received it."""

    #: The IP address of the network connection.
    peer: str
    #: The phone's IP address: `peer`, or the address in the header of a simulated handset on this machine.
    address: str
    #: HTTP headers, names in lower case. A carrier that enriches headers adds the subscriber here.
    headers: Mapping[str, str]


@runtime_checkable
class Carrier(Protocol):
    """The interface of a mobile network; implement it to connect a real one."""

    async def supports(self, short_code: str) -> bool:
        """Return whether the carrier with this short code can identify phones now."""

    async def carrier_of(self, address: str) -> str | None:
        """Return the short code of the carrier that owns this IP address."""

    async def identify(self, request: PhoneRequest) -> Subscriber | None:
        """Return the subscriber who owns the phone, or None if the network is not certain."""

    async def subscriber(self, subscriber_id: str) -> Subscriber | None: ...

    async def name_of(self, short_code: str) -> str: ...


class Network(Table, frozen=True):
    """A simulated carrier and its address blocks."""

    short_code: Annotated[str, Meta(pattern=r"^[A-Z0-9]{2,8}\Z")]
    name: OperatorName
    networks: tuple[str, ...] = ()
    retired: bool = False

    def __post_init__(self) -> None:
        for number, block in enumerate(self.networks):
            try:
                ip_network(block)
            except ValueError:
                raise InvalidArgument(f"networks[{number}]: expected an address block such as 203.0.113.0/24") from None


class SimulatedCarrier:
    """Mobile networks in memory, for the demo world and tests.

    The first half of each address block is the mobile network; phones in the second half (Wi-Fi) are not identified.
    """

    def __init__(self, networks: Iterable[Network] = (), subscribers: Iterable[Subscriber] = ()) -> None:
        self._networks = {network.short_code: network for network in networks}
        self._blocks = [
            (ip_network(block), network.short_code) for network in self._networks.values() for block in network.networks
        ]
        self._subscribers: dict[str, Subscriber] = {}
        self._id_by_address: dict[str, str] = {}
        for subscriber in subscribers:
            self.put(subscriber)

    def put(self, subscriber: Subscriber) -> None:
        self._subscribers[subscriber.id] = subscriber
        self._id_by_address[subscriber.device_ip] = subscriber.id

    async def supports(self, short_code: str) -> bool:
        network = self._networks.get(short_code)
        return network is not None and not network.retired

    async def carrier_of(self, address: str) -> str | None:
        parsed = ip_address(address)
        return next((code for block, code in self._blocks if parsed in block), None)

    async def identify(self, request: PhoneRequest) -> Subscriber | None:
        subscriber_id = self._id_by_address.get(request.address)
        if subscriber_id is None:
            return None
        address = ip_address(request.address)
        block = next((block for block, _ in self._blocks if address in block), None)
        is_mobile = block is not None and int(address) - int(block.network_address) < block.num_addresses // 2
        return self._subscribers[subscriber_id] if is_mobile else None

    async def subscriber(self, subscriber_id: str) -> Subscriber | None:
        return self._subscribers.get(subscriber_id)

    async def name_of(self, short_code: str) -> str:
        return self._networks[short_code].name


def normal_ip_address(text: str | None) -> str | None:
    """Return an IP address in its normal form, or None if it is not an address."""
    # A zone such as %eth0 is valid on one machine only.
    address = parsed_address(text) if text and "%" not in text else None
    return None if address is None else str(address)
