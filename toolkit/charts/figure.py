"""The chart as a matplotlib figure, for ``df.dweets.plot`` and for pages where widgets cannot run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from toolkit.charts.numerals import tick_labels
from toolkit.charts.series import PALETTE, ChartMarks, Line, Style, Unit, lines_of, panels_of, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH_INCHES, _HEIGHT_INCHES = 9.0, 3.2
#: About how many characters fit into the width of a panel, and how many characters of a state are shown.
_CHARACTERS_PER_PANEL, _MOST_BAND_CHARACTERS = 110, 24
_MOST_LEGEND_ENTRIES = 20
_RING_COLOUR = "0.15"  # of the rings around outliers, a colour that no line has


def series_axes(
    frame: pd.DataFrame,
    fields: Sequence[str],
    marks: ChartMarks,
    *,
    unit: Unit = None,
    title: str | None = None,
    axes: Axes | None = None,
    empty: str = "no data",
) -> Axes | np.ndarray[Any, Any]:
    """Draw on the given axes, or on a new figure of pyplot, which a notebook shows; return all axes that were used.

    Without any value to draw, the axes show the text `empty`.
    """
    from matplotlib import pyplot

    lines, time_name = lines_of(frame, fields, marks, unit), noted(str(frame.index.name or ""), marks.note())
    if axes is None:
        panel_axes = _draw_panels(pyplot.figure(layout="constrained"), lines, marks.gaps, time_name, {})
    else:
        panel_axes = [axes]
        _draw_panel(axes, lines, marks.gaps, styles_of((line.name for line in lines), {}))
        axes.set_xlabel(time_name)
    if not has_values(lines):
        _write(panel_axes[0], empty)
    if title and len(panel_axes) > 1:
        panel_axes[0].get_figure().suptitle(title)  # type: ignore[union-attr]
    elif title:
        panel_axes[0].set_title(title, loc="left", pad=24 if panel_axes[0].get_legend() else None)
    return panel_axes[0] if len(panel_axes) == 1 else np.asarray(panel_axes)


def chart_figure(
    lines: Sequence[Line],
    gaps: pd.DataFrame | None,
    time_name: str,
    style_of_name: dict[str, Style],
    *,
    visible_range: tuple[pd.Timestamp, pd.Timestamp] | None = None,
    empty: str = "no data",
) -> Figure:
    """Return a figure outside of pyplot, with the panels of a chart, or with the text `empty` if there are no lines."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    first, *_ = _draw_panels(figure, lines, gaps, time_name, style_of_name)
    if not lines:  # axes without data would show the year 1970
        first.set_axis_off()
        _write(first, empty)
    elif visible_range is not None:
        first.set_xlim(*visible_range)  # type: ignore[arg-type]
    return figure


def has_values(lines: Sequence[Line]) -> bool:
    return any(line.values.notna().any() for line in lines)


def noted(time_name: str, note: str) -> str:
    """Return the name of the time axis with a note about the chart, if there is one."""
    return " · ".join(filter(None, (time_name, note)))


def _write(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)


def _draw_panels(
    figure: Figure, lines: Sequence[Line], gaps: pd.DataFrame | None, time_name: str, style_of_name: dict[str, Style]
) -> list[Axes]:
    panels = panels_of(lines) or [[]]
    heights = [_panel_height(panel) for panel in panels]
    figure.set_size_inches(_WIDTH_INCHES, _HEIGHT_INCHES if len(panels) == 1 else sum(heights))
    panel_axes = list(figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    styles = styles_of((line.name for panel in panels for line in panel), style_of_name)
    for axes, panel in zip(panel_axes, panels, strict=True):
        _draw_panel(axes, panel, gaps, styles)
    panel_axes[-1].set_xlabel(time_name)
    return panel_axes


def _panel_height(panel: Sequence[Line]) -> float:
    """Return the height in inches of one of several panels."""
    if not panel or panel[0].kind == "number":
        return 2.2
    return 0.9 if panel[0].kind == "boolean" else 0.6 + 0.2 * len(panel)


def _draw_lines(axes: Axes, lines: Sequence[Line], styles: Mapping[str, Style]) -> None:
    for line in lines:
        colour, dash = styles[line.name]
        values, steps = line.values, "steps-post" if line.kind == "boolean" else "default"
        (drawn,) = axes.plot(values.index, values, label=line.name, color=colour, linewidth=1.2, drawstyle=steps)
        if dash:
            drawn.set_dashes([length / 2 for length in dash])
        # A line does not show a value without a neighbour, so a dot shows it.
        present = values.notna().to_numpy()
        isolated = present & ~np.append(present[1:], False) & ~np.append(False, present[:-1])
        if isolated.any():
            axes.plot(values.index[isolated], values[isolated], "o", color=colour, markersize=3)
    all_outliers = [line.outliers for line in lines if line.outliers is not None]
    for index, outliers in enumerate(all_outliers):
        label = "outlier" if index == 0 else None  # one entry in the legend
        axes.plot(outliers.index, outliers["value"], "o", mfc="none", color=_RING_COLOUR, markersize=7, label=label)
    if lines and lines[0].kind == "boolean":
        axes.set_yticks([0, 1], ["false", "true"])
        axes.set_ylim(-0.15, 1.15)
    else:
        # Distinct labels without an offset, which readers would have to add. For the pointer, the index is None.
        axes.yaxis.set_major_formatter(
            lambda y, index: tick_labels(axes.get_yticks().tolist())[int(index)] if index is not None else f"{y:g}"
        )


def _draw_bands(axes: Axes, lines: Sequence[Line]) -> None:
    for row, line in enumerate(lines):
        top, bottom = 1 - (row + 0.1) / len(lines), 1 - (row + 0.9) / len(lines)
        codes = line.values.fillna(-1)
        starts = codes[codes.ne(codes.shift())]
        ends = [*starts.index[1:], *codes.index[-1:]]
        for start, end, code in zip(starts.index, ends, starts.astype("int64"), strict=True):
            if code < 0 or not end > start:
                continue
            text = line.states[code][:_MOST_BAND_CHARACTERS]
            axes.axvspan(start, end, bottom, top, color=PALETTE[code % len(PALETTE)], alpha=0.4)
            if (end - start) / (codes.index[-1] - codes.index[0]) * _CHARACTERS_PER_PANEL > len(text):
                style: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "va": "center", "clip_on": True}
                axes.text(start, (top + bottom) / 2, f" {text}", fontsize=8, **style)
    axes.set_ylim(0, 1)
    names = [line.thing for line in lines] if any(line.thing for line in lines) else []
    axes.set_yticks([1 - (row + 0.5) / len(lines) for row in range(len(names))], names)


def _draw_panel(axes: Axes, lines: Sequence[Line], gaps: pd.DataFrame | None, styles: Mapping[str, Style]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

    is_text = bool(lines) and lines[0].kind == "text"
    if is_text:
        _draw_bands(axes, lines)
    else:
        _draw_lines(axes, lines, styles)
    if gaps is not None and lines:
        for start, end in zip(gaps["start"], gaps["end"], strict=True):
            axes.axvspan(start, end, color="0.5", alpha=0.25, linewidth=0)
    # matplotlib cannot label margins before the year 1 or after 9999.
    least, most = date2num(np.array(["0001-01-01", "9999-12-31T23:59"], "datetime64[m]"))
    left, right = axes.get_xlim()
    axes.set_xbound(max(left, least), min(right, most))
    zone = lines[0].values.index.tz if lines else None  # type: ignore[attr-defined]
    axes.xaxis.set_major_locator(locator := AutoDateLocator(tz=zone, minticks=3, maxticks=8))
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    fields = list(dict.fromkeys(line.field for line in lines))
    units = {line.unit for line in lines}
    unit = units.pop() if len(units) == 1 else ""
    if len(fields) == 1:
        name = lines[0].name if len(lines) == 1 else fields[0]
        axes.set_ylabel(f"{name} ({unit})" if unit else name)
    elif unit:
        axes.set_ylabel(unit)
    handles, names = axes.get_legend_handles_labels()
    if len(names) > 1 and not is_text:
        shown = handles[:_MOST_LEGEND_ENTRIES], names[:_MOST_LEGEND_ENTRIES]
        position: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0}
        axes.legend(*shown, frameon=False, ncols=4, fontsize=8, **position)
