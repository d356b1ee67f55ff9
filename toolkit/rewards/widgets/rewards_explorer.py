"""RewardsExplorer: change the engine's settings and see what the engine would have decided."""

import uuid
from collections.abc import Mapping
from html import escape
from typing import Any

import ipywidgets
import pandas as pd
import traitlets
from msgspec import UNSET
from msgspec.structs import replace

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument, counted
from toolkit.rewards.analysis import funnels
from toolkit.rewards.analysis import rates as analysis
from toolkit.rewards.analysis.explanation import explain
from toolkit.rewards.analysis.simulation import decided_moments, made_up_moments, unknown_moments_text
from toolkit.rewards.client import RewardClient
from toolkit.rewards.configuration import Configuration, Limits
from toolkit.rewards.widgets.before_after import before_after_drawing, percent
from toolkit.widgets.base import (
    ServiceWidget,
    button,
    code_html,
    column,
    copy_button,
    html_pane,
    in_turn,
    make,
    row,
    slider,
)
from toolkit.widgets.diagrams import Drawing, DrawingPane, png

_REASON_LABELS = {
    "TEST": "A test",
    "NO_SESSION": "The app was not open",
    "APP_DISABLED": "The app is switched off",
    "MOMENT_DISABLED": "The moment is switched off",
    "QUIET_PERIOD": "Quiet hours",
    "DEVICE_CAP": "The device had its rewards",
    "MOMENT_CAP": "The moment had its rewards",
    "MIN_GAP": "Too soon after the last one",
    "PACING": "Ahead of the campaign's plan",
    "NO_INVENTORY": "Out of stock",
    "DRAW": "No luck in the draw",
    "REWARDED": "Rewarded",
}

# Simulated users: the share of rewards that they view, and the share of viewed rewards that they claim.
_SHOWN, _CLAIMED = 0.8, 0.45
#: What refuses moments, other than luck and the stock, by the reason of the decision.
_LIMITS = {
    "DEVICE_CAP": "The cap of a device",
    "MOMENT_CAP": "The cap of a device and a moment",
    "MIN_GAP": "The time between two rewards",
    "PACING": "The campaign's plan",
}
_MADE_UP: dict[str, Any] = {"devices": 100, "days": 14, "seed": 2026}
_ASSUMED = f"“Saw it” and “Claimed it” are assumed: {percent(_SHOWN)} look, and {percent(_CLAIMED)} of these claim."


@checked_arguments
class RewardsExplorer(ServiceWidget):
    """Change the rules of the rewards; the engine decides the same moments again, and you compare before and after.

    Parameters
    ----------
    source
        Moments to decide: decisions of a gateway, or any frame with at, device and moment_id; or ``tk.rewards``, which
        adds a button that shows a real reward page.
    events
        The moments, if `source` is ``tk.rewards``. Without moments, two weeks of 100 made-up devices that send the
        moments of the rules. InvalidArgument if the frame is empty or lacks a column.
    configuration
        The rules before the change: the initial values of the controls, and all settings without a control. If None,
        the default configuration.

    Attributes
    ----------
    decisions, funnel, rates, funnel_before, rates_before
        The data after and before the change; observe the first three, which are traits, to react to changes.
    p, per_device, per_moment, gap, stock, arms_by, why, reset, page_button, copy_button
        The controls: set ``.value`` or call ``.click()``, as a person would.

    Examples
    --------
    >>> explorer = RewardsExplorer(made_up_moments(devices=20, days=2, seed=1))
    >>> explorer.p.value = 0
    >>> int(explorer.decisions["rewarded"].sum())
    0
    """

    decisions = traitlets.Instance(pd.DataFrame)
    funnel = traitlets.Instance(pd.DataFrame)
    rates = traitlets.Instance(pd.DataFrame)

    def __init__(
        self,
        source: pd.DataFrame | RewardClient | None = None,
        *,
        events: pd.DataFrame | None = None,
        configuration: Configuration | Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(source, pd.DataFrame) and events is not None:
            raise InvalidArgument("the moments are given twice: as the first argument and as events")
        self._rewards = source if isinstance(source, RewardClient) else None
        given = source if isinstance(source, pd.DataFrame) else events
        self._rules_before = Configuration.parse(configuration or {})
        self._are_made_up = given is None
        self._moments = made_up_moments(self._rules_before, **_MADE_UP) if given is None else given
        decided = self._decide(self._rules_before)
        super().__init__()
        self._is_resetting = False
        self._set_result(decided)
        self.funnel_before, self.rates_before = self.funnel, self.rates
        self._reward_count_before = self._reward_count
        self._make_controls()
        self._lay_out()
        self._show_result()
        for control in self._initial_values:
            control.observe(self._on_change, "value")
        self.why.observe(self._explain, "value")

    @property
    def configuration(self) -> Configuration:
        """The rules before the change, with the values of the controls."""
        limits = Limits(
            p=self.p.value,
            per_device_per_day=self.per_device.value,
            per_moment_per_day=self.per_moment.value,
            min_gap_s=self.gap.value * 60,
        )
        stocks = _scaled_stocks(self._rules_before, self.stock.value)
        return replace(self._rules_before, default=limits, arms_by=self.arms_by.value, rewards=stocks)

    def code(self) -> str:
        """Return the Python code that decides the moments by the changed rules, and draws the funnel."""
        before, rules = _without_defaults(self._rules_before), _without_defaults(self.configuration)
        given = ", ".join(
            [*([repr(before)] if before else []), *(f"{name}={value}" for name, value in _MADE_UP.items())]
        )
        events = f"events = toolkit.rewards.made_up_moments({given})\n" if self._are_made_up else ""
        return (
            f"{events}decisions = toolkit.rewards.simulate({rules!r}, events, shown={_SHOWN}, claimed={_CLAIMED})\n"
            "toolkit.rewards.plot(toolkit.rewards.funnel(decisions))"
        )

    def picture(self) -> bytes:
        """Return the comparison before and after as PNG."""
        return png(self._drawing())

    def summary(self) -> str:
        """Return the number of rewarded moments in words."""
        return f"RewardsExplorer: {self._reward_count:,} of {counted(len(self.decisions), 'moment')} rewarded"

    def _make_controls(self) -> None:
        limits = self._rules_before.default
        tip = "How often a moment wins the draw, if every other rule has passed"
        self.p = slider("Chance of a reward", limits.p, 0, 1, 0.01, tip, readout=".0%")
        per_device, per_moment = limits.per_device_per_day, limits.per_moment_per_day
        tip = "A device gets no more than this in 24 hours"
        self.per_device = slider("Rewards for a device in 24 hours", per_device, 0, max(20, per_device), 1, tip)
        tip = "A device gets no more than this for one moment in 24 hours"
        self.per_moment = slider("... and for the same moment", per_moment, 0, max(20, per_moment), 1, tip)
        tip = "After a reward, a device gets no other reward for this time"
        minutes = limits.min_gap_s / 60
        self.gap = slider("Minutes between two rewards", minutes, 0, max(240, minutes), 1.0, tip, readout=".0f")
        traits: dict[str, Any] = {"value": self._rules_before.stock, "min": 0, "max": 10**9}
        tip = "The number of rewards that can be given"
        self.stock = make(ipywidgets.BoundedIntText, "Rewards in stock", label="9.5em", tip=tip, **traits)
        # What a test group consists of.
        units: dict[str, Any] = {"options": ["device", "moment"], "value": self._rules_before.arms_by}
        tip = "Whether a device stays in one test group, or each moment is put into a group"
        self.arms_by = make(ipywidgets.Dropdown, "Test groups by", label="9.5em", tip=tip, **units)
        changeable = (self.p, self.per_device, self.per_moment, self.gap, self.stock, self.arms_by)
        self._initial_values = {control: control.value for control in changeable}
        self.why = make(ipywidgets.Dropdown, "Explain", "25em", tip="One decision with this result, rule by rule")
        self.reset = button("Reset", "undo", "Go back to the rules before the change", self._reset)
        tip = "Send a test moment and show its page"
        self.page_button = button("Show a test reward", "gift", tip, self._show_page)
        self.copy_button = copy_button(self.code, self)
        self.plots, self.limit, self.explanation, self.page = DrawingPane(), html_pane(), html_pane(), html_pane()
        self.code_line = html_pane()

    def _lay_out(self) -> None:
        rules = self._rules_before
        arms = any(own.arms for own in rules.moments.values())
        off = [name for name, own in rules.moments.items() if not own.enabled]
        parts = [
            self.p, _hint(_own_limits_hint(rules, "p")),
            self.per_device, _hint(_own_limits_hint(rules, "per_device_per_day")),
            self.per_moment, _hint(_own_limits_hint(rules, "per_moment_per_day")),
            self.gap, _hint(_own_limits_hint(rules, "min_gap_s")),
            self.stock, self.arms_by,
            _hint("" if arms else "No moment has test groups: this changes nothing."),
            _hint(f"Switched off, whatever you choose: {', '.join(off)}." if off else ""),
            _hint(unknown_moments_text(rules, self.decisions)),
            row(self.reset, self.copy_button, *(() if self._rewards is None else (self.page_button,))),
        ]  # fmt: skip
        controls = column(*filter(None, parts)).add_class("toolkit-controls")
        self.page.add_class("toolkit-page")
        shown = (self.limit, self.plots, _hint(_ASSUMED), self.why, self.explanation, self.page, self.code_line)
        self.show(self.status, self.beside(controls, column(*shown).add_class("toolkit-main")))

    @in_turn
    def _on_change(self, _change: object) -> None:
        if self._is_resetting:
            return
        # Not `working`: its status would flicker while a slider is dragged.
        with self.showing_errors():
            self._set_result(self._decide(self.configuration))
            self._show_result()

    @in_turn
    def _reset(self) -> None:
        self._is_resetting = True
        for control, value in self._initial_values.items():
            control.value = value
        self._is_resetting = False
        self._on_change(None)

    def _decide(self, configuration: Configuration) -> pd.DataFrame:
        decided = decided_moments(configuration, self._moments, shown=_SHOWN, claimed=_CLAIMED)
        if decided.empty:
            raise InvalidArgument("there are no moments to decide")
        return decided

    def _set_result(self, decided: pd.DataFrame) -> None:
        with self.hold_trait_notifications():
            self.decisions = decided
            self.funnel = funnels.funnel(decided)
            self.rates = analysis.rate_by_moment(decided)

    def _drawing(self) -> Drawing:
        return before_after_drawing((self.funnel_before, self.funnel), (self.rates_before, self.rates))

    def _show_result(self) -> None:
        self.plots.show(self._drawing())
        self.limit.value = f'<p class="toolkit-why">{escape(_limit_text(self.decisions))}</p>'
        self.code_line.value = code_html(self.code())
        self._offer_reasons()
        rewarded, before = self._reward_count, self._reward_count_before
        change = f" ({100 * (rewarded / before - 1):+.0f} %)" if before and rewarded != before else ""
        rewards = counted(rewarded, "reward") if rewarded == before else f"{before:,} → {rewarded:,} rewards{change}"
        devices = int(self.decisions.loc[self.decisions["rewarded"], "device"].nunique())
        reached = f"{devices:,} of {counted(self.decisions['device'].nunique(), 'device')}"
        limit = analysis.stock_text(self.decisions)
        self.say(f"{counted(len(self.decisions), 'moment')}: {rewards} for {reached}{f'. {limit}.' if limit else ''}")

    def _offer_reasons(self) -> None:
        shares = self.decisions["reason"].value_counts(normalize=True)
        labels = _REASON_LABELS.items()
        options = [(f"{label} ({percent(shares[name], 1)})", name) for name, label in labels if name in shares]
        selected = self.why.value if self.why.value in shares else options[-1][1]
        self.why.options, self.why.value = options, selected
        self._explain(None)

    @in_turn
    def _explain(self, _change: object) -> None:
        decision = self.decisions[self.decisions["reason"] == self.why.value].iloc[0]
        source = f"{decision['moment_id']}, {decision['device']}, {decision['at']:%d %B %H:%M} UTC"
        self.page.value, trace = "", explain(decision)
        self.explanation.value = (
            f'<p class="toolkit-why" aria-live="polite"><strong>{escape(trace.attrs["sentence"])}</strong> '
            f'<span class="toolkit-quiet">{escape(source)}</span></p>{_trace_html(trace)}'
        )

    def _show_page(self) -> None:
        if self._rewards is None:
            return
        with self.working("Sending a test moment"):
            moment = self._rewards.moment(str(uuid.uuid4()), "explored", test=True)
            page = self._rewards.page(moment)
            self.explanation.value, self.page.value = "", page.frame  # there is room for only one of the two
            self.say(f"{page.title}: a test, counted nowhere")

    @property
    def _reward_count(self) -> int:
        return int(self.decisions["rewarded"].sum())


def _limit_text(decisions: pd.DataFrame) -> str:
    """Say if a cap, and not the draw, refuses most moments: then a higher chance changes little."""
    refused = decisions.loc[~decisions["rewarded"], "reason"].value_counts()
    if not len(refused) or refused.index[0] not in _LIMITS:
        return ""
    share = percent(refused.iloc[0] / len(decisions), 1)
    return f"{_LIMITS[refused.index[0]]} is the limit: it refuses {share} of the moments, more than anything else."


def _without_defaults(configuration: Configuration) -> dict[str, Any]:
    """Return the settings that differ from the defaults, as a table."""
    defaults = Configuration().table()
    return {name: value for name, value in configuration.table().items() if value != defaults[name]}


def _hint(text: str) -> ipywidgets.Widget | None:
    return ipywidgets.HTML(f'<span class="toolkit-hint">{escape(text)}</span>') if text else None


def _scaled_stocks(configuration: Configuration, total: int) -> tuple[Any, ...]:
    """Return the rewards, their stocks scaled to a new total; equal stocks if all stocks are 0."""
    rewards, before = configuration.rewards, configuration.stock
    if not rewards:
        return ()
    stocks = [round(total * item.stock / before if before else total / len(rewards)) for item in rewards[:-1]]
    stocks.append(total - sum(stocks))
    return tuple(replace(item, stock=stock) for item, stock in zip(rewards, stocks, strict=True))


def _trace_html(trace: pd.DataFrame) -> str:
    shown = trace.assign(rule=trace["rule"].str.replace("_", " "), ok=trace["ok"].map({True: "✓", False: "✗ refused"}))
    table = shown.to_html(header=False, index=False, border=0)
    return f'<div class="toolkit-trace" role="region" aria-label="Trace of the decision" tabindex="0">{table}</div>'


def _own_limits_hint(configuration: Configuration, limit: str) -> str:
    """Return a hint that names the moments with their own value for a limit; the slider does not change that value."""
    names = [
        name
        for name, rules in configuration.moments.items()
        if rules.enabled and any(getattr(own, limit) is not UNSET for own in (rules, *rules.arms.values()))
    ]
    return f"Not for {' and '.join(names)}: set separately." if names else ""
