"""Pictures of a funnel and of rates: SVG by hand for a live widget, PNG where widgets cannot run.

The SVG takes its ink from the page (``currentColor``), so it follows light and dark themes.
"""

from __future__ import annotations

import io
from collections.abc import Hashable
from html import escape
from typing import Any

import pandas as pd

_WIDTH, _LABEL, _ROW = 460, 130, 30
_SANS = "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px"
_ACCENT = "#2a9d6f"
_TOP = 30


def funnel_svg(funnel: pd.DataFrame) -> str:
    """Return the funnel as bars, one a step, as wide as the step's share of the first."""
    first = max(int(funnel["n"].iloc[0]), 1)
    room = _WIDTH - _LABEL - 120
    rows = [
        _bar(place, str(row["step"]), int(row["n"]), room * row["n"] / first, row["of_previous"])
        for place, row in enumerate(funnel.to_dict("records"))
    ]
    told = ", ".join(f"{row['step']} {row['n']:,}" for row in funnel.to_dict("records"))
    return _svg(_title(funnel), told, rows, _TOP + _ROW * len(rows) + 6)


def _title(funnel: pd.DataFrame) -> str:
    return f"Funnel of {funnel.attrs['unit']}s"


def rates_svg(rates: pd.DataFrame) -> str:
    """Return the rates as points with their intervals, one line a name; the name is the first column."""
    name = rates.columns[0]
    # An axis that ends at a round share just above the highest bound.
    end = next((share for share in (0.05, 0.1, 0.2, 0.3, 0.5, 0.75) if rates["high"].max() <= share), 1.0)
    room = _WIDTH - _LABEL - 70
    rows = [_interval(place, row, str(row[name]), room / end) for place, row in enumerate(rates.to_dict("records"))]
    bottom = _TOP + _ROW * len(rows)
    told = ", ".join(f"{row[name]} {row['rate']:.1%}" for row in rates.to_dict("records"))
    return _svg("Rewarded moments", told, [*_axis(end, room, bottom), *rows], bottom + 22)


def _svg(title: str, told: str, parts: list[str], height: int) -> str:
    label = escape(f"{title}: {told}")
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {height}" '
        f'style="flex:1 1 330px;max-width:{_WIDTH}px;{_SANS}" fill="currentColor">'
        f'<text x="0" y="16" font-weight="600">{escape(title)}</text>{"".join(parts)}</svg>'
    )


def _bar(place: int, step: str, n: int, width: float, share: float) -> str:
    y = _TOP + _ROW * place
    of = "" if place == 0 or pd.isna(share) else f" · {share:.1%}"
    return (
        f'<text x="{_LABEL - 10}" y="{y + 19}" text-anchor="end">{escape(step)}</text>'
        f'<rect x="{_LABEL}" y="{y + 4}" width="{max(width, 1):.1f}" height="{_ROW - 9}" rx="3" fill="{_ACCENT}"/>'
        f'<text x="{_LABEL + width + 8:.1f}" y="{y + 19}">{n:,}<tspan opacity=".7">{of}</tspan></text>'
    )


def _interval(place: int, row: dict[Hashable, Any], name: str, scale: float) -> str:
    y = _TOP + _ROW * place + 15
    low, middle, high = (_LABEL + row[key] * scale for key in ("low", "rate", "high"))
    shown = name if len(name) <= 18 else f"{name[:17]}…"
    return (
        f'<text x="{_LABEL - 10}" y="{y + 4}" text-anchor="end"><title>{escape(name)}</title>{escape(shown)}</text>'
        f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="{_ACCENT}" stroke-width="3" stroke-linecap="round"/>'
        f'<circle cx="{middle:.1f}" cy="{y}" r="5" fill="{_ACCENT}" stroke="currentColor"/>'
        f'<text x="{high + 10:.1f}" y="{y + 4}" opacity=".8">{row["rate"]:.1%}</text>'
    )


def _axis(end: float, room: float, bottom: int) -> list[str]:
    parts = []
    for part in range(3):
        x = _LABEL + room * part / 2
        parts.append(f'<path d="M{x:.1f} {_TOP}V{bottom}" stroke="currentColor" opacity=".2"/>')
        text = f"{end * part / 2:.3g}"
        label = f"{float(text):.1%}" if end * part / 2 * 100 % 1 else f"{float(text):.0%}"
        parts.append(f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle" opacity=".7">{label}</text>')
    return parts


def png(funnel: pd.DataFrame, rates: pd.DataFrame) -> bytes:
    """Return both as one PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 2.6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    bars, points = figure.subplots(1, 2)
    bars.barh(funnel["step"], funnel["n"], color=_ACCENT)
    bars.bar_label(bars.containers[0], fmt="{:,.0f}", padding=4)
    bars.margins(x=0.2)
    bars.set_title(_title(funnel), loc="left")
    below, above = rates["rate"] - rates["low"], rates["high"] - rates["rate"]
    points.errorbar(rates["rate"], rates[rates.columns[0]], xerr=[below, above], fmt="o", color=_ACCENT)
    points.set_xlim(left=0)
    points.margins(y=0.2)
    points.set_title("Rewarded moments", loc="left")
    for axes in (bars, points):
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()
