"""The tables under a chart.

The kernel sorts and filters all rows, not only those that were sent to the browser. (itables sends 64 KB of rows, and
sorts only those; its script is 0.7 MB for each table.)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import ipywidgets
import pandas as pd

from toolkit.charts.look import readable
from toolkit.dweets.widgets.exploration import Findings
from toolkit.errors import InvalidArgument
from toolkit.widgets.base import (
    button,
    code_html,
    html_line,
    html_pane,
    make,
    row,
    scrolled,
    shared,
    text_field,
    toggle_buttons,
)

#: Runs the action of a control, and shows its error.
Attempt = Callable[[Callable[[], None]], None]

_ROWS_PER_PAGE = 50
_MOST_LISTED_ROWS = 200
_COMPARISON = re.compile(r"\s*(.+?)\s*(<=|>=|==|!=|<|>|=)\s*(.+?)\s*")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip

_TABLE_TOOLTIPS = {
    "Statistics": "Count, mean, spread and quantiles of each field",
    "Rows": "The rows that are shown, to sort and filter",
    "Gaps": "When nothing came",
    "Outliers": "Values that are far from their neighbours",
    "Shifts": "Runs of values at another level; tick Level shifts first",
    "Code": "The Python code that gives what is shown",
}


class ResultTables(ipywidgets.VBox):  # type: ignore[misc]
    """The findings of a view as one of several tables; `chosen` is the control that chooses the table."""

    def __init__(self, attempt: Attempt) -> None:
        self._shown: pd.DataFrame | None = None  # as a table in the pane
        self.chosen, self.pane, self.rows = toggle_buttons(_TABLE_TOOLTIPS), html_pane(), RowsTable(attempt)
        self.parts = [self.chosen, self.pane, self.rows]
        self.chosen.observe(lambda _change: attempt(self._show), "value")
        super().__init__((self.chosen, self.pane), layout=shared(ipywidgets.Layout, width="100%"))

    def show(self, findings: Findings, code: str) -> None:
        """Show new findings, and the code that computes them."""
        self._findings, self._code = findings, code
        self._show()

    def _show(self) -> None:
        name, before = self.chosen.value, self._shown
        self.children = self.chosen, self.rows if name == "Rows" else self.pane
        self._shown = getattr(self._findings, name.lower(), None)
        if name == "Rows":
            self.rows.show(self._findings.frame)
        elif name == "Code":
            self.pane.value = code_html(self._code)
        elif self._shown is not before:
            self.pane.value = scrolled(_table_html(_result_tables(self._findings)[name]), caption=name)


class RowsTable(ipywidgets.VBox):  # type: ignore[misc]
    """Rows of a frame: `filter` is ``celsius > 20`` or a word in a text, `sort` a column, `page` counts from 0."""

    def __init__(self, attempt: Attempt) -> None:
        self._frame, self.page = pd.DataFrame(), 0
        words = "A comparison with a column, or a word in a text; empty shows all rows"
        self.filter = text_field("Filter", "celsius > 20, or a word", width="14em", label="2.8em", tip=words)
        words = "The column by which the rows are sorted"
        self.sort = make(ipywidgets.Dropdown, "Sort by", "12em", label="3.8em", tip=words)
        words = "The greatest first"
        self.descending = make(ipywidgets.ToggleButton, "", "3em", icon="sort-amount-desc", tip=words)
        self.before = button("‹", "", "The rows before", lambda: attempt(lambda: self._show_page(self.page - 1)))
        self.after = button("›", "", "The rows after", lambda: attempt(lambda: self._show_page(self.page + 1)))
        self.place, self.table = html_line(), html_pane()
        for control in (self.filter, self.sort, self.descending):
            control.observe(lambda _change: attempt(lambda: self._show_page(0)), "value")
        controls = row(self.filter, self.sort, self.descending, self.before, self.after, self.place)
        super().__init__((controls, self.table), layout=shared(ipywidgets.Layout, width="100%"))

    def show(self, frame: pd.DataFrame) -> None:
        """Show another frame, sorted by the same column as before, or by its index if it has no such column."""
        self._frame = frame
        names = [str(frame.index.name or "index"), *map(str, frame.columns)]
        if tuple(self.sort.options) != tuple(names):
            sorted_by = self.sort.value
            self.sort.options = names
            self.sort.value = sorted_by if sorted_by in names else names[0]
        self._show_page(0)

    def _show_page(self, page: int) -> None:
        self.page, self.place.value, self.table.value = page, "", ""  # no rows of an earlier filter, if this one fails
        rows = filtered(self._frame, self.filter.value)
        ascending, name = not self.descending.value, self.sort.value
        if name in rows.columns:
            rows = rows.sort_values(name, ascending=ascending, kind="stable")
        elif not (ascending and rows.index.is_monotonic_increasing):
            rows = rows.sort_index(ascending=ascending, kind="stable")
        first = page * _ROWS_PER_PAGE
        shown = rows.iloc[first : first + _ROWS_PER_PAGE]
        self.before.disabled, self.after.disabled = page == 0, first + _ROWS_PER_PAGE >= len(rows)
        self.place.value = f"{first + 1:,}–{first + len(shown):,} of {len(rows):,}" if len(rows) else "no row"
        html = shown.reset_index().to_html(index=False, border=0, na_rep="", float_format=lambda value: f"{value:.10g}")
        self.table.value = scrolled(html, caption="Rows")


def filtered(frame: pd.DataFrame, words: str) -> pd.DataFrame:
    """Return the rows that fit a comparison such as ``celsius > 20``, or that contain `words` in a text."""
    if not words.strip():
        return frame
    flat = frame.reset_index()
    texts = flat[[name for name in flat.columns if pd.api.types.is_string_dtype(flat[name].dtype)]]
    if (match := _COMPARISON.fullmatch(words)) and match[1] in flat.columns:
        column, given = flat[match[1]], match[3].strip("'\"")
        try:
            is_match = _OPERATORS[match[2]](column, _comparable(given, column)).fillna(False)
        except (KeyError, ValueError, TypeError):
            raise InvalidArgument(f"{given!r} cannot be compared with {match[1]}") from None
    elif match or not len(texts.columns):
        numbers, names = flat.select_dtypes("number").columns, ", ".join(map(str, flat.columns))
        example = f"{numbers[-1]} > 20" if len(numbers) else f"{flat.columns[-1]} = word"
        raise InvalidArgument(f"write a comparison such as {example}; the columns are {names}")
    else:
        found_in = texts.apply(lambda text: text.str.contains(words.strip(), case=False, regex=False).fillna(False))
        is_match = found_in.any(axis=1)
    rows: pd.DataFrame = frame[is_match.to_numpy(dtype=bool)]
    return rows


def _comparable(given: str, column: pd.Series[Any]) -> object:
    if pd.api.types.is_bool_dtype(column.dtype):
        return {"true": True, "false": False}[given.casefold()]
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return pd.Series([given]).astype(column.dtype)[0]
    return float(given) if pd.api.types.is_numeric_dtype(column.dtype) else given


def statistics_texts(statistics: pd.DataFrame) -> pd.DataFrame:
    """Return statistics as texts, without empty columns; a smaller spread needs more digits."""
    spans = statistics["std"]
    if len(statistics):
        statistics = statistics.dropna(axis="columns", how="all")
    names = [str(name) for name, dtype in statistics.dtypes.items() if dtype == "float64"]
    texts = {name: [readable(*pair) for pair in zip(statistics[name], spans, strict=True)] for name in names}
    counts = {name: statistics[name].map("{:,}".format).astype("str") for name in ("count", "missing")}
    return statistics.assign(**texts, **counts)


def _result_tables(findings: Findings) -> dict[str, pd.DataFrame]:
    return {
        "Statistics": statistics_texts(findings.statistics),
        "Gaps": findings.gaps,
        "Outliers": findings.outliers.reset_index(),
        "Shifts": findings.shifts,
    }


def saved_tables(findings: Findings) -> dict[str, pd.DataFrame]:
    """Return the tables of a saved explorer, without those that have no rows."""
    return {name: table.head(_MOST_LISTED_ROWS) for name, table in _result_tables(findings).items() if len(table)}


def _table_html(table: pd.DataFrame) -> str:
    if table.empty:
        return "none in this range"
    more = len(table) - _MOST_LISTED_ROWS
    note = f"<div>and {more:,} more: see .gaps, .outliers and .shifts</div>" if more > 0 else ""
    return table.head(_MOST_LISTED_ROWS).to_html(index=False, border=0, na_rep="") + note
