"""Four services in a notebook: thing messaging, handwriting, mobile rewards, mobile identity.

::

    import toolkit
    tk = toolkit.connect()
    tk.dweets.history("kitchen")

The import loads neither pandas nor matplotlib nor ipywidgets: the first use of a name that needs them does. From then
on every DataFrame has ``.dweets``, whether pandas was imported before or is imported afterwards.
"""

from typing import TYPE_CHECKING

from toolkit import dweets, errors, handwriting, identity, rewards
from toolkit.dweets.analysis.registration import register_accessor
from toolkit.public_api import lazy_names

if TYPE_CHECKING:
    from toolkit.archive.archive import Archive
    from toolkit.charts.matplotlib_style import style
    from toolkit.connection import Connection, connect
    from toolkit.dweets.widgets.history_explorer import HistoryExplorer
    from toolkit.dweets.widgets.live_dweets import LiveDweets
    from toolkit.handwriting.widgets.handwriting_explorer import HandwritingExplorer
    from toolkit.identity.widgets.identity_walkthrough import IdentityWalkthrough
    from toolkit.rewards.widgets.rewards_explorer import RewardsExplorer
    from toolkit.secret import Secret
    from toolkit_gateway import Gateway

_MODULE_OF_NAME = {
    "Archive": "toolkit.archive.archive",
    "Connection": "toolkit.connection",
    "Gateway": "toolkit_gateway",
    "HandwritingExplorer": "toolkit.handwriting.widgets.handwriting_explorer",
    "HistoryExplorer": "toolkit.dweets.widgets.history_explorer",
    "IdentityWalkthrough": "toolkit.identity.widgets.identity_walkthrough",
    "LiveDweets": "toolkit.dweets.widgets.live_dweets",
    "RewardsExplorer": "toolkit.rewards.widgets.rewards_explorer",
    "Secret": "toolkit.secret",
    "connect": "toolkit.connection",
    "style": "toolkit.charts.matplotlib_style",
}

__all__ = [
    "Archive", "Connection", "Gateway", "HandwritingExplorer", "HistoryExplorer", "IdentityWalkthrough", "LiveDweets",
    "RewardsExplorer", "Secret", "connect", "dweets", "errors", "handwriting", "identity", "rewards", "style",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF_NAME)
register_accessor()
