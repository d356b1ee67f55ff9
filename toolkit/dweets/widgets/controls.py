"""The controls of the HistoryExplorer: what can be chosen, without what it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ipywidgets

from toolkit.dweets.client.series_analysis import AGGREGATIONS, Aggregation
from toolkit.dweets.widgets.exploration import View
from toolkit.widget_family import (
    CheckList,
    ServiceWidget,
    button,
    check_box,
    column,
    html_pane,
    number_field,
    row,
    sized,
    text_field,
)

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


#: Positions of the slider over the whole range. Its step is 1: it sends back what it rounds, as if it had been moved.
STEPS = 200


class ExplorerControls(ServiceWidget):
    """All controls of an explorer, laid out over its plot and table; each is an attribute.

    Parameters
    ----------
    rule, how, day
        What is chosen at first.
    is_live
        There is a service to read from: things can be read again, and by day.
    """

    def __init__(self, rule: str, how: Aggregation, day: str, is_live: bool) -> None:
        super().__init__()
        self._quiet = False
        self._make_controls(rule, how, day)
        self._lay_out(is_live)

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
        rules = RULES if rule in RULES.values() else {**RULES, rule: rule}
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
            value=(0, STEPS), min=0, max=STEPS, readout=False, continuous_update=False, description="Range"
        )
        self.range = sized(slider, "24em", label=aligned["label"])
        self.file = text_field("File", "", "history.csv", width="13em")
        self.export_button = button("Export", "download", "Write what is shown as .csv or .parquet")
        self.plot, self.table = html_pane(), html_pane()

    def _lay_out(self, is_live: bool) -> None:
        choices = row(
            column(self.things),
            column(self.fields),
            column(self.time, self.rule, self.how),
            column(row(self.mark_gaps, self.gap_factor), row(self.mark_outliers, self.threshold)),
        )
        for control in (self.day, self.reload_button):
            control.layout.display = None if is_live else "none"
        self.show(
            choices,
            row(self.day, self.reload_button, self.start, self.end, self.range),
            results=(self.plot, self.table, row(self.file, self.export_button)),
        )
