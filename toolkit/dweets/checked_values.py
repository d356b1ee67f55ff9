"""Check arguments before anything is sent or written: return the checked value, or raise InvalidArgument."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from toolkit.dweets import wire
from toolkit.errors import InvalidArgument, MalformedRequest
from toolkit.secret import Secret

Key = str | Secret | None
#: The answer to `toolkit record` and ``tk.dweets.record``.
NO_RECORDER = (
    "nothing records single things any more: start the gateway with `toolkit gateway --archive FOLDER` or "
    "Gateway(archive=FOLDER), which archives every thing"
)

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.frames import TimeLike


def checked_name(thing: str) -> str:
    try:
        return wire.checked_thing(thing)
    except MalformedRequest as error:
        raise InvalidArgument(error.message) from None


def checked_names(things: str | Iterable[str]) -> list[str]:
    """Return the names as a list without duplicates; a text is one name."""
    names = [things] if isinstance(things, str) else list(things)
    if not all(isinstance(name, str) for name in names):  # a generator, whose items nothing else has checked
        raise InvalidArgument("things is a str or a list of str")
    return [checked_name(name) for name in dict.fromkeys(names)]


def checked_date(date: TimeLike) -> str:
    """Return a day as ``YYYY-MM-DD``; InvalidArgument if there is no such day."""
    if not isinstance(date, str):
        from toolkit.frames import utc_timestamp  # importing pandas takes a second, and posting needs no frame

        date = utc_timestamp(date, "date")
    try:
        return (datetime.strptime(date, "%Y-%m-%d") if isinstance(date, str) else date).date().isoformat()
    except (ValueError, NotImplementedError):  # pandas has times beyond the years 1 to 9999, but no dates
        raise InvalidArgument("date must be YYYY-MM-DD, a day that exists") from None


def joined_addresses(who: str | Iterable[str]) -> str:
    """Check e-mail addresses, and join them with commas."""
    addresses = who if isinstance(who, str) else ",".join(who)
    try:
        wire.checked_recipients(addresses)
    except MalformedRequest as error:
        raise InvalidArgument(error.message) from None
    return addresses


def checked_count(n: int) -> int:
    """Return `n`, a number of dweets; InvalidArgument if it is below 1."""
    if n < 1:
        raise InvalidArgument(f"n must be at least 1, not {n}")
    return int(n)


def checked_times(frame: pd.DataFrame) -> pd.DatetimeIndex:
    import pandas as pd  # takes a second, and most callers only check names

    index = frame.index
    if not isinstance(index, pd.DatetimeIndex) or not index.is_monotonic_increasing or index.hasnans:
        raise InvalidArgument("a frame needs a DatetimeIndex in ascending order: try pd.to_datetime and sort_index")
    return index
