"""Charts with matplotlib: `plot` draws a funnel as bars, or a comparison as points with intervals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.charts.look import PALETTE
from toolkit.charts.matplotlib_style import styled
from toolkit.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_NAME_LENGTH = 18


def short_name(name: object) -> str:
    """Return a name as a label; the end of a long name is replaced by "…"."""
    text = str(name)
    return text if len(text) <= _MAX_NAME_LENGTH else f"{text[: _MAX_NAME_LENGTH - 1]}…"


def _set_labels(axes: Axes, title: str, names: Iterable[object]) -> None:
    labels = [short_name(name) for name in names]
    # Matplotlib would read a dollar sign without backslash as the start of a formula.
    axes.set_yticks(range(len(labels)), [name.replace("$", r"\$") for name in labels])
    axes.invert_yaxis()
    axes.set_title(title)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")


@checked_arguments
@styled
def plot(result: pd.DataFrame, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw a funnel as bars, or a comparison of `ab` as differences, both with their 95 % intervals.

    Parameters
    ----------
    result
        The result of `funnel` (without `by`) or of `ab`.
    ax
        The axes to draw on and return; None for a new figure.

    Examples
    --------
    >>> from toolkit.rewards import funnel
    >>> decisions = pd.DataFrame({"device": ["a", "b", "c"], "rewarded": [True, True, False]})
    >>> plot(funnel(decisions), title="All moments").get_title(loc="left")
    'All moments'
    """
    from matplotlib import pyplot

    is_comparison = {"a", "b", "difference", "low", "high"} <= {*result}
    is_funnel = {"step", "n", "of_previous", "low", "high"} <= {*result} and result["step"].is_unique
    if not (is_funnel or is_comparison):
        raise InvalidArgument("plot draws the result of funnel or ab; this frame is neither, or has several funnels")
    axes = pyplot.subplots(figsize=(7.0, 2.6), layout="constrained")[1] if ax is None else ax
    if is_funnel:
        _draw_funnel(axes, result, title or "Funnel")
        return axes
    differences = result["difference"]
    distances = [differences - result["low"], result["high"] - differences]
    axes.errorbar(differences, range(len(differences)), xerr=distances, fmt="o", color=PALETTE[0], capsize=4)
    axes.axvline(0, color="0.5", linewidth=1)
    axes.margins(y=0.2)
    axes.set_xlabel("difference, with its 95 % interval")
    pairs = [f"{b} - {a}" for a, b in zip(result["a"], result["b"], strict=True)]
    _set_labels(axes, title or "Difference", pairs)
    return axes


def _draw_funnel(axes: Axes, funnel: pd.DataFrame, title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    # The interval of a share of the step before is an interval of the number; the first step is only counted.
    before = funnel["n"].shift()
    distances = [funnel["n"] - funnel["low"] * before, funnel["high"] * before - funnel["n"]]
    style = {"ecolor": "0.35", "capsize": 3}
    bars = axes.barh(range(len(funnel)), funnel["n"], color=PALETTE[0], xerr=distances, error_kw=style)
    of_previous = ["" if index == 0 else f" · {share:.1%}" for index, share in enumerate(funnel["of_previous"])]
    labels = [f"{n:,}{share}" for n, share in zip(funnel["n"], of_previous, strict=True)]
    axes.bar_label(bars, labels, padding=8)
    axes.margins(x=0.3)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("number, with the 95 % interval of the share of the step before")
    _set_labels(axes, title, funnel["step"])
