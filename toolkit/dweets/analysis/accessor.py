"""``df.dweets``: the analysis of a history as methods of its frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import numpy as np
import pandas as pd

from toolkit.argument_checks import checked_arguments, described
from toolkit.charts.columns import NUMBERS, ChosenColumns, drawable_columns
from toolkit.charts.series import ChartMarks, figure_data
from toolkit.dweets.analysis.gaps import find_gaps, gaps
from toolkit.dweets.analysis.numeric import numeric, numeric_report
from toolkit.dweets.analysis.outliers import find_outliers, outliers
from toolkit.dweets.analysis.series import chosen_with_warning, rate, resample, statistics
from toolkit.dweets.analysis.shifts import shifts
from toolkit.dweets.analysis.time_axis import in_local_time, on_time_axis, warn_if_backfilled
from toolkit.errors import InvalidArgument, warn_caller

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
    shifts = _as_method(shifts)
    statistics = _as_method(statistics)
    numeric = _as_method(numeric)
    numeric_report = _as_method(numeric_report)

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
        """Draw the fields over time: a panel for each field, a colour for each thing.

        Parameters
        ----------
        fields
            Columns of numbers, of truth values (drawn as steps) or of texts (drawn as a band of states); None for all
            numbers. Other values are left out, and a warning counts them.
        ax
            The axes to draw on, where all fields share one panel; None for a new figure.
        unit
            The unit of the values, for all fields or by field: ``"°C"``, ``{"celsius": "°C", "pressure": "hPa"}``.
        mark
            Show gaps, and the ten worst outliers; a note at the time axis counts all if there are more.
        tz
            A time zone, such as ``"Europe/Berlin"``, for the time axis. Times without a zone are local times.

        Returns
        -------
        matplotlib.axes.Axes
            Or an array of Axes, from the top: on a new figure, each field has its own Axes. Without values, they say
            why, and so does a warning.

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
        chosen = self._chosen(fields, tz)
        data = figure_data(chosen.frame, chosen.names, self._marks(chosen, mark=mark), unit)
        return series_axes(data, title=title, axes=ax, empty=_reason_for_no_values(chosen))

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
        fields, unit, mark, tz
            As in `plot`; each field has its own panel.
        height
            Height of the plot in pixels, at least 100; several panels may need more, up to the height of the window.

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
        chosen = self._chosen(fields, tz)
        marks, empty = self._marks(chosen, mark=mark), _reason_for_no_values(chosen) or "no data"
        chart = Chart(height=height)
        chart.draw(chosen.frame, chosen.names, unit=unit, marks=marks, empty=empty)
        return chart

    def _chosen(self, fields: str | Sequence[str] | None, tz: str | tzinfo | None) -> ChosenColumns:
        chosen = chosen_with_warning(self._frame, fields)
        warn_if_backfilled(self._frame)
        return chosen._replace(frame=in_local_time(chosen.frame, tz))

    def _marks(self, chosen: ChosenColumns, *, mark: bool) -> ChartMarks:
        numbers = drawable_columns(chosen.frame, NUMBERS)
        return ChartMarks(find_gaps(chosen.frame, 1.5), find_outliers(chosen.frame, numbers)) if mark else ChartMarks()


def _reason_for_no_values(chosen: ChosenColumns) -> str:
    """Return, and warn, why a picture of the chosen columns is empty; "" if it is not."""
    if not len(chosen.frame):
        reason, advice = "no dweets", "the frame has 0 rows"
    elif not chosen.names:
        return "no numbers"  # of which a warning has told
    elif not chosen.frame[chosen.names].notna().to_numpy().any():
        reason, advice = "no values", f"all values of {', '.join(chosen.names)} are missing"
    else:
        return ""
    warn_caller(f"the picture shows {reason}: {advice}")
    return reason
