"""A drawing of funnels and rates before and after a change, on one another, with the difference as a number."""

from collections.abc import Sequence

import pandas as pd

from toolkit.rewards.analysis.charts import short_name
from toolkit.widgets.diagrams import Drawing, Tone

STEP_LABELS = {"moment": "Did something", "rewarded": "Got a reward", "shown": "Saw it", "claimed": "Claimed it"}

WIDTH = 566.0
_NAME_WIDTH, _PLOT_WIDTH = 112.0, 262.0
#: The right edges of the columns of numbers.
_COLUMNS = {"Before": 446.0, "After": 508.0, "Change": WIDTH}
_ROW_HEIGHT, _TITLE_HEIGHT, _AXIS_HEIGHT = 26.0, 24.0, 20.0
_MAX_MOMENTS = 6
#: Where the axis of rates may end: a few values, so that it seldom changes while a slider moves. Quarters are whole %.
_AXIS_ENDS = (0.04, 0.08, 0.2, 0.4, 0.6, 0.8, 1.0)


def before_after_drawing(
    funnels: tuple[pd.DataFrame, pd.DataFrame], rates: tuple[pd.DataFrame, pd.DataFrame]
) -> Drawing:
    """Draw funnels and rates; each pair is (before, after) the change."""
    # A funnel has no steps for pages that nobody opened: the other one may have them.
    names = max((funnel["step"].tolist() for funnel in funnels), key=len)
    before, after = (funnel.set_index("step").reindex(names, fill_value=0).reset_index() for funnel in funnels)
    funnels = before, after
    n_moments = min(len(rates[1]), _MAX_MOMENTS)
    top = _TITLE_HEIGHT + _ROW_HEIGHT * len(funnels[1]) + 10
    height = top + _TITLE_HEIGHT + _ROW_HEIGHT * n_moments + _AXIS_HEIGHT
    drawing = Drawing(WIDTH, height, _alternative_text(funnels, rates))
    _draw_funnels(drawing, funnels)
    _draw_rates(drawing, top, rates, n_moments)
    return drawing


def _draw_funnels(drawing: Drawing, funnels: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    unit = str(funnels[1].attrs["unit"])
    drawing.text((0, 10), f"{unit.capitalize()}s: □ before, ■ after", anchor="start", bold=True)
    for title, right in _COLUMNS.items():
        drawing.text((right, 10), title, "quiet", anchor="end")
    longest = max(int(funnel["n"].max()) for funnel in funnels) or 1
    for index, step in enumerate(funnels[1]["step"]):
        y = _TITLE_HEIGHT + _ROW_HEIGHT * index
        before, after = (int(funnel["n"].iloc[index]) for funnel in funnels)
        label = "Used the app" if step == "moment" and unit == "device" else STEP_LABELS[step]
        drawing.text((_NAME_WIDTH - 8, y + _ROW_HEIGHT / 2), label, anchor="end")
        drawing.box((_NAME_WIDTH, y + 8), (_PLOT_WIDTH * after / longest, _ROW_HEIGHT - 16), "good", solid=True)
        drawing.box((_NAME_WIDTH, y + 4), (_PLOT_WIDTH * before / longest, _ROW_HEIGHT - 8), "quiet")
        change = "–" if after == before else f"{100 * (after / before - 1):+,.0f} %" if before else f"+{after:,}"
        _write_numbers(drawing, y + _ROW_HEIGHT / 2, (f"{before:,}", f"{after:,}", change))


def _draw_rates(drawing: Drawing, top: float, rates: tuple[pd.DataFrame, pd.DataFrame], n_moments: int) -> None:
    drawing.text((0, top + 10), "Rewarded share, 95 % interval: ○ before, ● after", anchor="start", bold=True)
    hidden = len(rates[1]) - n_moments
    if hidden > 0:
        drawing.text((WIDTH, top + 10), f"{n_moments} of {n_moments + hidden} moments", "quiet", anchor="end")
    bottom = top + _TITLE_HEIGHT + _ROW_HEIGHT * n_moments
    before, after = rates[0].set_index("moment_id"), rates[1].set_index("moment_id").head(n_moments)
    highest = max(after["high"].max(), before["high"].reindex(after.index).max())
    axis_end = next(end for end in _AXIS_ENDS if highest <= end or end == 1)
    for quarter in range(5):
        x = _NAME_WIDTH + _PLOT_WIDTH * quarter / 4
        drawing.line((x, top + _TITLE_HEIGHT), (x, bottom), "quiet", width=0.5)
        drawing.text((x, bottom + 9), percent(axis_end * quarter / 4), "quiet")
    for index, moment_id in enumerate(after.index):
        y = top + _TITLE_HEIGHT + _ROW_HEIGHT * index
        drawing.text((_NAME_WIDTH - 8, y + 13), short_name(moment_id), anchor="end")
        shares = []
        lines: list[tuple[float, Tone, pd.DataFrame]] = [(y + 7, "quiet", before), (y + 18, "good", after)]
        for middle, tone, table in lines:
            rate, low, high = (float(number) for number in table.loc[moment_id, ["rate", "low", "high"]])
            left, right, x = (_NAME_WIDTH + _PLOT_WIDTH * share / axis_end for share in (low, high, rate))
            drawing.line((left, middle), (right, middle), tone, width=2)
            drawing.dot((x, middle), tone, hollow=tone == "quiet")
            shares.append(rate)
        difference = 100 * (shares[1] - shares[0])
        change = f"{difference:+.1f}" if abs(difference) >= 0.05 else "–"
        _write_numbers(drawing, y + 13, (percent(shares[0], 1), percent(shares[1], 1), change))


def _write_numbers(drawing: Drawing, y: float, texts: Sequence[str]) -> None:
    for right, text in zip(_COLUMNS.values(), texts, strict=True):
        drawing.text((right, y), text, anchor="end")


def _alternative_text(funnels: tuple[pd.DataFrame, pd.DataFrame], rates: tuple[pd.DataFrame, pd.DataFrame]) -> str:
    steps = [
        f"{STEP_LABELS[step]} {before:,}, then {after:,}"
        for step, before, after in zip(funnels[1]["step"], funnels[0]["n"], funnels[1]["n"], strict=True)
    ]
    shares = [f"{name} {percent(rate, 1)}" for name, rate in zip(rates[1]["moment_id"], rates[1]["rate"], strict=True)]
    unit = funnels[1].attrs["unit"]
    return f"Funnel of {unit}s: {'; '.join(steps)}. Rewarded share after the change: {', '.join(shares)}"


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
