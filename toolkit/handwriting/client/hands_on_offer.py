"""The listing as a DataFrame, and the handwriting that somebody means by a name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Literal, NotRequired, TypeAlias, TypedDict, TypeVar

import msgspec
import pandas as pd

from toolkit.errors import InvalidArgument, UnexpectedReply
from toolkit.frames import declared_frame, utc_from_iso
from toolkit.handwriting import wire

#: Smallest and largest rating, either of them None for no bound.
Bounds: TypeAlias = tuple[float | None, float | None]

_DATES: tuple[Literal["date_created", "date_modified"], ...] = ("date_created", "date_modified")
COLUMNS = {
    "id": "str",
    "title": "str",
    "date_created": "datetime64[us, UTC]",
    "date_modified": "datetime64[us, UTC]",
    **dict.fromkeys(wire.RATINGS, "Int64"),
}


class Record(TypedDict):
    """One handwriting as a server lists it; the specification has no ratings."""

    id: str
    title: str
    date_created: str
    date_modified: str
    rating_neatness: NotRequired[int | None]
    rating_cursivity: NotRequired[int | None]
    rating_embellishment: NotRequired[int | None]
    rating_character_width: NotRequired[int | None]


Shape = TypeVar("Shape")


def records_of(body: bytes, shape: type[Shape]) -> Shape:
    """Return what a body says, such as ``list[Record]``, or raise UnexpectedReply."""
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.ValidationError as error:
        raise UnexpectedReply(f"this is no listing of handwritings: {error}") from None
    except (ValueError, RecursionError):
        raise UnexpectedReply("the answer is not JSON") from None


def listing_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return records as a frame with the index ``id``; times in UTC, ratings may be missing."""
    dates = {name: utc_from_iso([record[name] for record in records]) for name in _DATES}
    rows = [{**record, **{name: times[row] for name, times in dates.items()}} for row, record in enumerate(records)]
    return declared_frame(rows, COLUMNS, index="id")


def sorted_by_rating(frame: pd.DataFrame, rating: str, *, ascending: bool) -> pd.DataFrame:
    """Return the rows in the order of a rating, equal ones by title."""
    titled = frame.iloc[frame["title"].str.casefold().argsort(kind="stable")]
    return titled.sort_values(rating, ascending=ascending, kind="stable")


def rated_within(frame: pd.DataFrame, bounds: dict[str, Bounds | None]) -> pd.DataFrame:
    """Keep the rows whose ratings lie within all bounds, both ends included."""
    for rating, limits in bounds.items():
        if limits is None:
            continue
        least, most = limits
        if least is not None:
            frame = frame[frame[rating] >= least]
        if most is not None:
            frame = frame[frame[rating] <= most]
    return frame


def id_of(name: str, titles: dict[str, str]) -> str:
    """Return the id of the handwriting with this id or title (any case); `titles` has all titles by id."""
    if name in titles:
        return name
    ids = {title.casefold(): handwriting_id for handwriting_id, title in titles.items()}
    if name.casefold() in ids:
        return ids[name.casefold()]
    near = difflib.get_close_matches(name.casefold(), ids, n=3, cutoff=0.5)
    hint = ", ".join(titles[ids[title]] for title in near)
    advice = f"the nearest titles are {hint}" if hint else "see available()"
    raise InvalidArgument(f"there is no handwriting {name!r}: {advice}")
