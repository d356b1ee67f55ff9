"""Four services in a notebook: thing messaging, handwriting, mobile rewards, mobile identity.

::

    import toolkit
    tk = toolkit.connect()
    tk.dweets.history("kitchen")

Importing this costs neither pandas nor matplotlib nor ipywidgets: they come with the first name that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.connection import Connection, connect
    from toolkit.dweets.live_widget import LiveDweets
    from toolkit.dweets.widget import HistoryExplorer
    from toolkit.gateway import Gateway
    from toolkit.handwriting.widget import HandwritingExplorer
    from toolkit.identity.widget import IdentityWalkthrough
    from toolkit.rewards.widget import RewardsExplorer
    from toolkit.secret import Secret

_HOME = {
    "Connection": "toolkit.connection",
    "Gateway": "toolkit.gateway",
    "HandwritingExplorer": "toolkit.handwriting.widget",
    "HistoryExplorer": "toolkit.dweets.widget",
    "IdentityWalkthrough": "toolkit.identity.widget",
    "LiveDweets": "toolkit.dweets.live_widget",
    "RewardsExplorer": "toolkit.rewards.widget",
    "Secret": "toolkit.secret",
    "connect": "toolkit.connection",
}

__all__ = [
    "Connection",
    "Gateway",
    "HandwritingExplorer",
    "HistoryExplorer",
    "IdentityWalkthrough",
    "LiveDweets",
    "RewardsExplorer",
    "Secret",
    "connect",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'toolkit' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
