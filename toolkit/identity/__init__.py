"""Mobile identity and checkout data. Read `wire` (endpoints, requests), `responses` and `flow` (the states) first.

A simulated phone that works with any gateway: ``toolkit.identity.Handset("mine", address=..., device_ip=...)``.
"""

from typing import TYPE_CHECKING

from toolkit.public_api import lazy_names

if TYPE_CHECKING:
    from toolkit.identity.phones import Handset

__all__ = ["Handset"]

__getattr__, __dir__ = lazy_names(__name__, {"Handset": "toolkit.identity.phones"})
