"""A figure with matplotlib, for ``df.dweets.plot`` and for pages where widgets cannot run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from toolkit.charts.look import LOOK, tick_labels
from toolkit.charts.matplotlib_style import styled
from toolkit.charts.series import FigureData, Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH_INCHES, _HEIGHT_INCHES = 9.0, 3.2
_PANEL_INCHES, _ROW_INCHES = 1.8, 0.26
#: About how many characters fit into the width of a panel, and how many characters of a name or state are shown.
_CHARACTERS_PER_PANEL, _MOST_CHARACTERS = 110, 24
#: So many lines have their names at their ends; more have a legend.
_MOST_LABELLED_LINES = 4
#: A line with more values is drawn as the mean of each piece, in the span from its least to its greatest value.
_MOST_POINTS, _PIECES = 4_000, 800
_LOW_STEP, _STEP_HEIGHT = 0.15, 0.7  # of a truth value, in a row of height 1
_RING_COLOUR = "0.15"  # of the rings around outliers, a colour that no line has


@styled
def series_axes(
    data: FigureData, *, title: str | None = None, axes: Axes | None = None, empty: str = "no data"
) -> Axes | np.ndarray[Any, Any]:
    """Draw on the given axes, or on a new figure of pyplot, which a notebook shows; return all axes that were used.

    Without any value to draw, the axes show the text `empty`. On given axes, the fields share one panel, so each line
    has its own colour.
    """
    from matplotlib import pyplot

    if axes is None:
        panel_axes = _draw_panels(pyplot.figure(layout="constrained"), data)
    else:
        if len(data.panels) > 1:
            data = _with_fields_as_things(data)
        panel_axes = [axes]
        _draw_panel(axes, data.lines, data)
        _name_lines(axes, data)
        axes.set_xlabel(data.time_label)
    if not data.has_values:
        _write(panel_axes[0], empty)
    if title and len(panel_axes) > 1:
        panel_axes[0].get_figure().suptitle(title, x=0.01, ha="left")  # type: ignore[union-attr]
    elif title:
        panel_axes[0].set_title(title)
    return panel_axes[0] if len(panel_axes) == 1 else np.asarray(panel_axes)


@styled
def chart_figure(
    data: FigureData, *, visible_range: tuple[pd.Timestamp, pd.Timestamp] | None = None, empty: str = "no data"
) -> Figure:
    """Return a figure outside of pyplot, with the panels of a chart, or with the text `empty` if there are no lines."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    first, *_ = _draw_panels(figure, data)
    if not data.lines:  # axes without data would show the year 1970
        first.set_axis_off()
        _write(first, empty)
    elif visible_range is not None:
        first.set_xlim(*visible_range)  # type: ignore[arg-type]
    return figure


def _with_fields_as_things(data: FigureData) -> FigureData:
    names = [f"{line.thing} {line.field}".strip() for line in data.lines]
    lines = [line._replace(thing=name) for line, name in zip(data.lines, names, strict=True)]
    return replace(data, lines=lines, things=names)


def _write(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)


def _draw_panels(figure: Figure, data: FigureData) -> list[Axes]:
    panels = data.panels or [[]]
    # Numbers have the same height in all panels, and states a row for each thing.
    are_numbers = [not panel or panel[0].kind == "number" for panel in panels]
    heights = [
        _PANEL_INCHES if is_number else max(0.6, 0.3 + _ROW_INCHES * len(panel))
        for panel, is_number in zip(panels, are_numbers, strict=True)
    ]
    figure.set_size_inches(_WIDTH_INCHES, max(sum(heights) + 0.6, _HEIGHT_INCHES * are_numbers[0]))
    panel_axes = list(figure.subplots(len(panels), sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    for axes, panel in zip(panel_axes, panels, strict=True):
        _draw_panel(axes, panel, data)
    if len(panels) == 1:
        _name_lines(panel_axes[0], data)
    elif len(data.drawn_things) > 1:
        figure.legend(*legend_entries(data), loc="outside upper right", ncols=6)
    panel_axes[-1].set_xlabel(data.time_label)
    return panel_axes


def _draw_panel(axes: Axes, lines: Sequence[Line], data: FigureData) -> None:
    kind = lines[0].kind if lines else "number"
    for row, line in enumerate(lines):
        _draw_marks(axes, line, data, (0, 1) if kind == "number" else (1 - (row + 1) / len(lines), 1 / len(lines)))
    if kind == "number":
        _draw_numbers(axes, lines, data)
    else:
        _draw_rows(axes, lines, data)
    _set_time_axis(axes, data)
    unit, *others = {line.unit for line in lines} or {""}
    fields = list(dict.fromkeys(line.field for line in lines))
    name = _short(fields[0]) if len(fields) == 1 else ""
    unit = "" if others else unit
    axes.set_ylabel(f"{name} ({unit})" if name and unit else name or unit)


def _set_time_axis(axes: Axes, data: FigureData) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

    # matplotlib cannot label margins before the year 1 or after 9999.
    least, most = date2num(np.array(["0001-01-01", "9999-12-31T23:59"], "datetime64[m]"))
    left, right = axes.get_xlim()
    axes.set_xbound(max(left, least), min(right, most))
    zone = data.lines[0].values.index.tz if data.lines else None  # type: ignore[attr-defined]
    axes.xaxis.set_major_locator(locator := AutoDateLocator(tz=zone, minticks=3, maxticks=8))
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))


# -- lines and states -----------------------------------------------------------------------------------------


def _draw_numbers(axes: Axes, lines: Sequence[Line], data: FigureData) -> None:
    from matplotlib.ticker import MaxNLocator

    for line in lines:
        style, values, opacity = data.style(line.thing), line.values, 1.0
        if len(values) > _MOST_POINTS:
            values, opacity = _draw_span(axes, values, style.colour), LOOK["mean"]
        look = {
            "color": (style.colour, opacity),
            "linestyle": style.dashes,
            "linewidth": 1.2 if style.is_distinct else 0.7,
        }
        axes.plot(values.index, values, label=line.thing or line.field, **look)
        # A line does not show a value without a neighbour, so a dot shows it.
        present = values.notna().to_numpy()
        isolated = present & ~np.append(present[1:], False) & ~np.append(False, present[:-1])
        if isolated.any():
            axes.plot(values.index[isolated], values[isolated], "o", color=style.colour, markersize=3)
    for line in lines:
        if (outliers := line.marks.outliers) is not None:
            axes.scatter(
                outliers.index, outliers["value"], _ring_areas(outliers["score"]), "none",
                edgecolors=_RING_COLOUR, zorder=3,
            )  # fmt: skip
    for limit in data.marks.thresholds.get(lines[0].field, ()) if lines else ():
        axes.axhline(limit, color=_RING_COLOUR, linestyle="--", linewidth=0.8)
    axes.margins(y=0.08)
    axes.yaxis.set_major_locator(MaxNLocator(LOOK["mostTicks"] - 1, min_n_ticks=2))
    # Distinct labels without an offset, which readers would have to add. For the pointer, the index is None.
    axes.yaxis.set_major_formatter(
        lambda y, index: tick_labels(axes.get_yticks().tolist())[int(index)] if index is not None else f"{y:g}"
    )


def _draw_span(axes: Axes, values: pd.Series[float], colour: str) -> pd.Series[float]:
    """Draw the span of each piece of a line, and return the means of the pieces."""
    pieces = values.groupby(np.arange(len(values)) * _PIECES // len(values))
    times = values.index[pieces.size().cumsum().to_numpy() - 1]
    low, high = pieces.min(), pieces.max()
    # So that a spike of one value is seen, the span has an edge.
    edge = {"edgecolor": (colour, 2 * LOOK["band"]), "linewidth": 0.6}
    axes.fill_between(times, low, high, facecolor=(colour, LOOK["band"]), **edge)  # type: ignore[arg-type]
    return pieces.mean().set_axis(times)


def _ring_areas(scores: pd.Series[float]) -> np.ndarray[Any, Any]:
    """Return the areas of rings in square points; their radius grows with the square root of the score."""
    least, greatest = LOOK["rings"]["least"], LOOK["rings"]["greatest"]
    radius = least + (greatest - least) * np.sqrt(scores.to_numpy() / scores.max())
    areas: np.ndarray[Any, Any] = (1.5 * radius) ** 2
    return areas


def _draw_rows(axes: Axes, lines: Sequence[Line], data: FigureData) -> None:
    """Draw truth values as steps and texts as bands of states: a row for each thing, the first at the top."""
    for row, line in enumerate(lines):
        bottom, colour = len(lines) - 1 - row, data.style(line.thing).colour
        if line.kind == "boolean":
            base = bottom + _LOW_STEP
            steps = base + _STEP_HEIGHT * line.values
            axes.plot(steps.index, steps, color=colour, drawstyle="steps-post")
            axes.fill_between(steps.index, base, steps, color=(colour, LOOK["band"]), step="post", linewidth=0)
        else:
            _draw_states(axes, line, bottom, colour)
    axes.set_ylim(0, len(lines))
    axes.grid(visible=False)
    if len(lines) > 1:
        axes.set_yticks([len(lines) - row - 0.5 for row in range(len(lines))], [_short(line.thing) for line in lines])
    elif lines[0].kind == "boolean":
        axes.set_yticks([_LOW_STEP, _LOW_STEP + _STEP_HEIGHT], ["false", "true"])
    else:
        axes.set_yticks([])


def _draw_states(axes: Axes, line: Line, bottom: float, colour: str) -> None:
    from matplotlib.dates import date2num

    whole = line.values.index[-1] - line.values.index[0]
    opacities: list[float] = LOOK["states"]
    bands: dict[float, list[tuple[float, float]]] = {opacity: [] for opacity in opacities}
    for start, end, code in _states_of(line.values):
        first, last = date2num([start, end])
        bands[opacities[code % len(opacities)]].append((first, last - first))
        text = line.states[code][:_MOST_CHARACTERS]
        if (end - start) / whole * _CHARACTERS_PER_PANEL > len(text):
            label = axes.text(first, bottom + 0.5, f" {text}", fontsize=8, va="center", clip_on=True)
            label.set_parse_math(False)
    for opacity, spans in bands.items():
        axes.broken_barh(spans, (bottom + 0.1, 0.8), color=(colour, opacity), linewidth=0)


def _states_of(codes: pd.Series[float]) -> Iterator[tuple[pd.Timestamp, pd.Timestamp, int]]:
    """Yield start, end and index of each state; the last one ends with the data."""
    codes = codes.fillna(-1)
    starts = codes[codes.ne(codes.shift())]
    ends = [*starts.index[1:], *codes.index[-1:]]
    for start, end, code in zip(starts.index, ends, starts.astype("int64"), strict=True):
        if code >= 0 and end > start:
            yield start, end, code


# -- marks and names ------------------------------------------------------------------------------------------


def _draw_marks(axes: Axes, line: Line, data: FigureData, height: tuple[float, float]) -> None:
    """Draw the gaps and level shifts of a line behind it; if there are several things, in its colour.

    `height` is bottom and height as shares of the axes.
    """
    from matplotlib.dates import date2num

    def spans(found: pd.DataFrame) -> list[tuple[float, float]]:
        starts, ends = date2num(found["start"]), date2num(found["end"])
        return list(zip(starts, ends - starts, strict=True))

    def shade(found: pd.DataFrame, colour: Any) -> None:  # noqa: ANN401
        transform = axes.get_xaxis_transform()
        axes.broken_barh(spans(found), height, color=colour, linewidth=0, transform=transform, zorder=0)

    gaps, shifts, colour = line.marks.gaps, line.marks.shifts, data.style(line.thing).colour
    if gaps is not None:
        shade(gaps, (colour if len(data.things) > 1 else "black", LOOK["gap"]))
    if shifts is not None:
        shade(shifts, (colour, LOOK["shift"]))
        for (start, _), why in zip(spans(shifts), shifts["explained_by"], strict=True):
            text = why if isinstance(why, str) else "level shift"
            axes.text(start, 0.98, f" {text}", va="top", fontsize=8, transform=axes.get_xaxis_transform(), clip_on=True)


def _name_lines(axes: Axes, data: FigureData) -> None:
    """Name the lines of the only panel: a few at their ends, more in a legend; rows have their names at the axis."""
    drawn = [line for line in data.lines if line.kind == "number" and line.values.notna().any()]
    if len(drawn) < 2:
        return
    if len(drawn) > _MOST_LABELLED_LINES:
        axes.legend(*legend_entries(data), loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0, ncols=5)
        return
    low, high = axes.get_ylim()
    places = [(float(line.values.dropna().iloc[-1]) - low) / ((high - low) or 1) for line in drawn]
    order = np.argsort(places, kind="stable").tolist()
    spread = _spread_out([places[index] for index in order])
    for index, place in zip(order, spread, strict=True):
        style: dict[str, Any] = {"va": "center", "fontsize": 9, "fontweight": "bold", "transform": axes.transAxes}
        thing = drawn[index].thing
        axes.text(1.01, place, _short(thing), color=data.style(thing).colour, **style)


def _spread_out(places: Sequence[float], distance: float = 0.085) -> list[float]:
    """Move ascending shares of a height apart, so that the names beside them do not overlap."""
    spread: list[float] = []
    for place in places:
        spread.append(max(place, spread[-1] + distance) if spread else place)
    excess = max(0.0, spread[-1] - 1)
    return [place - excess for place in spread]


def legend_entries(data: FigureData) -> tuple[list[Any], list[str]]:
    """Return lines and names for a legend: one entry a thing; the things that look alike have one together."""
    from matplotlib.lines import Line2D

    styles = {thing: data.style(thing) for thing in data.drawn_things}
    names = {style: _short(thing) for thing, style in styles.items()}
    if alike := [style for style in styles.values() if not style.is_distinct]:
        names[alike[0]] = f"and {len(alike)} more"
    return [Line2D([], [], color=style.colour, linestyle=style.dashes) for style in names], [*names.values()]


def _short(name: str) -> str:
    """Return a name as a label; a dollar sign would begin a formula."""
    text = name if len(name) <= _MOST_CHARACTERS else f"{name[: _MOST_CHARACTERS - 1]}…"
    return text.replace("$", r"\$")
