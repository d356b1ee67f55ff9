"""The listing as a DataFrame, and the handwriting that somebody means by a name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, TypeAlias

import pandas as pd

from toolkit.errors import InvalidArgument
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


def listing_frame(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return records as a frame with the index ``id``; times in UTC, ratings may be missing."""
    dates = {
        name: utc_from_iso([str(record[name]) for record in records]) for name in ("date_created", "date_modified")
    }
    rows = [
        {**record, **{name: times[row] for name, times in dates.items()}} for row, record in enumerate(records)
    ]  # fmt: skip
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


class NameBook:
    """Ids and titles of all handwritings.

    Parameters
    ----------
    titles
        Title by id.

    Examples
    --------
    >>> NameBook({"2D5QW0F80001": "Molly"}).id_of("molly")
    '2D5QW0F80001'
    """

    def __init__(self, titles: dict[str, str]) -> None:
        self._titles = titles
        self._ids = {title.casefold(): handwriting_id for handwriting_id, title in titles.items()}

    def id_of(self, name: str) -> str:
        """Return the id of the handwriting with this id or title (any case).

        Raises
        ------
        InvalidArgument
            There is none; the message names the nearest titles.
        """
        if name in self._titles:
            return name
        if not isinstance(name, str):
            raise InvalidArgument(f"a handwriting is named by its id or title, not by a {type(name).__name__}")
        if name.casefold() in self._ids:
            return self._ids[name.casefold()]
        near = difflib.get_close_matches(name.casefold(), self._ids, n=3, cutoff=0.5)
        hint = ", ".join(self._titles[self._ids[title]] for title in near)
        advice = f"the nearest titles are {hint}" if hint else "see available()"
        raise InvalidArgument(f"there is no handwriting {name!r}: {advice}")

    def title_of(self, handwriting_id: str) -> str:
        """Return the title."""
        return self._titles[handwriting_id]
