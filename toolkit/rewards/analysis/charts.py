"""The chart of the RewardsExplorer: the funnel as bars, the rates as points with their intervals."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

from toolkit.themed_svg import INK, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACCENT = "#2a9d6f"
_LONGEST_NAME = 18


def svg(funnel: pd.DataFrame, rates: pd.DataFrame) -> str:
    """Return funnel and rates as SVG that follows the theme of the page."""
    steps = ", ".join(f"{row['step']} {row['n']:,}" for row in funnel.to_dict("records"))
    shares = ", ".join(f"{name} {rate:.1%}" for name, rate in zip(rates.iloc[:, 0], rates["rate"], strict=True))
    said = f"Funnel of {funnel.attrs['unit']}s: {steps}. Rewarded moments: {shares}"
    return themed_svg(_figure(funnel, rates), said)


def png(funnel: pd.DataFrame, rates: pd.DataFrame) -> bytes:
    """Return the same chart as PNG on white."""
    file = io.BytesIO()
    _figure(funnel, rates).savefig(file, format="png")
    return file.getvalue()


def _figure(funnel: pd.DataFrame, rates: pd.DataFrame) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    figure = Figure(figsize=(9.2, 2.6), dpi=100, layout="constrained")
    bars, points = figure.subplots(1, 2)
    drawn = bars.barh(range(len(funnel)), funnel["n"], color=_ACCENT)
    of_previous = ["" if place == 0 else f" · {share:.1%}" for place, share in enumerate(funnel["of_previous"])]
    labels = [f"{n:,}{share}" for n, share in zip(funnel["n"], of_previous, strict=True)]
    bars.bar_label(drawn, labels, padding=4, color=INK)
    bars.margins(x=0.3)
    bars.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    bars.xaxis.set_major_formatter("{x:,.0f}")
    _name(bars, f"Funnel of {funnel.attrs['unit']}s", funnel["step"])
    below, above = rates["rate"] - rates["low"], rates["high"] - rates["rate"]
    points.errorbar(rates["rate"], range(len(rates)), xerr=[below, above], fmt="o", color=_ACCENT)
    points.set_xlim(left=0)
    points.margins(y=0.2)
    points.xaxis.set_major_locator(MaxNLocator(4))
    points.xaxis.set_major_formatter(PercentFormatter(1))
    _name(points, "Rewarded moments", rates.iloc[:, 0])
    return figure


def _name(axes: Axes, title: str, names: Iterable[object]) -> None:
    """Write the title and a name for each row, from the top."""
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in map(str, names)]
    # A bare dollar sign would begin a formula.
    axes.set_yticks(range(len(shown)), [name.replace("$", r"\$") for name in shown])
    axes.invert_yaxis()
    axes.set_title(title, loc="left", color=INK)
    axes.tick_params(colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
