"""Dweets as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from toolkit.dweets.client.content_columns import typed_columns
from toolkit.errors import UnexpectedReply
from toolkit.frames import declared_frame, utc_from_iso


def history_frame(records: Sequence[Mapping[str, Any]], *, with_thing: bool = False) -> pd.DataFrame:
    """Return records (oldest first) as a frame: index ``created``, a typed column for each name of the contents."""
    things = [record["thing"] for record in records] if with_thing else None
    return content_frame([record["content"] for record in records], _times(records), things)


def content_frame(contents: Sequence[Any], times: pd.DatetimeIndex, things: Sequence[str] | None) -> pd.DataFrame:
    """Return contents as a frame with these times as its index, and a column ``thing`` where things are given."""
    columns = typed_columns(contents)
    if things is not None:
        if "thing" in columns:  # the content has a name of its own for it
            columns["content.thing"] = columns.pop("thing")
        columns = {"thing": pd.array(things, dtype="str"), **columns}
    return pd.DataFrame(columns, index=times, copy=False)


def receipt_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return what posting answered, one row a dweet: index ``created``, ``thing``, ``transaction``."""
    frame = declared_frame(records, {"thing": "str", "transaction": "str"})
    return frame.set_index(_times(records))


def _times(records: Sequence[Mapping[str, Any]]) -> pd.DatetimeIndex:
    try:
        return utc_from_iso([record["created"] for record in records]).rename("created")
    except ValueError:
        raise UnexpectedReply("the answer holds a time that is not ISO 8601 in UTC") from None
