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
    from toolkit.dweets.widgets.history_explorer import HistoryExplorer
    from toolkit.dweets.widgets.live_dweets import LiveDweets
    from toolkit.gateway import Gateway
    from toolkit.handwriting.widgets.handwriting_explorer import HandwritingExplorer
    from toolkit.identity.widgets.identity_walkthrough import IdentityWalkthrough
    from toolkit.rewards.widgets.rewards_explorer import RewardsExplorer
    from toolkit.secret import Secret

_HOME = {
    "Connection": "toolkit.connection",
    "Gateway": "toolkit.gateway",
    "HandwritingExplorer": "toolkit.handwriting.widgets.handwriting_explorer",
    "HistoryExplorer": "toolkit.dweets.widgets.history_explorer",
    "IdentityWalkthrough": "toolkit.identity.widgets.identity_walkthrough",
    "LiveDweets": "toolkit.dweets.widgets.live_dweets",
    "RewardsExplorer": "toolkit.rewards.widgets.rewards_explorer",
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
