"""Decisions and sessions as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from toolkit.frames import declared_frame

_UTC_DTYPE = "datetime64[us, UTC]"

#: ``device`` is a label, ``p`` the probability of a reward; ``shown_at``, ``claimed_at`` and ``dismissed_at`` are
#: missing if the event did not happen; ``trace`` has one line per rule, or is missing.
DECISION_COLUMNS = {
    "decision_id": "str", "at": _UTC_DTYPE, "app_key_sha256": "str", "device": "str", "session_id": "str",
    "moment_id": "str", "test": "bool", "rewarded": "bool", "reason": "str", "arm": "str", "p": "float64",
    "reward_id": "str", "view_id": "str", "shown_at": _UTC_DTYPE, "claimed_at": _UTC_DTYPE,
    "dismissed_at": _UTC_DTYPE, "trace": "object",
}  # fmt: skip
SESSION_COLUMNS = {"session_id": "str", "at": _UTC_DTYPE, "app_key_sha256": "str", "device": "str", "test": "bool"}


def decision_frame(records: Iterable[Mapping[str, Any]], columns: Mapping[str, str] = DECISION_COLUMNS) -> pd.DataFrame:
    """Convert stored decisions (or sessions, with `SESSION_COLUMNS`) to a frame, and milliseconds in them to times."""
    rows = list(records)
    frame = declared_frame(rows, {name: dtype for name, dtype in columns.items() if dtype != _UTC_DTYPE})
    for place, (name, dtype) in enumerate(columns.items()):
        if dtype == _UTC_DTYPE:
            values = pd.array([row.get(name.removesuffix("_at")) for row in rows], dtype="Int64")
            frame.insert(place, name, pd.to_datetime(values, unit="ms", utc=True).as_unit("us"))
    return frame
