"""Measurements over time: axes, gaps, outliers, resampling, statistics; functions of frames.

A *series frame* has a DatetimeIndex and numeric columns (fields), as ``tk.dweets.history`` returns. If it has a
column ``thing``, each thing is analysed separately, and ``thing`` is the first column of the results. A frame without a
DatetimeIndex, a field that is no numeric column, and a parameter out of its range raise InvalidArgument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view

from toolkit.argument_checks import checked_arguments
from toolkit.charts.series import NUMBERS, chosen_columns
from toolkit.dweets.analysis.gaps import analyse_each_thing
from toolkit.errors import InvalidArgument, warn_caller
from toolkit.frames import check_columns_differ, declared_frame
from toolkit.system.nearest_name import missing_names

Aggregation = Literal["mean", "median", "min", "max", "sum", "count", "last"]
TimeUnit = Literal["s", "ms", "us", "ns"]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
STATISTICS = ("count", "missing", "mean", "std", "min", "25%", "50%", "75%", "max")
# Factors from a deviation to sigma: a standard normal has a MAD of 0.6745 and a mean absolute deviation of 0.7979.
_MAD_TO_SIGMA, _MEAN_DEVIATION_TO_SIGMA = 1.4826, 1.2533
_WINDOWS_PER_CHUNK = 65_536
# A series with fewer values has no outliers, because its spread is not known well enough.
_MIN_VALUES = 8
_ISO_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}([T ]|$)")


@checked_arguments
def outliers(
    frame: pd.DataFrame, fields: str | Sequence[str] | None = None, *, window: int = 25, threshold: float = 5.0
) -> pd.DataFrame:
    """Find values far from the median of their neighbours (a Hampel filter).

    The score of a value is its distance from the median of the `window` values around it, in robust standard
    deviations: 1.4826 times the median absolute deviation of that window, or, if more than half of the window is the
    same value, 1.2533 times its mean absolute deviation. So slow seasonal changes are no outliers, and outliers cannot
    hide each other as they do with mean and standard deviation.

    Parameters
    ----------
    fields
        Numeric columns; None for all of them. Missing values are skipped; a field with fewer than eight values has no
        outliers.
    window
        The number of values in a window, at least 3; at the ends of the series, the nearest values.
    threshold
        Scores above it are outliers. In normal noise (windows of 25), 5 marks 1 of 2,000 values, and 4 marks 1 of 450;
        a skewed measure such as rain has many outliers by nature.

    Returns
    -------
    pandas.DataFrame
        One row per outlier, by field and then by time: index as in `frame`, ``field``, ``value``, ``expected`` (the
        median), ``score``.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=40, freq="h")
    >>> celsius = [20.0 + hour % 3 for hour in range(40)]
    >>> celsius[30] = 85.0
    >>> pd.DataFrame({"celsius": celsius}, index=times).dweets.outliers()["value"].tolist()
    [85.0]
    """
    if window < 3 or not threshold > 0:
        raise InvalidArgument("outliers need a window of at least 3 values and a threshold above 0")
    chosen = chosen_columns(frame, fields, NUMBERS)
    return analyse_each_thing(frame, lambda rows: _outliers_of_one(rows, chosen, window, threshold))


def _outliers_of_one(frame: pd.DataFrame, fields: Sequence[str], window: int, threshold: float) -> pd.DataFrame:
    ascending = frame.sort_index(kind="stable")
    nothing = {"field": pd.Series(dtype="str"), "value": 0.0, "expected": 0.0, "score": 0.0}
    parts = [pd.DataFrame(nothing, ascending.index[:0])]
    for field in fields:
        values = ascending[field].dropna()
        if len(values) < _MIN_VALUES:
            continue
        expected, score = hampel(values.to_numpy(dtype="float64"), window)
        far = score > threshold
        columns = {"field": field, "value": values[far].astype("float64"), "expected": expected[far]}
        parts.append(pd.DataFrame({**columns, "score": score[far]}, index=values.index[far]).astype({"field": "str"}))
    return pd.concat(parts)


def hampel(values: np.ndarray[Any, Any], window: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return for each value the median of its window and its distance in robust standard deviations."""
    length = len(values)
    window = min(window, length)
    windows = sliding_window_view(values, window)
    medians, sigmas = np.empty(len(windows)), np.empty(len(windows))
    for start in range(0, len(windows), _WINDOWS_PER_CHUNK):  # all deviations at once would need too much memory
        chunk = slice(start, start + _WINDOWS_PER_CHUNK)
        medians[chunk] = np.median(windows[chunk], axis=1)
        deviations = np.abs(windows[chunk] - medians[chunk, None])
        mad = np.median(deviations, axis=1) * _MAD_TO_SIGMA
        sigmas[chunk] = np.where(mad > 0, mad, deviations.mean(axis=1) * _MEAN_DEVIATION_TO_SIGMA)
    nearest = np.clip(np.arange(length) - window // 2, 0, length - window)
    expected, sigma = medians[nearest], sigmas[nearest]
    distance = np.abs(values - expected)
    score = np.divide(distance, sigma, out=np.zeros(length), where=sigma > 0)
    return expected, score


@checked_arguments
def resample(
    frame: pd.DataFrame,
    rule: str,
    how: Aggregation | Sequence[Aggregation] = "mean",
    fields: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Put the fields on a regular axis: one row for each interval from the first to the last time.

    Parameters
    ----------
    rule
        The interval, as in pandas: ``"10min"``, ``"1h"``, ``"1D"``, ``"1W"``, ``"1MS"`` (months), ``"1YS"`` (years).
    how
        mean, median, min, max, sum, count or last; or a list of them.
    fields
        Numeric columns; None for all of them.

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
    chosen = chosen_columns(frame, fields, NUMBERS)
    if not how:
        raise InvalidArgument(f"how is an empty list; it takes {', '.join(AGGREGATIONS)}")
    if isinstance(how, str):
        columns = {field: (field, how) for field in chosen}
    else:
        columns = {f"{field}.{name}": (field, name) for field in chosen for name in how}
    return analyse_each_thing(frame, lambda rows: _resampled_one(rows, rule, columns))


def _resampled_one(frame: pd.DataFrame, rule: str, columns: Mapping[str, tuple[str, Aggregation]]) -> pd.DataFrame:
    fields = list(dict.fromkeys(field for field, _ in columns.values()))
    ascending = frame[fields].sort_index(kind="stable").astype("float64")
    try:
        bins = ascending.resample(rule)
    except (ValueError, TypeError, ZeroDivisionError):
        raise InvalidArgument(f"{rule!r} is not an interval: try 10min, 1h, 1D, 1W, 1MS or 1YS") from None
    results = {}
    for name, (field, how) in columns.items():
        values = bins[field].sum(min_count=1) if how == "sum" else getattr(bins[field], how)()
        results[name] = values.astype("int64" if how == "count" else "float64")
    return pd.DataFrame(results, index=bins.size().index)


@checked_arguments
def rate(frame: pd.DataFrame, rule: str = "1h") -> pd.DataFrame:
    """Count rows in each interval: the column ``dweets`` (int64), 0 in an interval without rows."""
    return resample(frame[frame.columns.intersection(["thing"])].assign(dweets=1.0), rule, "count")


@checked_arguments
def statistics(frame: pd.DataFrame, fields: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Describe the fields: one row per field with ``field, count, missing, mean, std, min, 25%, 50%, 75%, max``.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=3, freq="h")
    >>> described = pd.DataFrame({"celsius": [10.0, 20.0, None]}, index=times).dweets.statistics()
    >>> described[["count", "missing", "mean"]].values.tolist()
    [[2.0, 1.0, 15.0]]
    """
    chosen = chosen_columns(frame, fields, NUMBERS)
    return analyse_each_thing(frame, lambda rows: _statistics_of_one(rows, chosen)).reset_index(drop=True)


def _statistics_of_one(frame: pd.DataFrame, fields: Sequence[str]) -> pd.DataFrame:
    dtypes = {name: "int64" if name in ("count", "missing") else "float64" for name in STATISTICS}
    if not fields:
        return declared_frame([], {"field": "str", **dtypes})
    described = frame[list(fields)].astype("float64").describe().T
    described["missing"] = len(frame) - described["count"]
    described.insert(0, "field", described.index.astype("str"))
    return described[["field", *STATISTICS]].astype(dtypes).reset_index(drop=True)


def time_columns(frame: pd.DataFrame) -> list[str]:
    """Return the names of possible time axes: a DatetimeIndex, then datetime columns and columns of ISO 8601 text."""
    names = [str(name) for name, column in frame.items() if _may_be_time(column)]
    index = frame.index
    return [str(index.name or "index"), *names] if isinstance(index, pd.DatetimeIndex) else names


@checked_arguments
def on_time_axis(frame: pd.DataFrame, column: str, *, unit: TimeUnit | None = None) -> pd.DataFrame:
    """Return the frame, ascending, with one of `time_columns` as its index.

    Devices often carry their own time: ``history.dweets.on("measured")`` puts it on the axis. Times with an
    offset become UTC, times without one stay as they are. A column without times raises InvalidArgument. Rows without
    a time are left out, and a warning says how many.

    Parameters
    ----------
    unit
        The unit of a column of numbers: seconds, milliseconds, microseconds or nanoseconds since 1970 (UTC).

    Examples
    --------
    >>> frame = pd.DataFrame({"date": ["2012-01-02", "2012-01-01"], "rain": [10.9, 0.0]})
    >>> frame.dweets.on("date")["rain"].tolist()
    [0.0, 10.9]
    """
    timed = put_on_time_axis(frame, column, unit)
    if left_out := len(frame) - len(timed):
        warn_caller(f"{left_out:,} of {len(frame):,} rows have no time in {column!r} and are left out")
    return timed


def put_on_time_axis(frame: pd.DataFrame, column: str, unit: TimeUnit | None = None) -> pd.DataFrame:
    """Do what `on_time_axis` does, without its warning."""
    if isinstance(frame.index, pd.DatetimeIndex) and column == str(frame.index.name or "index"):
        return frame.loc[frame.index.notna()].sort_index(kind="stable")
    check_columns_differ(frame)
    if column not in list(frame.columns):
        known = time_columns(frame)
        raise InvalidArgument(missing_names("the frame does not have", "field", [column], 1, known))
    times = pd.DatetimeIndex(_times(frame[column]) if unit is None else _unix_times(frame[column], unit), name=column)
    rest = frame.drop(columns=column)
    if frame.index.name and frame.index.name not in rest.columns:
        rest = rest.reset_index()
    return rest.set_axis(times).loc[times.notna()].sort_index(kind="stable")


def _may_be_time(column: pd.Series[Any]) -> bool:
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return True
    if not (pd.api.types.is_string_dtype(column.dtype) or column.dtype == object):
        return False
    first = column.dropna().head(1).tolist()
    return bool(first) and isinstance(first[0], str) and _ISO_DATE.match(first[0]) is not None


def _times(column: pd.Series[Any]) -> pd.Series[Any]:
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column
    if pd.api.types.is_numeric_dtype(column.dtype):
        raise InvalidArgument(f"{column.name!r} holds numbers: for Unix times say unit='s'")
    try:
        try:
            times = pd.to_datetime(column, format="ISO8601")
        except ValueError:  # offsets differ between rows, as with summer time
            times = pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError):
        raise InvalidArgument(f"{column.name!r} is not a time axis: not all of it is ISO 8601") from None
    return times if times.dt.tz is None else times.dt.tz_convert("UTC")


def _unix_times(column: pd.Series[Any], unit: TimeUnit) -> pd.Series[Any]:
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise InvalidArgument(f"{column.name!r} holds no numbers: leave out unit={unit!r}")
    try:
        times: pd.Series[Any] = pd.to_datetime(column, unit=unit, utc=True)
    except (ValueError, TypeError, OverflowError):  # TypeError: truth values
        raise InvalidArgument(f"{column.name!r} holds no times: is unit={unit!r} right?") from None
    return times
