"""Section A, thing messaging: dweets, streams, locks and alerts.

Read ``wire`` first (what travels), then the folder of a side: ``service`` (the rules, in the gateway), ``client`` (what
one types), ``widgets`` (what one clicks), ``archive`` (years of history). Beside them lies what both sides need:
``stream`` has the two forms of a live stream, ``conditions`` evaluates JavaScript in a child process, which
``condition_engine`` is; ``content_leaves`` names the values of nested contents, ``content_frame`` and
``content_json`` make frames of contents and contents of frames.

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
