"""The funnel from a session to a claimed reward, and the moments per session."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument
from toolkit.rewards.analysis.rates import share, without_tests
from toolkit.rewards.analysis.statistics import wilson

Unit = Literal["session", "device"]

_COLUMNS = ["step", "n", "devices", "of_previous", "of_first", "low", "high"]
#: The device is part of the key, because two gateways may use the same session_id.
_KEYS = {"session": ("device", "session_id"), "device": ("device",)}


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
        Needs device and rewarded; session_id, shown_at and claimed_at if they are known.
    sessions
        As ``tk.operator.reward_sessions()``; None counts the sessions that had a moment.
    by
        A column of the decisions; one funnel for each of its values, without the session step. A unit counts in
        each funnel in which it has a moment.
    unit
        What is counted. None takes sessions, or devices where a rewarded moment has no session_id.

    Returns
    -------
    pandas.DataFrame
        step, n (units), devices, of_previous (share of the step before), of_first, low and high (Wilson's interval
        of of_previous); in the order of the steps. With `by`, its column comes first. ``attrs["unit"]`` says what
        n counts. A step without data is left out: shown and claimed without their column, session where a reward
        belongs to no known session. Sessions of one device are not independent, so the intervals are too narrow.

    Examples
    --------
    >>> decisions = pd.DataFrame({"device": ["a", "a", "b"], "rewarded": [True, True, False]})
    >>> funnel(decisions)[["step", "n", "of_previous"]].values.tolist()
    [['moment', 2, 1.0], ['rewarded', 1, 0.5]]
    """
    kept = without_tests(decisions, ("device", "rewarded", *((by,) if by else ())))
    counted = _unit_of(kept, unit)
    if by is None:
        started = _in_sessions(kept) if sessions is None else without_tests(sessions, _KEYS[counted])
        stages = _after_sessions(_units(started, counted), _stages(kept, counted))
        result = pd.DataFrame(_steps(stages), columns=_COLUMNS)
    else:
        groups = kept.groupby(by)
        rows = [{by: value, **row} for value, group in groups for row in _steps(_stages(group, counted))]
        result = pd.DataFrame(rows, columns=[by, *_COLUMNS])
    result.attrs |= {**kept.attrs, "unit": counted}
    return result


@checked_arguments
def moments_per_session(decisions: pd.DataFrame, sessions: pd.DataFrame | None = None) -> float:
    """Return how many moments a session has on average; NaN where no session is known.

    Parameters
    ----------
    decisions
        Needs device and session_id; moments outside of a session do not count.
    sessions
        As ``tk.operator.reward_sessions()``; None counts the sessions that had a moment.

    Examples
    --------
    >>> decisions = pd.DataFrame({"device": ["a", "a", "b"], "session_id": ["s-1", "s-1", "s-2"]})
    >>> moments_per_session(decisions)
    1.5
    """
    moments = _in_sessions(without_tests(decisions, ("device", "session_id")))
    known = _units(moments, "session")
    if sessions is not None:
        known = known.union(_units(without_tests(sessions, ("device", "session_id")), "session"))
    return share(len(moments), len(known))


def _unit_of(decisions: pd.DataFrame, unit: Unit | None) -> Unit:
    # Sessions can be counted only if each reward belongs to one.
    inside = _in_sessions(decisions)
    is_lost = inside.empty or inside["rewarded"].sum() < decisions["rewarded"].sum()
    if unit == "session" and is_lost:
        raise InvalidArgument("moments have no session_id: count devices, with unit='device'")
    return unit or ("device" if is_lost else "session")


def _in_sessions(decisions: pd.DataFrame) -> pd.DataFrame:
    return decisions.dropna(subset=["session_id"]) if "session_id" in decisions.columns else decisions.iloc[:0]


def _units(rows: pd.DataFrame, unit: Unit) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(rows[list(_KEYS[unit])].dropna().drop_duplicates())


def _stages(decisions: pd.DataFrame, unit: Unit) -> dict[str, pd.MultiIndex]:
    """Return the units of each step after the session; each is a subset of the one before."""
    stages = {"moment": _units(decisions, unit)}
    rows = decisions[decisions["rewarded"]]
    stages["rewarded"] = _units(rows, unit)
    for step in ("shown", "claimed"):
        if (column := f"{step}_at") in rows.columns:
            rows = rows[rows[column].notna()]
            stages[step] = _units(rows, unit)
    return stages


def _after_sessions(started: pd.MultiIndex, stages: dict[str, pd.MultiIndex]) -> dict[str, pd.MultiIndex]:
    """Add the session step, unless a reward outside of the known sessions shows that sessions are missing."""
    if started.empty or not stages["rewarded"].isin(started).all():
        return stages
    return {"session": started, **stages, "moment": stages["moment"].intersection(started)}


def _steps(stages: dict[str, pd.MultiIndex]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for step, units in stages.items():
        n, before = len(units), rows[-1]["n"] if rows else len(units)
        bounds = wilson(n, before) if rows else (float("nan"), float("nan"))
        row = {"step": step, "n": n, "devices": units.get_level_values("device").nunique()}
        row |= {"of_previous": share(n, before), "of_first": share(n, rows[0]["n"] if rows else n)}
        rows.append(row | {"low": bounds[0], "high": bounds[1]})
    return rows
