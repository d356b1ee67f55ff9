"""Check arguments before anything is sent or written: return the checked value, or raise InvalidArgument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolkit.dweets import wire
from toolkit.errors import InvalidArgument, MalformedRequest, counted
from toolkit.secret import Secret

Key = str | Secret | None

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.frames import TimeLike

#: Both ends of the range of all dweets.
ALL_TIME = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@contextmanager
def as_invalid_argument() -> Iterator[None]:
    """Raise InvalidArgument for what a gateway would refuse as a MalformedRequest."""
    try:
        yield
    except MalformedRequest as error:
        raise InvalidArgument(error.message) from None


def checked_name(thing: str) -> str:
    with as_invalid_argument():
        return wire.checked_thing(thing)


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
        raise InvalidArgument(f"date must be YYYY-MM-DD, a day that exists, not {str(date)[:40]}") from None


def checked_range(since: TimeLike | None, until: TimeLike | None) -> tuple[datetime, datetime]:
    """Return both ends in UTC, for None the earliest or the latest possible time; InvalidArgument for a wrong range."""
    start = ALL_TIME[0] if since is None else _iso_time(since)
    end = ALL_TIME[1] if until is None else _iso_time(until)
    if start and end and start <= end:
        return start, end
    from toolkit.frames import utc_range  # importing pandas takes a second, and ISO 8601 needs it for errors only

    return utc_range(since, until)


def _iso_time(moment: TimeLike) -> datetime | None:
    """Return the time of a text such as ``2026-01-31T09:30+01:00``; None for anything else."""
    if isinstance(moment, str) and moment[4:5] == moment[7:8] == "-" and moment[10:11] in ("", " ", "T"):
        with suppress(ValueError, OverflowError):  # no such day, or before the year 1
            time = datetime.fromisoformat(moment)
            return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return None


def joined_addresses(who: str | Iterable[str]) -> str:
    """Check e-mail addresses, and join them with commas."""
    addresses = who if isinstance(who, str) else ",".join(who)
    with as_invalid_argument():
        wire.checked_recipients(addresses)
    return addresses


def checked_count(n: int) -> int:
    """Return `n`, a number of dweets; InvalidArgument if it is below 1."""
    if n < 1:
        raise InvalidArgument(f"n must be at least 1, not {n}")
    return int(n)


def checked_times(times: pd.DatetimeIndex | None) -> pd.DatetimeIndex:
    if times is None:
        raise InvalidArgument(
            "a frame needs the time of each row: a DatetimeIndex, as pd.to_datetime makes, or a column that time= names"
        )
    if times.hasnans:
        raise InvalidArgument(
            f"{len(times) - len(times.dropna()):,} of {counted(len(times), 'row')} have no time: drop them"
        )
    if not times.is_monotonic_increasing:
        late = times[1:][times[1:] < times[:-1]]
        raise InvalidArgument(
            f"the times are not ascending: {counted(len(late), 'row')} after a later one, the first at {late[0]}; sort "
            "the frame by time, after frame.tz_localize('Europe/Berlin', ambiguous='infer') if clocks were set back"
        )
    return times
