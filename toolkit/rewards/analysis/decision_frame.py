"""Decisions and sessions as DataFrames: the columns that all analysis reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from toolkit.frames import declared_frame

_UTC = "datetime64[us, UTC]"

#: ``device`` is a label; ``p`` the chance that applied; ``shown_at`` and the like are missing where it never
#: happened; ``trace`` holds one line a rule, and is missing where it was not asked for.
DECISION_COLUMNS = {
    "decision_id": "str",
    "at": _UTC,
    "app_key_sha256": "str",
    "device": "str",
    "session_id": "str",
    "moment_id": "str",
    "test": "bool",
    "rewarded": "bool",
    "reason": "str",
    "arm": "str",
    "p": "float64",
    "reward_id": "str",
    "view_id": "str",
    "shown_at": _UTC,
    "claimed_at": _UTC,
    "dismissed_at": _UTC,
    "trace": "object",
}
SESSION_COLUMNS = {"session_id": "str", "at": _UTC, "app_key_sha256": "str", "device": "str", "test": "bool"}

_TIMES = {"at": "at", "shown_at": "shown", "claimed_at": "claimed", "dismissed_at": "dismissed"}


def decision_frame(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return decisions as a frame of `DECISION_COLUMNS`, in their order.

    Parameters
    ----------
    records
        As the ledger writes them, times in milliseconds since the epoch.
    """
    return _frame(list(records), DECISION_COLUMNS)


def session_frame(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return sessions as a frame of `SESSION_COLUMNS`, in their order."""
    return _frame(list(records), SESSION_COLUMNS)


def _frame(records: list[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    frame = declared_frame(records, {name: dtype for name, dtype in columns.items() if name not in _TIMES})
    for place, name in enumerate(columns):
        if name in _TIMES:
            values = pd.array([record.get(_TIMES[name]) for record in records], dtype="Int64")
            frame.insert(place, name, pd.to_datetime(values, unit="ms", utc=True).as_unit("us"))
    return frame
