"""Measurements over time: axes, resampling, statistics; functions of frames.

A *series frame* has a DatetimeIndex and columns of numbers (fields), as ``tk.dweets.history`` returns. If it has a
column ``thing``, each thing is analysed separately, and ``thing`` is the first column of the results. A frame without a
DatetimeIndex, a field without numbers, and a parameter out of its range raise InvalidArgument.

Values of a field that are no finite numbers, such as ``"n/a"``, count as missing, and one DataWarning says how many
they are. All analyses compute in 64-bit floats, which round integers beyond 2**53.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any, Literal, get_args

import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.charts.columns import KINDS, NUMBERS, ChosenColumns, Kind, chosen_columns, kind_of
from toolkit.dweets.analysis.gaps import analyse_each_thing
from toolkit.dweets.analysis.numeric import unread_numbers
from toolkit.dweets.analysis.time_axis import in_local_time, warn_if_backfilled
from toolkit.dweets.frame_time import in_zone
from toolkit.errors import InvalidArgument, warn_caller
from toolkit.frames import declared_frame

Aggregation = Literal["mean", "median", "min", "max", "sum", "count", "last"]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
_NUMBER_STATISTICS = ("mean", "std", "min", "25%", "50%", "75%", "max")
_STATISTICS = {
    "field": "str",
    **dict.fromkeys(["count", "missing"], "int64"),
    **dict.fromkeys([*_NUMBER_STATISTICS, "share_true"], "float64"),
    "most_frequent": "str",
}


def chosen_with_warning(
    frame: pd.DataFrame, fields: str | Sequence[str] | None, kinds: Sequence[Kind] = KINDS
) -> ChosenColumns:
    """Return the chosen columns (None: all numbers); one warning says which values are left out or doubtful."""
    chosen = chosen_columns(frame, fields, kinds)
    none = "no column holds numbers" if fields is None and len(frame) and not chosen.names else ""
    warn_caller(none, chosen.notes, unread_numbers(frame if fields is None else chosen.frame[chosen.names]))
    return chosen


@checked_arguments
def resample(
    frame: pd.DataFrame,
    rule: str,
    how: Aggregation | Sequence[Aggregation] = "mean",
    fields: str | Sequence[str] | None = None,
    *,
    tz: str | tzinfo | None = None,
) -> pd.DataFrame:
    """Put the fields on a regular axis: one row for each interval from the first to the last time.

    Parameters
    ----------
    rule
        The interval, as in pandas: ``"10min"``, ``"1h"``, ``"1D"``, ``"1W"``, ``"1MS"`` (months), ``"1YS"`` (years).
    how
        mean, median, min, max, sum, count or last; or a list of them.
    fields
        Columns with numbers; None for all of them.
    tz
        A time zone, such as ``"Europe/Berlin"``: days begin at midnight there. Times without a zone are local times.

    Returns
    -------
    pandas.DataFrame
        The fields, float64; an interval without values is NA, also with ``sum``, but 0 (int64) with ``count``. With a
        list of aggregations, a column for each field and aggregation: ``celsius.min``, ``celsius.max``.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=4, freq="12h")
    >>> frame = pd.DataFrame({"celsius": [10, 20, 12, 22]}, index=times)
    >>> frame.dweets.resample("1D", ["min", "max"])["celsius.max"].tolist()
    [20.0, 22.0]
    """
    if not how:
        raise InvalidArgument(f"how is an empty list; it takes {', '.join(AGGREGATIONS)}")
    chosen = chosen_with_warning(frame, fields, NUMBERS)
    if isinstance(how, str):
        columns = {field: (field, how) for field in chosen.names}
    else:
        columns = {f"{field}.{name}": (field, name) for field in chosen.names for name in how}
    warn_if_backfilled(frame)
    return analyse_each_thing(in_local_time(chosen.frame, tz), lambda rows: _resampled_one(rows, rule, columns))


def _resampled_one(frame: pd.DataFrame, rule: str, columns: Mapping[str, tuple[str, Aggregation]]) -> pd.DataFrame:
    fields = list(dict.fromkeys(field for field, _ in columns.values()))
    ascending = frame[fields].sort_index(kind="stable").astype("float64")
    zone = ascending.index.tz  # type: ignore[attr-defined]
    try:
        if zone is None or isinstance(pd.tseries.frequencies.to_offset(rule), pd.tseries.offsets.Tick):
            zone = None
        else:  # days and longer intervals are those of the local calendar, also where clocks skip midnight
            ascending = ascending.tz_localize(None)
        bins = ascending.resample(rule)
    except (ValueError, TypeError, ZeroDivisionError):
        raise InvalidArgument(f"{rule!r} is not an interval: try 10min, 1h, 1D, 1W, 1MS or 1YS") from None
    results = {}
    for name, (field, how) in columns.items():
        values = bins[field].sum(min_count=1) if how == "sum" else getattr(bins[field], how)()
        results[name] = values.astype("int64" if how == "count" else "float64")
    starts = pd.DatetimeIndex(bins.size().index)
    return pd.DataFrame(results, index=starts).set_axis(starts if zone is None else in_zone(starts, zone)[0])


@checked_arguments
def rate(frame: pd.DataFrame, rule: str = "1h") -> pd.DataFrame:
    """Count rows in each interval: the column ``dweets`` (int64), 0 in an interval without rows."""
    warn_if_backfilled(frame)
    return resample(frame[frame.columns.intersection(["thing"])].assign(dweets=1.0), rule, "count")


@checked_arguments
def statistics(frame: pd.DataFrame, fields: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Describe the fields: ``field, count, missing, mean, std, min, 25%, 50%, 75%, max, share_true, most_frequent``.

    Parameters
    ----------
    fields
        Columns of numbers, of truth values or of texts; None for all numbers. Other values than those of its kind are
        ``missing`` in a column, and a warning has their number and an example.

    Returns
    -------
    pandas.DataFrame
        One row per field. Truth values have ``share_true`` (from 0 to 1), truth values and texts ``most_frequent``, and
        only numbers the rest.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=3, freq="h")
    >>> described = pd.DataFrame({"celsius": [10.0, 20.0, None]}, index=times).dweets.statistics()
    >>> described[["count", "missing", "mean"]].values.tolist()
    [[2.0, 1.0, 15.0]]
    """
    chosen = chosen_with_warning(frame, fields)
    return analyse_each_thing(chosen.frame, lambda rows: _statistics_of_one(rows, chosen.names)).reset_index(drop=True)


def _statistics_of_one(frame: pd.DataFrame, fields: Sequence[str]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for field in fields:
        values = frame[field].dropna()
        row: dict[str, Any] = {"field": field, "count": len(values), "missing": len(frame) - len(values)}
        kind = kind_of(frame[field]) or "number"
        if kind == "number":
            described = values.astype("float64").describe()
            row |= {name: described[name] for name in _NUMBER_STATISTICS}
        elif len(values):
            row["most_frequent"] = str(values.value_counts().idxmax())
            if kind == "boolean":
                row |= {"share_true": float(values.mean()), "most_frequent": row["most_frequent"].lower()}
        rows.append(row)
    return declared_frame(rows, _STATISTICS)
