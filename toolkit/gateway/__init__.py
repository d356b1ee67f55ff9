"""The gateway: really implements the four services, in this process or as one command.

Read ``gateway`` first (a running gateway, as a notebook holds it), then ``http_protocol`` (one connection), ``app``
(request in, response out), ``routes`` (which handler answers), ``services`` (the only place where the four meet) and
``stores``.

`Gateway` comes with the first use, so that a service may import the Store protocol from here without the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.gateway.gateway import DEMO_SEED, DEMO_START, Gateway

__all__ = ["DEMO_SEED", "DEMO_START", "Gateway"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'toolkit.gateway' has no attribute {name!r}")
    from toolkit.gateway import gateway

    return getattr(gateway, name)
