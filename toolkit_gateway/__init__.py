"""The gateway: it implements the four services, in this process or as one command.

Read ``gateway`` first (a running gateway, as a notebook holds it), then ``http.protocol`` (one connection),
``http.app`` (request in, response out), ``routes`` and ``services`` (the only place where the four services meet).
The names of this package need the extra ``gateway``.
"""

from typing import TYPE_CHECKING

from toolkit.public_api import lazy_names

if TYPE_CHECKING:
    from toolkit_gateway.gateway import DEMO_SEED, DEMO_START, Gateway
    from toolkit_gateway.runtime import SteppedClock

__all__ = ["DEMO_SEED", "DEMO_START", "Gateway", "SteppedClock"]

_MODULE_OF_NAME = dict.fromkeys(__all__, "toolkit_gateway.gateway") | {"SteppedClock": "toolkit_gateway.runtime"}
__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF_NAME, extra="gateway")
