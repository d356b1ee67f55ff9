"""The chart as a matplotlib picture, for ``df.dweets.plot`` and for pages where widgets cannot run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from toolkit.charts.numerals import distinct_numerals, tick_labels
from toolkit.charts.series import NO_MARKS, ChartMarks, Line, isolated, lines_of, panels_of
from toolkit.charts.styles import PALETTE, Style, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Formatter

_FIGURE_INCHES = (9.0, 3.2)
_MOST_LEGEND_ENTRIES = 20
_RING_COLOUR = "0.15"  # of the rings around outliers: no line has this colour


def units_of(fields: Sequence[str], unit: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return the unit of each field, empty where it has none."""
    if isinstance(unit, Mapping):
        return {field: unit.get(field, "") for field in fields}
    return dict.fromkeys(fields, unit or "")


def series_axes(
    frame: pd.DataFrame,
    fields: Sequence[str],
    marks: ChartMarks = NO_MARKS,
    *,
    unit: str | Mapping[str, str] | None = None,
    title: str | None = None,
    axes: Axes | None = None,
) -> Axes | np.ndarray[Any, Any]:
    """Draw on the given axes, or on a new figure of pyplot, so that a notebook shows it."""
    from matplotlib import pyplot

    lines, units = lines_of(frame, fields, marks.gaps), units_of(fields, unit)
    panels = [lines] if axes is not None or not lines else panels_of(lines, units)
    if axes is not None:
        places = [axes]
    else:
        figure = pyplot.figure(figsize=_figure_size(panels), layout="constrained")
        places = _places_on(figure, panels)
        if len(panels) > 1:
            figure.suptitle(title or "")
            title = None
    _draw_panels(places, panels, marks, units, str(frame.index.name or ""), title)
    return places[0] if len(places) == 1 else np.asarray(places)


def chart_figure(
    lines: Sequence[Line],
    marks: ChartMarks = NO_MARKS,
    units: Mapping[str, str] | None = None,
    *,
    time_name: str = "",
    known: dict[str, Style] | None = None,
    range_shown: tuple[pd.Timestamp, pd.Timestamp] | None = None,
    empty: str = "no data",
) -> Figure:
    """Return a figure that pyplot does not know, with the panels of a chart, or the text `empty` without lines."""
    from matplotlib.figure import Figure

    panels = panels_of(lines, dict(units or {})) or [[]]
    figure = Figure(figsize=_figure_size(panels), layout="constrained")
    places = _places_on(figure, panels)
    _draw_panels(places, panels, marks, dict(units or {}), time_name, None, known)
    if not lines:  # axes without data would show the year 1970
        places[0].set_axis_off()
        places[0].text(0.5, 0.5, empty, ha="center", va="center", transform=places[0].transAxes)
    elif range_shown is not None:
        places[0].set_xlim(*range_shown)  # type: ignore[arg-type]
    return figure


def figure_file(figure: Figure, kind: Literal["png", "svg"] = "png") -> bytes:
    file = BytesIO()
    figure.savefig(file, format=kind, dpi=96, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()


def _figure_size(panels: Sequence[Sequence[Line]]) -> tuple[float, float]:
    return _FIGURE_INCHES if len(panels) == 1 else (_FIGURE_INCHES[0], sum(map(_panel_height, panels)))


def _places_on(figure: Figure, panels: Sequence[Sequence[Line]]) -> list[Axes]:
    heights = [_panel_height(panel) for panel in panels]
    return list(figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=heights)[:, 0])


def _panel_height(panel: Sequence[Line]) -> float:
    """Return the height in inches of one of several panels."""
    if not panel or panel[0].kind == "number":
        return 2.2
    return 0.9 if panel[0].kind == "boolean" else 0.6 + 0.2 * len(panel)


def _draw_panels(
    places: Sequence[Axes],
    panels: Sequence[Sequence[Line]],
    marks: ChartMarks,
    units: Mapping[str, str],
    time_name: str,
    title: str | None,
    known: dict[str, Style] | None = None,
) -> None:
    styles = styles_of((line.name for panel in panels for line in panel), {} if known is None else known)
    for place, panel in zip(places, panels, strict=True):
        if panel and panel[0].kind == "text":
            _draw_bands(place, panel)
        else:
            _draw_lines(place, panel, marks, styles)
        _finish(place, panel, units, title, marks)
    places[-1].set_xlabel(time_name)


def _draw_lines(axes: Axes, lines: Sequence[Line], marks: ChartMarks, styles: Mapping[str, Style]) -> None:
    for line in lines:
        colour, dash = styles[line.name]
        values, steps = line.values, "steps-post" if line.kind == "boolean" else "default"
        (drawn,) = axes.plot(values.index, values, label=line.name, color=colour, linewidth=1.2, drawstyle=steps)
        if dash:
            drawn.set_dashes([length / 2 for length in dash])
        if (alone := isolated(values.notna().to_numpy())).any():
            axes.plot(values.index[alone], values[alone], "o", color=colour, markersize=3)
    ringed = [found for line in lines if (found := line.outliers(marks)) is not None and len(found)]
    for place, found in enumerate(ringed):
        label = None if place else "outlier"
        axes.plot(found.index, found["value"], "o", mfc="none", color=_RING_COLOUR, markersize=7, label=label)
    if lines and lines[0].kind == "boolean":
        axes.set_yticks([0, 1], ["false", "true"])
        axes.set_ylim(-0.15, 1.15)
    else:
        axes.yaxis.set_major_formatter(_value_formatter())


def _draw_bands(axes: Axes, lines: Sequence[Line]) -> None:
    for row, line in enumerate(lines):
        values = line.values
        changes = values.ne(values.shift()).to_numpy() & ~(values.isna() & values.shift().isna()).to_numpy()
        starts = values[changes]
        ends = [*starts.index[1:], values.index[-1]] if len(starts) else []
        for start, end, code in zip(starts.index, ends, starts, strict=True):
            share = (end - start) / (values.index[-1] - values.index[0]) if end > start else 0
            if np.isnan(code) or not share:
                continue
            colour, text = PALETTE[int(code) % len(PALETTE)], line.states[int(code)]
            axes.axvspan(
                start, end, 1 - (row + 0.9) / len(lines), 1 - (row + 0.1) / len(lines), color=colour, alpha=0.4
            )
            at = 1 - (row + 0.5) / len(lines)
            where = axes.get_xaxis_transform()
            if share * 110 > len(text[:24]):  # about as many letters as fit
                axes.text(start, at, f" {text[:24]}", transform=where, va="center", fontsize=8, clip_on=True)
    axes.set_ylim(0, 1)
    named = [line.thing for line in lines]
    rows = [1 - (row + 0.5) / len(lines) for row in range(len(lines))]
    axes.set_yticks(rows if any(named) else [], named if any(named) else [])


def _finish(axes: Axes, lines: Sequence[Line], units: Mapping[str, str], title: str | None, marks: ChartMarks) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if marks.gaps is not None and lines:
        for start, end in zip(marks.gaps["start"], marks.gaps["end"], strict=True):
            axes.axvspan(start, end, color="0.5", alpha=0.25, linewidth=0)
    axes.xaxis.set_major_locator(locator := AutoDateLocator(minticks=3, maxticks=8))
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    fields = list(dict.fromkeys(line.field for line in lines))
    shared = {units.get(field, "") for field in fields}
    unit = shared.pop() if len(shared) == 1 else ""
    if len(fields) == 1:
        name = lines[0].name if len(lines) == 1 else fields[0]
        axes.set_ylabel(f"{name} ({unit})" if unit else name)
    elif unit:
        axes.set_ylabel(unit)
    handles, names = axes.get_legend_handles_labels()
    legend = (len(names) > 1) and lines[0].kind != "text"
    if title:
        axes.set_title(title, loc="left", pad=24 if legend else None)
    if legend:
        shown = handles[:_MOST_LEGEND_ENTRIES], names[:_MOST_LEGEND_ENTRIES]
        axes.legend(
            *shown, frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0, fontsize=8
        )


def _value_formatter() -> Formatter:
    """Return a formatter whose labels differ without an offset, which readers would have to add."""
    from matplotlib.ticker import FuncFormatter

    class ValueLabels(FuncFormatter):
        def format_ticks(self, values: Sequence[float]) -> list[str]:
            return tick_labels(values)

    return ValueLabels(lambda value, _place: distinct_numerals([value])[0])
