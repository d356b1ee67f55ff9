"""The gateway: it implements the four services, in this process or as one command.

Read ``gateway`` first (a running gateway, as a notebook holds it), then ``http_protocol`` (one connection), ``app``
(request in, response out), ``routes`` and ``services`` (the only place where the four services meet).
"""

from toolkit_gateway.gateway import DEMO_SEED, DEMO_START, Gateway
from toolkit_gateway.runtime import SteppedClock

__all__ = ["DEMO_SEED", "DEMO_START", "Gateway", "SteppedClock"]
