"""Where an explorer gets histories from: a connection, an archive, or a frame that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import pandas as pd

from toolkit.dweets.client.calls import Key, checked_date
from toolkit.dweets.client.dweets import DweetClient
from toolkit.errors import InvalidArgument

if TYPE_CHECKING:
    from toolkit.dweets.archive.archive import Archive

_MOST_THINGS = 100


class Connected(Protocol):
    """What has a client of thing messaging: a `toolkit.Connection`."""

    @property
    def dweets(self) -> DweetClient:
        """Thing messaging."""
        ...


class HistorySource:
    """Histories of things by name.

    Parameters
    ----------
    tk, frame
        One of both.
    key
        For locked things of the connection.

    Raises
    ------
    InvalidArgument
        Both are given, or none.
    """

    def __init__(self, tk: Connected | Archive | None, frame: pd.DataFrame | None, key: Key) -> None:
        if (tk is None) == (frame is None):
            raise InvalidArgument("give a connection, or an archive, or frame=..., but not two of them")
        self._dweets: DweetClient | None = getattr(tk, "dweets", None)
        self._archive: Archive | None = None if tk is None or self._dweets is not None else _archive_of(tk)
        self._frame = pd.DataFrame() if frame is None else frame
        self._key = key

    @property
    def is_live(self) -> bool:
        """Whether reading again may bring something new."""
        return self._dweets is not None or self._archive is not None

    def names(self) -> list[str]:
        """Return the things there are; of a connection or an archive those that were active last, newest first."""
        if self._archive is not None:
            things = self._archive.things().sort_values(["last", "thing"], ascending=[False, True])
            return things["thing"].head(_MOST_THINGS).tolist()
        if self._dweets is not None:
            return self._dweets.things()["thing"].head(_MOST_THINGS).tolist()
        return self._frame["thing"].dropna().unique().tolist() if "thing" in self._frame.columns else []

    def read(self, things: Sequence[str], day: str = "") -> pd.DataFrame:
        """Return the history of these things, of a day (UTC) or the last of it; of an archive all of it.

        Raises
        ------
        InvalidArgument
            No thing is named, and there is something to choose from.
        """
        if self._dweets is None and self._archive is None:
            return self._frame[self._frame["thing"].isin(things)] if self.names() else self._frame
        if not things:
            raise InvalidArgument("choose at least one thing")
        named = things[0] if len(things) == 1 else things
        if self._archive is not None:
            since = pd.Timestamp(checked_date(day), tz="UTC") if day else None
            return self._archive.history(named, since, since and since + pd.Timedelta(days=1))
        if self._dweets is None:
            raise InvalidArgument("the frame has no column thing to choose by")
        if day:
            return self._dweets.stored(named, day, key=self._key)
        return self._dweets.history(named, key=self._key)


def _archive_of(given: object) -> Archive:
    from toolkit.dweets.archive.archive import Archive

    if not isinstance(given, Archive):
        raise InvalidArgument(f"give a connection, an archive, or frame=..., not {type(given).__name__}")
    return given
