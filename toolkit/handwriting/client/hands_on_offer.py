"""The listing as a DataFrame, and the handwriting that somebody means by a name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
import pandas as pd

from toolkit.errors import InvalidArgument, UnexpectedReply
from toolkit.frames import declared_frame, utc_from_iso
from toolkit.handwriting import wire

#: Smallest and largest rating, either of them None for no bound.
Bounds: TypeAlias = tuple[float | None, float | None]

COLUMNS = {
    "id": "str",
    "title": "str",
    "date_created": "datetime64[us, UTC]",
    "date_modified": "datetime64[us, UTC]",
    **dict.fromkeys(wire.RATINGS, "Int64"),
}


def json_of(body: bytes) -> Any:  # noqa: ANN401
    """Return what a body says, or raise UnexpectedReply."""
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise UnexpectedReply("the answer is not JSON") from None


def records_of(body: bytes) -> list[dict[str, Any]]:
    """Return the records of one page of the listing."""
    listed = json_of(body)
    if not isinstance(listed, list):
        raise UnexpectedReply("the listing of handwritings is not an array")
    return [checked(record) for record in listed]


def checked(record: object) -> dict[str, Any]:
    """Return a record that has the fields of the specification, or raise UnexpectedReply."""
    if not isinstance(record, dict) or not all(name in record for name in wire.RECORD_FIELDS[:4]):
        raise UnexpectedReply(f"a handwriting without {', '.join(wire.RECORD_FIELDS[:4])}")
    return record


def listing_frame(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return records as a frame with the index ``id``; times in UTC, ratings may be missing."""
    dates = {
        name: utc_from_iso([str(record[name]) for record in records]) for name in ("date_created", "date_modified")
    }
    rows = [{**record, **{name: times[row] for name, times in dates.items()}} for row, record in enumerate(records)]
    return declared_frame(rows, COLUMNS, index="id")


def rated_within(frame: pd.DataFrame, bounds: dict[str, Bounds | None]) -> pd.DataFrame:
    """Keep the rows whose ratings lie within all bounds, both ends included."""
    for rating, limits in bounds.items():
        if limits is None:
            continue
        try:
            least, most = limits
        except (TypeError, ValueError):
            raise InvalidArgument(f"{rating} is a pair such as (1500, None)") from None
        if least is not None:
            frame = frame[frame[rating] >= least]
        if most is not None:
            frame = frame[frame[rating] <= most]
    return frame


def id_of(name: str, titles: dict[str, str]) -> str:
    """Return the id of the handwriting with this id or title (any case); `titles` has all titles by id.

    Raises
    ------
    InvalidArgument
        There is none; the message names the nearest titles.

    Examples
    --------
    >>> id_of("molly", {"2D5QW0F80001": "Molly"})
    '2D5QW0F80001'
    """
    if name in titles:
        return name
    if not isinstance(name, str):
        raise InvalidArgument(f"a handwriting is named by its id or title, not by a {type(name).__name__}")
    ids = {title.casefold(): handwriting_id for handwriting_id, title in titles.items()}
    if name.casefold() in ids:
        return ids[name.casefold()]
    near = difflib.get_close_matches(name.casefold(), ids, n=3, cutoff=0.5)
    hint = ", ".join(titles[ids[title]] for title in near)
    advice = f"the nearest titles are {hint}" if hint else "see available()"
    raise InvalidArgument(f"there is no handwriting {name!r}: {advice}")
