"""HistoryExplorer: a widget with the chart, the statistics and the tables of a history."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets
import pandas as pd
import traitlets

from toolkit.argument_checks import checked_arguments
from toolkit.charts.chart import Chart
from toolkit.dweets.analysis.series import AGGREGATIONS, Aggregation
from toolkit.dweets.analysis.time_axis import time_columns
from toolkit.dweets.checked_values import Key
from toolkit.dweets.widgets.exploration import RULES, Exploration, HistorySource, View, check_existing, fields_of
from toolkit.dweets.widgets.tables import ResultTables, saved_tables
from toolkit.errors import InvalidArgument, counted
from toolkit.frames import table_bytes
from toolkit.widgets.base import (
    CheckList,
    ServiceWidget,
    button,
    check_box,
    column,
    copy_button,
    in_turn,
    line,
    make,
    row,
    set_visible,
    text_field,
)

if TYPE_CHECKING:
    from toolkit.dweets.widgets.exploration import ArchiveReader, Findings
    from toolkit.widgets.base import ServiceConnection

#: Up to this many rows are read without asking; for more, a person must press Reload.
_MAX_ROWS_UNASKED = 2_000_000
_CHART_HEIGHT = 225
_LABEL, _SAVE = "5.8em", "Save on the server"
#: Controls whose values are the attributes of a view with the same names.
_CHOICES = ("time", "fields", "start", "end", "rule", "how")


@checked_arguments
class HistoryExplorer(ServiceWidget):
    """Choose things, fields, a time axis and a range; see the chart, statistics, rows, gaps, outliers and level shifts.

    A zoom of the chart sets *From* and *To*, and *From* and *To* zoom the chart.

    Parameters
    ----------
    source
        A connection, a `toolkit.Archive`, or a frame: a history that was read before, or any frame with times; a column
        ``thing`` says which rows belong together.
    things
        Names to choose from, all chosen at first; None for those that were active last, with one chosen.
    fields, time, rule, how
        What is chosen at first: columns of numbers, truth values or texts; time axis; resampling of numbers
        (``"1D"``) and its aggregation.
    unit
        The unit of the values, for all fields or by field: ``"°C"``, ``{"celsius": "°C", "pressure": "hPa"}``.
    tz
        A time zone, such as ``"Europe/Berlin"``, for the time axis, *From* and *To*; None leaves times as they are.
    day
        A day (UTC) of arrival to read instead of the last 500 dweets (of an archive: instead of all dweets). With
        `time`, the last 500 are the newest by that field.
    key
        The key of locked things.

    Attributes
    ----------
    frame, statistics, gaps, outliers, shifts : pandas.DataFrame
        The tables that are shown; observe these traits to get every change.
    chart : toolkit.charts.chart.Chart
        The chart; ``chart.visible_range`` is the range that is shown.
    things, fields, time, day, start, end, rule, how, gap_factor, mark_gaps, threshold, mark_outliers, mark_shifts, \
shown_table, rows, file, reload_button, download_button, save_button, copy_button
        The controls: set ``.value`` or ``.click()`` as a person would.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=48, freq="h", name="created")
    >>> explorer = HistoryExplorer(pd.DataFrame({"celsius": range(48)}, index=times))
    >>> explorer.rule.value = "1D"
    >>> explorer.frame["celsius"].tolist()
    [11.5, 35.5]
    """

    frame = traitlets.Instance(pd.DataFrame, ())
    statistics = traitlets.Instance(pd.DataFrame, ())
    gaps = traitlets.Instance(pd.DataFrame, ())
    outliers = traitlets.Instance(pd.DataFrame, ())
    shifts = traitlets.Instance(pd.DataFrame, ())

    def __init__(
        self,
        source: ServiceConnection | ArchiveReader | pd.DataFrame,
        *,
        things: Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
        unit: str | Mapping[str, str] | None = None,
        time: str | None = None,
        rule: str = "",
        how: Aggregation = "mean",
        tz: str | None = None,
        day: str = "",
        key: Key = None,
    ) -> None:
        self._source = HistorySource(source, key, time)
        self._given_things = None if things is None else list(things)
        self._unit, self._tz = unit, tz
        super().__init__()
        self._quiet = False
        #: Until a person sets the threshold; ticking *Outliers* again makes it automatic again.
        self._is_threshold_automatic = True
        self._drawn: View | None = None
        self._make_controls(rule, how, day)
        self._make_results()
        self._lay_out()
        self._exploration = Exploration(pd.DataFrame())
        self._loaded: tuple[tuple[str, ...], str] = (), ""  # the things and the day of its history
        with self.working("Loading"):
            self._offer_things()
            self._load(fields, time)
            if not self._exploration.history.empty:  # later choices come from the lists
                check_existing("the history does not have", fields or (), self.fields.options)
                check_existing("no times are in", [] if time is None else [time], self.time.options)
        if self._drawn is None:  # the status says why
            self._draw(Exploration(pd.DataFrame()).findings(self.view))
        self._observe_controls()

    @property
    def view(self) -> View:
        """The current choices."""
        chosen = {name: getattr(self, name).value for name in _CHOICES}
        return View(
            **chosen,
            gap_factor=self.gap_factor.value if self.mark_gaps.value else math.inf,
            threshold=self._threshold,
            shifts=self.mark_shifts.value,
            tz=self._tz,
        )

    @property
    def _threshold(self) -> float | None:
        if not self.mark_outliers.value:
            return math.inf
        return None if self._is_threshold_automatic else self.threshold.value

    @property
    def _is_current(self) -> bool:
        """Whether the findings belong to the current choices; after a failed choice, they belong to earlier ones."""
        return (self._loaded, self._findings.view) == (self._chosen_source, self.view)

    @property
    def _chosen_source(self) -> tuple[tuple[str, ...], str]:
        return self.things.value, self.day.value.strip()

    @contextmanager
    def _without_exploring(self) -> Iterator[None]:
        """Set several controls in the block without exploring after each change."""
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def _make_controls(self, rule: str, how: Aggregation, day: str) -> None:
        rules = RULES if rule in RULES.values() else {**RULES, rule: rule}
        self.things, self.fields = CheckList("Things"), CheckList("Fields")
        self.time = make(ipywidgets.Dropdown, "Time axis", label=_LABEL, tip="What is on the time axis")
        day_words = "A day (UTC) such as 2026-01-31, instead of the last 500 dweets"
        self.day = text_field("Stored day", "else the last 500", day, label=_LABEL, tip=day_words)
        words = "Put the numbers on a regular axis"
        self.rule = make(ipywidgets.Dropdown, "Resample", label=_LABEL, tip=words, options=rules, value=rule)
        words = "What is shown of each interval; choose one under Resample first"
        self.how = make(ipywidgets.Dropdown, "Show the", label=_LABEL, tip=words, options=AGGREGATIONS, value=how)
        self.reload_button = button("Reload", "refresh", "Read the things again", lambda: self._reload(asked=True))
        self.mark_gaps = check_box("Gaps", width="6em", tip="Shade where nothing came")
        self.gap_factor = _factor(
            "spacing", 1.5, 1.01, "A silence longer than this many times the usual spacing is a gap; tick Gaps first"
        )
        self.mark_outliers = check_box(
            "Outliers", width="6em", tip="Ring the ten worst values that are far from their neighbours"
        )
        self.threshold = _factor(
            "spread", 6.7, 0.1, "A value this many robust standard deviations off is an outlier; tick Outliers first"
        )
        words = "Mark runs of values at another level, such as °F for °C; takes a second with 100,000 rows"
        self.mark_shifts = check_box("Level shifts", value=False, tip=words)
        for switch, control in (
            (self.rule, self.how), (self.mark_gaps, self.gap_factor), (self.mark_outliers, self.threshold),
        ):  # fmt: skip
            ipywidgets.dlink((switch, "value"), (control, "disabled"), operator.not_)

    def _make_results(self) -> None:
        self.chart = Chart(height=_CHART_HEIGHT, file_name="history")
        words = "2013, 2013-07 or 2013-07-04 12:00; empty shows all; a zoom in the chart writes it, too"
        self.start = text_field("From", "2013 or 2013-07", width="15em", label="3em", tip=words)
        self.end = text_field("To", "2013 or 2013-07", width="15em", label="2em", tip=words)
        self._tables = ResultTables(self._attempt)
        self.shown_table, self.table, self.rows = self._tables.chosen, self._tables.pane, self._tables.rows
        words = "The end of the name, .csv or .parquet, says what it will be"
        self.file = text_field("File", "", "history.csv", width="13em", label="2.5em", tip=words)
        words = "Let the browser download what is shown"
        self.download_button = button("Download", "download", words, self._download)
        words = "Write what is shown where the kernel runs"
        self.save_button = button(_SAVE, "save", words, self._save)
        self.copy_button = copy_button(self.code, self)
        self.copy_button.on_click(lambda _button: self.shown_table.set_trait("value", "Code"))

    def _lay_out(self) -> None:
        for part in (self.day, self.reload_button):
            set_visible(part, self._source.is_live)
        gaps, outliers = line(self.mark_gaps, self.gap_factor), line(self.mark_outliers, self.threshold)
        choices = (self.things, self.fields, self.time, self.rule, self.how, gaps, outliers, self.mark_shifts)
        controls = column(*choices, self.day, self.reload_button)
        files = row(self.file, self.download_button, self.save_button, self.copy_button)
        results = column(self.chart, row(self.start, self.end), self.status, self._tables, files)
        self.show(self.beside(results.add_class("toolkit-main"), controls.add_class("toolkit-controls")))

    def _observe_controls(self) -> None:
        for control in (self.things, self.day):
            control.observe(lambda _change: self._reload(), "value")
        self.threshold.observe(lambda _change: setattr(self, "_is_threshold_automatic", self._quiet), "value")
        self.mark_outliers.observe(lambda _change: setattr(self, "_is_threshold_automatic", True), "value")
        for name in (*_CHOICES, "mark_gaps", "gap_factor", "mark_outliers", "threshold", "mark_shifts"):
            getattr(self, name).observe(self._explore, "value")
        self.chart.observe(self._copy_chart_range, "visible_range")
        self.file.observe(lambda _change: self.save_button.set_trait("description", _SAVE), "value")

    # -- reading ----------------------------------------------------------------------------------------------

    def _offer_things(self) -> None:
        """Offer the things of the source, and keep the choice; the first choice is one active thing or all `things`."""
        is_open_choice = self._given_things is None and self._source.is_live
        names = self._source.names() if self._given_things is None else self._given_things
        still_there = [name for name in self.things.value if name in names]
        set_visible(self.things, bool(names) or self._source.is_live)  # not of a frame of one thing
        with self._without_exploring():
            self.things.options = tuple(names)
            self.things.value = tuple(still_there or (names[:1] if is_open_choice else names))

    def _load(self, fields: Sequence[str] | None, time: str | None, *, even_if_many: bool = False) -> None:
        """Read the chosen things, offer their time axes and fields, and choose `time` and `fields` if they exist."""
        things, day = self._chosen_source
        if (rows := self._source.row_count(things, day)) > _MAX_ROWS_UNASKED and not even_if_many:
            self.say(f"These are {rows:,} rows: Reload reads them, and takes its time. A stored day is faster.")
            return
        history = self._source.read(things, day)
        times, columns = time_columns(history), fields_of(history)
        if not (times or history.empty):
            raise InvalidArgument("the history has no times: a DatetimeIndex, datetimes or ISO 8601 texts are needed")
        self._exploration, self._loaded, self._drawn = Exploration(history), (things, day), None
        if history.empty:
            self._show_view()  # the choices stay, for a later reload
            return
        chosen = tuple(name for name in fields or () if name in columns)
        with self._without_exploring():
            self.time.options, self.fields.options = times, tuple(columns)
            self.time.value = time if time in times else times[0]
            self.fields.value = chosen or tuple(columns[:1])
        self._show_view()

    @in_turn
    def _reload(self, *, asked: bool = False) -> None:
        """Read the chosen things; after a click (`asked`), also offer all things again, and read any number of rows."""
        if not self._quiet:
            with self.working("Loading"):
                if asked:
                    self._offer_things()
                self._load(self.fields.value, self.time.value, even_if_many=asked)

    # -- showing ----------------------------------------------------------------------------------------------

    @in_turn
    def _explore(self, _change: object = None) -> None:
        if not self._quiet:
            with self.working("Looking"):
                self._show_view()

    @in_turn
    def _copy_chart_range(self, change: Any) -> None:  # noqa: ANN401
        """Write the range to which a person zoomed the chart into *From* and *To*."""
        if self._quiet:
            return
        with self.working("Looking"):
            shown = change["new"]
            form = "%Y-%m-%d %H:%M" if shown and shown[1] - shown[0] > pd.Timedelta("2D") else "%Y-%m-%d %H:%M:%S"
            with self._without_exploring():
                self.start.value, self.end.value = (f"{time:{form}}" for time in shown) if shown else ("", "")
            self._show_view(zoomed=True)

    def _show_view(self, *, zoomed: bool = False) -> None:
        findings = self._exploration.findings(self.view)
        self._draw(findings, zoomed=zoomed)
        self.say(findings.sentence(*self._loaded))

    def _draw(self, findings: Findings, *, zoomed: bool = False) -> None:
        self._findings = findings
        with self.hold_trait_notifications():
            for name in ("frame", "statistics", "gaps", "outliers", "shifts"):
                if getattr(self, name) is not getattr(findings, name):  # traitlets would compare all of their values
                    self.set_trait(name, getattr(findings, name))
        if self._is_threshold_automatic:
            with self._without_exploring():
                self.threshold.value = findings.threshold
        whole_view = replace(findings.view, start="", end="")
        if whole_view != self._drawn:  # the chart has all times: after a zoom, no data is sent again
            fields, marks, regular = findings.drawn_fields, findings.marks, bool(findings.view.rule)
            empty = findings.sentence(*self._loaded)
            self.chart.draw(findings.whole, fields, unit=self._unit, marks=marks, regular=regular, empty=empty)
            self._drawn = whole_view
        if not zoomed:  # or the chart would jump back while a person pans
            with self._without_exploring():
                self.chart.visible_range = findings.zoom
        self._tables.show(findings, self.code())

    @in_turn
    def _attempt(self, work: Callable[[], None]) -> None:
        """Run `work` and show its error in the status line, otherwise the findings if they are current."""
        with self.showing_errors():
            work()
            if self._is_current:
                self.say(self._findings.sentence(*self._loaded))

    # -- files ------------------------------------------------------------------------------------------------

    def code(self) -> str:
        """Return the Python code that computes and draws the shown frame."""
        return self._findings.code(self._source.code(*self._loaded), self._unit)

    def _path_and_content(self) -> tuple[Path, bytes]:
        """Return the path and the content of the file; InvalidArgument if no row of the current choices is shown."""
        if self.frame.empty:
            raise InvalidArgument("there is no row to write")
        if not self._is_current:
            raise InvalidArgument("the rows are of your earlier choices; correct the choice that failed, or Reload")
        path = Path(self.file.value.strip()).expanduser()
        return path, table_bytes(self.frame, path.suffix)

    def _download(self) -> None:
        with self.working("Writing"):
            path, content = self._path_and_content()
            self.browser.download(path.name, content)
            self.say(f"The browser downloads {counted(len(self.frame), 'row')} as {path.name}, {len(content):,} bytes.")

    def _save(self) -> None:
        with self.working("Writing"):
            path, content = self._path_and_content()
            if path.exists() and self.save_button.description != "Replace it":
                self.save_button.description = "Replace it"
                self.say(f"{path.name} exists, {path.stat().st_size:,} bytes. Press Replace it to write over it.")
                return
            path.write_bytes(content)
            self.save_button.description = _SAVE
            self.say(f"Wrote {counted(len(self.frame), 'row')} to {path.name}, {len(content):,} bytes.")

    def save(self, path: str | Path) -> None:
        """Write what is shown to an HTML file that works without a kernel and without a network: chart, rows, tables.

        Its rows are those in the visible range of the chart, to filter and to sort.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> times = pd.date_range("2026-01-01", periods=48, freq="h", name="created")
        >>> explorer = HistoryExplorer(pd.DataFrame({"celsius": range(48)}, index=times))
        >>> with TemporaryDirectory() as folder:
        ...     explorer.save(f"{folder}/week.html")
        """
        self.chart.save(path, saved_tables(self._findings))

    def picture(self) -> bytes:
        """Return the chart as PNG."""
        return self.chart.png()

    def saved_html(self, picture: bytes) -> str:
        """Return the saved explorer as the output of a notebook."""
        return self.chart.saved_html(picture, self.summary(), saved_tables(self._findings))

    def summary(self) -> str:
        """Return a text with the number of rows and the chosen fields."""
        field_text = ", ".join(self._findings.view.fields) or "no field"
        return f"HistoryExplorer: {counted(len(self.frame), 'row')} of {field_text}"


def _factor(what: str, value: float, minimum: float, tip: str) -> ipywidgets.Widget:
    traits: dict[str, Any] = {"value": value, "min": minimum, "max": 1e6, "step": 0.5, "label": "9em"}
    return make(ipywidgets.BoundedFloatText, f"beyond {what} x", "13.5em", tip=tip, **traits)
