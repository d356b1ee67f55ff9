"""Where an explorer gets histories from: a connection, an archive, or a frame that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from toolkit.dweets.client.calls import Key, checked_date
from toolkit.errors import InvalidArgument

if TYPE_CHECKING:
    from toolkit.connection import Connection
    from toolkit.dweets.archive.archive import Archive
    from toolkit.dweets.client.dweets import DweetClient

_MOST_THINGS = 100


class HistorySource:
    """Histories of things by name, of the connection or archive `tk` or of a `frame`; `key` is for locked things."""

    def __init__(self, tk: Connection | Archive | None, frame: pd.DataFrame | None, key: Key) -> None:
        from toolkit.dweets.archive.archive import Archive

        if (tk is None) == (frame is None):
            raise InvalidArgument("give a connection, or an archive, or frame=..., but not two of them")
        self._archive = tk if isinstance(tk, Archive) else None
        self._dweets: DweetClient | None = None if isinstance(tk, Archive) else getattr(tk, "dweets", None)
        self._frame = pd.DataFrame() if frame is None else frame
        self._key = key
        self.is_live = self._archive is not None or self._dweets is not None
        if frame is None and not self.is_live:
            raise InvalidArgument(f"give a connection, an archive, or frame=..., not {type(tk).__name__}")

    def names(self) -> list[str]:
        """Return the things there are; of a connection or an archive those that were active last, newest first."""
        if self._archive is not None:
            things = self._archive.things().sort_values(["last", "thing"], ascending=[False, True])
        elif self._dweets is not None:
            things = self._dweets.things()
        else:
            return self._frame["thing"].dropna().unique().tolist() if "thing" in self._frame.columns else []
        return things["thing"].head(_MOST_THINGS).tolist()

    def read(self, things: Sequence[str], day: str = "") -> pd.DataFrame:
        """Return the history of these things, of a day (UTC) or the last of it; of an archive all of it."""
        if not self.is_live:
            return self._frame[self._frame["thing"].isin(things)] if self.names() else self._frame
        if not things:
            raise InvalidArgument("choose at least one thing")
        named = things[0] if len(things) == 1 else things
        if self._archive is not None:
            since = pd.Timestamp(checked_date(day), tz="UTC") if day else None
            return self._archive.history(named, since, since and since + pd.Timedelta(days=1))
        assert self._dweets is not None
        if day:
            return self._dweets.stored(named, day, key=self._key)
        return self._dweets.history(named, key=self._key)
