"""Frames of decisions, and their counts and rates by moment and reason.

Test moments are ignored; ``frame.attrs["test_rows_left_out"]`` says how many there were.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from toolkit.argument_checks import checked_arguments, described
from toolkit.errors import InvalidArgument, warn_caller
from toolkit.frames import declared_frame
from toolkit.rewards.analysis.explanation import SENTENCES
from toolkit.rewards.configuration import Configuration, MomentRules
from toolkit.rewards.wire import device_label
from toolkit.system.nearest_name import nearest_names

#: The lower and the upper bound of a 95 % interval.
Interval = tuple[float, float]
Z_95 = NormalDist().inv_cdf(0.975)
#: A rate from fewer moments than this is marked as ``few``.
FEW_MOMENTS = 30

_UTC_DTYPE = "datetime64[us, UTC]"

#: ``device`` is a label, ``p`` the probability of a reward; ``shown_at``, ``claimed_at`` and ``dismissed_at`` are
#: missing if the event did not happen; ``trace`` has one line per rule, or is missing.
DECISION_COLUMNS = {
    "decision_id": "str", "at": _UTC_DTYPE, "app_key_sha256": "str", "device": "str", "session_id": "str",
    "moment_id": "str", "test": "bool", "rewarded": "bool", "reason": "str", "arm": "str", "p": "float64",
    "reward_id": "str", "view_id": "str", "shown_at": _UTC_DTYPE, "claimed_at": _UTC_DTYPE,
    "dismissed_at": _UTC_DTYPE, "trace": "object",
}  # fmt: skip
RULE_COLUMNS = {
    "moment_id": "str", "n": "int64", "enabled": "bool", "arms": "str", "p": "float64", "problem": "str",
}  # fmt: skip
SESSION_COLUMNS = {"session_id": "str", "at": _UTC_DTYPE, "app_key_sha256": "str", "device": "str", "test": "bool"}


def decision_frame(records: Iterable[Mapping[str, Any]], columns: Mapping[str, str] = DECISION_COLUMNS) -> pd.DataFrame:
    """Convert stored decisions (or sessions, with `SESSION_COLUMNS`) to a frame, and milliseconds in them to times."""
    stored = {name.removesuffix("_at"): dtype.replace("[us", "[ms") for name, dtype in columns.items()}
    return declared_frame(records, stored).set_axis(list(columns), axis="columns").astype(dict(columns))


def with_device_ids(decisions: pd.DataFrame, devices: pd.DataFrame | pd.Series) -> pd.DataFrame:
    """Return decisions with a column ``device_id``: those of `devices` that have the labels of the decisions."""
    if isinstance(devices, pd.DataFrame):
        check_columns(devices, ("device",), "devices")
        devices = devices["device"]
    ids = devices.unique()
    if wrong := [device_id for device_id in ids if not isinstance(device_id, str)]:
        raise InvalidArgument(f"devices are device ids, not {described(wrong[0])}")
    device_ids = decisions["device"].map({device_label(device_id): device_id for device_id in ids}).astype("str")
    if len(ids) and device_ids.isna().all():
        warn_caller(f"no decision is of {'this device' if len(ids) == 1 else f'these {len(ids):,} devices'}")
    return decisions.assign(device_id=device_ids)


def without_tests(decisions: pd.DataFrame, needed: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return the rows that are no tests, in order; InvalidArgument if a needed column is missing or wrong."""
    check_columns(decisions, needed, "decisions")
    # Without the index: groupby refuses a column if a level of the index has the same name.
    rows = decisions.reset_index(drop=True)
    booleans = {name: boolean_column(rows[name]) for name in ("test", "rewarded") if name in rows.columns}
    rows = rows.assign(**booleans)
    rows = rows[~rows["test"]] if "test" in booleans else rows
    rows.attrs["test_rows_left_out"] = len(decisions) - len(rows)
    return rows


def check_columns(frame: pd.DataFrame, needed: Sequence[str], frame_name: str) -> None:
    """Raise InvalidArgument if a column is missing or not unique, or a needed device or moment_id has no value."""
    if missing := [name for name in needed if name not in frame.columns]:
        raise InvalidArgument(f"the {frame_name} have no column {', '.join(missing)}")
    if not frame.columns.is_unique:
        raise InvalidArgument(f"two columns of the {frame_name} have the same name: rename one of them")
    for name in ("device", "moment_id"):
        if name in needed and frame[name].isna().any():
            raise InvalidArgument(f"the column {name} must have a value in every row")


def utc_times(column: pd.Series) -> pd.DatetimeIndex:
    try:
        if pd.api.types.is_numeric_dtype(column):  # the unit is unknown
            raise TypeError
        utc = pd.DatetimeIndex(pd.to_datetime(column, utc=True, format="ISO8601")).as_unit("us")
    except (ValueError, TypeError):
        raise InvalidArgument(f"the column {column.name} must hold times: try pd.to_datetime(..., utc=True)") from None
    if utc.hasnans:
        raise InvalidArgument(f"the column {column.name} must hold a time in every row")
    return utc


def boolean_column(column: pd.Series) -> pd.Series:
    """Return a column as booleans; raise InvalidArgument unless every value is True, False, 1 or 0."""
    if not column.isin([True, False]).all():  # 1 and 0 equal True and False
        raise InvalidArgument(f"the column {column.name} must be true or false in every row")
    return column.astype(bool)


@checked_arguments
def rate_by_moment(decisions: pd.DataFrame) -> pd.DataFrame:
    """Return the share of rewarded moments by name, with Wilson's interval.

    The columns are moment_id, n, rewarded, rate, low, high, few (fewer than 30 moments); the most frequent are first.
    The interval assumes independent moments, but caps make moments dependent: the interval is too narrow. The interval
    of `ab` assumes only that devices are independent.
    """
    rows = without_tests(decisions, ("moment_id", "rewarded"))
    counts = rows.groupby("moment_id")["rewarded"].agg(n="size", rewarded="sum").reset_index()
    counts = counts.sort_values(["n", "moment_id"], ascending=[False, True], ignore_index=True)
    bounds = [wilson_interval(int(hits), int(n)) for hits, n in zip(counts["rewarded"], counts["n"], strict=True)]
    counts["rate"] = counts["rewarded"] / counts["n"]
    counts[["low", "high"]] = np.array(bounds, dtype=np.float64).reshape(-1, 2)
    counts["few"] = counts["n"] < FEW_MOMENTS
    counts.attrs.update(rows.attrs)
    return counts


@checked_arguments
def cap_report(decisions: pd.DataFrame) -> pd.DataFrame:
    """Count decisions by reason, including reasons that never occur: reason, n, share; in the order of the rules."""
    rows = without_tests(decisions, ("reason",))
    counts = rows["reason"].value_counts(dropna=False)
    reasons = pd.Index([reason for reason in SENTENCES if reason != "TEST"])
    counts = counts.reindex(reasons.union(counts.index, sort=False), fill_value=0)
    result = counts.rename_axis("reason").reset_index(name="n")
    result["share"] = result["n"] / len(rows)
    result.attrs.update(rows.attrs)
    return result


def stock_text(decisions: pd.DataFrame) -> str:
    """Return the sentence that says how many moments the stock refused; an empty text if it refused none."""
    if not (refused := (decisions["reason"] == "NO_INVENTORY").mean()) > 0:
        return ""
    why = "the stock was used up" if (decisions["reason"] == "REWARDED").any() else "nothing was in stock"
    return f"{100 * refused:.1f} % of the moments were refused because {why}"


@checked_arguments
def rule_report(configuration: Configuration | Mapping[str, Any], decisions: pd.DataFrame) -> pd.DataFrame:
    """Compare rules with the moments that came: rules for moments that no app sends, and moments without rules.

    `decisions` may be any frame with the column moment_id, and `configuration` what
    ``tk.operator.reward_configuration()`` returns, or a table.

    Returns
    -------
    pandas.DataFrame
        moment_id, n (moments that came), enabled, arms (their names), p (probability of a reward without arms) and
        problem (missing if the moment came and has rules); the moments with rules first, in their order.

    Examples
    --------
    >>> decisions = pd.DataFrame({"moment_id": ["opened_app", "opened_app"]})
    >>> rule_report({"moments": {"opend_app": {"p": 1}}}, decisions)["problem"].tolist()
    ["no app sends it: did you mean 'opened_app'?", 'has only the default rules']
    """
    rules = Configuration.parse(configuration)
    counts = without_tests(decisions, ("moment_id",))["moment_id"].value_counts()
    without_rules = [name for name in counts.index if name not in rules.moments]
    rows = []
    for name in (*rules.moments, *without_rules):
        own, problem = rules.moments.get(name, MomentRules()), None
        if name not in rules.moments:
            problem = "has only the default rules"
        elif name not in counts.index:
            near = nearest_names(name, without_rules)
            problem = "no app sends it" + (f": did you mean {near[0]!r}?" if near else "")
        arms, limits = ", ".join(own.arms), own.over(rules.default)
        shown = {"n": counts.get(name, 0), "enabled": own.enabled, "arms": arms, "p": limits.p, "problem": problem}
        rows.append({"moment_id": name, **shown})
    return declared_frame(rows, RULE_COLUMNS)


def share(n: int, total: int) -> float:
    return n / total if total else float("nan")


def wilson_interval(hits: int, n: int) -> Interval:
    """Return Wilson's interval for the proportion ``hits / n``; 0 to 1 if n is 0."""
    if n == 0:
        return 0.0, 1.0
    rate, correction = hits / n, Z_95**2 / n
    middle = (rate + correction / 2) / (1 + correction)
    half = Z_95 / (1 + correction) * math.sqrt(rate * (1 - rate) / n + correction / (4 * n))
    # Without the conditions, rounding would give 1e-17 instead of 0, and less than 1 instead of 1.
    return 0.0 if hits == 0 else max(middle - half, 0.0), 1.0 if hits == n else min(middle + half, 1.0)
