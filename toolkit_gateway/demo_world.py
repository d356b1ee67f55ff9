"""The demo world: partners, clients, carriers and invented subscribers, for a gateway that configures none."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolkit.errors import InvalidArgument
from toolkit.identity.phones import DemoPhones, demo_data
from toolkit.secret import Secret
from toolkit_gateway.configuration import EXAMPLE, Configuration, check_keys, configuration_of, secrets_in
from toolkit_gateway.identity.callers import IdentitySettings

if TYPE_CHECKING:
    from toolkit.identity import Handset

_WHAT_TO_DO = (
    "the keys of the demo world are public, and other machines may reach this gateway. Configure your own "
    "(`toolkit config example` shows how), or serve the demo world to everybody with --demo (gateway.demo)"
)


class DemoWorld:
    """Completes a configuration with the parts of the demo world that it may serve."""

    def __init__(self, given: Configuration) -> None:
        data, demo = demo_data(), _demo_configuration()
        assert demo.identity is not None
        if not given.gateway.demo:
            check_keys(given)
        is_served = given.gateway.demo or not given.gateway.is_exposed
        if not is_served:
            _refuse_public_keys(given)
        missing = [name for name in ("rewards", "identity") if getattr(given, name) is None]
        refused = " and ".join(f"mobile {name}" for name in missing if not is_served)
        #: What does not work because the demo world is not served; empty if everything works.
        self.warning = f"no key is taken by {refused}: {_WHAT_TO_DO}" if refused else ""
        filled = missing if is_served else []
        #: The keys of the services that have the demo world's callers, by their names on the wire.
        self.credentials = {key: Secret(text) for name in filled for key, text in data["credentials"][name].items()}
        completed = replace(given, **{name: getattr(demo, name) for name in filled})
        identity, given_identity = completed.identity or IdentitySettings(), given.identity
        self._phones: DemoPhones | None = None
        if not (given_identity and (given_identity.carrier or given_identity.carriers or given_identity.subscribers)):
            self._phones = DemoPhones()
            identity = replace(identity, carriers=demo.identity.carriers, subscribers=demo.identity.subscribers)
        self.configuration = replace(completed, identity=identity)

    @property
    def presets(self) -> dict[str, str]:
        return self._phones.presets if self._phones else {}

    def handset(self, preset: str) -> Handset:
        if self._phones is None:
            raise InvalidArgument("this gateway has its own subscribers; only those of the demo world have handsets")
        return self._phones.handset(preset)


@cache
def _demo_configuration() -> Configuration:
    return configuration_of({name: demo_data()[name] for name in ("rewards", "identity")})


def _refuse_public_keys(given: Configuration) -> None:
    published = _demo_configuration(), configuration_of(EXAMPLE)
    public = {secret for configuration in published for _, secret in secrets_in(configuration)}
    for key, secret in secrets_in(given):
        if secret in public:
            raise InvalidArgument(f"{key}: this key is published with the toolkit: {_WHAT_TO_DO}")
