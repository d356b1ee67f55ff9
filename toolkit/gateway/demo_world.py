"""The demo world: reads ``data/demo_world.json`` into the settings of each service."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from toolkit.data_folder import data_folder
from toolkit.errors import InvalidArgument
from toolkit.handwriting.service.handwriting import HandwritingSettings
from toolkit.identity.client.handset import Handset
from toolkit.identity.service.callers import Caller, IdentitySetup
from toolkit.identity.service.carrier import Network, SimulatedCarrier, wifi_address
from toolkit.identity.service.subscribers import Subscriber, load_subscribers
from toolkit.rewards.service.partners import RewardSettings
from toolkit.secret import Secret


class DemoWorld:
    def __init__(self) -> None:
        self.sections: dict[str, Any] = json.loads((data_folder() / "demo_world.json").read_text("utf-8"))

    @property
    def credentials(self) -> dict[str, Secret]:
        """The keys of all services, by their names on the wire."""
        found = (section.get("credentials", {}) for section in self.sections.values())
        return {name: Secret(value) for credentials in found for name, value in credentials.items()}

    def handwriting_settings(self) -> HandwritingSettings:
        return HandwritingSettings(apikeys={self.credentials["apikey"]: self.credentials["apisecret"]})

    def reward_settings(self) -> RewardSettings:
        return RewardSettings.parse({k: v for k, v in self.sections["rewards"].items() if k != "credentials"})

    @cached_property
    def subscribers(self) -> list[Subscriber]:
        """The subscribers; the first ones own the phones of the presets, in their order."""
        return load_subscribers(data_folder() / "demo_subscribers.json")

    def identity_setup(self) -> IdentitySetup:
        section = self.sections["identity"]
        callers = [
            Caller(one["name"], self.credentials[one["credential"]], tuple(one["FinalTargetUrls"]))
            for one in section["clients"]
        ]
        networks = [
            Network(one["short_code"], one["name"], tuple(one["networks"]), one.get("retired", False))
            for one in section["carriers"]
        ]
        return IdentitySetup(callers, SimulatedCarrier(networks, self.subscribers))

    @property
    def presets(self) -> dict[str, str]:
        return {name: preset["result"] for name, preset in self.sections["identity"]["presets"].items()}

    def handset(self, preset: str) -> Handset:
        presets = self.sections["identity"]["presets"]
        if preset not in presets:
            raise InvalidArgument(f"a preset is one of {', '.join(presets)}")
        about = presets[preset].get("handset", {})
        owner = self.subscribers[list(presets).index(preset)]
        address = wifi_address(owner.device_ip) if about.get("on_wifi") else owner.device_ip
        return Handset(
            preset,
            address=address,
            device_ip=address if about.get("says_address", True) else None,
            carrier_short_code=about.get("says_carrier"),
            result=presets[preset]["result"],
            answer=Secret(owner.address.postal_code, guessable=True),
        )
