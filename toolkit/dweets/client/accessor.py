"""``df.dweets``: what one asks of a history, as methods of its frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from toolkit.dweets.client import series_analysis
from toolkit.dweets.client.series_analysis import Aggregation
from toolkit.dweets.widgets import time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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

    def on(self, column: str) -> pd.DataFrame:
        """Return the frame with the device's own time on the axis, as `time_axis.on_time_axis`."""
        return time_axis.on_time_axis(self._frame, column)

    def rate(self, rule: str = "1h") -> pd.DataFrame:
        """Count dweets in each interval, as `series_analysis.rate`."""
        return series_analysis.rate(self._frame, rule)

    def gaps(self, *, factor: float = 1.5) -> pd.DataFrame:
        """Find where nothing came for longer than usual, as `series_analysis.gaps`."""
        return series_analysis.gaps(self._frame, factor=factor)

    def outliers(
        self, fields: str | Sequence[str] | None = None, *, window: int = 25, threshold: float = 5.0
    ) -> pd.DataFrame:
        """Find values far from their neighbours, as `series_analysis.outliers`."""
        return series_analysis.outliers(self._frame, fields, window=window, threshold=threshold)

    def resample(self, rule: str, how: Aggregation = "mean", fields: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Put the fields on a regular axis, as `series_analysis.resampled`."""
        return series_analysis.resampled(self._frame, rule, how, fields)

    def statistics(self, fields: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Describe the fields, as `series_analysis.statistics`."""
        return series_analysis.statistics(self._frame, fields)

    def plot(self, fields: str | Sequence[str] | None = None, *, mark: bool = True) -> Axes:
        """Draw the fields over time.

        Parameters
        ----------
        fields
            Numeric columns; None for all of them.
        mark
            Shade gaps and ring outliers.

        Returns
        -------
        matplotlib.axes.Axes
            On a new figure.
        """
        from toolkit.dweets.widgets.series_figure import Marks, series_axes

        chosen = time_axis.chosen_fields(self._frame, fields)
        marks = Marks(self.gaps(), self.outliers(chosen)) if mark else Marks()
        return series_axes(self._frame, chosen, marks)
