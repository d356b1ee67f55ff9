"""Simulated phones: `Handset`, and those of the demo world with its public keys, from the data in both packages."""

import json
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from typing import Any

from toolkit.argument_checks import checked_arguments
from toolkit.endpoint import parsed_address
from toolkit.errors import InvalidArgument
from toolkit.identity.wire import SIMULATED_ADDRESS_HEADER
from toolkit.secret import Secret
from toolkit.system.files import originals


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


@cache
def demo_data() -> dict[str, Any]:
    """Return ``demo_world.json`` with its subscribers; the first of them own the phones of the presets, in order."""
    folder = originals() / "data"
    data: dict[str, Any] = json.loads((folder / "demo_world.json").read_bytes())
    data["identity"]["subscribers"] = json.loads((folder / "demo_subscribers.json").read_bytes())["subscribers"]
    return data


class DemoPhones:
    """The phones, and the keys of mobile identity, of a gateway that serves the demo world at a URL.

    A `toolkit.Gateway` of this process has the same attributes.
    """

    def __init__(self) -> None:
        self.credentials = {name: Secret(key) for name, key in demo_data()["credentials"]["identity"].items()}
        #: The result of a flow with each phone, by preset.
        self.presets: dict[str, str] = {name: preset["result"] for name, preset in demo_data()["presets"].items()}

    def handset(self, preset: str) -> Handset:
        if preset not in self.presets:
            raise InvalidArgument(f"a preset is one of {', '.join(self.presets)}")
        options = demo_data()["presets"][preset].get("handset", {})
        owner = demo_data()["identity"]["subscribers"][list(self.presets).index(preset)]
        # The Wi-Fi address of a phone is 128 above its mobile address in the same IPv4 /24.
        address = str(ip_address(owner["device_ip"]) + 128) if options.get("on_wifi") else owner["device_ip"]
        return Handset(
            preset,
            address=address,
            device_ip=address if options.get("says_address", True) else None,
            carrier_short_code=options.get("says_carrier"),
            result=self.presets[preset],
            answer=Secret(owner["address"]["postal_code"], guessable=True),
        )
