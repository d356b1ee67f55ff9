"""Where an explorer gets histories from: a connection, or a frame that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pandas as pd

from toolkit.dweets.calls import Key
from toolkit.dweets.client import DweetClient
from toolkit.errors import InvalidArgument

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

    def __init__(self, tk: Connected | None, frame: pd.DataFrame | None, key: Key) -> None:
        if (tk is None) == (frame is None):
            raise InvalidArgument("give a connection, or frame=..., but not both")
        self._dweets = None if tk is None else tk.dweets
        self._frame = pd.DataFrame() if frame is None else frame
        self._key = key

    @property
    def is_live(self) -> bool:
        """Whether reading again may bring something new."""
        return self._dweets is not None

    def names(self) -> list[str]:
        """Return the things there are; of a connection those that were active last, newest first."""
        if self._dweets is not None:
            return self._dweets.things()["thing"].head(_MOST_THINGS).tolist()
        return self._frame["thing"].dropna().unique().tolist() if "thing" in self._frame.columns else []

    def read(self, things: Sequence[str], day: str = "") -> pd.DataFrame:
        """Return the history of these things, of a day (UTC) or the last of it.

        Raises
        ------
        InvalidArgument
            No thing is named, and there is something to choose from.
        """
        if self._dweets is None:
            return self._frame[self._frame["thing"].isin(things)] if self.names() else self._frame
        if not things:
            raise InvalidArgument("choose at least one thing")
        named = things[0] if len(things) == 1 else things
        if day:
            return self._dweets.stored(named, day, key=self._key)
        return self._dweets.history(named, key=self._key)
