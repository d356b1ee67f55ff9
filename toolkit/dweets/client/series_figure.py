"""Series over time as a matplotlib picture, for ``df.dweets.plot`` and where widgets cannot run; numbers as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import Formatter

Flags = np.ndarray[Any, np.dtype[np.bool_]]

#: After Okabe and Ito: told apart by colour-blind eyes; each has a contrast above 3 on white and on black alike.
PALETTE = ("#0080C8", "#C77700", "#009E73", "#C2629A", "#7A6FD0", "#D55E00", "#8C8C00", "#808080")
_INCHES = (9.0, 3.2)
_TENFOLD = 10
_MOST_DIGITS = 17  # what tells any two floats apart
_FEWEST_DIGITS = 4
_LEAST, _GREATEST = 1e-4, 1e15  # outside of these, as 1.5e-09
_NOISE = 1e-12  # a smaller relative difference comes from rounding


class Marks(NamedTuple):
    """What is pointed out in a plot: frames as `series_analysis.gaps` and `outliers` return them."""

    gaps: pd.DataFrame | None = None
    outliers: pd.DataFrame | None = None

    def of(self, field: str) -> Marks:
        """Return the gaps, and the outliers of one field."""
        return Marks(self.gaps, None if self.outliers is None else self.outliers[self.outliers["field"] == field])


NO_MARKS = Marks()


class Labels(NamedTuple):
    """The title of a figure, and the unit of its values: one for all fields, or by field."""

    title: str | None = None
    unit: str | Mapping[str, str] | None = None

    def unit_of(self, fields: Sequence[str]) -> str:
        """Return the unit that these fields share, or nothing."""
        units = {self.unit.get(field, "") for field in fields} if isinstance(self.unit, Mapping) else {self.unit or ""}
        return units.pop() if len(units) == 1 else ""


NO_LABELS = Labels()


def series_of(
    frame: pd.DataFrame, fields: Sequence[str], gaps: pd.DataFrame | None = None, *, regular: bool = False
) -> Iterator[tuple[str, pd.Series[float]]]:
    """Yield name and values of a line for each thing and field, ascending in time; a NaN interrupts it.

    Lines are interrupted at `gaps`; with `regular` (the frame was resampled) at missing values too. Otherwise those are
    passed over, as not every dweet has every field.
    """
    if "thing" not in frame.columns:
        for field in fields:
            yield field, _line(frame[field], gaps, regular)
        return
    for thing, rows in frame.groupby("thing", sort=False, observed=True):
        own = None if gaps is None else gaps[gaps["thing"] == thing]
        for field in fields:
            name = f"{thing} {field}" if len(fields) > 1 else str(thing)
            yield name, _line(rows[field], own, regular)


def _line(column: pd.Series[Any], gaps: pd.DataFrame | None, regular: bool) -> pd.Series[float]:
    values = (column if regular else column.dropna()).astype("float64")
    if gaps is not None and len(gaps):
        inside = pd.DatetimeIndex(gaps["start"] + (gaps["end"] - gaps["start"]) / 2)
        values = pd.concat([values, pd.Series(float("nan"), index=inside, dtype="float64")])
    return values.sort_index(kind="stable")


def series_axes(
    frame: pd.DataFrame,
    fields: Sequence[str],
    marks: Marks = NO_MARKS,
    labels: Labels = NO_LABELS,
    axes: Axes | None = None,
) -> Axes | np.ndarray[Any, Any]:
    """Draw on the given axes, or on a new figure of pyplot, so that a notebook shows it."""
    from matplotlib import pyplot

    if axes is None and differ_in_magnitude(frame, fields):
        size = _INCHES[0], _INCHES[1] * 0.7 * len(fields)
        figure, several = pyplot.subplots(len(fields), sharex=True, figsize=size, layout="constrained")
        for place, field in zip(several, fields, strict=True):
            _draw(place, frame, [field], marks.of(field), Labels(unit=labels.unit))
        figure.suptitle(labels.title or "")
        return np.asarray(several)
    if axes is None:
        axes = pyplot.subplots(figsize=_INCHES, layout="constrained")[1]
    _draw(axes, frame, fields, marks, labels)
    return axes


def differ_in_magnitude(frame: pd.DataFrame, fields: Sequence[str]) -> bool:
    """Return whether one axis would flatten some of the fields: their largest values differ more than tenfold."""
    largest = frame[list(fields)].abs().max().astype("float64").to_numpy()
    sizes = largest[np.isfinite(largest) & (largest > 0)]
    return len(sizes) > 1 and bool(sizes.max() > _TENFOLD * sizes.min())


def series_png(frame: pd.DataFrame, fields: Sequence[str], marks: Marks = NO_MARKS, *, regular: bool = False) -> bytes:
    """Return the same picture as PNG, leaving no figure behind."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, layout="constrained")
    _draw(figure.add_subplot(), frame, fields, marks, NO_LABELS, regular)
    png = BytesIO()
    figure.savefig(png, format="png", dpi=96)
    return png.getvalue()


def lonely(there: Flags) -> Flags:
    """Return which of the values that are there have none beside them: no line shows these."""
    beside = np.append(there[1:], False) | np.append(False, there[:-1])
    alone: Flags = there & ~beside
    return alone


def _value_labels() -> Formatter:
    """Return labels that differ, in place of an offset that readers must add."""
    from matplotlib.ticker import FuncFormatter

    class ValueLabels(FuncFormatter):
        def format_ticks(self, values: Sequence[float]) -> list[str]:
            return tick_labels(values)

    return ValueLabels(lambda value, _place: distinct_numerals([value])[0])


def _draw(
    axes: Axes, frame: pd.DataFrame, fields: Sequence[str], marks: Marks, labels: Labels, regular: bool = False
) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    lines = list(series_of(frame, fields, None if regular else marks.gaps, regular=regular))
    for place, (name, values) in enumerate(lines):
        colour = PALETTE[place % len(PALETTE)]
        axes.plot(values.index, values, label=name, color=colour, linewidth=1)
        if (alone := lonely(values.notna().to_numpy())).any():
            axes.plot(values.index[alone], values[alone], "o", color=colour, markersize=3)
    ringed = marks.outliers is not None and len(marks.outliers) > 0
    if marks.gaps is not None:
        for start, end in zip(marks.gaps["start"], marks.gaps["end"], strict=True):
            axes.axvspan(start, end, color="0.5", alpha=0.25, linewidth=0)
    if marks.outliers is not None and ringed:
        values = marks.outliers["value"]
        axes.plot(values.index, values, "o", mfc="none", color="#D55E00", markersize=6, label="outlier")
    axes.xaxis.set_major_locator(locator := AutoDateLocator(minticks=3, maxticks=8))
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.yaxis.set_major_formatter(_value_labels())
    axes.set_xlabel(str(frame.index.name or ""))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    unit = labels.unit_of(fields)
    if len(lines) == 1:
        axes.set_ylabel(f"{lines[0][0]} ({unit})" if unit else lines[0][0])
    elif unit:
        axes.set_ylabel(unit)
    if labels.title:
        axes.set_title(labels.title, loc="left", pad=24 if len(lines) > 1 or ringed else None)
    if len(lines) > 1 or ringed:
        axes.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return labels for the ticks of an axis, all with the same number of decimals.

    >>> tick_labels([1234567885, 1234567887.5, 1234567890])
    ['1,234,567,885.0', '1,234,567,887.5', '1,234,567,890.0']
    >>> tick_labels([0, 2e-9, 4e-9])
    ['0', '2e-09', '4e-09']
    """
    if not len(ticks):
        return []
    steps = [abs(after - before) for before, after in zip(ticks, ticks[1:], strict=False)]
    step = min(steps, default=0.0) or abs(ticks[0]) or 1.0
    exact = [0.0 if abs(tick) < step / 100 else float(tick) for tick in ticks]
    scientific = not _is_plain(max(abs(tick) for tick in exact))
    for decimals in range(_MOST_DIGITS):
        texts = [_written(tick, decimals, scientific) for tick in exact]
        if all(abs(_read(text) - tick) <= step / 100 for text, tick in zip(texts, exact, strict=True)):
            break
    return texts


def distinct_numerals(values: Sequence[float]) -> list[str]:
    """Return each value with four digits, and those that would look alike with as many as tell them apart.

    Whole digits are never rounded away. Missing values are empty.

    >>> distinct_numerals([21.53217, 1234567890, 1234567890.25, 1234567891])
    ['21.53', '1,234,567,890', '1,234,567,890.2', '1,234,567,891']
    """
    digits = [_FEWEST_DIGITS] * len(values)
    while True:
        texts = [_with_digits(float(value), most) for value, most in zip(values, digits, strict=True)]
        pairs = list(zip(texts, values, strict=True))
        alike = [
            place
            for place, (text, value) in enumerate(pairs)
            if text and any(text == other and not math.isclose(value, its, rel_tol=_NOISE) for other, its in pairs)
        ]
        if not alike or max(digits[place] for place in alike) == _MOST_DIGITS:
            return texts
        for place in alike:
            digits[place] += 1


def _with_digits(value: float, most: int) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value) or value == 0:
        return f"{value:g}".replace("-0", "0")
    if not _is_plain(abs(value)):
        return f"{value:.{most - 1}e}"
    decimals = max(0, most - 1 - math.floor(math.log10(abs(value))))
    text = _written(value, decimals, scientific=False)
    return text.rstrip("0").rstrip(".") if decimals else text


def _is_plain(size: float) -> bool:
    return size == 0 or _LEAST <= size < _GREATEST


def _written(value: float, decimals: int, scientific: bool) -> str:
    if value == 0 and scientific:
        return "0"
    return f"{value:.{decimals}e}" if scientific else f"{value:,.{decimals}f}"


def _read(text: str) -> float:
    return float(text.replace(",", ""))
