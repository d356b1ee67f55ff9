"""A simulated handset: a phone of the demo world that opens a TargetUrl from its own mobile network."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.identity.wire import SIMULATED_ADDRESS
from toolkit.secret import Secret


@dataclass(frozen=True, slots=True)
class Handset:
    """A phone as a caller sees it. Made by ``gateway.handset("happy")``.

    Parameters
    ----------
    name
        The preset it plays.
    address
        Its address on its network: what a gateway on this machine takes as the place its call comes from.
    device_ip, carrier_short_code
        What its app tells the caller to start with; None for what it does not know.
    result
        What a flow with this phone comes to.
    answer
        What its owner would answer to the challenge.

    Examples
    --------
    >>> Handset("mine", address="203.0.113.7", device_ip="203.0.113.7").network_headers
    {'X-Simulated-Device-Ip': '203.0.113.7'}
    """

    name: str
    address: str
    device_ip: str | None = None
    carrier_short_code: str | None = None
    result: str = ""
    answer: Secret | None = None

    @property
    def network_headers(self) -> dict[str, str]:
        """What the simulated network adds to this phone's calls, in place of a carrier's header enrichment."""
        return {SIMULATED_ADDRESS: self.address}
