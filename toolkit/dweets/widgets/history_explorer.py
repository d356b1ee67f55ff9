"""HistoryExplorer: click through a history."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets
import pandas as pd
import traitlets

from toolkit.argument_checks import checked_arguments
from toolkit.dweets.arguments import Key
from toolkit.dweets.client.series_analysis import (
    AGGREGATIONS,
    Aggregation,
    chosen_fields,
    number_columns,
    put_on_time_axis,
    time_columns,
)
from toolkit.dweets.client.series_figure import distinct_numerals, series_png
from toolkit.dweets.widgets.exploration import Findings, HistorySource, View, explore
from toolkit.dweets.widgets.svg_chart import svg_chart
from toolkit.errors import InvalidArgument
from toolkit.widget_family import (
    CheckList,
    ServiceWidget,
    button,
    check_box,
    column,
    counted,
    html_pane,
    in_turn,
    number_field,
    row,
    scrolled,
    sized,
    text_field,
)

if TYPE_CHECKING:
    from toolkit.connection import Connection
    from toolkit.dweets.archive.archive import Archive

_RULES = {
    "as it came": "",
    "1 minute": "1min",
    "10 minutes": "10min",
    "1 hour": "1h",
    "1 day": "1D",
    "1 week": "1W",
    "1 month": "1MS",
    "1 year": "1YS",
}

#: Positions of the slider over the whole range. Its step is 1: it sends back what it rounds, as if it had been moved.
_STEPS = 200
_FORMULA, _NUMBER = re.compile(r"[=+\-@\t\r\n]"), re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_NOTHING, _NO_VIEW = pd.DataFrame(index=pd.DatetimeIndex([], name="created")), View("created", ())


@checked_arguments
class HistoryExplorer(ServiceWidget):
    """Choose things, fields, a time axis and a range; see the plot, statistics, gaps and outliers.

    Parameters
    ----------
    tk
        A connection, or an archive (``tk.dweets.archive``); None where a `frame` is given.
    things
        Names to choose from, all of them chosen at first; None for those that were active last, one of them chosen.
    frame
        A history that is there already, or any frame with times; a column ``thing`` tells things apart.
    fields, time, rule, how
        What is chosen at first: numeric columns, time axis, resampling (``"1D"``) and its aggregation.
    day
        A day (UTC) of what is kept, instead of the last 500 dweets (of an archive: instead of all).
    key
        For locked things.

    Attributes
    ----------
    frame, statistics, gaps, outliers : pandas.DataFrame
        What is shown; observe them to follow.
    things, fields, time, day, start, end, range, rule, how, gap_factor, mark_gaps, threshold, mark_outliers, file, \
reload_button, export_button
        The controls: set ``.value`` or ``.click()`` as a person would.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=48, freq="h", name="created")
    >>> explorer = HistoryExplorer(frame=pd.DataFrame({"celsius": range(48)}, index=times))
    >>> explorer.rule.value = "1D"
    >>> explorer.frame["celsius"].tolist()
    [11.5, 35.5]
    """

    frame = traitlets.Instance(pd.DataFrame)
    statistics = traitlets.Instance(pd.DataFrame)
    gaps = traitlets.Instance(pd.DataFrame)
    outliers = traitlets.Instance(pd.DataFrame)

    def __init__(
        self,
        tk: Connection | Archive | None = None,
        *,
        things: Sequence[str] | None = None,
        frame: pd.DataFrame | None = None,
        fields: Sequence[str] | None = None,
        time: str | None = None,
        rule: str = "",
        how: Aggregation = "mean",
        day: str = "",
        key: Key = None,
    ) -> None:
        self._source = HistorySource(tk, frame, key)
        self._named = None if things is None else list(things)
        super().__init__()
        self._quiet = False
        self._make_controls(rule, how, day)
        self._lay_out()
        self._history = pd.DataFrame()
        self._show(explore(_NOTHING, _NO_VIEW), _NO_VIEW)
        with self.working("Loading"):
            self._offer_things()
            self._load(fields, time)
            self._check(fields, time)
        self._follow()

    @property
    def view(self) -> View:
        """All choices as they stand."""
        return View(
            time=self.time.value or "",
            fields=tuple(self.fields.value),
            start=self.start.value,
            end=self.end.value,
            rule=self.rule.value,
            how=self.how.value,
            gap_factor=self.gap_factor.value if self.mark_gaps.value else None,
            threshold=self.threshold.value if self.mark_outliers.value else None,
        )

    @contextmanager
    def _setting(self) -> Iterator[None]:
        """Set several controls without looking at the data after each."""
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def _make_controls(self, rule: str, how: Aggregation, day: str) -> None:
        rules = _RULES if rule in _RULES.values() else {**_RULES, rule: rule}
        aligned = {"width": "15em", "label": "5.5em"}
        self.things = CheckList("Things")
        self.fields = CheckList("Fields")
        self.time = sized(ipywidgets.Dropdown(description="Time axis"), **aligned)
        self.day = text_field("Stored day", "else the last 500", day, **aligned)
        self.rule = sized(ipywidgets.Dropdown(description="Resample", options=rules, value=rule), **aligned)
        self.how = sized(ipywidgets.Dropdown(description="Show the", options=AGGREGATIONS, value=how), **aligned)
        self.reload_button = button("Reload", "refresh", "Read the things again")
        self.mark_gaps = check_box("Mark gaps", width="9em")
        self.gap_factor = number_field("beyond spacing x", 1.5, least=1.01, step=0.5, width="14em", label="9.5em")
        self.mark_outliers = check_box("Mark outliers", width="9em")
        self.threshold = number_field("beyond spread x", 5.0, least=0.1, step=0.5, width="14em", label="9.5em")
        self.start = text_field("From", "2013 or 2013-07", **aligned)
        self.end = text_field("To", "2013 or 2013-07", **aligned)
        slider = ipywidgets.IntRangeSlider(
            value=(0, _STEPS), min=0, max=_STEPS, readout=False, continuous_update=False, description="Range"
        )
        self.range = sized(slider, "24em", label=aligned["label"])
        self.file = text_field("File", "", "history.csv", width="13em")
        self.export_button = button("Export", "download", "Write what is shown as .csv or .parquet")
        self.plot, self.table = html_pane(), html_pane()

    def _lay_out(self) -> None:
        choices = row(
            column(self.things),
            column(self.fields),
            column(self.time, self.rule, self.how),
            column(row(self.mark_gaps, self.gap_factor), row(self.mark_outliers, self.threshold)),
        )
        for control in (self.day, self.reload_button):
            control.layout.display = None if self._source.is_live else "none"
        self.show(
            choices,
            row(self.day, self.reload_button, self.start, self.end, self.range),
            results=(self.plot, self.table, row(self.file, self.export_button)),
        )

    def _follow(self) -> None:
        for control in (self.things, self.day):
            control.observe(self._reload, "value")
        for control in (
            self.fields, self.time, self.start, self.end, self.rule, self.how,
            self.mark_gaps, self.gap_factor, self.mark_outliers, self.threshold,
        ):  # fmt: skip
            control.observe(self._explore, "value")
        self.range.observe(self._take_range, "value")
        self.reload_button.on_click(self._refresh)
        self.export_button.on_click(self._export)

    def _offer_things(self) -> None:
        """Offer what there is; keep what is chosen. At first: of the things that happen to be there one, else all."""
        any_of_many = self._named is None and self._source.is_live
        names = self._source.names() if self._named is None else self._named
        kept = [name for name in self.things.value if name in names]
        with self._setting():
            self.things.options = tuple(names)
            self.things.value = tuple(kept or (names[:1] if any_of_many else names))

    def _load(self, fields: Sequence[str] | None, time: str | None) -> None:
        """Read the chosen things, offer their times and fields, choose these where they are there."""
        self._history = self._source.read(self.things.value, self.day.value.strip())
        if self._history.empty:  # and the choices stay, for when there is something again
            self._show(explore(_NOTHING, _NO_VIEW), _NO_VIEW)
            return
        times, numbers = time_columns(self._history), number_columns(self._history)
        if not times:
            raise InvalidArgument("there is no time in this: it needs a DatetimeIndex, datetimes or ISO 8601 text")
        kept = tuple(name for name in fields or () if name in numbers)
        with self._setting():
            self.time.options, self.fields.options = times, tuple(numbers)
            self.time.value = time if time in times else times[0]
            self.fields.value = kept or tuple(numbers[:1])
        self._look()

    def _check(self, fields: Sequence[str] | None, time: str | None) -> None:
        """Raise InvalidArgument where what was asked for at first is not there; later choices come from the lists."""
        chosen_fields(self._history, fields)
        if time is not None and time != self.time.value:
            raise InvalidArgument(f"{time!r} is no time axis; times are in {', '.join(self.time.options)}")

    def _look(self) -> None:
        if not self._history.empty:
            findings = explore(self._history, self.view)
            self._show(findings, self.view)
            self._follow_range(findings.measured)

    def _follow_range(self, measured: pd.DataFrame) -> None:
        """Put the slider where the range is that was typed."""
        whole = put_on_time_axis(self._history, self.time.value).index
        if len(measured) and whole[-1] > whole[0]:
            ends = ((time - whole[0]) / (whole[-1] - whole[0]) for time in (measured.index[0], measured.index[-1]))
            with self._setting():
                self.range.value = tuple(round(end * _STEPS) for end in ends)

    @in_turn
    def _take_range(self, change: Any) -> None:  # noqa: ANN401
        """Type the range that the slider was put on."""
        if self._quiet or self._history.empty:
            return
        with self.working("Looking"):
            first, last = change["new"]
            whole = put_on_time_axis(self._history, self.time.value).index
            form = "%Y-%m-%d" if whole[-1] - whole[0] > pd.Timedelta("30D") else "%Y-%m-%d %H:%M:%S"
            start, end = (f"{whole[0] + (whole[-1] - whole[0]) * place / _STEPS:{form}}" for place in (first, last))
            with self._setting():
                self.start.value = "" if first == 0 else start
                self.end.value = "" if last == _STEPS else end
            self._look()

    def _show(self, findings: Findings, view: View) -> None:
        self._shown = (findings, view)
        with self.hold_trait_notifications():
            self.frame, self.statistics, self.gaps, self.outliers = findings[:4]
        self.plot.value = svg_chart(findings.frame, view.fields, findings.marks, regular=bool(view.rule))
        self.table.value = scrolled(_statistics_html(findings.statistics), caption="Statistics")
        self.say(_sentence(findings))

    def export(self, path: str | Path) -> Path:
        """Write `frame` to a ``.csv`` or ``.parquet`` file (else InvalidArgument), replacing it, and return where.

        In CSV, names that a spreadsheet would execute as a formula begin with an apostrophe.
        """
        target = Path(path).expanduser()
        if target.suffix == ".csv":
            _without_formulas(self.frame).to_csv(target)
        elif target.suffix == ".parquet":
            self.frame.to_parquet(target)
        else:
            raise InvalidArgument("name a file that ends in .csv or .parquet")
        return target

    def picture(self) -> bytes:
        """Return the plot as PNG."""
        findings, view = self._shown
        return series_png(findings.frame, view.fields, findings.marks, regular=bool(view.rule))

    def summary(self) -> str:
        """Return how much of what is shown."""
        fields = ", ".join(self._shown[1].fields) or "no field"
        return f"HistoryExplorer: {counted(len(self.frame), 'row')} of {fields}"

    @in_turn
    def _reload(self, _change: object = None) -> None:
        if not self._quiet:
            with self.working("Loading"):
                self._load(self.fields.value, self.time.value)

    def _refresh(self, _button: object) -> None:
        with self.working("Loading"):
            self._offer_things()
            self._load(self.fields.value, self.time.value)

    @in_turn
    def _explore(self, _change: object = None) -> None:
        if not self._quiet:
            with self.working("Looking"):
                self._look()

    def _export(self, _button: object) -> None:
        with self.working("Writing"):
            target = self.export(self.file.value.strip())
            self.say(f"Wrote {counted(len(self.frame), 'row')} to {target.name}, {target.stat().st_size:,} bytes.")


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    # Things and fields are named by devices; all other cells of a shown frame are times and numbers.
    inert = frame.rename(columns=_as_text).rename_axis(_as_text(frame.index.name))
    return inert.assign(thing=inert["thing"].map(_as_text)) if "thing" in inert.columns else inert


def _as_text(name: Any) -> Any:  # noqa: ANN401
    is_formula = isinstance(name, str) and _FORMULA.match(name) and not _NUMBER.fullmatch(name)
    return f"'{name}" if is_formula else name


def _statistics_html(statistics: pd.DataFrame) -> str:
    """Return the table; the numbers of a row have as many digits as tell them apart."""
    names = [name for name, kind in statistics.dtypes.items() if kind == "float64"]
    texts = [distinct_numerals(row) for row in statistics[names].to_numpy().tolist()]
    shown = statistics.assign(**pd.DataFrame(texts, columns=names, index=statistics.index, dtype="str"))
    return shown.to_html(index=False, border=0, formatters={"count": "{:,}".format, "missing": "{:,}".format})


def _sentence(findings: Findings) -> str:
    frame = findings.frame
    if frame.empty:
        return "Nothing here: no dweets in this range have numbers in these fields."
    first, last = (f"{time:%Y-%m-%d %H:%M}" for time in (frame.index.min(), frame.index.max()))
    found = f"{counted(len(findings.gaps), 'gap')}, {counted(len(findings.outliers), 'outlier')}"
    if findings.without_time:
        found += f" · {counted(findings.without_time, 'row')} without a time left out"
    return f"{counted(len(frame), 'row')} from {first} to {last} · {found}"
