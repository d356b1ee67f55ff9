"""A drawing of funnels and rates before and after a change; the axis of the rates always goes from 0 to 100 %."""

import pandas as pd

from toolkit.rewards.analysis.charts import short_name
from toolkit.widgets.diagrams import Drawing, Tone

STEP_LABELS = {
    "moment": "Did something",
    "rewarded": "Got a reward",
    "shown": "Saw it",
    "claimed": "Claimed it",
}

WIDTH = 566.0
_NAME_WIDTH = 112.0
_ROW_HEIGHT, _TITLE_HEIGHT, _AXIS_HEIGHT = 24.0, 24.0, 20.0
_BAR_WIDTH = 128.0
_HALF_WIDTH = (WIDTH - _NAME_WIDTH) / 2
#: The length of the axis of rates, from 0 to 100 %.
_RATE_AXIS_WIDTH = 285.0
_MAX_MOMENTS = 6


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
    height = top + _TITLE_HEIGHT + (_ROW_HEIGHT + 2) * n_moments + _AXIS_HEIGHT
    drawing = Drawing(WIDTH, height, _alternative_text(funnels, rates))
    unit = str(funnels[1].attrs["unit"])
    drawing.text((0, 10), f"{unit.capitalize()}s", anchor="start", bold=True)
    for index, step in enumerate(funnels[1]["step"]):
        y = _TITLE_HEIGHT + _ROW_HEIGHT * (index + 0.5)
        label = "Used the app" if step == "moment" and unit == "device" else STEP_LABELS[step]
        drawing.text((_NAME_WIDTH - 8, y), label, anchor="end")
    longest = max(int(funnel["n"].max()) for funnel in funnels) or 1
    _draw_funnel(drawing, _NAME_WIDTH, funnels[0], longest, "Before", "quiet")
    _draw_funnel(drawing, _NAME_WIDTH + _HALF_WIDTH, funnels[1], longest, "After", "good")
    _draw_rates(drawing, top, rates, n_moments)
    return drawing


def _draw_funnel(drawing: Drawing, left: float, funnel: pd.DataFrame, longest: int, title: str, tone: Tone) -> None:
    drawing.text((left, 10), title, tone, anchor="start", bold=True)
    for index, (n, share) in enumerate(zip(funnel["n"], funnel["of_previous"], strict=True)):
        y = _TITLE_HEIGHT + _ROW_HEIGHT * index
        width = _BAR_WIDTH * n / longest
        drawing.box((left, y + 3), (width, _ROW_HEIGHT - 6), tone, solid=True)
        label = f"{n:,}" if index == 0 or pd.isna(share) else f"{n:,} · {percent(share)}"
        drawing.text((left + width + 5, y + _ROW_HEIGHT / 2), label, anchor="start")
    drawing.line((left, _TITLE_HEIGHT), (left, _TITLE_HEIGHT + _ROW_HEIGHT * len(funnel)), "quiet")


def _draw_rates(drawing: Drawing, top: float, rates: tuple[pd.DataFrame, pd.DataFrame], n_moments: int) -> None:
    title = "Rewarded share of each moment with 95 % interval: ○ before, ● after"
    drawing.text((0, top + 10), title, anchor="start", bold=True)
    hidden = len(rates[1]) - n_moments
    if hidden > 0:
        drawing.text((WIDTH, top + 10), f"{n_moments} of {n_moments + hidden}", "quiet", anchor="end")
    bottom = top + _TITLE_HEIGHT + (_ROW_HEIGHT + 2) * n_moments
    for share in (0, 0.25, 0.5, 0.75, 1):
        x = _rate_x(share)
        drawing.line((x, top + _TITLE_HEIGHT), (x, bottom), "quiet", width=0.5)
        drawing.text((x, bottom + 9), percent(share), "quiet")
    before, after = rates[0].set_index("moment_id"), rates[1].set_index("moment_id").head(n_moments)
    for index, moment_id in enumerate(after.index):
        y = top + _TITLE_HEIGHT + (_ROW_HEIGHT + 2) * index
        drawing.text((_NAME_WIDTH - 8, y + 13), short_name(moment_id), anchor="end")
        values = []
        pairs: list[tuple[float, Tone, pd.DataFrame]] = [(y + 7, "quiet", before), (y + 18, "good", after)]
        for middle, tone, table in pairs:
            rate, low, high = (float(number) for number in table.loc[moment_id, ["rate", "low", "high"]])
            drawing.line((_rate_x(low), middle), (_rate_x(high), middle), tone, width=2)
            drawing.dot((_rate_x(rate), middle), tone, hollow=tone == "quiet")
            values.append(percent(rate, 1))
        drawing.text((WIDTH, y + 13), " → ".join(dict.fromkeys(values)), anchor="end")


def _rate_x(rate: float) -> float:
    return _NAME_WIDTH + _RATE_AXIS_WIDTH * rate


def _alternative_text(funnels: tuple[pd.DataFrame, pd.DataFrame], rates: tuple[pd.DataFrame, pd.DataFrame]) -> str:
    """Return a description of the drawing for screen readers."""
    steps = [
        f"{STEP_LABELS[step]} {before:,}, then {after:,}"
        for step, before, after in zip(funnels[1]["step"], funnels[0]["n"], funnels[1]["n"], strict=True)
    ]
    shares = [f"{name} {percent(rate, 1)}" for name, rate in zip(rates[1]["moment_id"], rates[1]["rate"], strict=True)]
    unit = funnels[1].attrs["unit"]
    return f"Funnel of {unit}s: {'; '.join(steps)}. Rewarded share after the change: {', '.join(shares)}"


def percent(share: float, digits: int = 0) -> str:
    """Return a share as ``12.5 %``."""
    return f"{100 * share:.{digits}f} %"
