"""RewardsExplorer: change the engine's settings and see what it would have decided."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets
import pandas as pd
import traitlets
from msgspec.structs import replace

from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis import charts, funnels
from toolkit.rewards.analysis import rates as analysis
from toolkit.rewards.analysis.decision_frame import decision_frame
from toolkit.rewards.analysis.explanation import explain
from toolkit.rewards.analysis.simulation import made_up_moments, simulate
from toolkit.rewards.client.rewards import RewardClient
from toolkit.rewards.configuration import Configuration
from toolkit.rewards.engine import REASONS
from toolkit.widget_family import ServiceWidget, button, column, counted, html_pane, in_turn, row, scrolled, sized

if TYPE_CHECKING:
    from toolkit.connection import Connection

_LABEL = "11em"
# Made-up readers: the share of rewards that they view, and the share of viewed rewards that they claim.
_SHOWN, _CLAIMED = 0.8, 0.45


class RewardsExplorer(ServiceWidget):
    """Change the engine's settings; the same moments are decided again, and funnel and rates are redrawn.

    Parameters
    ----------
    tk
        A connection, or ``tk.rewards``, for a real reward page; None explores without a gateway.
    events
        Moments to decide: decisions of a gateway, or any frame with at, device and moment_id. Two weeks of 200
        made-up devices if None.
    configuration
        Initial values of the controls and all other settings; the default configuration if None.

    Attributes
    ----------
    decisions, funnel, rates : pandas.DataFrame
        The data that is shown; observe them to react to changes.
    p, per_device, per_moment, gap, stock, arms_by, why, page_button
        The controls: set ``.value`` or ``.click()`` as a person would.

    Examples
    --------
    >>> explorer = RewardsExplorer(events=made_up_moments(devices=20, days=2, seed=1))
    >>> explorer.p.value = 0
    >>> int(explorer.decisions["rewarded"].sum())
    0
    """

    decisions = traitlets.Instance(pd.DataFrame)
    funnel = traitlets.Instance(pd.DataFrame)
    rates = traitlets.Instance(pd.DataFrame)

    def __init__(
        self,
        tk: Connection | RewardClient | None = None,
        *,
        events: pd.DataFrame | None = None,
        configuration: Configuration | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._rewards = tk if tk is None or isinstance(tk, RewardClient) else tk.rewards
        self._events = made_up_moments(devices=200, days=14, seed=2026) if events is None else events
        self._given = analysis.checked_configuration(configuration)
        self._show(decision_frame([]))
        self._make_controls()
        self._lay_out()
        with self.working("Deciding"):
            self._decide()
        self._observe_controls()

    @property
    def configuration(self) -> Configuration:
        """The settings that the controls show."""
        changed = self._given.with_limits(
            p=self.p.value,
            per_device_per_day=self.per_device.value,
            per_moment_per_day=self.per_moment.value,
            min_gap_s=self.gap.value * 60,
        )
        return replace(changed, arms_by=self.arms_by.value, rewards=_stocked(changed, self.stock.value))

    def _make_controls(self) -> None:
        limits = self._given.default
        self.p = ipywidgets.FloatSlider(limits.p, min=0, max=1, step=0.01, description="Chance p")
        self.per_device = ipywidgets.IntSlider(limits.per_device_per_day, min=0, max=20, description="A device and day")
        self.per_moment = ipywidgets.IntSlider(limits.per_moment_per_day, min=0, max=20, description="A moment and day")
        self.gap = ipywidgets.FloatSlider(
            limits.min_gap_s / 60, min=0, max=240, step=1, description="Gap (min)", readout_format=".0f"
        )
        self.stock = ipywidgets.BoundedIntText(self._given.stock, min=0, max=10**9, description="Stock")
        self.arms_by = ipywidgets.Dropdown(
            options=["device", "moment"], value=self._given.arms_by, description="Arms by"
        )
        self._controls = (self.p, self.per_device, self.per_moment, self.gap, self.stock, self.arms_by)
        for control in self._controls:
            sized(control, "25em", label=_LABEL)
            control.continuous_update = False
        self.why = sized(ipywidgets.Dropdown(description="Explain a decision"), "24em")
        self.page_button = button("Show a test reward", "gift", "Send a test moment and show its page")
        self.plots, self.explanation, self.page = html_pane(), html_pane(), html_pane()

    def _lay_out(self) -> None:
        page = () if self._rewards is None else (self.page_button, self.page)
        results = (self.plots, self.why, self.explanation, *page)
        self.show(row(column(*self._controls[:3]), column(*self._controls[3:])), results=results)

    def _observe_controls(self) -> None:
        for control in self._controls:
            control.observe(self._on_change, "value")
        self.why.observe(self._explain, "value")
        self.page_button.on_click(self._show_page)

    def _on_change(self, _change: object) -> None:
        with self.working("Deciding"):
            self._decide()

    def _decide(self) -> None:
        decided = simulate(self.configuration, self._events, shown=_SHOWN, claimed=_CLAIMED)
        if decided.empty:
            raise InvalidArgument("there are no moments to decide")
        self._show(decided)
        self.plots.value = scrolled(charts.svg(self.funnel, self.rates), caption="Funnel and rates")
        self._offer_reasons()
        devices = counted(decided["device"].nunique(), "device")
        each = funnels.moments_per_session(decided)
        per_session = "" if math.isnan(each) else f" · {each:.2f} moments per session"
        self.say(f"{counted(len(decided), 'moment')} of {devices}: {counted(self._rewarded, 'reward')}{per_session}")

    def _show(self, decided: pd.DataFrame) -> None:
        with self.hold_trait_notifications():
            self.decisions = decided
            self.funnel = funnels.funnel(decided)
            self.rates = analysis.rate_by_moment(decided)

    def _offer_reasons(self) -> None:
        """Offer one example of each reason, and keep the selected reason if it still occurs."""
        first = self.decisions.drop_duplicates("reason").set_index("reason")["decision_id"]
        shares = self.decisions["reason"].value_counts(normalize=True)
        options = [(f"{reason} ({shares[reason]:.1%})", reason) for reason in REASONS if reason in first.index]
        kept = self.why.value if self.why.value in first.index else options[-1][1]
        self.why.options, self.why.value = options, kept
        self._explain(None)

    @in_turn
    def _explain(self, _change: object) -> None:
        if self.why.value is None:
            return
        decision = self.decisions[self.decisions["reason"] == self.why.value].head(1)
        trace = explain(decision)
        who = f"{decision['moment_id'].iloc[0]}, {decision['device'].iloc[0]}, {decision['at'].iloc[0]:%d %B %H:%M} UTC"
        html = (
            f'<p style="margin:0.3em 0" aria-live="polite"><strong>{escape(trace.attrs["sentence"])}</strong> '
            f'<span style="opacity:.7">{escape(who)}</span></p>'
        )
        self.explanation.value = html + scrolled(_trace_html(trace), caption="Trace of the decision")

    def _show_page(self, _button: object) -> None:
        if self._rewards is None:
            return
        with self.working("Sending a test moment"):
            moment = self._rewards.moment(str(uuid.uuid4()), "explored", test=True)
            page = self._rewards.page(moment)
            self.page.value = page.frame
            self.say(f"{page.title}: a test, counted nowhere")

    @property
    def _rewarded(self) -> int:
        return int(self.decisions["rewarded"].sum())

    def picture(self) -> bytes:
        """Return funnel and rates as PNG."""
        return charts.png(self.funnel, self.rates)

    def summary(self) -> str:
        """Return the number of rewarded moments in words."""
        return f"RewardsExplorer: {self._rewarded:,} of {counted(len(self.decisions), 'moment')} rewarded"


def _stocked(configuration: Configuration, stock: int) -> tuple[Any, ...]:
    """Divide a stock among the rewards in proportion to their own stocks."""
    rewards, whole = configuration.rewards, configuration.stock
    parts = [round(stock * item.stock / whole if whole else stock / len(rewards)) for item in rewards[:-1]]
    return tuple(replace(item, stock=part) for item, part in zip(rewards, [*parts, stock - sum(parts)], strict=True))


def _trace_html(trace: pd.DataFrame) -> str:
    lines = zip(trace["rule"], trace["ok"].map({True: "✓", False: "✗ refused"}), trace["detail"], strict=True)
    cells = ("".join(f'<td style="text-align:left">{escape(text)}</td>' for text in line) for line in lines)
    return f"<table><tbody>{''.join(f'<tr>{row}</tr>' for row in cells)}</tbody></table>"
