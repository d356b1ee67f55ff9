"""What the history explorer needs besides widgets: source of the history, view (all choices), findings (results)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import pandas as pd

from toolkit.argument_checks import described
from toolkit.charts.columns import NUMBERS, ChosenColumns, chosen_columns, drawable_columns
from toolkit.charts.series import ChartMarks, Unit
from toolkit.dweets import wire
from toolkit.dweets.analysis import series
from toolkit.dweets.analysis.gaps import find_gaps
from toolkit.dweets.analysis.numeric import unread_numbers
from toolkit.dweets.analysis.outliers import find_outliers, threshold_for
from toolkit.dweets.analysis.series import Aggregation
from toolkit.dweets.analysis.shifts import shifts as find_shifts
from toolkit.dweets.analysis.time_axis import backfilled_text, put_on_time_axis, time_columns
from toolkit.dweets.checked_values import Key, checked_date
from toolkit.dweets.content_leaves import CREATED
from toolkit.errors import InvalidArgument, counted
from toolkit.system.nearest_name import missing_names
from toolkit.widgets.base import is_connection

if TYPE_CHECKING:
    from toolkit.widgets.base import ServiceConnection

T = TypeVar("T")
_MOST_THINGS = 100
#: Intervals for resampling, in the notation of pandas, by their label in the list.
RULES = {
    "as it came": "",
    "1 minute": "1min",
    "10 minutes": "10min",
    "1 hour": "1h",
    "1 day": "1D",
    "1 week": "1W",
    "1 month": "1MS",
    "1 year": "1YS",
}
#: A range that contains all times of any history.
_ALL_TIMES = pd.Timestamp(1, 1, 1), pd.Timestamp(9999, 12, 31, 23, 59, 59, 999_999)


class ArchiveReader(Protocol):
    """What the explorer needs of a `toolkit.Archive`, which imports this package."""

    def things(self) -> pd.DataFrame:
        """Return one row per thing, with the columns ``thing``, ``last`` and ``dweets``."""

    def history(self, things: str | Sequence[str], *, since: str, until: str) -> pd.DataFrame:
        """Return the dweets of things between two days."""

    def sql(self, query: str) -> pd.DataFrame:
        """Answer a query; only an archive has this method."""


class HistorySource:
    """Reads histories of things from a connection, an archive or a frame; `key` is for locked things.

    Without a day, the last 500 dweets of a connection are those by the field `time`, if one is given.
    """

    def __init__(
        self, source: ServiceConnection | ArchiveReader | pd.DataFrame, key: Key, time: str | None = None
    ) -> None:
        self._frame = source if isinstance(source, pd.DataFrame) else pd.DataFrame()
        # `tk.dweets` has things() and history() too, but no sql().
        self.is_live, self._is_archive = not isinstance(source, pd.DataFrame), hasattr(type(source), "sql")
        if self.is_live and not (self._is_archive or is_connection(source)):
            raise InvalidArgument(f"give a connection, an archive or a frame, not {described(source)}")
        self._client: Any = source if self._is_archive else getattr(source, "dweets", None)
        self._key = {} if self._is_archive else {"key": key}
        self._time = {} if time in (None, CREATED) else {"time": time}

    def names(self) -> list[str]:
        """Return the names of things; from a connection or an archive, those that were active last, newest first."""
        if not self.is_live:
            names = self._frame["thing"].dropna().unique().tolist() if "thing" in self._frame.columns else []
            if not all(isinstance(name, str) for name in names):
                raise InvalidArgument("name every thing with text: frame.astype({'thing': 'str'})")
            return names
        things = self._client.things()
        if self._is_archive:
            things = things.sort_values(["last", "thing"], ascending=[False, True])
        return list(things["thing"].head(_MOST_THINGS))

    def row_count(self, things: Sequence[str], day: str = "") -> int:
        """Return how many rows `read` would return; 0 if this is not known before reading."""
        if not self._is_archive or day:
            return 0
        archived_things = self._client.things()
        return int(archived_things.loc[archived_things["thing"].isin(things), "dweets"].sum())

    def read(self, things: Sequence[str], day: str = "") -> pd.DataFrame:
        """Return the history of these things: of a day (UTC), or else the last 500 dweets (of an archive, all)."""
        if not things and (self.is_live or self.names()):
            advice = "; Reload lists new ones" if self.is_live else ""
            raise InvalidArgument(f"choose at least one thing{advice}")
        if not self.is_live:
            return self._frame[self._frame["thing"].isin(things)] if things else self._frame
        named, options = self._arguments(things, day)
        history: pd.DataFrame = self._client.history(named, **options, **self._key)
        return history

    def code(self, things: Sequence[str], day: str = "") -> str:
        """Return the Python code of `read`, with the variable ``tk``, ``archive`` or ``frame`` of a notebook."""
        if not self.is_live:
            return f"frame[frame['thing'].isin({list(things)})]" if things else "frame"
        named, options = self._arguments(things, day)
        arguments = "".join(f", {option}={value!r}" for option, value in options.items())
        return f"{'archive' if self._is_archive else 'tk.dweets'}.history({named!r}{arguments})"

    def _arguments(self, things: Sequence[str], day: str) -> tuple[str | list[str], dict[str, Any]]:
        """Return the arguments of the history that `read` reads, except a key."""
        named = things[0] if len(things) == 1 else list(things)
        if not day:
            return named, {} if self._is_archive else {"n": wire.HISTORY_LENGTH, **self._time}
        until = f"{pd.Timestamp(checked_date(day)) + pd.Timedelta(days=1):%Y-%m-%d}"
        return named, {"since": day, "until": until}


@dataclass(frozen=True)
class View:
    """All choices of an explorer; `start` and `end` are times in a format of pandas, an empty `rule` is no resampling.

    ``"2013"`` to ``"2013-06"`` includes June; an empty time is no limit. An infinite `gap_factor` or
    `threshold` finds no gaps or outliers; a threshold of None counts how many values were looked at.
    """

    time: str
    fields: tuple[str, ...]
    start: str = ""
    end: str = ""
    rule: str = ""
    how: Aggregation = "mean"
    gap_factor: float = 1.5
    threshold: float | None = None
    shifts: bool = False
    #: The zone of the time axis, and of `start` and `end`; None leaves times as they are.
    tz: str | None = None

    def range_in(self, times: pd.Index[Any]) -> tuple[pd.Timestamp, pd.Timestamp]:
        """Return the first and the last time of the range, in the zone of these times."""
        zone = times.tz if isinstance(times, pd.DatetimeIndex) else None
        # In UTC, because in most other zones the first or the last of these times would be outside of the calendar.
        first, last = (time.tz_localize(zone and "UTC") for time in _ALL_TIMES)
        try:
            if self.start.strip():
                first = pd.Period(self.start.strip()).start_time.tz_localize(zone)
            if self.end.strip():
                last = pd.Period(self.end.strip()).end_time.tz_localize(zone)
        except (ValueError, TypeError, KeyError, OverflowError, AttributeError):  # pandas reads "nan" as NaT
            raise InvalidArgument("cannot read these times: write 2013, 2013-07 or 2013-07-04 12:00") from None
        if first > last:
            raise InvalidArgument(f"the range ends before it begins: From {self.start} To {self.end}")
        return first, last


class Findings(NamedTuple):
    """The results of a view of a history in its range; `whole` (a frame) and `marks` cover all times, for the chart."""

    frame: pd.DataFrame
    statistics: pd.DataFrame
    gaps: pd.DataFrame
    outliers: pd.DataFrame
    shifts: pd.DataFrame
    history: pd.DataFrame
    view: View
    whole: pd.DataFrame
    marks: ChartMarks
    range: tuple[pd.Timestamp, pd.Timestamp]
    without_time: int
    #: Which values of the chosen fields were left out, or are doubtful; empty if there are none.
    notes: str
    #: The threshold of outliers.
    threshold: float

    @property
    def drawn_fields(self) -> list[str]:
        """The chosen fields; after resampling only numbers, because truth values and texts have no mean."""
        return [name for name in self.view.fields if name in self.whole.columns]

    @property
    def zoom(self) -> tuple[pd.Timestamp, pd.Timestamp] | None:
        """The range to zoom a chart to; None if it covers the whole history or does not overlap it."""
        if self.whole.empty:
            return None
        (start, end), first, last = self.range, self.whole.index.min(), self.whole.index.max()
        ends = max(start, first), min(end, last)
        return ends if ends[0] < ends[1] and ends != (first, last) else None

    def code(self, source: str, unit: Unit) -> str:
        """Return the Python code that computes and draws the frame; `source` is code for the history."""
        view = self.view
        sort = ".sort_index(kind='stable')" if "thing" in self.whole.columns else ""
        cut = f"{sort}.loc[{view.start or None!r}:{view.end or None!r}]" if view.start or view.end else ""
        zone = f", tz={view.tz!r}" if view.tz else ""
        units = f", unit={dict(unit) if isinstance(unit, Mapping) else unit!r}" if unit else ""
        marks = "" if math.isfinite(view.gap_factor) or view.threshold != math.inf else ", mark=False"
        resampled = f".dweets.resample({view.rule!r}, {view.how!r}, {self.drawn_fields})" if view.rule else ""
        return (
            f"history = {source}\n"
            f"shown = history.dweets.on({view.time!r}{zone}){resampled}{cut}\n"
            f"shown.dweets.chart({self.drawn_fields}{units}{marks})"
        )

    def sentence(self, things: Sequence[str], day: str) -> str:
        """Return one sentence about the rows in the range, gaps and outliers; or why there are no rows."""
        if self.frame.empty:
            return _reason_for_no_rows(self, things, day)
        results = f"{counted(len(self.gaps), 'gap')}, {counted(len(self.outliers), 'outlier')}"
        if self.view.shifts:
            results += f", {counted(len(self.shifts), 'level shift')}"
        if self.without_time:
            results += f" · {counted(self.without_time, 'row')} without a time left out"
        if left_out := [name for name in self.view.fields if name not in self.drawn_fields]:
            results += f" · no {self.view.how} of {', '.join(left_out)}"
        if self.notes:
            results += f" · {self.notes}"
        return f"{counted(len(self.frame), 'row')} {_range_text(self.frame)} · {results}"


class Exploration:
    """Applies views to a history. A result is computed again only if a choice on which it depends has changed."""

    def __init__(self, history: pd.DataFrame) -> None:
        self.history = history
        self._results: dict[str, tuple[Hashable, Any]] = {}  # by name: the choices, and the result

    def findings(self, view: View) -> Findings:
        """Return what a view shows; InvalidArgument if a choice does not fit. Without rows, no choice matters."""
        history, once = self.history, self._once
        if history.empty:  # these may be the choices of an earlier history
            history, view = pd.DataFrame(index=pd.DatetimeIndex([], name="created")), View("created", (), tz=view.tz)
        axis = view.time, view.tz
        timed = once("timed", axis, lambda: put_on_time_axis(history, view.time, tz=view.tz)[0])
        chosen = *axis, view.fields
        (measured, fields, notes), numbers = once("measured", chosen, lambda: _measured(timed, view.fields))
        resampled = *chosen, view.rule, view.how
        resample = partial(series.resample, measured, view.rule, view.how, numbers)
        whole = once("whole", resampled, resample) if view.rule else measured
        start, end = view.range_in(timed.index)
        # Rows of several things are not in order of time, so a slice by label would fail.
        frame = once("frame", (*resampled, start, end), lambda: whole[(whole.index >= start) & (whole.index <= end)])
        shown = [name for name in fields if name in frame.columns]
        statistics = once("statistics", (*resampled, start, end), lambda: series.statistics(frame, shown))

        def marked(
            name: str, is_marked: bool, choices: tuple[Hashable, ...], find: Callable[[pd.DataFrame], pd.DataFrame],
            rows: pd.DataFrame,
        ) -> pd.DataFrame:  # fmt: skip
            if is_marked:
                return once(name, choices, lambda: find(rows))
            # Without rows, it does not depend on fields; what was marked stays computed while it is hidden.
            return once(f"no {name}", (*axis, view.rule), lambda: find(rows.iloc[:0]))

        factor, threshold = view.gap_factor, view.threshold
        gaps = marked("gaps", factor != math.inf, (*chosen, factor), lambda rows: find_gaps(rows, factor), measured)
        outliers = marked(
            "outliers", threshold != math.inf, (*resampled, threshold),
            lambda rows: find_outliers(rows, numbers, threshold=threshold), whole,
        )  # fmt: skip
        shifts = marked("shifts", view.shifts, resampled, lambda rows: find_shifts(rows, numbers), whole)
        return Findings(
            frame,
            statistics,
            gaps[(gaps["end"] > start) & (gaps["start"] < end)],
            outliers[(outliers.index >= start) & (outliers.index <= end)],
            shifts[(shifts["end"] >= start) & (shifts["start"] <= end)],
            history,
            view,
            whole,
            ChartMarks(gaps, outliers, shifts),
            (start, end),
            len(history) - len(timed),
            notes,
            threshold_for(int(whole[numbers].notna().to_numpy().sum())) if threshold is None else threshold,
        )

    def _once(self, name: str, choices: Hashable, compute: Callable[[], T]) -> T:
        if name not in self._results or self._results[name][0] != choices:
            self._results[name] = choices, compute()
        result: T = self._results[name][1]
        return result


def _measured(timed: pd.DataFrame, chosen: Sequence[str]) -> tuple[ChosenColumns, list[str]]:
    """Return the chosen columns, without rows that have none of them; and which of them are numbers."""
    columns = chosen_columns(timed, chosen)
    frame, fields = columns.frame, columns.names
    backfilled, _ = backfilled_text(timed) or ("", "")
    notes = "; ".join(filter(None, (backfilled, columns.notes, unread_numbers(frame))))
    frame = frame.dropna(how="all", subset=fields) if fields else frame.iloc[:0]
    drawable = drawable_columns(frame, NUMBERS)
    return columns._replace(notes=notes, frame=frame), [name for name in fields if name in drawable]


def fields_of(history: pd.DataFrame) -> list[str]:
    """Return the names of the columns to choose from: all that a chart can draw, but no times in text form."""
    times = set(time_columns(history))
    return [name for name in drawable_columns(history) if name not in times]


def check_existing(problem: str, chosen: Sequence[str], known: Sequence[str]) -> None:
    """Raise InvalidArgument with the `problem` if a chosen field is not among those that are known."""
    if missing := [name for name in chosen if name not in known]:
        raise InvalidArgument(missing_names(problem, "field", missing, len(chosen), list(known)))


def _reason_for_no_rows(findings: Findings, things: Sequence[str], day: str) -> str:
    """Return why there is nothing to show: one sentence for each cause."""
    history, view, named = findings.history, findings.view, ", ".join(things) or "this frame"
    if history.empty and not things:
        return "The frame has no rows."
    if history.empty:
        return f"No dweets of {named} {f'on {day} (UTC)' if day else 'yet'}."
    if findings.without_time == len(history):
        return f"No row has a time in {view.time}: choose another time axis."
    if not fields_of(history):
        return f"No dweet of {named} has numbers, truth values or texts to draw."
    if not view.fields:
        return "No field is chosen: choose one under Fields."
    fields = ", ".join(view.fields)
    if findings.whole.empty:
        return f"No dweet of {named} has a value in {fields}."
    between = f"{view.start or 'the start'} and {view.end or 'the end'}"
    return f"No dweets between {between}: those of {fields} are {_range_text(findings.whole)}."


def _range_text(frame: pd.DataFrame) -> str:
    return f"from {frame.index.min():%Y-%m-%d %H:%M} to {frame.index.max():%Y-%m-%d %H:%M}"
