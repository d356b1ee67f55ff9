"""Section A, thing messaging: dweets, streams, locks and alerts.

Read ``wire`` first (the protocol), then one side: ``service`` (the gateway), ``client`` (Python calls), ``widgets`` or
``archive`` (years of history). Both sides use ``stream``, ``conditions`` and the ``content`` modules.

The analysis of a history needs no connection: ``toolkit.dweets.gaps(frame)``, or ``frame.dweets.gaps()``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.public_names import lazy_names

if TYPE_CHECKING:
    from toolkit.dweets.client.series_analysis import on_time_axis, outliers, rate, resample, statistics
    from toolkit.dweets.client.series_gaps import gaps

__all__ = ["gaps", "on_time_axis", "outliers", "rate", "resample", "statistics"]

_CLIENT = "toolkit.dweets.client"
_FILES = dict.fromkeys(__all__, f"{_CLIENT}.series_analysis") | {"gaps": f"{_CLIENT}.series_gaps"}
__getattr__, __dir__ = lazy_names(__name__, _FILES)
