"""Thing messaging: dweets, streams, locks and alerts.

Read ``wire`` first (the protocol), then one of the folders: ``service`` (the gateway), ``client`` (Python calls),
``analysis`` (of a history), ``widgets`` or ``archive`` (years of history). Gateway and client both use
``stream_format``, ``conditions`` and the ``content`` modules.

The analysis of a history needs no connection: ``toolkit.dweets.gaps(frame)``, or ``frame.dweets.gaps()``.
"""

from typing import TYPE_CHECKING

from toolkit.public_names import lazy_names

if TYPE_CHECKING:
    from toolkit.dweets.analysis.gaps import gaps
    from toolkit.dweets.analysis.series import on_time_axis, outliers, rate, resample, statistics

__all__ = ["gaps", "on_time_axis", "outliers", "rate", "resample", "statistics"]

_MODULE_OF_NAME = dict.fromkeys(__all__, "toolkit.dweets.analysis.series") | {"gaps": "toolkit.dweets.analysis.gaps"}
__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF_NAME)
