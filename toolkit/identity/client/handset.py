"""Simulated phones."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.argument_checks import checked_arguments
from toolkit.endpoint import parsed_address
from toolkit.errors import InvalidArgument
from toolkit.identity.wire import SIMULATED_ADDRESS_HEADER
from toolkit.secret import Secret


@checked_arguments
@dataclass(frozen=True, slots=True)
class Handset:
    """A simulated phone: ``gateway.handset("happy")`` of the demo world, or the phone of one of your subscribers.

    ``address`` is the phone's IP address on the mobile network; the gateway finds the subscriber by this address.
    ``device_ip`` and ``carrier_short_code`` are the values for `start_authentication`. ``result`` says how a flow with
    this phone ends; ``answer`` is the owner's answer to the challenge.

    Examples
    --------
    >>> from toolkit.identity import Handset
    >>> Handset("mine", address="203.0.113.7", device_ip="203.0.113.7").network_headers
    {'X-Simulated-Device-Ip': '203.0.113.7'}
    """

    name: str
    address: str
    device_ip: str | None = None
    carrier_short_code: str | None = None
    result: str = ""
    answer: Secret | None = None

    def __post_init__(self) -> None:
        if parsed_address(self.address) is None:
            raise InvalidArgument("address is the IP address of a phone, such as 203.0.113.7")

    @property
    def network_headers(self) -> dict[str, str]:
        """The headers that the simulated network adds to requests of this phone."""
        return {SIMULATED_ADDRESS_HEADER: self.address}
