"""Comparison of the arms of an experiment: differences of means with 95 % intervals."""

import math
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument, warn_caller
from toolkit.rewards.analysis.rates import Z_95, Interval, stock_text, wilson_interval, without_tests

#: Refusals that come before the draw, in which the arms differ.
_REFUSED_BEFORE_DRAW = ("DEVICE_CAP", "MOMENT_CAP", "MIN_GAP", "PACING", "NO_INVENTORY")
#: With more refusals than this in every arm, the arms can hardly differ.
_MANY_REFUSED = 0.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


class _Arm(NamedTuple):
    n: int
    mean: float
    #: The sum of the deviations from the mean for each unit, divided by the number of rows.
    deviations: pd.Series
    hits: int | None


@checked_arguments
def ab(frame: pd.DataFrame, outcome: str = "claimed", unit: str = "device") -> pd.DataFrame:
    """Compare the arms of an experiment: the mean of an outcome in each arm, and the difference.

    Parameters
    ----------
    frame
        Decisions, or any frame with the columns arm, `unit` and `outcome`. Rows without an arm are left out.
    outcome
        A column of numbers, or of true and false; or ``shown`` or ``claimed`` of decisions.
    unit
        The column, or the level of the index, with what was assigned to an arm.

    Returns
    -------
    pandas.DataFrame
        One row for each pair of arms: a, b, n_a, n_b (units), mean_a, mean_b (means of the rows; shares of true),
        difference (b minus a), low and high (the 95 % interval of the difference; missing if an arm has only one unit
        or the outcome never varies).

    Notes
    -----
    The interval is Newcombe's for shares and Welch's for other means. If a unit has several rows, they are dependent:
    the interval then comes from the variance between units, with Welch's degrees of freedom. A DataWarning says if
    values are missing or infinite, a unit is in both arms, the stock was used up, or stock and caps refused most
    moments of every arm, so that the arms can hardly differ.

    Examples
    --------
    >>> users = pd.DataFrame({"device": range(6), "arm": list("AAABBB"), "visits": [1, 2, 3, 4, 5, 6]})
    >>> ab(users, "visits").round(2).to_dict("records")[0]
    {'a': 'A', 'b': 'B', 'n_a': 3, 'n_b': 3, 'mean_a': 2.0, 'mean_b': 5.0, 'difference': 3.0, 'low': 0.73, 'high': 5.27}
    """
    if unit not in frame.columns and unit in frame.index.names:
        frame = frame.reset_index(unit)
    page_time = f"{outcome}_at" if outcome in ("shown", "claimed") and outcome not in frame.columns else None
    rows = without_tests(frame, ("arm", unit, page_time or outcome)).dropna(subset="arm")
    if rows[unit].isna().any():
        raise InvalidArgument(f"the column {unit} must have a value in every row")
    values = rows[page_time].notna() if page_time else _numbers(rows[outcome])
    missing = int(values.isna().sum())
    missing_text = f"{outcome}: {missing:,} of {len(values):,} values are missing, left out" if missing else ""
    observed = pd.DataFrame({"arm": rows["arm"].astype(str), "unit": rows[unit], "value": values.astype("float64")})
    arms = {str(arm): _arm_of(group) for arm, group in observed.dropna().groupby("arm")}
    if len(arms) < 2:
        why = f" ({missing_text})" if missing_text else ""
        raise InvalidArgument(f"a comparison needs two arms; the column arm has {', '.join(arms) or 'none'}{why}")
    warn_caller(missing_text, _refusals_text(rows), _shared_units_text(arms))
    result = pd.DataFrame([_comparison(arms, a, b) for a, b in combinations(arms, 2)])
    result.attrs.update(rows.attrs)
    return result


def _numbers(column: pd.Series) -> pd.Series:
    """Return an outcome as numbers; raise InvalidArgument for texts, times and other values."""
    try:
        if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
            raise TypeError
        numbers = column.astype("Float64")
        return numbers.mask(numbers.abs() == math.inf)
    except (TypeError, ValueError):
        raise InvalidArgument(f"the column {column.name} must hold numbers, or true and false") from None


def _refusals_text(moments: pd.DataFrame) -> str:
    """Return what stock and caps refused before the arms could differ; an empty text if it does not matter."""
    if "reason" not in moments.columns:
        return ""
    refused, stock = moments["reason"].isin(_REFUSED_BEFORE_DRAW), stock_text(moments)
    if not refused.groupby(moments["arm"]).mean().min() > _MANY_REFUSED:
        return stock
    most_frequent = moments.loc[refused, "reason"].value_counts().index[0]
    if most_frequent != "NO_INVENTORY":
        stock = (
            f"{100 * refused.mean():.1f} % of the moments were refused by stock or caps (most of them: {most_frequent})"
        )
    return f"{stock}, so the arms can hardly differ"


def _arm_of(rows: pd.DataFrame) -> _Arm:
    values, mean = rows["value"], rows["value"].mean()
    deviations = (values - mean).groupby(rows["unit"]).sum() / len(rows)
    # Newcombe's interval needs independent values, one for each unit.
    is_share = len(deviations) == len(rows) and values.isin([0, 1]).all()
    return _Arm(len(deviations), mean, deviations, int(values.sum()) if is_share else None)


def _shared_units_text(arms: dict[str, _Arm]) -> str:
    units = {name: arm.deviations.index for name, arm in arms.items()}
    shared = {(a, b): len(units[a].intersection(units[b])) for a, b in combinations(arms, 2)}
    if not (pairs := sum(map(bool, shared.values()))):
        return ""
    (a, b), both = max(shared.items(), key=lambda item: item[1])
    more = f", the most of {pairs:,} pairs of arms" if pairs > 1 else ""
    return f"{both:,} units are in both arms {a} and {b}{more}: assign each unit to one arm"


def _comparison(arms: dict[str, _Arm], a: str, b: str) -> dict[str, Any]:
    first, second = arms[a], arms[b]
    if first.hits is None or second.hits is None:
        low, high = _welch_interval(first, second)
    else:
        low, high = newcombe_interval(second.hits, second.n, first.hits, first.n)
    sizes = {"n_a": first.n, "n_b": second.n, "mean_a": first.mean, "mean_b": second.mean}
    return {"a": a, "b": b, **sizes, "difference": second.mean - first.mean, "low": low, "high": high}


def newcombe_interval(hits_1: int, n_1: int, hits_2: int, n_2: int) -> Interval:
    """Return Newcombe's interval (method 10) for ``hits_1 / n_1 - hits_2 / n_2``, from both of Wilson's intervals."""
    rate_1, rate_2 = hits_1 / n_1, hits_2 / n_2
    (low_1, high_1), (low_2, high_2) = wilson_interval(hits_1, n_1), wilson_interval(hits_2, n_2)
    low = rate_1 - rate_2 - math.hypot(rate_1 - low_1, high_2 - rate_2)
    high = rate_1 - rate_2 + math.hypot(high_1 - rate_1, rate_2 - low_2)
    return low, high


def _welch_interval(first: _Arm, second: _Arm) -> Interval:
    """Return Welch's interval for the difference of means (second minus first), with the variance between units."""
    if min(first.n, second.n) < 2:
        return math.nan, math.nan
    # With one row for each unit, these are the squared standard errors of the means.
    variances = [float((arm.deviations**2).sum()) * arm.n / (arm.n - 1) for arm in (first, second)]
    if sum(variances) == 0:
        return math.nan, math.nan
    shares = [variance**2 / (arm.n - 1) for variance, arm in zip(variances, (first, second), strict=True)]
    half = t_quantile(sum(variances) ** 2 / sum(shares)) * math.sqrt(sum(variances))
    return second.mean - first.mean - half, second.mean - first.mean + half


def t_quantile(degrees: float) -> float:
    """Return the 97.5 % quantile of Student's t distribution with at least one degree of freedom."""
    # The ratio of the gamma functions of (degrees + 1) / 2 and degrees / 2; with its series, because lgamma is inexact.
    ratio = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    if degrees > 1_000:
        ratio = math.sqrt(degrees / 2) * (1 - 1 / (4 * degrees) + 1 / (32 * degrees**2) + 5 / (128 * degrees**3))
    # With t = sqrt(degrees) * tan(angle), the density of the angle is this scale times cos(angle) ** (degrees - 1).
    scale = ratio / math.sqrt(math.pi)
    angle = math.atan(Z_95 / math.sqrt(degrees))
    for _ in range(50):
        # Newton's method; the probability is concave in the angle, so the steps never go past the solution.
        within = scale * angle * float(_WEIGHTS @ np.cos(angle * (_NODES + 1) / 2) ** (degrees - 1))
        step = (0.95 - within) / (2 * scale * math.cos(angle) ** (degrees - 1))
        angle += step
        if abs(step) < 1e-15:
            break
    return math.sqrt(degrees) * math.tan(angle)
