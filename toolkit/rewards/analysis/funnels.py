"""The funnel from a session to a claimed reward, and the moments per session."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis.rates import share, without_tests
from toolkit.rewards.analysis.statistics import wilson

Unit = Literal["session", "device"]

_FUNNEL_COLUMNS = ["step", "n", "devices", "of_previous", "of_first", "low", "high"]
#: The device is part of the key, because two gateways may use the same session_id.
_UNIT_COLUMNS = {"session": ("device", "session_id"), "device": ("device",)}


@checked_arguments
def funnel(
    decisions: pd.DataFrame,
    sessions: pd.DataFrame | None = None,
    *,
    by: str | None = None,
    unit: Unit | None = None,
) -> pd.DataFrame:
    """Count the sessions, or devices, that reach each step from a session to a claimed reward.

    Each step counts the units that took this step and all steps before it, each unit once, so no share is above 1.

    Parameters
    ----------
    decisions
        Needs the columns device and rewarded; uses session_id, shown_at and claimed_at if the frame has them.
    sessions
        All sessions, from ``tk.operator.reward_sessions()``. If None, only the sessions of `decisions` are counted.
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
        The steps shown and claimed are missing without the columns shown_at and claimed_at; the step session is
        missing if a reward is in no known session. Sessions of one device are dependent: the intervals are too narrow.

    Examples
    --------
    >>> decisions = pd.DataFrame({"device": ["a", "a", "b"], "rewarded": [True, True, False]})
    >>> funnel(decisions)[["step", "n", "of_previous"]].values.tolist()
    [['moment', 2, 1.0], ['rewarded', 1, 0.5]]
    """
    kept = without_tests(decisions, ("device", "rewarded", *((by,) if by else ())))
    counted = _counted_unit(kept, unit)
    if by is None:
        started = _in_sessions(kept) if sessions is None else without_tests(sessions, _UNIT_COLUMNS[counted])
        stages = _with_session_step(_distinct_units(started, counted), _units_of_steps(kept, counted))
        result = pd.DataFrame(_step_rows(stages), columns=_FUNNEL_COLUMNS)
    else:
        groups = kept.groupby(by)
        rows = [{by: value, **row} for value, group in groups for row in _step_rows(_units_of_steps(group, counted))]
        result = pd.DataFrame(rows, columns=[by, *_FUNNEL_COLUMNS])
    result.attrs |= {**kept.attrs, "unit": counted}
    return result


@checked_arguments
def moments_per_session(decisions: pd.DataFrame, sessions: pd.DataFrame | None = None) -> float:
    """Return how many moments a session has on average; NaN if there are no sessions.

    Parameters
    ----------
    decisions
        Needs the columns device and session_id; moments outside of a session do not count.
    sessions
        All sessions, as ``tk.operator.reward_sessions()`` returns them; if None, those with at least one moment.

    Examples
    --------
    >>> decisions = pd.DataFrame({"device": ["a", "a", "b"], "session_id": ["s-1", "s-1", "s-2"]})
    >>> moments_per_session(decisions)
    1.5
    """
    moments = _in_sessions(without_tests(decisions, ("device", "session_id")))
    known = _distinct_units(moments, "session")
    if sessions is not None:
        known = known.union(_distinct_units(without_tests(sessions, ("device", "session_id")), "session"))
    return share(len(moments), len(known))


def _counted_unit(decisions: pd.DataFrame, unit: Unit | None) -> Unit:
    # Sessions can be counted only if each reward belongs to a session.
    inside = _in_sessions(decisions)
    is_lost = inside.empty or inside["rewarded"].sum() < decisions["rewarded"].sum()
    if unit == "session" and is_lost:
        raise InvalidArgument("moments have no session_id: count devices, with unit='device'")
    return unit or ("device" if is_lost else "session")


def _in_sessions(decisions: pd.DataFrame) -> pd.DataFrame:
    return decisions.dropna(subset=["session_id"]) if "session_id" in decisions.columns else decisions.iloc[:0]


def _distinct_units(rows: pd.DataFrame, unit: Unit) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(rows[list(_UNIT_COLUMNS[unit])].dropna().drop_duplicates())


def _units_of_steps(decisions: pd.DataFrame, unit: Unit) -> dict[str, pd.MultiIndex]:
    """Return the units of each step after the session step; each step is a subset of the step before."""
    stages = {"moment": _distinct_units(decisions, unit)}
    rows = decisions[decisions["rewarded"]]
    stages["rewarded"] = _distinct_units(rows, unit)
    for step in ("shown", "claimed"):
        if (column := f"{step}_at") in rows.columns:
            rows = rows[rows[column].notna()]
            stages[step] = _distinct_units(rows, unit)
    return stages


def _with_session_step(started: pd.MultiIndex, stages: dict[str, pd.MultiIndex]) -> dict[str, pd.MultiIndex]:
    """Add the session step, unless a reward outside of the known sessions shows that sessions are missing."""
    if started.empty or not stages["rewarded"].isin(started).all():
        return stages
    return {"session": started, **stages, "moment": stages["moment"].intersection(started)}


def _step_rows(stages: dict[str, pd.MultiIndex]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for step, units in stages.items():
        n, before = len(units), rows[-1]["n"] if rows else len(units)
        bounds = wilson(n, before) if rows else (float("nan"), float("nan"))
        row = {"step": step, "n": n, "devices": units.get_level_values("device").nunique()}
        row |= {"of_previous": share(n, before), "of_first": share(n, rows[0]["n"] if rows else n)}
        rows.append(row | {"low": bounds[0], "high": bounds[1]})
    return rows
