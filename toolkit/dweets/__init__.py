"""Thing messaging: dweets, streams, locks and alerts.

Read ``wire`` first (the protocol), then one of the folders: ``client`` (Python calls), ``analysis`` (of a history) or
``widgets``. The gateway also uses ``stream_format``, ``conditions`` and ``content``.

``import toolkit`` gives every DataFrame the accessor ``frame.dweets``, a `DweetAccessor`.
"""

from typing import TYPE_CHECKING

from toolkit.public_api import lazy_names

if TYPE_CHECKING:
    from toolkit.dweets.analysis.accessor import DweetAccessor

__all__ = ["DweetAccessor"]

__getattr__, __dir__ = lazy_names(__name__, {"DweetAccessor": "toolkit.dweets.analysis.accessor"})
