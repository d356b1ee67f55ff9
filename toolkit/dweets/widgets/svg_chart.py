"""Lines over time as SVG by hand: half a millisecond for 200 points, in the colours of the notebook's theme.

Vertical positions are pixels, horizontal ones per cent, so the chart fills any width and its text keeps its size.
The labels of the value axis stand left of the drawing, in a margin as wide as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from toolkit.charts.numerals import distinct_numerals, tick_labels
from toolkit.charts.series import NO_MARKS, Flags, Marks, lines_of, lonely
from toolkit.charts.styles import PALETTE

Numbers = np.ndarray[Any, np.dtype[np.float64]]
_Ticks = Sequence[tuple[float, str]]

_RIGHT = 8  # pixels: room for a ring
_DIGIT, _SEPARATOR, _GAP = 7.7, 4.6, 8  # pixels: as wide as characters are in the widest usual font, and room beside
_NEAR_THE_EDGE = 95.0  # per cent; a label in the middle of such a place would be cut off
_TOP, _BOTTOM = 8, 24  # pixels: room for a ring, and for the labels of the time axis
_TEXT = 'fill="currentColor" font-size="12" font-family="system-ui,sans-serif"'
#: More points than this are drawn as the least and the greatest of each piece, so that no spike is lost.
_PIECES = 600


class _Line(NamedTuple):
    name: str
    seconds: Numbers  # since the epoch, ascending
    values: Numbers


class _Scale(NamedTuple):
    """The part of the plane that is shown."""

    start: float
    end: float
    low: float
    high: float
    height: int

    def across(self, seconds: float) -> float:
        return 100 * (seconds - self.start) / (self.end - self.start)

    def down(self, value: float) -> float:
        return _TOP + (self.high - value) / (self.high - self.low) * (self.height - _TOP - _BOTTOM)


def svg_chart(
    frame: pd.DataFrame,
    fields: Sequence[str],
    marks: Marks = NO_MARKS,
    *,
    regular: bool = False,
    empty: str = "no numbers to draw",
    height: int = 280,
) -> str:
    """Return a chart as HTML: a legend over one SVG element, or the text `empty` without numbers."""
    lines = [
        _Line(line.name, _seconds(line.values.index), np.asarray(line.values, dtype=np.float64))
        for line in lines_of(frame, fields, None if regular else marks.gaps, regular=regular)
    ]
    scale = _scale_of(lines, height)
    margin, legend = 0, ""
    if scale is None:
        body = f'<text x="50%" y="{height // 2}" text-anchor="middle" opacity="0.7" {_TEXT}>{escape(empty)}</text>'
    else:
        ticks, common = time_ticks(scale.start, scale.end)
        values = _value_ticks(scale.low, scale.high)
        margin = _margin_of(values)
        legend = _legend(lines, common, margin)
        parts = (_value_axis(values, scale), _time_axis(ticks, scale), _lines(lines, scale), _rings(marks, scale))
        body = "".join((*_shades(marks, scale), *(piece for part in parts for piece in part)))
    title = f"{', '.join(line.name for line in lines) or 'nothing'} over {frame.index.name}"
    return (
        f'{legend}<svg role="img" aria-label="{escape(title)}" height="{height}" style="display:block;'
        f'overflow:visible;margin:0 {_RIGHT}px 0 {margin}px;width:calc(100% - {margin + _RIGHT}px);min-width:200px" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _seconds(times: pd.Index[Any] | pd.Series[Any]) -> Numbers:
    """Return times as seconds since the epoch; times without a zone as if they were UTC."""
    seconds: Numbers = pd.DatetimeIndex(times).as_unit("us").asi8 / 1e6
    return seconds


def _scale_of(lines: Sequence[_Line], height: int) -> _Scale | None:
    seconds = [line.seconds for line in lines if np.isfinite(line.values).any()]
    if not seconds:
        return None
    values = np.concatenate([line.values for line in lines])
    values = values[np.isfinite(values)]
    start, end = min(each[0] for each in seconds), max(each[-1] for each in seconds)
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high))
    # Values that differ by rounding only are a level line.
    air = (high - low) * 0.04 if high - low > size * 1e-12 else size * 0.05 or 0.5
    pause = 0.0 if end > start else 0.5
    return _Scale(float(start) - pause, float(end) + pause, low - air, high + air, height)


def _lines(lines: Sequence[_Line], scale: _Scale) -> Iterator[str]:
    """Draw into a box that is stretched to the width, with strokes that are not."""
    inner = scale.height - _TOP - _BOTTOM
    yield (
        f'<svg y="{_TOP}" width="100%" height="{inner}" viewBox="0 0 1000 {inner}" '
        'preserveAspectRatio="none" overflow="visible">'
    )
    for place, line in enumerate(lines):
        seconds, values = thinned(line.seconds, line.values)
        across = (seconds - scale.start) * (1000 / (scale.end - scale.start))
        down = (scale.high - values) * (inner / (scale.high - scale.low))
        there = np.isfinite(values)
        yield _stroke(_path(across, down, there), place, 1.5)
        if (alone := lonely(there)).any():
            # Strokes without length: dots.
            dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in zip(across[alone], down[alone], strict=True))
            yield _stroke(dots, place, 5)
    yield "</svg>"


def _stroke(path: str, place: int, width: float) -> str:
    return (
        f'<path d="{path}" fill="none" stroke="{_colour(place)}" stroke-width="{width}" '
        'stroke-linejoin="round" stroke-linecap="round" vector-effect="non-scaling-stroke"/>'
    )


def _path(across: Numbers, down: Numbers, there: Flags) -> str:
    pieces, interrupted = [], True
    for x, y, is_there in zip(across.tolist(), down.tolist(), there.tolist(), strict=True):
        if is_there:
            pieces.append(f"{'M' if interrupted else 'L'}{x:.1f} {y:.1f}")
        interrupted = not is_there
    return "".join(pieces)


def thinned(seconds: Numbers, values: Numbers, pieces: int = _PIECES) -> tuple[Numbers, Numbers]:
    """Keep the least and the greatest value of each piece of a long line, so that no spike is lost.

    Only a piece without any value interrupts the line: shorter interruptions are narrower than what can be seen.
    """
    if len(values) <= 3 * pieces:
        return seconds, values
    length = -(-len(values) // pieces)
    padding = length * pieces - len(values)
    grid = np.append(values, np.full(padding, np.nan)).reshape(pieces, length)
    least = np.where(np.isnan(grid), np.inf, grid).argmin(axis=1)
    greatest = np.where(np.isnan(grid), -np.inf, grid).argmax(axis=1)
    first = np.arange(pieces) * length
    kept = np.sort(np.concatenate([first + least, first + greatest]))
    kept = kept[kept < len(values)]
    return seconds[kept], values[kept]


def _value_ticks(low: float, high: float) -> _Ticks:
    from matplotlib.ticker import MaxNLocator

    places = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    ticks = [tick for tick in places if low <= tick <= high]
    return list(zip(ticks, tick_labels(ticks), strict=True))


def _margin_of(ticks: _Ticks) -> int:
    widths = (sum(_SEPARATOR if sign in ",.-" else _DIGIT for sign in label) for _, label in ticks)
    # In steps, so that a live chart does not jump with every new digit.
    return max(36, 12 * math.ceil((max(widths, default=0) + _GAP) / 12))


def _value_axis(ticks: _Ticks, scale: _Scale) -> Iterator[str]:
    for value, label in ticks:
        y = f"{scale.down(value):.1f}"
        yield (
            f'<line x1="0" x2="100%" y1="{y}" y2="{y}" stroke="currentColor" opacity="0.15"/>'
            f'<text x="-6" y="{y}" dy="4" text-anchor="end" {_TEXT}>{label}</text>'
        )


def _time_axis(ticks: _Ticks, scale: _Scale) -> Iterator[str]:
    for seconds, label in ticks:
        at = scale.across(seconds)
        x, anchor = f"{at:.2f}%", "end" if at > _NEAR_THE_EDGE else "middle"
        yield (
            f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{scale.height - _BOTTOM}" stroke="currentColor" opacity="0.08"/>'
            f'<text x="{x}" y="{scale.height - 7}" text-anchor="{anchor}" {_TEXT}>{escape(label)}</text>'
        )


def time_ticks(start: float, end: float) -> tuple[list[tuple[float, str]], str]:
    """Return round times between two (seconds since the epoch) with short labels, and what they have in common."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    low, high = np.array([start * 1e6, end * 1e6]).astype("datetime64[us]").tolist()
    locator = AutoDateLocator(minticks=3, maxticks=7)  # 6 would leave spans of 31 to 35 months without an interval
    days = [tick for tick in locator.tick_values(low, high) if start <= round(tick * 86_400, 4) <= end]
    formatter = ConciseDateFormatter(locator)
    labels = formatter.format_ticks(days)
    return [(day * 86_400, label) for day, label in zip(days, labels, strict=True)], formatter.get_offset()


def _shades(marks: Marks, scale: _Scale) -> Iterator[str]:
    if marks.gaps is None:
        return
    for start, end in zip(_seconds(marks.gaps["start"]), _seconds(marks.gaps["end"]), strict=True):
        left, right = (scale.across(min(max(at, scale.start), scale.end)) for at in (start, end))
        if right > left:
            yield (
                f'<rect x="{left:.2f}%" width="{max(right - left, 0.15):.2f}%" y="{_TOP}" '
                f'height="{scale.height - _TOP - _BOTTOM}" fill="currentColor" opacity="0.18"/>'
            )


def _rings(marks: Marks, scale: _Scale) -> Iterator[str]:
    if marks.outliers is None:
        return
    found = marks.outliers
    columns = (_seconds(found.index), found.index, found["field"], found["value"], found["expected"])
    for seconds, time, field, value, expected in zip(*columns, strict=True):
        if scale.start <= seconds <= scale.end:
            shown, usual = distinct_numerals([value, expected])
            text = escape(f"{field} {shown} at {time:%Y-%m-%d %H:%M}, where {usual} is usual")
            yield (
                f'<circle cx="{scale.across(seconds):.2f}%" cy="{scale.down(value):.1f}" r="4.5" '
                f'fill="transparent" stroke="#D55E00" stroke-width="1.5"><title>{text}</title></circle>'
            )


def _legend(lines: Sequence[_Line], common: str, margin: int) -> str:
    names = "".join(
        f'<span><b style="color:{_colour(place)}">━</b> {escape(line.name)}</span>' for place, line in enumerate(lines)
    )
    common = f'<span style="margin-left:auto;opacity:0.7">{escape(common)}</span>'
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:0 1em;font-size:12px;line-height:1.5;'
        f'padding:0 {_RIGHT}px 0 {margin}px">{names}{common}</div>'
    )


def _colour(place: int) -> str:
    return PALETTE[place % len(PALETTE)]
