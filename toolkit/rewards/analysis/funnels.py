"""The funnel from a session to a claimed reward."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis.rates import share, wilson_interval, without_tests

Unit = Literal["session", "device"]

_FUNNEL_COLUMNS = ["step", "n", "devices", "of_previous", "of_first", "low", "high"]
#: The device is part of the key, because two gateways may use the same session_id.
_UNIT_COLUMNS = {"session": ("device", "session_id"), "device": ("device",)}


@checked_arguments
def funnel(
    decisions: pd.DataFrame, sessions: pd.DataFrame | None = None, *, by: str | None = None, unit: Unit | None = None
) -> pd.DataFrame:
    """Count the sessions, or devices, that reach each step from a session to a claimed reward.

    Each step counts the units that took this step and all steps before it, each unit once, so no share is above 1.

    Parameters
    ----------
    decisions
        Needs the columns device and rewarded; uses session_id, shown_at and claimed_at if the frame has them.
    sessions
        All sessions, from ``tk.operator.reward_sessions()``. If None, the first step is the moment, because decisions
        do not tell of sessions without moments.
    by
        A column of `decisions`; each value of the column gets a funnel, without the session step. A unit counts in
        each funnel in which it has a moment.
    unit
        What is counted. If None, sessions; but devices if any rewarded moment has no session_id.

    Returns
    -------
    pandas.DataFrame
        step, n (units), devices, of_previous (share of the step before), of_first, low and high (Wilson's interval
        of of_previous); in the order of the steps. The column `by` comes first. ``attrs["unit"]`` says what n counts.
        The steps shown and claimed are missing if no page of a reward was opened, as in an app that shows its rewards
        itself; the step session is missing if a reward is in no known session. Sessions of one device are dependent:
        the intervals are too narrow.

    Examples
    --------
    >>> decisions = pd.DataFrame({"device": ["a", "a", "b"], "rewarded": [True, True, False]})
    >>> funnel(decisions)[["step", "n", "of_previous"]].values.tolist()
    [['moment', 2, 1.0], ['rewarded', 1, 0.5]]
    """
    if by in _FUNNEL_COLUMNS:
        raise InvalidArgument(f"the result already has a column {by}: rename the column of the decisions")
    rows = without_tests(decisions, ("device", "rewarded", *((by,) if by else ())))
    counted = _choose_unit(rows, unit)
    page_steps = [step for step in ("shown", "claimed") if f"{step}_at" in rows.columns]
    if rows["rewarded"].any() and not rows[[f"{step}_at" for step in page_steps]].notna().any(axis=None):
        page_steps = []
    reached = pd.DataFrame({"rewarded": rows["rewarded"], **{step: rows[f"{step}_at"].notna() for step in page_steps}})
    moments = rows.assign(funnel_step=reached.cummin(axis=1).sum(axis=1))
    names = ["moment", *reached.columns]
    if by is not None:
        groups = ((value, _last_steps(group, counted)) for value, group in moments.groupby(by))
        table = [{by: value, **row} for value, last_steps in groups for row in _step_rows(last_steps, names)]
        result = pd.DataFrame(table, columns=[by, *_FUNNEL_COLUMNS])
    else:
        last_steps = _last_steps(moments, counted)
        if sessions is not None:
            known_rows = without_tests(sessions, _UNIT_COLUMNS[counted])
            known_units = _last_steps(known_rows.assign(funnel_step=-1), counted).index
            # The step session is left out if a rewarded unit is missing in `sessions`.
            if len(known_units) and last_steps.index[last_steps > 0].isin(known_units).all():
                last_steps, names = last_steps.reindex(known_units, fill_value=-1), ["session", *names]
        result = pd.DataFrame(_step_rows(last_steps, names), columns=_FUNNEL_COLUMNS)
    result.attrs |= {**rows.attrs, "unit": counted}
    return result


def _choose_unit(decisions: pd.DataFrame, unit: Unit | None) -> Unit:
    # Sessions can be counted only if each reward belongs to a session.
    sessions = decisions["session_id"] if "session_id" in decisions.columns else pd.Series(None, decisions.index)
    is_incomplete = sessions.isna().all() or sessions[decisions["rewarded"]].isna().any()
    if unit == "session" and is_incomplete:
        raise InvalidArgument("moments have no session_id: count devices, with unit='device'")
    return unit or ("device" if is_incomplete else "session")


def _last_steps(rows: pd.DataFrame, unit: Unit) -> pd.Series[int]:
    """Return the last step of each unit: 0 is moment, 1 is rewarded and so on; -1 is a session without moments."""
    return rows.groupby(list(_UNIT_COLUMNS[unit]))["funnel_step"].max()


def _step_rows(last_steps: pd.Series[int], names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, name in enumerate(names, -1 if "session" in names else 0):
        units = last_steps.index[last_steps >= number]
        n, before = len(units), rows[-1]["n"] if rows else len(units)
        low, high = wilson_interval(n, before) if rows else (float("nan"), float("nan"))
        row = {"step": name, "n": n, "devices": units.get_level_values("device").nunique(), "low": low, "high": high}
        rows.append(row | {"of_previous": share(n, before), "of_first": share(n, rows[0]["n"] if rows else n)})
    return rows
