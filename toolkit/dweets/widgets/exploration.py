"""What an explorer shows of a history: its source, a view (all choices) and what it finds, without any widget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from toolkit.dweets import wire
from toolkit.dweets.arguments import Key, checked_date
from toolkit.dweets.client import series_analysis
from toolkit.dweets.client.series_analysis import Aggregation, chosen_fields, put_on_time_axis
from toolkit.dweets.client.series_figure import Marks
from toolkit.dweets.client.series_gaps import gaps_found
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
            return self._archive.history(named, since=since, until=since and since + pd.Timedelta(days=1))
        assert self._dweets is not None
        if day:
            return self._dweets.stored(named, day, key=self._key)
        return self._dweets.history(named, n=wire.HISTORY_LENGTH, key=self._key)


@dataclass(frozen=True)
class View:
    """All choices of an explorer; `start` and `end` are times as pandas reads them, `rule` is empty for no resampling.

    ``"2013"`` to ``"2013-06"`` ends with June; empty for no limit. A `gap_factor` or `threshold` of None looks for no
    gaps or outliers.
    """

    time: str
    fields: tuple[str, ...]
    start: str = ""
    end: str = ""
    rule: str = ""
    how: Aggregation = "mean"
    gap_factor: float | None = 1.5
    threshold: float | None = 5.0


class Findings(NamedTuple):
    """What a view finds: the frame that is drawn with its statistics and outliers, what was measured and its gaps."""

    frame: pd.DataFrame
    statistics: pd.DataFrame
    gaps: pd.DataFrame
    outliers: pd.DataFrame
    measured: pd.DataFrame
    without_time: int = 0

    @property
    def marks(self) -> Marks:
        """What a chart points out."""
        return Marks(self.gaps, self.outliers)


def explore(history: pd.DataFrame, view: View) -> Findings:
    """Apply a view to a history; InvalidArgument if a choice does not fit it."""
    timed = put_on_time_axis(history, view.time)
    fields = chosen_fields(timed, view.fields)
    chosen = timed[[*(["thing"] if "thing" in timed.columns else []), *fields]]
    measured = _between(chosen, view.start, view.end).dropna(how="all", subset=fields)
    frame = series_analysis.resample(measured, view.rule, view.how) if view.rule else measured
    gaps = gaps_found(measured, view.gap_factor or 1.5)
    outliers = series_analysis.outliers(frame, fields, threshold=view.threshold or 5.0)
    return Findings(
        frame,
        series_analysis.statistics(frame, fields),
        gaps if view.gap_factor else gaps.iloc[:0],
        outliers if view.threshold else outliers.iloc[:0],
        measured,
        len(history) - len(timed),
    )


def _between(frame: pd.DataFrame, start: str, end: str) -> pd.DataFrame:
    try:
        return frame.loc[start.strip() or None : end.strip() or None]
    except (ValueError, TypeError, KeyError, OverflowError):
        raise InvalidArgument("cannot read these times: write 2013, 2013-07 or 2013-07-04 12:00") from None
