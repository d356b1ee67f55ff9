"""Dweets as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from toolkit.dweets.content_columns import typed_columns
from toolkit.errors import UnexpectedReply
from toolkit.frames import declared_frame, utc_from_iso


def history_frame(records: Sequence[Mapping[str, Any]], *, with_thing: bool = False) -> pd.DataFrame:
    """Return records (oldest first) as a frame: index ``created``, a typed column for each name of the contents."""
    columns = typed_columns([record["content"] for record in records])
    if with_thing:
        if "thing" in columns:  # the content has a name of its own for it
            columns["content.thing"] = columns.pop("thing")
        columns = {"thing": pd.array([record["thing"] for record in records], dtype="str"), **columns}
    return pd.DataFrame(columns, index=_times(records), copy=False)


def receipt_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return what posting answered, one row a dweet: index ``created``, ``thing``, ``transaction``."""
    frame = declared_frame(records, {"thing": "str", "transaction": "str"})
    return frame.set_index(_times(records))


def _times(records: Sequence[Mapping[str, Any]]) -> pd.DatetimeIndex:
    try:
        return utc_from_iso([record["created"] for record in records]).rename("created")
    except ValueError:
        raise UnexpectedReply("the answer holds a time that is not ISO 8601 in UTC") from None
