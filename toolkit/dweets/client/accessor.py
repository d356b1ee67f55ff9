"""``df.dweets``: what one asks of a history, as methods of its frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec

import pandas as pd

from toolkit.dweets.client import series_analysis
from toolkit.dweets.widgets import time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P = ParamSpec("P")


def _method(
    function: Callable[Concatenate[pd.DataFrame, P], pd.DataFrame],
) -> Callable[Concatenate[DweetAccessor, P], pd.DataFrame]:
    """Return a function of a frame as a method of its accessor, with the same docstring and parameters."""

    @wraps(function)
    def method(self: DweetAccessor, /, *args: P.args, **named: P.kwargs) -> pd.DataFrame:
        return function(self._frame, *args, **named)

    return method


@pd.api.extensions.register_dataframe_accessor("dweets")
class DweetAccessor:
    """Analysis of a history. Use it as ``history.dweets``; there is none where a frame has no time at all.

    Where the frame has a column ``thing``, each thing is analysed by itself.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=48, freq="h", name="created")
    >>> history = pd.DataFrame({"celsius": range(48)}, index=times)
    >>> history.dweets.resample("1D")["celsius"].tolist()
    [11.5, 35.5]
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        if not time_axis.time_columns(frame):
            raise AttributeError("df.dweets needs a DatetimeIndex, or a column of datetimes or ISO 8601 text")
        self._frame = frame

    on = _method(time_axis.on_time_axis)
    rate = _method(series_analysis.rate)
    gaps = _method(series_analysis.gaps)
    outliers = _method(series_analysis.outliers)
    resample = _method(series_analysis.resampled)
    statistics = _method(series_analysis.statistics)

    def plot(self, fields: str | Sequence[str] | None = None, *, mark: bool = True) -> Axes:
        """Draw the fields over time, on a new figure.

        Parameters
        ----------
        fields
            Numeric columns; None for all of them.
        mark
            Shade gaps and ring outliers.
        """
        from toolkit.dweets.widgets.series_figure import Marks, series_axes

        chosen = time_axis.chosen_fields(self._frame, fields)
        marks = Marks(self.gaps(), self.outliers(chosen)) if mark else Marks()
        return series_axes(self._frame, chosen, marks)
