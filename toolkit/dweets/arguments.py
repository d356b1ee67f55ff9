"""Arguments that a caller types, checked before anything is sent or written."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from toolkit.dweets import wire
from toolkit.errors import InvalidArgument, MalformedRequest

if TYPE_CHECKING:
    import pandas as pd


def checked_name(thing: str) -> str:
    """Return the name of a thing, or raise InvalidArgument where it cannot be one."""
    try:
        return wire.checked_thing(thing)
    except MalformedRequest as error:
        raise InvalidArgument(error.message) from None


def checked_date(date: str) -> str:
    """Return a day as ``YYYY-MM-DD``, or raise InvalidArgument where there is no such day."""
    try:
        return datetime.strptime(date, "%Y-%m-%d").strftime("%Y-%m-%d").rjust(10, "0")
    except (TypeError, ValueError):
        raise InvalidArgument("date must be YYYY-MM-DD, a day that exists") from None


def checked_times(frame: pd.DataFrame) -> pd.DatetimeIndex:
    """Return the index of a frame if it holds ascending times, or raise InvalidArgument."""
    import pandas as pd  # takes a second, and most callers check names only

    index = frame.index
    if not isinstance(index, pd.DatetimeIndex) or not index.is_monotonic_increasing or index.hasnans:
        raise InvalidArgument("a frame needs a DatetimeIndex in ascending order: try frame.set_index(...).sort_index()")
    return index
