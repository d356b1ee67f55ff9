"""Checks of a caller's arguments, before anything is sent or written."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from toolkit.dweets import wire
from toolkit.errors import InvalidArgument, MalformedRequest

if TYPE_CHECKING:
    import pandas as pd


def checked_name(thing: str) -> str:
    try:
        return wire.checked_thing(thing)
    except MalformedRequest as error:
        raise InvalidArgument(error.message) from None


def checked_date(date: str) -> str:
    try:
        return datetime.strptime(date, "%Y-%m-%d").strftime("%Y-%m-%d").rjust(10, "0")
    except (TypeError, ValueError):
        raise InvalidArgument("date must be YYYY-MM-DD, a day that exists") from None


def checked_times(frame: pd.DataFrame) -> pd.DatetimeIndex:
    import pandas as pd  # takes a second, and most callers only check names

    index = frame.index
    if not isinstance(index, pd.DatetimeIndex) or not index.is_monotonic_increasing or index.hasnans:
        raise InvalidArgument("a frame needs a DatetimeIndex in ascending order: try frame.set_index(...).sort_index()")
    return index
