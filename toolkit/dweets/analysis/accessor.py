"""``df.dweets``: the analysis of a history as methods of its frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import numpy as np
import pandas as pd

from toolkit.argument_checks import checked_arguments, described
from toolkit.charts.series import NUMBERS, ChartMarks, chosen_columns
from toolkit.dweets.analysis.gaps import find_gaps, gaps
from toolkit.dweets.analysis.series import outliers, rate, resample, statistics
from toolkit.dweets.analysis.time_axis import in_local_time, on_time_axis, warn_if_backfilled
from toolkit.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from toolkit.charts.chart import Chart

P = ParamSpec("P")


def _as_method(
    function: Callable[Concatenate[pd.DataFrame, P], pd.DataFrame],
) -> Callable[Concatenate[DweetAccessor, P], pd.DataFrame]:
    """Turn a function of a frame into a method of the accessor; docstring and all other parameters stay."""

    @wraps(function)
    def method(self: DweetAccessor, /, *args: P.args, **options: P.kwargs) -> pd.DataFrame:
        return function(self._frame, *args, **options)

    return method


class DweetAccessor:
    """Analysis of a history. Use it as ``history.dweets``.

    If the frame has a column ``thing``, each thing is analysed by itself.

    Examples
    --------
    >>> times = pd.date_range("2026-01-01", periods=48, freq="h", name="created")
    >>> history = pd.DataFrame({"celsius": range(48)}, index=times)
    >>> history.dweets.resample("1D")["celsius"].tolist()
    [11.5, 35.5]
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    on = _as_method(on_time_axis)
    rate = _as_method(rate)
    gaps = _as_method(gaps)
    outliers = _as_method(outliers)
    resample = _as_method(resample)
    statistics = _as_method(statistics)

    @checked_arguments
    def plot(
        self,
        fields: str | Sequence[str] | None = None,
        *,
        ax: Axes | None = None,
        unit: str | Mapping[str, str] | None = None,
        title: str | None = None,
        mark: bool = True,
        tz: str | tzinfo | None = None,
    ) -> Axes | np.ndarray[Any, Any]:
        """Draw the fields over time.

        Parameters
        ----------
        fields
            Numeric columns; None for all of them.
        ax
            The axes to draw on; None for a new figure.
        unit
            The unit of the values, for all fields or by field: ``"°C"``, ``{"celsius": "°C", "pressure": "hPa"}``.
        mark
            Show gaps and outliers.
        tz
            A time zone, such as ``"Europe/Berlin"``, for the time axis. Times without a zone are local times.

        Returns
        -------
        matplotlib.axes.Axes
            Or an array of Axes, from the top: on a new figure, each field has its own Axes if the values of the fields
            differ more than tenfold in magnitude.

        Examples
        --------
        >>> times = pd.date_range("2026-01-01", periods=3, freq="h", name="created")
        >>> frame = pd.DataFrame({"celsius": [20.0, 21.0, 20.5], "pressure": [1013.0, 1012.0, 1011.0]}, index=times)
        >>> [axes.get_ylabel() for axes in frame.dweets.plot(unit={"celsius": "°C", "pressure": "hPa"})]
        ['celsius (°C)', 'pressure (hPa)']
        """
        from matplotlib.axes import Axes

        from toolkit.charts.figure import series_axes

        if ax is not None and not isinstance(ax, Axes):
            raise InvalidArgument(f"ax is a matplotlib Axes or None, not {described(ax)}")
        chosen = chosen_columns(self._frame, fields, NUMBERS)
        warn_if_backfilled(self._frame)
        frame = in_local_time(self._frame, tz)
        marks = ChartMarks(find_gaps(frame, 1.5), outliers(frame, chosen)) if mark else ChartMarks()
        return series_axes(frame, chosen, marks, unit=unit, title=title, axes=ax)

    @checked_arguments
    def chart(
        self,
        fields: str | Sequence[str] | None = None,
        *,
        unit: str | Mapping[str, str] | None = None,
        mark: bool = True,
        height: int = 300,
        tz: str | tzinfo | None = None,
    ) -> Chart:
        """Show the fields over time as a widget: hover to read values, drag to zoom, double-click to show everything.

        Parameters
        ----------
        fields
            Columns of numbers, of truth values (drawn as steps) or of texts (drawn as a band of states); None for all
            numbers. Fields that differ in magnitude or unit have separate panels.
        unit
            The unit of the values, for all fields or by field: ``"°C"``, ``{"celsius": "°C", "pressure": "hPa"}``.
        mark
            Shade gaps, and circle outliers.
        height
            Height of the plot in pixels, at least 100; several panels may need more.
        tz
            A time zone, such as ``"Europe/Berlin"``, for the time axis. Times without a zone are local times.

        Returns
        -------
        toolkit.charts.chart.Chart
            Its ``visible_range`` (two timestamps, or None for everything) can be read, set and observed.

        Examples
        --------
        >>> times = pd.date_range("2026-01-01", periods=3, freq="h", name="created")
        >>> chart = pd.DataFrame({"celsius": [20.0, 21.0, 20.5]}, index=times).dweets.chart(unit="°C")
        >>> chart.visible_range = "2026-01-01 00:00", "2026-01-01 01:00"
        >>> chart.visible_range[1]
        Timestamp('2026-01-01 01:00:00')
        """
        from toolkit.charts.chart import Chart

        if height < 100:
            raise InvalidArgument(f"height must be at least 100 pixels, not {height}")
        chosen = chosen_columns(self._frame, fields)
        numbers = [name for name in chosen if name in chosen_columns(self._frame, None)]
        warn_if_backfilled(self._frame)
        frame = in_local_time(self._frame, tz)
        marks = ChartMarks(find_gaps(frame, 1.5), outliers(frame, numbers)) if mark else ChartMarks()
        return Chart(frame, chosen, unit=unit, marks=marks, height=height)
