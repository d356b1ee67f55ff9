"""The simulated phones and the public keys of the demo world, from the data files that both packages share."""

from __future__ import annotations

import json
import time
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from toolkit.errors import InvalidArgument
from toolkit.secret import Secret
from toolkit.system.files import originals

if TYPE_CHECKING:
    from toolkit.identity.client.handset import Handset


@cache
def demo_data() -> dict[str, Any]:
    """Return ``demo_world.json`` with its subscribers; the first of them own the phones of the presets, in order."""
    folder = originals() / "data"
    data: dict[str, Any] = json.loads((folder / "demo_world.json").read_bytes())
    data["identity"]["subscribers"] = json.loads((folder / "demo_subscribers.json").read_bytes())["subscribers"]
    return data


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


class DemoPhones:
    """The phones, the keys of mobile identity and the clock of a gateway that serves the demo world at a URL.

    A `toolkit.Gateway` of this process has the same attributes.
    """

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.credentials = {name: Secret(key) for name, key in demo_data()["credentials"]["identity"].items()}
        #: The result of a flow with each phone, by preset.
        self.presets: dict[str, str] = {name: preset["result"] for name, preset in demo_data()["presets"].items()}

    def handset(self, preset: str) -> Handset:
        from toolkit.identity.client.handset import Handset  # not earlier: a gateway starts without pandas

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
